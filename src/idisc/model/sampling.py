"""The sampling core of deformable attention: bilinear samples of many maps, weighted and summed.

Three formulations of one function, the same to rounding:

- `sample_by_rows` (plain): each sample is four rows of the value table and four weights, so the
  whole core is one weighted sum of rows. It runs anywhere, and `torch.compile` can trace it.
- `sample_by_kernel` (accelerated): one loop without temporaries, compiled at first use by numba
  (extra `fast`), on CPU tensors. Used automatically if numba is installed.
- `sample_by_grid` (oracle): `grid_sample` level by level, as the operator is usually written down;
  the reference of tests and benchmarks.

Shapes: value (B, L, K, D), all levels' pixels in one sequence; locations (B, Q, K, V, S, 2) as (x,
y) with 0..1 across each map; weights (B, Q, K, V, S); result (B, Q, K * D). L pixels, Q queries, K
heads, D channels of a head, V levels, S points.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from idisc.errors import IdiscWarning, first_line, lookup
from idisc.sizes import Size

Sampler = Callable[[Tensor, Sequence[Size], Tensor, Tensor], Tensor]
KERNEL_DTYPES = (torch.float32, torch.float64)  # numba has no half precision on a CPU
_forced: Sampler | None = None


def sample(value: Tensor, sizes: Sequence[Size], locations: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of weighted bilinear samples, zero outside of the maps, by the best method."""
    if _forced is not None:
        return _forced(value, sizes, locations, weights)
    on_kernel = value.device.type == "cpu" and value.dtype in KERNEL_DTYPES
    if on_kernel and not torch.compiler.is_compiling() and kernel_available():
        return sample_by_kernel(value, sizes, locations, weights)
    return sample_by_rows(value, sizes, locations, weights)


def kernel_available() -> bool:
    """Return whether the accelerated method works: numba is installed and functional.

    It does not work in a process forked after its use, because its threads do not survive a fork.
    """
    kernel = _kernel()
    return kernel is not None and os.getpid() == kernel.OWNER


@cache
def _kernel() -> ModuleType | None:
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        return importlib.import_module("idisc.model.sampling_kernel")
    except Exception as error:  # a numpy it does not know, no folder for its cache: numba's own
        reason = f"numba cannot be used, MSDA is slower: {first_line(error)}"
        warnings.warn(reason, IdiscWarning, stacklevel=2)
        return None


@contextmanager
def using(sampler: str | Sampler) -> Iterator[None]:
    """Force one formulation ("plain", "accelerated", "oracle", or a function)."""
    global _forced
    chosen = lookup(SAMPLERS, sampler, "sampler") if isinstance(sampler, str) else sampler
    previous, _forced = _forced, chosen
    try:
        yield
    finally:
        _forced = previous


def sample_by_grid(
    value: Tensor, sizes: Sequence[Size], locations: Tensor, weights: Tensor
) -> Tensor:
    """Compute one `grid_sample` for each level, then the weighted sum (oracle)."""
    batch, _, heads, channels = value.shape
    queries = locations.shape[1]
    samples = []
    parts = value.split([height * width for height, width in sizes], dim=1)
    for level, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        maps = part.permute(0, 2, 3, 1).reshape(batch * heads, channels, *size)  # (BK, D, H, W)
        grid = (2 * locations[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)  # (BK, Q, S, 2)
        samples.append(F.grid_sample(maps, grid, align_corners=False))  # (BK, D, Q, S)
    stacked = torch.cat(samples, dim=-1)  # (BK, D, Q, VS)
    shares = weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)  # (BK, 1, Q, VS)
    return (stacked * shares).sum(-1).view(batch, heads * channels, queries).mT


def sample_by_rows(
    value: Tensor, sizes: Sequence[Size], locations: Tensor, weights: Tensor
) -> Tensor:
    """Sum four rows of `value` per sample, its corners, with their weights (plain)."""
    batch, length, heads, channels = value.shape
    queries = locations.shape[1]
    pixels, shares = _corners(sizes, locations, weights)  # (B, Q, K, 4VS)
    first = torch.arange(batch, dtype=torch.int32, device=value.device).view(-1, 1, 1, 1) * length
    head = torch.arange(heads, dtype=torch.int32, device=value.device).view(-1, 1)
    rows = ((first + pixels) * heads + head).flatten(0, 2)  # (BQK, 4VS), into (BLK, D)
    shares = shares.flatten(0, 2)
    table = value.reshape(-1, channels)
    summed = F.embedding_bag(rows, table, per_sample_weights=shares, mode="sum")
    return summed.view(batch, queries, heads * channels)


def sample_by_kernel(
    value: Tensor, sizes: Sequence[Size], locations: Tensor, weights: Tensor
) -> Tensor:
    """Run the compiled loop of numba, with its own backward pass (accelerated)."""
    from idisc.model.sampling_kernel import KernelSampling  # imports numba, which takes a moment

    return KernelSampling.apply(value, tuple(sizes), locations, weights)


SAMPLERS: dict[str, Sampler] = {
    "accelerated": sample_by_kernel,
    "plain": sample_by_rows,
    "oracle": sample_by_grid,
}


def _corners(sizes: Sequence[Size], locations: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return pixel (in the sequence of a picture) and weight of the four corners of each sample."""
    device = locations.device
    heights, widths = torch.tensor(sizes, dtype=torch.int32, device=device)[:, None].unbind(-1)
    areas = heights * widths  # (V, 1)
    starts = (areas.cumsum(0, dtype=torch.int32) - areas)[..., None]  # of the levels
    column, horizontal = _neighbours(locations[..., 0], widths)
    row, vertical = _neighbours(locations[..., 1], heights)
    rows = starts + row * widths[..., None]  # (B, Q, K, V, S, 2), first pixels of the two rows
    pixels = rows[..., None] + column[..., None, :]  # (B, Q, K, V, S, 2, 2)
    shares = (weights[..., None] * vertical)[..., None] * horizontal[..., None, :]
    return pixels.flatten(3), shares.flatten(3)


def _neighbours(location: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two pixels around a location on one axis, (..., 2), and their shares.

    The share of a pixel outside of the map is 0.
    """
    # x W - 1/2, with the pixels' centres at whole numbers, in the order of operations of
    # `grid_sample`: one ulp decides between two pixels, and with that the gradient of a location.
    place = ((2 * location - 1 + 1) * lengths - 1) / 2
    low = place.floor()
    far = place - low
    first = low.int()
    pixels = torch.stack((first, first + 1), dim=-1)
    inside = (pixels >= 0) & (pixels < lengths[..., None])
    shares = torch.where(inside, torch.stack((1 - far, far), dim=-1), 0)
    return torch.where(inside, pixels, 0), shares
