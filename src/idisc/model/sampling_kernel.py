"""The sampling core as numba kernels: forward, and the two halves of backward.

Only `sampling.sample_by_kernel` imports this module, because it imports numba. Shapes are those of
`sampling`. The forward pass and the gradients of locations and weights are independent for every
query and run in parallel over them; the gradient of the values adds up over queries, so it runs in
parallel over (image, head), each of which owns its own channels.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from idisc.sizes import Size

# Sums may be reordered, so that loops over channels become vector instructions. NaN and infinity
# keep their meaning, so that a diverging training run is noticed.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_jit = numba.njit(parallel=True, fastmath=_FAST, cache=True, error_model="numpy")
_jit_sum = numba.njit(fastmath=_FAST, cache=True, error_model="numpy")
_jit_exact = numba.njit(cache=True, error_model="numpy")
# One of numba's threading layers aborts the process when two threads enter it at a time.
_lock = threading.Lock()
_MAX_THREADS = numba.config.NUMBA_NUM_THREADS
OWNER = os.getpid()  # the process whose threads run the kernels


class KernelSampling(torch.autograd.Function):
    """Compute `sampling.sample` for CPU tensors."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, sizes: tuple[Size, ...], locations: Tensor, weights: Tensor
    ) -> Tensor:
        value, locations, weights = (t.detach().contiguous() for t in (value, locations, weights))
        ctx.save_for_backward(value, locations, weights)
        ctx.levels = levels = _levels(sizes)
        batch, queries, heads = weights.shape[:3]
        out = value.new_empty(batch, queries, heads, value.shape[3])
        with _with_threads_of_torch():
            _forward(value.numpy(), levels, locations.numpy(), weights.numpy(), out.numpy())
        return out.flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        value, locations, weights = ctx.saved_tensors
        grad_out = grad.contiguous().view(*weights.shape[:3], value.shape[3]).numpy()
        grad_value = grad_locations = grad_weights = None
        given = ctx.levels, locations.numpy(), weights.numpy(), grad_out
        with _with_threads_of_torch():
            if ctx.needs_input_grad[0]:
                grad_value = torch.zeros_like(value)
                _backward_value(*given, grad_value.numpy())
            if ctx.needs_input_grad[2] or ctx.needs_input_grad[3]:
                grad_locations, grad_weights = map(torch.empty_like, (locations, weights))
                _backward_sampling(
                    value.numpy(), *given, grad_locations.numpy(), grad_weights.numpy()
                )
        return grad_value, None, grad_locations, grad_weights


@contextmanager
def _with_threads_of_torch() -> Iterator[None]:
    """Use as many threads as torch, and restore the number of torch's threads afterwards.

    One of numba's threading layers shares OpenMP with torch and raises its number of threads to
    that of the cores, which would also change results of convolutions by rounding.
    """
    threads = torch.get_num_threads()
    with _lock:
        numba.set_num_threads(min(threads, _MAX_THREADS))
        yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def _levels(sizes: tuple[Size, ...]) -> Any:
    """(V, 3): height, width, first pixel of each level in the sequence."""
    extent = np.array(sizes, dtype=np.int64)
    area = extent.prod(1)
    return np.column_stack((extent, area.cumsum() - area))


@_jit_exact
def _axis(location: Any, length: int) -> Any:
    """Bilinear sampling along one axis: the two pixels, their shares, and the slopes of these.

    A pixel off the map has share and slope 0, and an index that is valid to read. The operations
    have the order of those in `sampling`, so that both round alike.
    """
    real = type(location)  # numba widens float32 times an integer to float64, so no integers here
    zero, one, two, size = real(0), real(1), real(2), real(length)
    place = ((two * location - one + one) * size - one) / two
    if not (place > -one and place < size):  # all of it off the map, or not a number
        return 0, 0, zero, zero, zero, zero
    low = np.floor(place)
    far = place - low
    first, second = int(low), int(low) + 1
    near_slope, far_slope = -one, one
    near = one - far
    if first < 0:
        first, near, near_slope = 0, zero, zero
    if second >= length:
        second, far, far_slope = length - 1, zero, zero
    return first, second, near, far, near_slope, far_slope


@_jit
def _forward(value: Any, levels: Any, locations: Any, weights: Any, out: Any) -> None:
    batch, queries, heads, count, points = weights.shape
    for index in numba.prange(batch * queries):
        b, q = index // queries, index % queries
        for k in range(heads):
            total = out[b, q, k]
            total[:] = 0
            for v in range(count):
                height, width, start = levels[v]
                for s in range(points):
                    left, right, x0, x1, _, _ = _axis(locations[b, q, k, v, s, 0], width)
                    top, bottom, y0, y1, _, _ = _axis(locations[b, q, k, v, s, 1], height)
                    weight = weights[b, q, k, v, s]
                    y0, y1 = weight * y0, weight * y1
                    w00, w01, w10, w11 = y0 * x0, y0 * x1, y1 * x0, y1 * x1
                    p00 = value[b, start + top * width + left, k]
                    p01 = value[b, start + top * width + right, k]
                    p10 = value[b, start + bottom * width + left, k]
                    p11 = value[b, start + bottom * width + right, k]
                    for d in range(len(total)):
                        total[d] += w00 * p00[d] + w01 * p01[d] + w10 * p10[d] + w11 * p11[d]


@_jit
def _backward_value(
    levels: Any, locations: Any, weights: Any, grad_out: Any, grad_value: Any
) -> None:
    batch, queries, heads, count, points = weights.shape
    for index in numba.prange(batch * heads):
        b, k = index // heads, index % heads
        for q in range(queries):
            grad = grad_out[b, q, k]
            for v in range(count):
                height, width, start = levels[v]
                for s in range(points):
                    left, right, x0, x1, _, _ = _axis(locations[b, q, k, v, s, 0], width)
                    top, bottom, y0, y1, _, _ = _axis(locations[b, q, k, v, s, 1], height)
                    weight = weights[b, q, k, v, s]
                    for row, vertical in ((top, weight * y0), (bottom, weight * y1)):
                        for column, horizontal in ((left, x0), (right, x1)):
                            share = vertical * horizontal
                            pixel = grad_value[b, start + row * width + column, k]
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
    for index in numba.prange(batch * queries):
        b, q = index // queries, index % queries
        for k in range(heads):
            grad = grad_out[b, q, k]
            for v in range(count):
                height, width, start = levels[v]
                for s in range(points):
                    left, right, x0, x1, dx0, dx1 = _axis(locations[b, q, k, v, s, 0], width)
                    top, bottom, y0, y1, dy0, dy1 = _axis(locations[b, q, k, v, s, 1], height)
                    m00 = _dot(value[b, start + top * width + left, k], grad)
                    m01 = _dot(value[b, start + top * width + right, k], grad)
                    m10 = _dot(value[b, start + bottom * width + left, k], grad)
                    m11 = _dot(value[b, start + bottom * width + right, k], grad)
                    upper, lower = x0 * m00 + x1 * m01, x0 * m10 + x1 * m11
                    along_x = y0 * (dx0 * m00 + dx1 * m01) + y1 * (dx0 * m10 + dx1 * m11)
                    weight = weights[b, q, k, v, s]
                    grad_locations[b, q, k, v, s, 0] = weight * width * along_x
                    grad_locations[b, q, k, v, s, 1] = weight * height * (dy0 * upper + dy1 * lower)
                    grad_weights[b, q, k, v, s] = y0 * upper + y1 * lower


@_jit_sum
def _dot(first: Any, second: Any) -> Any:
    total = first.dtype.type(0)
    for d in range(len(first)):
        total += first[d] * second[d]
    return total
