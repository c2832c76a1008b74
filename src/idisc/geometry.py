"""Points, surface normals and meshes from depth maps.

Axes: x right, y down, z forward, metres. Depth that is not a finite number above 0 is missing.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.errors import InputError

FloatArray = NDArray[np.floating[Any]]

_BAND = 512  # rows of which normals are computed at a time
# A relative step of depth between neighbours from which they are on two surfaces. A road seen by
# KITTI's camera has smaller steps up to 60 m.
DEPTH_EDGE = 0.05
# For `is_between`: pixels on each side that count as "around", more than the ramp of an edge that a
# network predicts at a quarter of the resolution; and the relative step that noise reaches.
_AROUND, _STEEP = 12, 0.006
# For `plane_normals`: half of the window as a share of the width (7 of 640 pixels); the relative
# difference of inverse depth to the pixel in the first fit, and to the plane in the second.
FIT_REACH, _ON_SURFACE, _ON_PLANE = 0.011, 0.12, 0.03


class Mesh(NamedTuple):
    """Triangles that face the camera: counterclockwise as seen from it."""

    vertices: NDArray[np.float32]  # (V, 3) metres
    faces: NDArray[np.int32]  # (F, 3) rows of `vertices`
    pixels: NDArray[np.intp]  # (V,) where each vertex is in the flattened map


def is_present(depth: FloatArray) -> NDArray[np.bool_]:
    """Return where a depth map has a depth: a finite number above 0."""
    present: NDArray[np.bool_] = np.isfinite(depth) & (depth > 0)
    return present


def unproject(depth: FloatArray, camera: Camera) -> NDArray[np.float32]:
    """Map depth (H, W) to points (H, W, 3), both in metres; a depth of 0 gives the origin."""
    _check_size(depth, camera)
    across, down = _offsets(camera)
    points = np.empty((*depth.shape, 3), np.float32)
    points[..., 0] = across / camera.fx * depth
    points[..., 1] = down / camera.fy * depth
    points[..., 2] = depth
    return points


def normals_from_depth(
    depth: FloatArray, camera: Camera, edge: float = DEPTH_EDGE, pixels_per_feature: int = 1
) -> NDArray[np.float32]:
    """Compute unit normals (H, W, 3), which point to the camera, from depth (H, W) in metres.

    A wall seen from the front is (0, 0, -1). The inverse depth w of a plane is linear in the pixel
    coordinates, so the normal of a pixel follows from w and its two slopes. It is exact on planes
    and faces the camera by construction: normal . ray = -w. A slope is the mean of the steps to the
    two neighbours; a neighbour that is missing or across an edge (`edge`: relative step of depth)
    is ignored. The result is NaN where depth, or both neighbours along one axis, are missing.

    Bilinearly enlarged depth consists of patches `pixels_per_feature` wide, and its slope jumps
    between them. The slope is therefore averaged over a patch, twice, which also fills pixels whose
    own slope is lost at a blurred edge.
    """
    _check_size(depth, camera)
    halo = 2 * pixels_per_feature + 1  # rows that a normal depends on
    normals = np.empty((*depth.shape, 3), np.float32)
    for first in range(0, len(depth), _BAND):  # the memory of large pictures is bounded
        top, bottom = max(0, first - halo), min(len(depth), first + _BAND + halo)
        around = camera.cropped(top, 0, (bottom - top, depth.shape[1]))
        found = _normals_of_slopes(depth[top:bottom], around, edge, pixels_per_feature)
        normals[first : first + _BAND] = found[first - top :][:_BAND]
    return normals


def _normals_of_slopes(
    depth: FloatArray, camera: Camera, edge: float, pixels_per_feature: int
) -> NDArray[np.float32]:
    inverse = _inverse(depth)
    right, lower = _slope(inverse.T, edge).T, _slope(inverse, edge)  # 1/m for each pixel
    if pixels_per_feature > 1:
        right, lower = _smoothed(right, pixels_per_feature), _smoothed(lower, pixels_per_feature)
    return _normals_of_planes(inverse, right, lower, camera)


def plane_normals(
    depth: FloatArray, camera: Camera, fit_reach: float = FIT_REACH
) -> NDArray[np.float32]:
    """Compute unit normals (H, W, 3), which point to the camera, from measured depth (H, W).

    A plane is fitted to the surroundings of each pixel, which suppresses the noise of a sensor:
    least squares in inverse depth over the pixels that continue the surface (`_ON_PLANE`), twice.
    The surroundings reach `fit_reach` of the width to each side. The result is NaN where depth is
    missing or less than half of the surroundings lie on the plane.
    """
    _check_size(depth, camera)
    inverse = _inverse(depth).astype(np.float32)
    reach = max(1, round(fit_reach * depth.shape[1]))
    steps = np.unique(np.linspace(-reach, reach, 5).round().astype(int))
    padded = np.pad(inverse, reach, constant_values=np.nan)
    height, width = inverse.shape
    plane = [inverse, np.zeros_like(inverse), np.zeros_like(inverse)]  # a + b x + c y
    for tolerance in (_ON_SURFACE, _ON_PLANE):
        sums = [np.zeros_like(inverse) for _ in range(9)]
        limit = tolerance * plane[0]
        for y, x in itertools.product(steps.tolist(), steps.tolist()):
            w = padded[reach + y :, reach + x :][:height, :width]
            on = np.abs(w - (plane[0] + plane[1] * x + plane[2] * y)) < limit
            present, values = on.astype(np.float32), np.where(on, w, np.float32(0))
            for total, factor in zip(sums[:6], (1, x, y, x * x, x * y, y * y), strict=True):
                if factor:
                    total += factor * present
            for total, factor in zip(sums[6:], (1, x, y), strict=True):
                if factor:
                    total += factor * values
        enough = sums[0] > len(steps) ** 2 / 2
        plane = [np.where(enough, part, np.float32(np.nan)) for part in _fitted_plane(*sums)]
    middle, right, lower = plane
    return _normals_of_planes(middle, right, lower, camera)


def _normals_of_planes(
    inverse: FloatArray, right: FloatArray, lower: FloatArray, camera: Camera
) -> NDArray[np.float32]:
    """Return unit normals (H, W, 3) from inverse depth and its slopes in x and y, each (H, W)."""
    across, down = _offsets(camera)
    normals = np.stack(
        [-camera.fx * right, -camera.fy * lower, across * right + down * lower - inverse], axis=-1
    )
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    return normals.astype(np.float32)


def _fitted_plane(
    n: Any, x: Any, y: Any, xx: Any, xy: Any, yy: Any, w: Any, xw: Any, yw: Any
) -> Any:
    """Solve the least squares of w = a + b x + c y, given as sums, by Cramer's rule: a, b, c."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q, r = xx * yy - xy * xy, xy * y - x * yy, x * xy - xx * y
        s, t, u = n * yy - y * y, x * y - n * xy, n * xx - x * x
        determinant = n * p + x * q + y * r
        return (
            (p * w + q * xw + r * yw) / determinant,
            (q * w + s * xw + t * yw) / determinant,
            (r * w + t * xw + u * yw) / determinant,
        )


def mesh(depth: FloatArray, camera: Camera, edge: float = DEPTH_EDGE) -> Mesh:
    """Return the surface through the points of depth (H, W) in metres, cut at depth edges.

    Two neighbours are not connected if their depths differ by more than `edge` of the nearer one.
    Where one of four corners is cut off, the other three keep their triangle, so outlines stay
    sharp.
    """
    _check_size(depth, camera)
    across, down = _bridged(depth.T, edge).T, _bridged(depth, edge)  # (H, W - 1), (H - 1, W)
    top, bottom, left, right = across[:-1], across[1:], down[:, :-1], down[:, 1:]  # (H - 1, W - 1)
    upper_left, lower_right = top & left, bottom & right
    rest = ~(upper_left | lower_right)  # both halves along one diagonal, or one along the other
    index = np.arange(depth.size).reshape(depth.shape)
    # The corners of each square; clockwise: a b d c.
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]
    triangles = np.concatenate(
        [
            np.stack([first[kept], second[kept], third[kept]], axis=-1)
            for kept, (first, second, third) in (
                (upper_left, (a, c, b)),
                (lower_right, (d, b, c)),
                (rest & top & right, (b, a, d)),
                (rest & bottom & left, (c, d, a)),
            )
        ]
    )  # (F, 3)
    pixels, faces = np.unique(triangles, return_inverse=True)
    vertices = unproject(depth, camera).reshape(-1, 3)[pixels]
    return Mesh(vertices, faces.reshape(-1, 3).astype(np.int32), pixels)


def is_between(depth: FloatArray) -> NDArray[np.bool_]:
    """Return the pixels (H, W) between two surfaces, where a network blurs a depth edge.

    Inverse depth is linear on a plane, however steep, so a pixel belongs to an edge if inverse
    depth is steeper there than around it. Sharp edges lose one pixel on each side, blurred ones
    their whole ramp.
    """
    inverse = _inverse(depth)
    found = np.zeros(depth.shape, bool)
    for values, result in ((inverse, found), (inverse.T, found.T)):
        here, around = _steepness(values, 1), _steepness(values, _AROUND)
        result |= here > 1.25 * around + _STEEP * values  # NaN compares false
    return found


def thin(camera: Camera, longest: int) -> tuple[Camera, slice]:
    """Keep every n-th pixel, so that at most `longest` remain along the longer side.

    Return the camera of the smaller picture and the slice for rows and columns. Pixels are picked
    and not averaged: a mean across an edge is a depth that does not exist, and picked pixels lie
    exactly on the rays of the new camera.
    """
    step = math.ceil(max(camera.size) / longest)
    first = min(step // 2, min(camera.size) - 1)
    height, width = (len(range(first, length, step)) for length in camera.size)
    thinned = replace(
        camera,
        fx=camera.fx / step,
        fy=camera.fy / step,
        cx=(camera.cx - first) / step,
        cy=(camera.cy - first) / step,
        size=(height, width),
    )
    return thinned, slice(first, None, step)


def _inverse(depth: FloatArray) -> NDArray[np.float64]:
    """Return inverse depth in 1/m; NaN where depth is missing."""
    inverse = np.full(depth.shape, np.nan)
    np.divide(1.0, depth, out=inverse, where=is_present(depth))
    return inverse


def _bridged(depth: FloatArray, edge: float) -> NDArray[np.bool_]:
    """Return whether each row of a map (H, W) continues the surface of the next: (H - 1, W).

    The result is the same for depth and for its inverse: |1/a - 1/b| / min(1/a, 1/b) = |a - b| /
    min(a, b).
    """
    known = np.where(is_present(depth), depth, np.nan)
    above, below = known[:-1], known[1:]
    bridged: NDArray[np.bool_] = np.abs(below - above) <= edge * np.minimum(above, below)
    return bridged  # NaN compares false


def _steepness(inverse: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Return the absolute change of inverse depth (H, W) per row, over `reach` rows up and down.

    Where depth ends on one side, only the rows on the other side count.
    """
    here = np.arange(len(inverse))
    above, below = np.maximum(here - reach, 0), np.minimum(here + reach, len(here) - 1)
    both, back, ahead = (
        np.abs(inverse[last] - inverse[first])
        / np.where(last > first, last - first, np.nan)[:, None]
        for first, last in ((above, below), (above, here), (here, below))
    )
    return np.where(np.isnan(both), np.fmax(back, ahead), both)


def _slope(inverse: NDArray[np.float64], edge: float) -> NDArray[np.float64]:
    """Return the change of inverse depth (H, W) per row, from neighbours on the same surface."""
    step = np.where(_bridged(inverse, edge), np.diff(inverse, axis=0), np.nan)  # (H - 1, W)
    outside = np.full((1, inverse.shape[1]), np.nan)
    back, forward = np.concatenate([outside, step]), np.concatenate([step, outside])  # (H, W)
    mean = (back + forward) / 2
    return np.where(np.isnan(back), forward, np.where(np.isnan(forward), back, mean))


def _smoothed(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Average over a window twice, along both axes, which suppresses ripples of any period."""
    for _ in range(2):
        values = _mean_around(_mean_around(values, window).T, window).T
    return values


def _mean_around(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the mean over `window` rows around each of (H, W), ignoring NaN; NaN if all are."""
    present = ~np.isnan(values)
    rows = np.arange(len(values))
    first, last = np.maximum(rows - window // 2, 0), np.minimum(rows + window // 2 + 1, len(values))

    def sums(of: NDArray[np.float64]) -> NDArray[np.float64]:
        running = np.concatenate([np.zeros((1, of.shape[1])), np.cumsum(of, axis=0)])
        window: NDArray[np.float64] = running[last] - running[first]
        return window

    count = sums(present.astype(np.float64))
    mean = sums(np.where(present, values, 0.0)) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.nan)


def _offsets(camera: Camera) -> tuple[FloatArray, FloatArray]:
    """Return the distance in pixels from the optical axis, across (1, W) and down (H, 1)."""
    height, width = camera.size
    return np.arange(width)[None] - camera.cx, np.arange(height)[:, None] - camera.cy


def _check_size(depth: FloatArray, camera: Camera) -> None:
    if depth.shape != tuple(camera.size):
        raise InputError(
            "depth",
            f"its shape is {depth.shape}, and the camera is for {tuple(camera.size)}",
            "resize or crop the camera together with its picture",
        )
