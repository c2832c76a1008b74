"""Pixel decoder: encoder features -> features F for AFP and pixel embeddings P for ISD.

All lists run from coarse to fine (stride 32 first), and all maps keep their size.
`DeformablePixelDecoder` is that of the paper (MSDA, then a top-down FPN), `PlainPixelDecoder` the
FPN of the ablations without MSDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.configs.schema import Activation, DecoderConfig
from idisc.model.deformable import DeformableEncoder
from idisc.model.layers import ConvNorm
from idisc.model.tokens import in_bands, size_of, to_map, to_tokens


class Decoded(NamedTuple):
    """The output of the decoder, coarse to fine, each map (B, C, H_l, W_l)."""

    features: list[Tensor]  # F, partitioned by AFP
    pixel_embeddings: list[Tensor]  # P, discretized by ISD


class DeformablePixelDecoder(nn.Module):
    """MSDA across levels, then a top-down pass that also uses the encoder's features."""

    def __init__(
        self, channels: Sequence[int], config: DecoderConfig, expansion: int, activation: Activation
    ) -> None:
        super().__init__()
        width = config.width
        self.adapters = nn.ModuleList(_adapter(c, width) for c in channels)
        self.msda = DeformableEncoder(config, len(channels), expansion, activation)
        self.refined = nn.ModuleList(ConvNorm(width, width, 1, activation) for _ in channels)
        self.laterals = nn.ModuleList(ConvNorm(c, width, 1, activation) for c in channels)
        self.smooth = nn.ModuleList(ConvNorm(width, width, 3, activation) for _ in channels)

    def forward(self, maps: Sequence[Tensor]) -> Decoded:
        """Encoder maps (B, C_l, H_l, W_l), coarse to fine."""
        features = self._refined(maps)
        embeddings: list[Tensor] = []
        for m, feature, lateral, smooth in zip(
            maps, features, self.laterals, self.smooth, strict=True
        ):
            summed = in_bands(lateral, m) + feature
            if embeddings:
                summed += _enlarged(embeddings[-1], m)
            embeddings.append(in_bands(smooth, summed, halo=1))
        return Decoded(features, embeddings)

    def _refined(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Refine all levels by MSDA, as one sequence of one width; return them as maps: F."""
        sizes = [size_of(m) for m in maps]
        adapted = [adapt(m) for adapt, m in zip(self.adapters, maps, strict=True)]
        tokens = torch.cat([to_tokens(m) for m in adapted], dim=1)  # (B, L, C), coarse to fine
        refined = self.msda(tokens, sizes)  # (B, L, C)
        starts = accumulate((height * width for height, width in sizes), initial=0)
        levels = [refined[:, first:last] for first, last in pairwise(starts)]
        return [
            in_bands(conv, to_map(level, size), overwrite=True)
            for conv, level, size in zip(self.refined, levels, sizes, strict=True)
        ]


class PlainPixelDecoder(nn.Module):
    """A plain FPN; F and P are the same maps. As published, it always uses ReLU."""

    def __init__(self, channels: Sequence[int], width: int) -> None:
        super().__init__()
        coarsest, *finer = channels
        self.laterals = nn.ModuleList(ConvNorm(c, width, 1, None) for c in finer)
        self.smooth = nn.ModuleList(
            [
                ConvNorm(coarsest, width, 3, "relu"),
                *(ConvNorm(width, width, 3, "relu") for _ in finer),
            ]
        )

    def forward(self, maps: Sequence[Tensor]) -> Decoded:
        """Encoder maps (B, C_l, H_l, W_l), coarse to fine."""
        embeddings = [in_bands(self.smooth[0], maps[0], halo=1)]
        for m, lateral, smooth in zip(maps[1:], self.laterals, self.smooth[1:], strict=True):
            summed = in_bands(lateral, m) + _enlarged(embeddings[-1], m)
            embeddings.append(in_bands(smooth, summed, halo=1))
        return Decoded(embeddings, embeddings)


def _adapter(channels: int, width: int) -> nn.Sequential:
    conv = nn.Conv2d(channels, width, 1)
    weight, bias = conv.parameters()
    nn.init.xavier_uniform_(weight)
    nn.init.zeros_(bias)
    return nn.Sequential(conv, nn.GroupNorm(1, width))


def _enlarged(coarse: Tensor, fine: Tensor) -> Tensor:
    return F.interpolate(coarse, size=fine.shape[2:], mode="nearest")
