"""Correlation between the edges of depth and the edges of the image, for a pair and its shifts.

Where depth jumps, colour mostly changes too. Both are reduced to about 160 columns and compared by
the correlation of their edge strengths, across and down separately. On real pairs (NYU, SUN RGB-D,
DIODE, Taskonomy) its median is 0.22 to 0.34; with the image of another pair it is 0.01, and 0.13
is reached once in a hundred. LiDAR is too sparse for this: pairs with few values are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc.data.decode import FloatArray

REACH = 12
"""Largest shift of a depth map that is tried, in cells."""
_COLUMNS = 160  # of the grid, at most: averages sensor noise away, but not a shift of 1 %
_LEAST_KNOWN = 0.3  # share of the depth map; annotated KITTI has 0.2, Kinect 0.67
_LEAST_CELLS = 200  # with known depth, below which a correlation says nothing
_STEEPEST = 0.3  # in log depth over two cells; steeper edges count the same


@dataclass(frozen=True)
class Edges:
    """Edge strengths of one pair on a common grid; the first axis is (across, down)."""

    image: FloatArray  # (2, H, W)
    depth: FloatArray  # (2, H, W)
    known: NDArray[np.bool_]  # (2, H, W), where depth has a value on both sides
    pixels_per_cell: float  # of the image


def find_edges(image: NDArray[np.uint8], depth: FloatArray) -> Edges | None:
    """Edges of an image (H, W, 3) and its depth (Hd, Wd) in metres; None if depth is too sparse.

    The two may differ in size: they are assumed to show the same view.
    """
    height, width = image.shape[:2]
    step = max(1.0, max(height, width) / _COLUMNS)
    size = round(height / step), round(width / step)
    if min(size) < 4 * REACH:
        return None
    steps, known = _depth_edges(_reduced(depth, size))
    if known.mean() < _LEAST_KNOWN or known.sum() < _LEAST_CELLS or not steps.any():
        return None
    return Edges(_image_edges(image, size), steps, known, step)


def cross_correlations(pairs: Sequence[Edges]) -> NDArray[np.float64]:
    """(N, N): correlation of depth i with image j; NaN where their grids differ in shape."""
    scores = np.full((len(pairs), len(pairs)), np.nan)
    shapes = [pair.image.shape for pair in pairs]
    for shape in set(shapes):
        where = [index for index, other in enumerate(shapes) if other == shape]
        scores[np.ix_(where, where)] = _correlations(
            np.stack([pairs[index].depth for index in where]),
            np.stack([pairs[index].known for index in where]),
            np.stack([pairs[index].image for index in where]),
        )
    return scores


def flipped_correlation(pair: Edges, flip: tuple[int, ...]) -> float:
    """Return the correlation after flipping depth along axes: 1 upside down, 2 left to right."""
    depth, known = np.flip(pair.depth, flip), np.flip(pair.known, flip)
    return float(_correlations(depth[None], known[None], pair.image[None])[0, 0])


def shift_correlations(pair: Edges) -> NDArray[np.float64]:
    """(2 REACH + 1, 2 REACH + 1): the correlation at each shift, standardized over all shifts.

    It is in standard deviations, so that images with many edges do not outvote the others. The
    middle is no shift; at [REACH + 2, REACH] depth is two cells below the image.
    """
    inner = np.zeros(pair.known.shape, dtype=np.float64)
    inside = (slice(None), slice(REACH, -REACH), slice(REACH, -REACH))
    inner[inside] = pair.known[inside]  # what stays in the image at every shift
    depth, count = _centred(pair.depth, inner)
    image = pair.image.astype(np.float64)
    mean = _correlated(inner, image) / count
    variance = np.maximum(_correlated(inner, image**2) / count - mean**2, 1e-9)
    scatter = np.sqrt(np.maximum((depth**2).sum(axis=(1, 2), keepdims=True), 1e-9) * count)
    scores = (_correlated(depth, image) / (scatter * np.sqrt(variance))).mean(axis=0)
    scores = scores[::-1, ::-1]  # moving the image by s is moving depth by -s
    standing: NDArray[np.float64] = (scores - scores.mean()) / max(scores.std(), 1e-9)
    return standing


def _reduced(depth: FloatArray, size: tuple[int, int]) -> FloatArray:
    """Return the value in the middle of each cell; an average over an edge is no depth at all."""
    rows, columns = (
        ((np.arange(count) + 0.5) * length / count).astype(int)
        for length, count in zip(depth.shape, size, strict=True)
    )
    return np.asarray(depth[rows[:, None], columns])


def _depth_edges(depth: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    there = (depth > 0) & np.isfinite(depth)
    log_depth = np.log(np.where(there, depth, 1))
    steps = np.zeros((2, *depth.shape), dtype=np.float32)
    known = np.zeros(steps.shape, dtype=bool)
    steps[0, :, 1:-1] = np.abs(log_depth[:, 2:] - log_depth[:, :-2])
    known[0, :, 1:-1] = there[:, 2:] & there[:, 1:-1] & there[:, :-2]
    steps[1, 1:-1] = np.abs(log_depth[2:] - log_depth[:-2])
    known[1, 1:-1] = there[2:] & there[1:-1] & there[:-2]
    return np.minimum(steps, np.float32(_STEEPEST)) * known, known


def _image_edges(image: NDArray[np.uint8], size: tuple[int, int]) -> FloatArray:
    """Square roots keep a lamp or a window from outweighing everything else."""
    grey = Image.fromarray(image).convert("L").resize(size[::-1], Image.Resampling.BOX)
    down, across = np.gradient(np.asarray(grey, dtype=np.float32))
    return np.asarray(np.sqrt(np.abs(np.stack([across, down]))), dtype=np.float32)


def _correlations(
    depth: FloatArray, known: NDArray[np.bool_], image: FloatArray
) -> NDArray[np.float64]:
    """(N, M): mean over both directions of Pearson's correlation of depth i and image j.

    depth and known are (N, 2, H, W), image is (M, 2, H, W); only known cells of i count.
    """
    scores = np.zeros((len(depth), len(image)))
    for axis in range(2):
        mask = known[:, axis].reshape(len(depth), -1).astype(np.float32)  # (N, HW)
        steps, count = _centred(depth[:, axis].reshape(mask.shape)[:, None], mask[:, None])
        light = image[:, axis].reshape(len(image), -1)  # (M, HW)
        mean = _products(mask, light) / count[:, 0]
        variance = np.maximum(_products(mask, light**2) / count[:, 0] - mean**2, 1e-9)
        scatter = np.sqrt(np.maximum((steps**2).sum(axis=(1, 2)), 1e-9))[:, None]
        sums = _products(steps[:, 0].astype(np.float32), light)
        scores += sums / (scatter * np.sqrt(variance * count[:, 0])) / 2
    return scores


def _products(one: FloatArray, other: FloatArray) -> FloatArray:
    """one (N, P) times other (M, P) transposed.

    Not `@`: its threads wait for each other for seconds when the cores are busy.
    """
    return np.asarray(np.einsum("ip,jp->ij", one, other))


def _centred(
    values: NDArray[np.floating], mask: NDArray[np.floating]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values (N, H, W) less their mean over the mask, 0 outside it; and its cells (N, 1, 1)."""
    count = np.maximum(mask.sum(axis=(1, 2), keepdims=True, dtype=np.float64), 1)
    mean = (values * mask).sum(axis=(1, 2), keepdims=True) / count
    return (values - mean) * mask, count


def _correlated(still: NDArray[np.float64], moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of still(x) moved(x + s), both (2, H, W), for the shifts s up to REACH: (2, ., .)."""
    product = np.conj(np.fft.rfft2(still)) * np.fft.rfft2(moved)
    sums = np.fft.irfft2(product, s=still.shape[1:])
    window = 2 * REACH + 1
    return np.roll(sums, (REACH, REACH), axis=(1, 2))[:, :window, :window]
