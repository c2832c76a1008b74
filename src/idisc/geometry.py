"""From depth to shape: the points of a depth map and the normals of the surface they lie on.

Axes: x right, y down, z forward, metres. A depth that is not a finite number above 0 is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.errors import InputError

FloatArray = NDArray[np.floating[Any]]

# A step to the next pixel of more than this share of the nearer depth is an edge between two
# surfaces. A road seen by KITTI's camera keeps below it up to 60 m.
DEPTH_EDGE = 0.05


def unproject(depth: FloatArray, camera: Camera) -> NDArray[np.float32]:
    """depth (H, W) in metres -> points (H, W, 3) in metres; a depth of 0 gives the origin."""
    _check_size(depth, camera)
    across, down = _offsets(camera)
    points = np.empty((*depth.shape, 3), np.float32)
    points[..., 0] = across / camera.fx * depth
    points[..., 1] = down / camera.fy * depth
    points[..., 2] = depth
    return points


def normals_from_depth(
    depth: FloatArray, camera: Camera, edge: float = DEPTH_EDGE
) -> NDArray[np.float32]:
    """depth (H, W) in metres -> unit normals (H, W, 3) that point to the camera.

    A wall seen from the front is (0, 0, -1). Inverse depth w of a plane is linear in the pixel
    coordinates, so a pixel's normal follows from w and its two slopes, exactly on planes, and
    faces the camera by construction: normal . ray = -w. A slope is the mean of the steps to the
    two neighbours; a neighbour that is missing or across an edge (`edge`: relative step of depth)
    is left out. NaN where depth, or both neighbours along one axis, are missing.
    """
    _check_size(depth, camera)
    present = np.isfinite(depth) & (depth > 0)
    inverse = np.full(depth.shape, np.nan)  # 1/m
    np.divide(1.0, depth, out=inverse, where=present)
    right, lower = _slope(inverse.T, edge).T, _slope(inverse, edge)  # 1/m for each pixel
    across, down = _offsets(camera)
    normals = np.stack(
        [-camera.fx * right, -camera.fy * lower, across * right + down * lower - inverse], axis=-1
    )  # (H, W, 3)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    return normals.astype(np.float32)


def _slope(inverse: NDArray[np.float64], edge: float) -> NDArray[np.float64]:
    """Change of inverse depth (H, W) from row to row, by the neighbours on the same surface."""
    above, below = inverse[:-1], inverse[1:]
    step = below - above  # (H - 1, W)
    step[~(np.abs(step) <= edge * np.minimum(above, below))] = np.nan  # NaN compares false
    outside = np.full((1, inverse.shape[1]), np.nan)
    back, forward = np.concatenate([outside, step]), np.concatenate([step, outside])  # (H, W)
    mean = (back + forward) / 2
    return np.where(np.isnan(back), forward, np.where(np.isnan(forward), back, mean))


def _offsets(camera: Camera) -> tuple[FloatArray, FloatArray]:
    """Pixels from the optical axis, across (1, W) and down (H, 1)."""
    height, width = camera.size
    return np.arange(width)[None] - camera.cx, np.arange(height)[:, None] - camera.cy


def _check_size(depth: FloatArray, camera: Camera) -> None:
    if depth.shape != tuple(camera.size):
        raise InputError(
            f"depth of shape {depth.shape} with a camera for {tuple(camera.size)}; "
            "resize or crop the camera together with its picture"
        )
