"""IDisc: the parts of the paper in their order.

RGB -> encoder -> pixel decoder -> F, P at strides 16, 8, 4
       F -> AFP -> IDRs;  P, IDRs -> ISD -> one map for each stride;  fused -> metres or normals

Two options that the paper does not have serve small networks: the pixel decoder may end at stride 8
(`decoder.finest`), and the fused map may be upsampled by weights that follow the image
(`upsampling=guided`) instead of bilinearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from idisc.configs.schema import ModelConfig
from idisc.errors import InputError
from idisc.model.backbones import STRIDES, find_backbone
from idisc.model.discretization import ExplicitDiscretization, FeaturePartition, SceneDiscretization
from idisc.model.heads import FUSIONS, GuidedUpsampling, OutputHead
from idisc.model.pixel_decoder import DeformablePixelDecoder, PlainPixelDecoder
from idisc.model.tokens import size_of, to_map, to_positioned_tokens
from idisc.model.vit import VitPyramid
from idisc.sizes import Size


@dataclass(frozen=True)
class Output:
    """The result of a forward pass. Tuples have one entry per resolution, coarse to fine.

    With three resolutions and an input of 480x640 the entries are at 30x40, 60x80 and 120x160.
    """

    prediction: Tensor
    """Depth in metres (B, 1, H, W); or normals (B, 3, H, W), whose length is not exactly one."""
    levels: tuple[Tensor, ...]
    """The resolutions before fusion: log depth (B, 1, H_l, W_l), or raw x, y, z, concentration."""
    idrs: tuple[Tensor, ...]
    """Internal discrete representations (B, N, E); empty where there is no ISD."""
    concentration: Tensor | None = None
    """For normals (B, 1, H, W): the confidence in the direction. None for depth."""
    partition: tuple[Tensor, ...] | None = None
    """With `explain`: AFP's share of each pixel in each IDR, (B, R, K, N, H_l, W_l).

    The sum over N is 1 (with `afp.softmax=pixels`, the sum over the pixels). Empty for R = 0. The
    values are multiplied by these shares after they are normalized over the pixels.
    """
    attention: tuple[Tensor, ...] | None = None
    """With `explain`: ISD's weight of each IDR at each pixel, (B, layers, K, N, H_l, W_l)."""


def rgb_of(images: Tensor) -> Tensor:
    """Convert pictures as bytes (B, H, W, 3) to the input of a network: (B, 3, H, W) in [0, 1]."""
    return images.permute(0, 3, 1, 2).float() / 255


class IDisc(nn.Module):
    """The network of a configuration, with random weights; `load_network` returns a trained one."""

    mean: Tensor
    std: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        backbone = find_backbone(config.encoder)
        self.encoder = backbone.build()
        if config.adapter_rank:
            if not isinstance(self.encoder, VitPyramid):
                raise InputError("adapter_rank", f"{config.encoder} is not a ViT", "set it to 0")
            self.encoder.add_adapters(config.adapter_rank)
        self.register_buffer("mean", torch.tensor(backbone.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std).view(1, 3, 1, 1), persistent=False)
        self.decoded = slice(STRIDES.index(config.decoder.finest), None)  # of the encoder's maps
        channels = self.encoder.channels[self.decoded][::-1]  # coarse to fine from here on
        width, expansion, activation = config.decoder.width, config.expansion, config.activation
        self.decoder: DeformablePixelDecoder | PlainPixelDecoder
        if config.decoder.msda:
            self.decoder = DeformablePixelDecoder(channels, config.decoder, expansion, activation)
        else:
            self.decoder = PlainPixelDecoder(channels, width)
        self.afp, self.isd, self.heads = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for _ in range(config.resolutions):
            if config.discretization == "isd":
                self.afp.append(FeaturePartition(width, config.afp, expansion, activation))
                self.isd.append(
                    SceneDiscretization(width, config.afp.width, config.isd, expansion, activation)
                )
            if config.discretization == "edd":
                self.heads.append(ExplicitDiscretization(width, config.edd))
            else:
                self.heads.append(OutputHead(width, config.output.channels))
        self.upsampling = (
            GuidedUpsampling(width, self.encoder.channels[0], activation)
            if config.upsampling == "guided"
            else None
        )

    def extract(self, rgb: Tensor) -> list[Tensor]:
        """Return what training can cache for rgb (B, 3, H, W) in [0, 1] if the encoder is frozen.

        These are the tokens (B, T, 1 + M, C) of a ViT, whose pyramid is trained, or the maps of any
        other encoder. `encode` and `forward` accept them instead of running the encoder again.
        """
        normalised = (rgb - self.mean) / self.std
        if isinstance(self.encoder, VitPyramid):
            return [self.encoder.tokens(normalised)]
        return self.encoder(normalised)

    def adapt(self, extracted: Sequence[Tensor]) -> list[Tensor]:
        """Return what `extract` returned, with the tap that adapters compute, if there are any."""
        if isinstance(self.encoder, VitPyramid):
            return [self.encoder.add_adapted_tap(extracted[0])]
        return list(extracted)

    def scene_of(self, adapted: Sequence[Tensor]) -> Tensor | None:
        """Return the class token (B, C) among what `adapt` returned; None without a ViT."""
        return adapted[0][:, -1, 0] if isinstance(self.encoder, VitPyramid) else None

    def encode(self, rgb: Tensor, extracted: Sequence[Tensor] = ()) -> list[Tensor]:
        """Map rgb (B, 3, H, W) in [0, 1], any size, to the maps of strides 4, 8, 16, 32."""
        if rgb.ndim != 4 or rgb.shape[1] != 3 or not rgb.is_floating_point():
            found = f"{tuple(rgb.shape)} of {rgb.dtype}"
            raise InputError("rgb", found, "(B, 3, H, W) of floats in [0, 1] is needed")
        normalised = (rgb - self.mean) / self.std
        if not extracted:
            return self.encoder(normalised)
        if isinstance(self.encoder, VitPyramid):
            return self.encoder.pyramid(extracted[0], normalised)
        return list(extracted)

    def forward(
        self,
        rgb: Tensor,
        *,
        size: Size | None = None,
        extracted: Sequence[Tensor] = (),
        explain: bool = False,
    ) -> Output:
        """Map rgb (B, 3, H, W) in [0, 1], any size, to Output.

        `size` is the (height, width) of the prediction, by default that of the image; a loss passes
        the size of its target, because the fused map is resized only once. `extracted` is the
        result of `extract` for these images. `explain` also returns partition and attention.
        """
        return self.decode(self.encode(rgb, extracted), size or size_of(rgb), explain=explain)

    def decode(self, maps: list[Tensor], size: Size, *, explain: bool = False) -> Output:
        """Map the encoder's maps of strides 4, 8, 16, 32 to Output, with a prediction of `size`."""
        features, embeddings = self.pixel_decoder(maps)  # from here on, coarse to fine

        idrs: list[Tensor] = []
        rounds: list[list[Tensor]] = [[] for _ in self.afp]
        layers: list[list[Tensor]] = [[] for _ in self.isd]
        levels: list[Tensor] = []
        for index, (f, p) in enumerate(zip(features, embeddings, strict=True)):
            if self.config.discretization == "isd":
                kept = (rounds[index], layers[index]) if explain else (None, None)
                idrs.append(self.afp[index](to_positioned_tokens(f), kept[0]))  # H (B, N, E)
                levels.append(self.decode_level(index, p, idrs[index], kept[1]))
            else:
                levels.append(self.decode_level(index, p))

        guide = self.guide(maps[0], embeddings[-1])
        prediction, concentration = self.fuse(levels, size, guide=guide)
        return Output(
            prediction=prediction,
            levels=tuple(levels),
            idrs=tuple(idrs),
            concentration=concentration,
            partition=_as_maps(rounds, levels) if explain else None,
            attention=_as_maps(layers, levels) if explain else None,
        )

    def pixel_decoder(self, maps: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Map the encoder's maps, fine to coarse, to F and P (B, C, H_l, W_l), coarse to fine."""
        features, embeddings = self.decoder(maps[self.decoded][::-1])
        used = slice(-self.config.resolutions, None)
        return features[used], embeddings[used]

    def decode_level(
        self,
        level: int,
        p: Tensor,
        idrs: Tensor | None = None,
        attention: list[Tensor] | None = None,
        muted: Tensor | None = None,
    ) -> Tensor:
        """Map P (B, C, H_l, W_l) of a level, and its IDRs if any, to its entry of `Output.levels`.

        ISD's attention is appended to the list, if given; `muted` (N,) is true for IDRs to ignore.
        """
        pixels = to_positioned_tokens(p)  # P (B, M, C)
        if idrs is not None:
            pixels = self.isd[level](pixels, idrs, attention, muted)  # D (B, M, C)
        return to_map(self.heads[level](pixels), size_of(p))

    def guide(self, edges: Tensor, p: Tensor) -> Tensor | None:
        """Return the weights of the guided upsampling, if the network has it.

        edges (B, C, H/4, W/4) is the encoder's finest map, p the finest P.
        """
        return None if self.upsampling is None else self.upsampling(edges, p)

    def fuse(
        self,
        levels: list[Tensor],
        size: Size,
        fine: Size | None = None,
        guide: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Fuse `Output.levels` to the prediction of that size, and the concentration of normals.

        `fine` (height, width) is the size at which the mean is taken, by default that of the finest
        level; pass it if that level is left out. `guide` is that of the same image.
        """
        fused = FUSIONS[self.config.task](levels, size, fine, guide)
        components = self.config.output.components
        return fused[:, :components], fused[:, components:] if components < fused.shape[1] else None


def _as_maps(weights: list[list[Tensor]], levels: list[Tensor]) -> tuple[Tensor, ...]:
    """Map iterations or layers (B, K, M, N) of each level to (B, iterations, K, N, H_l, W_l)."""
    return tuple(
        torch.stack(of_level, dim=1).mT.unflatten(-1, level.shape[2:])
        for of_level, level in zip(weights, levels, strict=False)  # empty without ISD
        if of_level
    )
