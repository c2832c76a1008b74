"""Feature maps as sequences of tokens: conversion, position encoding, processing in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.sizes import Size

CHUNK = 2048  # tokens whose MLP activations (2048 x 1024 floats) still fit in a CPU's cache
_chunks_disabled = False


def to_tokens(features: Tensor) -> Tensor:
    """Map (B, C, H, W) to (B, M, C), row by row; no copy for a map in channels-last memory."""
    return features.flatten(2).mT


def to_map(tokens: Tensor, size: Size) -> Tensor:
    """Map (B, M, C) to (B, C, H, W), in channels-last memory and without a copy."""
    return tokens.unflatten(1, size).permute(0, 3, 1, 2)


def to_positioned_tokens(features: Tensor) -> Tensor:
    """Map (B, C, H, W) to (B, M, C), with the sine encoding of the position added."""
    rows, columns = _row_and_column_waves(size_of(features), features.shape[1], features.device)
    placed = features.permute(0, 2, 3, 1) + rows.to(features.dtype)  # (B, H, W, C)
    placed += columns.to(features.dtype)
    return placed.flatten(1, 2)


def size_of(features: Tensor) -> Size:
    """Return (height, width) of a map (B, C, H, W)."""
    return features.shape[2], features.shape[3]


def sine_encoding(size: Size, channels: int, device: torch.device) -> Tensor:
    """Return the position of every pixel, (M, C) float32: rows in the first half, then columns.

    Rows count 1..H as a share of H times 2 pi (columns alike), with wavelengths that grow
    geometrically to 10000. It is always computed in float32, as the published weights expect.
    """
    rows, columns = _row_and_column_waves(size, channels, device)
    return (rows + columns).flatten(0, 1)


def _row_and_column_waves(size: Size, channels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the encoding as a sum of (H, 1, C) and (1, W, C), each zero in the other's half."""
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
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # sine, cosine, sine, ...


def pixel_centres(size: Size, device: torch.device) -> Tensor:
    """Return the centre of every pixel as (x, y), 0..1 across the map: (M, 2) float32."""
    height, width = size
    y = (torch.arange(height, dtype=torch.float32, device=device) + 0.5) / height
    x = (torch.arange(width, dtype=torch.float32, device=device) + 0.5) / width
    return torch.stack((x.expand(height, -1), y[:, None].expand(-1, width)), dim=-1).flatten(0, 1)


def in_chunks(
    function: Callable[..., Tensor], *tensors: Tensor, overwrite: bool = False, group_size: int = 1
) -> Tensor:
    """Apply `function` to sequences (B, M, C), in chunks if that gives the same result faster.

    Only for functions that process each token, or each group of `group_size` tokens, independently.
    Without gradients the intermediate results of a chunk stay in the cache, which doubles the speed
    of an MLP on a CPU. With gradients they are kept for the backward pass anyway, and a compiler
    needs one graph. With `overwrite`, results replace the values of the first tensor.
    """
    if not _use_chunks():
        return function(*tensors)
    batch, length = tensors[0].shape[:2]
    rows = max(1, CHUNK // (batch * group_size)) * group_size
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
    """Apply `module` to maps (B, C, H, W), in bands of rows if that is faster.

    Only for modules that keep the size and depend on at most `halo` pixels around, with zeros
    beyond the map: a band includes that many rows of its neighbours, which are cut from its result.
    In training mode the whole map is processed, for the statistics of batch norm. `overwrite` is as
    above, and only without a halo.
    """
    if not _use_chunks() or module.training:
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


def _use_chunks() -> bool:
    """Return whether to process in chunks: not with gradients and not for a compiler."""
    return not (_chunks_disabled or torch.is_grad_enabled() or torch.compiler.is_compiling())


@contextmanager
def whole_sequences() -> Iterator[None]:
    """Disable the chunks, for comparisons."""
    global _chunks_disabled
    previous, _chunks_disabled = _chunks_disabled, True
    try:
        yield
    finally:
        _chunks_disabled = previous
