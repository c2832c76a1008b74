"""A plain vision transformer turned into a feature pyramid.

A ViT has one resolution. The picture is resized so that one token stands for 16x16 of its pixels
whatever the patch size, which makes the token grid the map of stride 16; the other three maps grow
from outputs of other depths by learned up- and downsampling.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from idisc.model.pyramids import STRIDES, load_timm
from idisc.model.states import fill
from idisc.model.tokens import size_of
from idisc.sizes import Size

TOKEN = 16  # pixels of the picture that a token stands for, each way


class VitPyramid(nn.Module):
    """RGB (B, 3, H, W), normalised -> maps at strides 4, 8, 16, 32, from four depths of the ViT."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.vit = load_timm().create_model(
            name, pretrained=False, num_classes=0, dynamic_img_size=True
        )
        width, depth = self.vit.embed_dim, len(self.vit.blocks)
        self.patch = self.vit.patch_embed.patch_size[0]
        self.depths = [depth * (i + 1) // 4 - 1 for i in range(4)]  # the ends of the four quarters
        self.channels = (width // 4, width // 2, width, width)
        self.resize = nn.ModuleList(
            (
                nn.Sequential(
                    nn.ConvTranspose2d(width, width // 2, 2, stride=2),
                    nn.GroupNorm(1, width // 2),
                    nn.GELU(),
                    nn.ConvTranspose2d(width // 2, width // 4, 2, stride=2),
                ),
                nn.ConvTranspose2d(width, width // 2, 2, stride=2),
                nn.Identity(),
                nn.Conv2d(width, width, 3, stride=2, padding=1),
            )
        )

    def forward(self, normalised: Tensor) -> list[Tensor]:
        """RGB (B, 3, H, W), normalised -> maps (B, C_l, H/s, W/s) of the strides s, rounded up."""
        return self.pyramid(self.tapped(normalised), size_of(normalised))

    def tapped(self, normalised: Tensor) -> list[Tensor]:
        """The transformer's part: four maps (B, C, H/16, W/16), shallow to deep."""
        grid = [-(-length // TOKEN) for length in normalised.shape[2:]]
        size = [self.patch * length for length in grid]
        pixels = F.interpolate(normalised, size, mode="bilinear", antialias=True)
        return self.vit.forward_intermediates(
            pixels, indices=self.depths, norm=True, output_fmt="NCHW", intermediates_only=True
        )

    def pyramid(self, taps: list[Tensor], size: Size) -> list[Tensor]:
        """The learned part: each map to its stride, cut to the size every other encoder gives."""
        maps = []
        for stride, resize, tapped in zip(STRIDES, self.resize, taps, strict=True):
            height, width = (-(-length // stride) for length in size)
            maps.append(resize(tapped)[:, :, :height, :width])
        return maps

    def take(self, complete: nn.Module) -> None:
        """Fill the transformer; the up- and downsampling is learned from scratch."""
        fill(self.vit, complete.state_dict(), "vit")
