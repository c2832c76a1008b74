"""The output head of each resolution, and the fusion of the resolutions.

Depth maps are fused in metres, after the exponential; normals as unit vectors. Nothing is clamped:
the network has no depth range of its own. The final resize aligns the corners, as the published
weights expect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.configs.schema import Activation
from idisc.model.layers import ConvNorm
from idisc.model.tokens import in_chunks, size_of
from idisc.sizes import Size

GUIDE_WIDTH = 64  # channels in which pixel embeddings and edges are combined
SMALLEST_WEIGHT = 0.002  # of a neighbour that bilinear interpolation leaves out
FACTOR = 4  # pixels per side of a guided map for one pixel of the encoder's finest map


class OutputHead(nn.Module):
    """Maps (B, M, C) to (B, M, channels): log depth, or raw x, y, z and concentration."""

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


class GuidedUpsampling(nn.Module):
    """Predicts how a coarse map is upsampled to the size of the image, along the image's edges.

    Each new pixel is a convex combination of the 3x3 coarse pixels around it (as in RAFT, Teed and
    Deng 2020), so that a depth step may be as sharp as the image shows it, and no value outside the
    range of the coarse map can appear. The logits are added to those of bilinear interpolation:
    where the image shows no edge they can stay zero, and a slanted plane stays smooth.
    """

    bilinear: Tensor

    def __init__(self, width: int, edges: int, activation: Activation) -> None:
        super().__init__()
        self.embed = nn.Conv2d(width, GUIDE_WIDTH, 1)
        self.mix = ConvNorm(GUIDE_WIDTH + edges, GUIDE_WIDTH, 1, activation)
        self.weights = nn.Conv2d(GUIDE_WIDTH, 9 * FACTOR**2, 1)
        for parameter in self.weights.parameters():
            nn.init.zeros_(parameter)
        self.register_buffer("bilinear", _bilinear_logits(), persistent=False)

    def forward(self, edges: Tensor, p: Tensor) -> Tensor:
        """Map edges (B, C, h, w) and P (B, C, H_l, W_l) to weights (B, 9, FACTOR^2, h, w)."""
        embedded = _resize_to_guide(self.embed(p), size_of(edges))
        weights = self.weights(self.mix(torch.cat((embedded, edges), dim=1)))
        return (weights.unflatten(1, (9, FACTOR**2)) + self.bilinear).softmax(dim=1)


def _bilinear_logits() -> Tensor:
    """Logits (9, FACTOR^2, 1, 1) of the weights of bilinear interpolation.

    No weight is exactly zero, so that each can be learned.
    """
    position = (torch.arange(FACTOR) + 0.5) / FACTOR - 0.5  # of a new pixel in its coarse pixel
    along = torch.stack(((-position).relu(), 1 - position.abs(), position.relu()))  # (3, FACTOR)
    weights = torch.einsum("ai,bj->abij", along, along).reshape(9, FACTOR**2, 1, 1)
    return (weights + SMALLEST_WEIGHT).log()


def upsample(maps: Tensor, guide: Tensor) -> Tensor:
    """Upsample maps (B, C, H_l, W_l) by weights of `GuidedUpsampling` by FACTOR along each side."""
    height, width = guide.shape[3:]
    padded = F.pad(_resize_to_guide(maps, (height, width)), (1, 1, 1, 1), mode="replicate")
    around = torch.stack(
        [
            padded[:, :, down : down + height, across : across + width]
            for down in range(3)
            for across in range(3)
        ],
        dim=2,
    )  # (B, C, 9, h, w)
    fine = (guide[:, None] * around[:, :, :, None]).sum(2)  # (B, C, FACTOR^2, h, w)
    return F.pixel_shuffle(fine.flatten(1, 2), FACTOR)


def fuse_depth(
    levels: Sequence[Tensor], size: Size, fine: Size | None = None, guide: Tensor | None = None
) -> Tensor:
    """Fuse log depth of each resolution, (B, 1, H_l, W_l), coarse to fine, to metres (B, 1, H, W).

    The mean is taken at the size `fine`, by default that of the last resolution.
    """
    fine = fine or size_of(levels[-1])
    depth = torch.stack([resized(level.exp(), fine) for level in levels]).mean(0)
    return resized(depth if guide is None else upsample(depth, guide), size)


def fuse_normals(
    levels: Sequence[Tensor], size: Size, fine: Size | None = None, guide: Tensor | None = None
) -> Tensor:
    """Fuse raw normals of each resolution, (B, 4, H_l, W_l), coarse to fine, to (B, 4, H, W).

    The channels are x, y, z and concentration. Where the resolutions disagree, the mean of their
    unit vectors is shorter than one; it is not normalised again. `fine` is as in `fuse_depth`.
    """
    fine = fine or size_of(levels[-1])
    normals = torch.stack([_unit_normals(resized(level, fine)) for level in levels]).mean(0)
    if guide is None:
        return resized(normals, size, mode="bicubic")
    return resized(upsample(normals, guide), size)


def _unit_normals(raw: Tensor) -> Tensor:
    direction, concentration = raw[:, :3], F.elu(raw[:, 3:]) + 1.01  # > 0.01
    length = (direction.square().sum(1, keepdim=True) + 1e-6).sqrt()
    return torch.cat((direction / length, concentration), dim=1)


Fusion = Callable[[Sequence[Tensor], Size, Size | None, Tensor | None], Tensor]
FUSIONS: dict[str, Fusion] = {"depth": fuse_depth, "normals": fuse_normals}
"""By task: levels, size, fine and guide -> the prediction, then any further channels."""


def resized(maps: Tensor, size: Size, mode: str = "bilinear") -> Tensor:
    """Resize maps (B, C, h, w) to (B, C, H, W), corners aligned."""
    return F.interpolate(maps, size=size, mode=mode, align_corners=True)


def _resize_to_guide(maps: Tensor, size: Size) -> Tensor:
    """Resize maps to the size of the guide: bilinear, pixel areas aligned as in a pyramid."""
    if size_of(maps) == size:
        return maps
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=False)
