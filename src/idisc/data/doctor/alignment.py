"""Correlation between the edges of depth and the edges of the image, for a pair and its shifts.

Where depth jumps, colour mostly changes too. Both are reduced to about 160 columns and compared by
the correlation of their edge strengths, horizontally and vertically. On real pairs (NYU, SUN RGB-D,
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

MAX_SHIFT = 12
"""Largest shift of a depth map that is tried, in cells."""
_MAX_COLUMNS = 160  # of the grid: averages sensor noise away, but not a shift of 1 %
_MIN_KNOWN = 0.3  # share of the depth map; annotated KITTI has 0.2, Kinect 0.67
_MIN_CELLS = 200  # with known depth, below which a correlation is meaningless
_MAX_STEP = 0.3  # in log depth over two cells; steeper edges count the same


@dataclass(frozen=True)
class Edges:
    """Edge strengths of one pair on a common grid; the first axis is (across, down).

    They are scaled so that the sum of depth * image is Pearson's correlation, averaged over both
    directions.
    """

    image: FloatArray  # (2, H, W), of mean 0 and variance 1
    depth: FloatArray  # (2, H, W), of mean 0 where depth is known, and 0 elsewhere
    pixels_per_cell: float  # of the image


def find_edges(image: NDArray[np.uint8], depth: FloatArray) -> Edges | None:
    """Return the edges of an image (H, W, 3) and its depth (Hd, Wd); None if it is too sparse.

    The two may differ in size: they are assumed to show the same view.
    """
    height, width = image.shape[:2]
    cell = max(1.0, max(height, width) / _MAX_COLUMNS)  # pixels
    size = round(height / cell), round(width / cell)
    if min(size) < 4 * MAX_SHIFT:
        return None
    steps, known = _depth_edges(depth, size)
    if known.mean() < _MIN_KNOWN or known.sum() < _MIN_CELLS or not steps.any():
        return None
    count = np.maximum(known.sum(axis=(1, 2), keepdims=True), 1)
    centred = (steps - steps.sum(axis=(1, 2), keepdims=True) / count) * known
    norm = np.sqrt((centred**2).sum(axis=(1, 2), keepdims=True) * count)
    scaled = (centred / np.maximum(norm, 1e-9) / 2).astype(np.float32)
    return Edges(_image_edges(image, size), scaled, cell)


def cross_correlations(pairs: Sequence[Edges]) -> NDArray[np.float64]:
    """Return (N, N): correlation of depth i with image j; NaN where their grids differ in shape."""
    scores = np.full((len(pairs), len(pairs)), np.nan)
    for shape in {pair.image.shape for pair in pairs}:
        indices = [index for index, pair in enumerate(pairs) if pair.image.shape == shape]
        depths = np.stack([pairs[index].depth.ravel() for index in indices])
        images = np.stack([pairs[index].image.ravel() for index in indices])
        # Not `@`: its threads wait for each other for seconds when the cores are busy.
        scores[np.ix_(indices, indices)] = np.einsum("ip,jp->ij", depths, images)
    return scores


def flipped_correlation(pair: Edges, flip: tuple[int, ...]) -> float:
    """Return the correlation after flipping depth along axes: 1 upside down, 2 left to right."""
    return float((np.flip(pair.depth, flip) * pair.image).sum())


def shift_correlations(pair: Edges) -> NDArray[np.float64]:
    """Return the correlation at each shift (2 MAX_SHIFT + 1, 2 MAX_SHIFT + 1), standardized.

    It is in standard deviations, so that images with many edges do not outweigh the others. The
    middle is no shift; two rows below it, depth is two cells below the image.
    """
    inner = np.zeros(pair.depth.shape)
    inside = (slice(None), slice(MAX_SHIFT, -MAX_SHIFT), slice(MAX_SHIFT, -MAX_SHIFT))
    inner[inside] = pair.depth[inside]  # stays in the image at every shift
    spectrum = np.conj(np.fft.rfft2(inner)) * np.fft.rfft2(pair.image)
    scores = np.fft.irfft2(spectrum, s=inner.shape[1:]).sum(axis=0)  # sum of depth(x) image(x + s)
    count = 2 * MAX_SHIFT + 1
    scores = np.roll(scores, (MAX_SHIFT, MAX_SHIFT), axis=(0, 1))[:count, :count]
    scores = scores[::-1, ::-1]  # moving the image by s is moving depth by -s
    return np.asarray((scores - scores.mean()) / max(scores.std(), 1e-9))


def _depth_edges(depth: FloatArray, size: tuple[int, int]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return steps of log depth (2, H, W) over two cells, 0 where unknown, and where known."""
    rows, columns = (  # the middle of each cell: an average over an edge is no depth at all
        ((np.arange(count) + 0.5) * length / count).astype(int)
        for length, count in zip(depth.shape, size, strict=True)
    )
    depth = depth[rows[:, None], columns]
    valid = (depth > 0) & np.isfinite(depth)
    log_depth = np.log(np.where(valid, depth, 1))
    steps, known = np.zeros((2, *size), np.float32), np.zeros((2, *size), bool)
    steps[0, :, 1:-1] = np.abs(log_depth[:, 2:] - log_depth[:, :-2])
    known[0, :, 1:-1] = valid[:, 2:] & valid[:, 1:-1] & valid[:, :-2]
    steps[1, 1:-1] = np.abs(log_depth[2:] - log_depth[:-2])
    known[1, 1:-1] = valid[2:] & valid[1:-1] & valid[:-2]
    return np.minimum(steps, np.float32(_MAX_STEP)) * known, known


def _image_edges(image: NDArray[np.uint8], size: tuple[int, int]) -> FloatArray:
    grey = Image.fromarray(image).convert("L").resize(size[::-1], Image.Resampling.BOX)
    down, across = np.gradient(np.asarray(grey, dtype=np.float32))
    # Square roots keep a lamp or a window from outweighing everything else.
    edges = np.sqrt(np.abs(np.stack([across, down])))
    centred = edges - edges.mean(axis=(1, 2), keepdims=True)
    return np.asarray(centred / np.maximum(edges.std(axis=(1, 2), keepdims=True), 1e-6), np.float32)
