"""The sampling core as numba kernels: forward, and the two halves of backward.

Only `sampling.sample_by_kernel` imports this module, because it imports numba. Shapes are those of
`sampling`. The forward pass and the gradients of locations and weights are independent for every
query and run in parallel over them; the gradient of the values adds up over queries, so it runs in
parallel over (image, head), each of which owns its own channels.
"""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from idisc.model.tokens import Size

# Reordering sums is what lets a loop over channels become vector instructions; NaN and infinity keep
# their meaning, so that a diverging training run is seen.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_jit = numba.njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
_exact = numba.njit(cache=True, error_model="numpy")
# One of numba's threading layers aborts the process when two threads enter it at a time.
_one_at_a_time = threading.Lock()


class KernelSampling(torch.autograd.Function):
    """`sampling.sample` for CPU tensors."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, sizes: tuple[Size, ...], locations: Tensor, weights: Tensor
    ) -> Tensor:
        value, locations, weights = (t.detach().contiguous() for t in (value, locations, weights))
        ctx.save_for_backward(value, locations, weights)
        ctx.levels = levels = _levels(sizes)
        batch, queries, heads = weights.shape[:3]
        out = value.new_empty(batch, queries, heads, value.shape[3])
        with _one_at_a_time:
            _forward(value.numpy(), levels, locations.numpy(), weights.numpy(), out.numpy())
        return out.flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        value, locations, weights = ctx.saved_tensors
        grad_out = grad.contiguous().view(*weights.shape[:3], value.shape[3]).numpy()
        grad_value = grad_locations = grad_weights = None
        arrays = value.numpy(), ctx.levels, locations.numpy(), weights.numpy(), grad_out
        with _one_at_a_time:
            if ctx.needs_input_grad[0]:
                grad_value = torch.zeros_like(value)
                _backward_value(*arrays, grad_value.numpy())
            if ctx.needs_input_grad[2] or ctx.needs_input_grad[3]:
                grad_locations, grad_weights = (
                    torch.empty_like(locations),
                    torch.empty_like(weights),
                )
                _backward_sampling(*arrays, grad_locations.numpy(), grad_weights.numpy())
        return grad_value, None, grad_locations, grad_weights


def _levels(sizes: tuple[Size, ...]) -> Any:
    """(V, 3): height, width, first pixel of each level in the sequence."""
    extent = np.array(sizes, dtype=np.int64)
    area = extent.prod(1)
    return np.column_stack((extent, area.cumsum() - area))


@_exact
def _place(location: Any, height: int, width: int) -> Any:
    """A sample's upper left pixel, its distance from there, and whether any of it is on the map.

    Rounded step by step as in `sampling`: no reordering here.
    """
    real = (
        location.dtype.type
    )  # numba widens float32 times an integer to float64, so no integers here
    one, two, wide, high = real(1), real(2), real(width), real(height)
    x = ((two * location[0] - one + one) * wide - one) / two
    y = ((two * location[1] - one + one) * high - one) / two
    on_map = x > -one and y > -one and x < wide and y < high  # false for NaN, too
    left, top = (np.floor(x), np.floor(y)) if on_map else (one, one)
    return int(left), int(top), x - left, y - top, on_map


@_jit
def _forward(value: Any, levels: Any, locations: Any, weights: Any, out: Any) -> None:
    batch, queries, heads, count, points = weights.shape
    one = value.dtype.type(1)
    for index in numba.prange(batch * queries):
        b, q = index // queries, index % queries
        for k in range(heads):
            total = out[b, q, k]
            total[:] = 0
            for v in range(count):
                height, width, first = levels[v]
                for s in range(points):
                    column, row, right, down, on_map = _place(
                        locations[b, q, k, v, s], height, width
                    )
                    if not on_map:
                        continue
                    weight = weights[b, q, k, v, s]
                    for i in range(max(row, 0), min(row + 2, height)):
                        vertical = weight * (down if i > row else one - down)
                        for j in range(max(column, 0), min(column + 2, width)):
                            share = vertical * (right if j > column else one - right)
                            pixel = value[b, first + i * width + j, k]
                            for d in range(len(total)):
                                total[d] += share * pixel[d]


@_jit
def _backward_value(
    value: Any, levels: Any, locations: Any, weights: Any, grad_out: Any, grad_value: Any
) -> None:
    batch, queries, heads, count, points = weights.shape
    one = value.dtype.type(1)
    for index in numba.prange(batch * heads):
        b, k = index // heads, index % heads
        for q in range(queries):
            grad = grad_out[b, q, k]
            for v in range(count):
                height, width, first = levels[v]
                for s in range(points):
                    column, row, right, down, on_map = _place(
                        locations[b, q, k, v, s], height, width
                    )
                    if not on_map:
                        continue
                    weight = weights[b, q, k, v, s]
                    for i in range(max(row, 0), min(row + 2, height)):
                        vertical = weight * (down if i > row else one - down)
                        for j in range(max(column, 0), min(column + 2, width)):
                            share = vertical * (right if j > column else one - right)
                            pixel = grad_value[b, first + i * width + j, k]
                            for d in range(len(grad)):
                                pixel[d] += share * grad[d]


@_jit
def _backward_sampling(
    value: Any,
    levels: Any,
    locations: Any,
    weights: Any,
    grad_out: Any,
    grad_locations: Any,
    grad_weights: Any,
) -> None:
    batch, queries, heads, count, points = weights.shape
    zero, one = value.dtype.type(0), value.dtype.type(1)
    for index in numba.prange(batch * queries):
        b, q = index // queries, index % queries
        for k in range(heads):
            grad = grad_out[b, q, k]
            for v in range(count):
                height, width, first = levels[v]
                for s in range(points):
                    column, row, right, down, on_map = _place(
                        locations[b, q, k, v, s], height, width
                    )
                    along_x = along_y = along_weight = zero
                    if on_map:
                        for i in range(max(row, 0), min(row + 2, height)):
                            vertical, slope_y = (down, one) if i > row else (one - down, -one)
                            for j in range(max(column, 0), min(column + 2, width)):
                                horizontal, slope_x = (
                                    (right, one) if j > column else (one - right, -one)
                                )
                                pixel = value[b, first + i * width + j, k]
                                match = zero
                                for d in range(len(grad)):
                                    match += pixel[d] * grad[d]
                                along_x += match * vertical * slope_x
                                along_y += match * horizontal * slope_y
                                along_weight += match * vertical * horizontal
                    weight = weights[b, q, k, v, s]
                    grad_locations[b, q, k, v, s, 0] = along_x * weight * width
                    grad_locations[b, q, k, v, s, 1] = along_y * weight * height
                    grad_weights[b, q, k, v, s] = along_weight
