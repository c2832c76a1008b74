"""Feature maps as sequences of tokens: there, back, where each one sits, and a few at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.sizes import Size

CHUNK = 2048  # tokens whose MLP activations (2048 x 1024 floats) still fit in a CPU's cache
_whole = False


def to_tokens(features: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, M, C), row by row; free for a map in channels-last memory."""
    return features.flatten(2).mT


def to_map(tokens: Tensor, size: Size) -> Tensor:
    """(B, M, C) -> (B, C, H, W), in channels-last memory and without a copy."""
    return tokens.unflatten(1, size).permute(0, 3, 1, 2)


def to_placed_tokens(features: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, M, C), each pixel told where it is by its sine encoding."""
    rows, columns = _row_and_column_waves(size_of(features), features.shape[1], features.device)
    placed = features.permute(0, 2, 3, 1) + rows.to(features.dtype)  # (B, H, W, C)
    placed += columns.to(features.dtype)
    return placed.flatten(1, 2)


def size_of(features: Tensor) -> Size:
    """(height, width) of a map (B, C, H, W)."""
    return features.shape[2], features.shape[3]


def sine_encoding(size: Size, channels: int, device: torch.device) -> Tensor:
    """Position of every pixel of a map, (M, C) float32: first half its row, second half its column.

    Rows count 1..H as a share of H times 2 pi (columns alike), against wavelengths that grow
    geometrically to 10000. Always float32: in another precision it would be another encoding.
    """
    rows, columns = _row_and_column_waves(size, channels, device)
    return (rows + columns).flatten(0, 1)


def _row_and_column_waves(size: Size, channels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The encoding as a sum, (H, 1, C) and (1, W, C), each zero in the half of the other."""
    half = channels // 2
    rows, columns = (_waves(length, half, device) for length in size)
    return F.pad(rows, (0, half))[:, None], F.pad(columns, (half, 0))[None]


def _waves(length: int, channels: int, device: torch.device) -> Tensor:
    place = (
        torch.arange(1, length + 1, dtype=torch.float32, device=device)
        / (length + 1e-6)
        * (2 * math.pi)
    )
    exponent = 2 * torch.arange(channels // 2, dtype=torch.float32, device=device) / channels
    angle = place[:, None] / 10000.0**exponent  # (L, C/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # sine and cosine take turns


def pixel_centres(size: Size, device: torch.device) -> Tensor:
    """Centre of every pixel as (x, y), 0..1 across the map: (M, 2) float32."""
    height, width = size
    y = (torch.arange(height, dtype=torch.float32, device=device) + 0.5) / height
    x = (torch.arange(width, dtype=torch.float32, device=device) + 0.5) / width
    return torch.stack((x.repeat(height), y.repeat_interleave(width)), dim=-1)


def in_chunks(
    function: Callable[..., Tensor], *tensors: Tensor, overwrite: bool = False, together: int = 1
) -> Tensor:
    """`function` of whole (B, M, C) sequences, or, where that is the same, chunk after chunk.

    Only for functions that treat each token alone, or each group of `together` tokens. Without
    gradients a chunk's intermediate results stay in the cache, which on a CPU doubles the speed of
    an MLP; with gradients they are kept for the backward pass anyway, and a compiler wants one
    graph. `overwrite` lets the result of a chunk take the place of the first tensor's, if the
    caller has no more use for that.
    """
    if not _apart():
        return function(*tensors)
    batch, length = tensors[0].shape[:2]
    rows = max(1, CHUNK // (batch * together)) * together
    first = function(*(tensor[:, :rows] for tensor in tensors))
    whole = tensors[0] if overwrite else first.new_empty(batch, length, first.shape[2])
    whole[:, :rows] = first
    for start in range(rows, length, rows):
        part = slice(start, start + rows)
        whole[:, part] = function(*(tensor[:, part] for tensor in tensors))
    return whole


def in_bands(
    module: nn.Module, features: Tensor, *, halo: int = 0, overwrite: bool = False
) -> Tensor:
    """The same for maps: `module` of a whole (B, C, H, W), or band after band of rows.

    Only for modules that keep the size and look no further than `halo` pixels, with zeros beyond
    the map: a band brings so many rows of its neighbours, which are cut from its result. In
    training mode they get the whole map, for the statistics of batch norm. `overwrite` as above,
    without a halo.
    """
    if not _apart() or module.training:
        return module(features)
    batch, _, height, width = features.shape
    rows = max(1, CHUNK // (batch * width), 32 * halo)  # neighbours' rows: a sixteenth at most
    whole = features
    for top in range(0, height, rows):
        above = min(halo, top)
        band = module(features[:, :, top - above : top + rows + halo])
        if top == 0 and not overwrite:
            whole = to_map(band.new_empty(batch, height * width, band.shape[1]), (height, width))
        whole[:, :, top : top + rows] = band[:, :, above : above + rows]
    return whole


def _apart() -> bool:
    """Whether sequences and maps are taken apart: never with gradients or for a compiler."""
    return not (_whole or torch.is_grad_enabled() or torch.compiler.is_compiling())


@contextmanager
def whole_sequences() -> Iterator[None]:
    """Switch the chunks off, for comparisons."""
    global _whole
    previous, _whole = _whole, True
    try:
        yield
    finally:
        _whole = previous
