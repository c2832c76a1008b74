"""From discretized pixels to the answer: the head of each resolution, and their fusion.

Depth maps are fused in metres, after the exponential; normals as unit vectors. Nothing is clamped:
the network has no depth range of its own. All resizing aligns the corners, as the weights expect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.model.tokens import in_chunks, size_of
from idisc.sizes import Size

DOUBTED = math.log(2)  # apart: twice as far or as near as the network; see docs/results.md


class OutputHead(nn.Module):
    """(B, M, C) -> (B, M, channels): log depth, or raw x, y, z and concentration."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width, eps=1e-5),
            nn.Linear(width, width),
            nn.LayerNorm(width, eps=1e-5),
            nn.Linear(width, channels),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        return in_chunks(self.layers, pixels)


def fuse_depth(levels: Sequence[Tensor], size: Size, fine: Size | None = None) -> Tensor:
    """Log depth of each resolution, (B, 1, H_l, W_l), coarse to fine -> metres (B, 1, H, W).

    The mean is taken at the size `fine`, that of the last one, unless some are left out.
    """
    fine = fine or size_of(levels[-1])
    depth = torch.stack([resized(level.exp(), fine) for level in levels]).mean(0)
    return resized(depth, size)


def trust(apart: Tensor) -> Tensor:
    """How much a companion counts, 1 to 0, by its log depth less the network's; any shape.

    All of it up to twice as far or as near, nothing from four times on: there it is not of another
    opinion but lost, and says 0.1 m or 100.
    """
    return (2 - apart.abs() / DOUBTED).clamp(0, 1)


def fuse_normals(levels: Sequence[Tensor], size: Size, fine: Size | None = None) -> Tensor:
    """Raw normals of each resolution, (B, 4, H_l, W_l), coarse to fine -> (B, 4, H, W).

    Channels x, y, z and concentration. A mean of unit vectors is shorter than one where the
    resolutions disagree, and is left so. `fine` as above.
    """
    fine = fine or size_of(levels[-1])
    normals = torch.stack([_unit_normals(resized(level, fine)) for level in levels]).mean(0)
    return resized(normals, size, mode="bicubic")


def _unit_normals(raw: Tensor) -> Tensor:
    direction, concentration = raw[:, :3], F.elu(raw[:, 3:]) + 1.01  # > 0.01
    length = (direction.square().sum(1, keepdim=True) + 1e-6).sqrt()
    return torch.cat((direction / length, concentration), dim=1)


def resized(maps: Tensor, size: Size, mode: str = "bilinear") -> Tensor:
    """Maps (B, C, h, w) -> (B, C, H, W), corners aligned."""
    return F.interpolate(maps, size=size, mode=mode, align_corners=True)
