"""Rays against shapes: which shape each pixel shows, and what a light reaches.

A ray is expressed in the axes of a shape, in units of its half extents; then every box, ball and
tube is a unit one, and the parameter of the ray does not change. A camera ray has z = 1 in the axes
of the camera, so its parameter is the depth. It is computed in float64: float32 depth is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic.scenes import Pose, Scene, Shape, rotation

FloatArray = NDArray[np.floating[Any]]
NEAREST = 0.02  # metres: anything nearer to the camera is not seen
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)  # (8, 3)


@dataclass(frozen=True)
class Hits:
    """What the camera sees."""

    depth: NDArray[np.float64]  # (H, W) metres; inf: nothing
    shape: NDArray[np.int32]  # (H, W) index of the shape; -1: nothing
    rays: NDArray[np.float64]  # (3, H, W) direction in the world, of length 1 along the axis


def camera_rays(camera: Camera, pose: Pose) -> NDArray[np.float64]:
    """(3, H, W): a ray through the centre of each pixel."""
    rows, columns = np.indices(camera.size)
    across, down = (columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy
    right, below, forward = pose.axes
    return np.stack([across * right[i] + down * below[i] + forward[i] for i in range(3)])


def cast(scene: Scene, camera: Camera, pose: Pose) -> Hits:
    """Find the nearest surface in each pixel."""
    rays, axes, origin = camera_rays(camera, pose), pose.axes, np.array(pose.position)
    depth = np.full(camera.size, np.inf)
    index = np.full(camera.size, -1, np.int32)
    for number, shape in enumerate(scene.shapes):
        window = _window(shape, camera, origin, axes)
        near, far = interval(shape, origin, rays[:, window[0], window[1]])
        seen = (near < far) & (near > NEAREST) & (near < depth[window])
        np.copyto(depth[window], near, where=seen)
        np.copyto(index[window], number, where=seen)
    return Hits(depth, index, rays)


def is_lit(scene: Scene, points: FloatArray, light: FloatArray) -> NDArray[np.bool_]:
    """(H, W): whether a straight line leads from points (3, H, W) to the light (3,)."""
    start = points.astype(np.float32)  # precise enough for a shadow
    way = light.astype(np.float32)[:, None, None] - start
    gap = 0.01 / np.sqrt((way**2).sum(axis=0))  # a centimetre: surfaces do not shade themselves
    reached = np.ones(points.shape[1:], bool)
    for shape in scene.shapes:
        if shape.shadow:
            near, far = interval(shape, start, way)
            reached &= (np.maximum(near, gap) >= far) | (near > 1)
    return reached


def interval(
    shape: Shape, origin: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return where rays enter and leave a shape (H, W); near >= far if they miss it.

    The direction is (3, H, W), the origin (3,) or (3, H, W).
    """
    start = to_local(shape, [o - c for o, c in zip(origin, shape.centre, strict=True)])
    way = to_local(shape, direction)
    if shape.form == "ball":
        return _round(start, way)
    slabs = [_slab(start[axis], way[axis]) for axis in (range(3) if shape.form == "box" else (2,))]
    if shape.form == "tube":
        slabs.append(_round(start[:2], way[:2]))
    nears, fars = zip(*slabs, strict=True)
    return np.maximum.reduce(nears), np.minimum.reduce(fars)


def to_local(shape: Shape, vector: Any) -> list[FloatArray]:
    """Return a world vector (3, ...) in the axes of a shape, in units of its half extents."""
    sin, cos = math.sin(shape.yaw), math.cos(shape.yaw)
    x, y, z = vector
    x, y = (cos * x + sin * y, cos * y - sin * x) if shape.yaw else (x, y)
    return [x / shape.half[0], y / shape.half[1], z / shape.half[2]]


def _slab(start: FloatArray, way: FloatArray) -> tuple[FloatArray, FloatArray]:
    inverse = 1 / np.where(way == 0, way.dtype.type(1e-12), way)
    middle, reach = -start * inverse, np.abs(inverse)
    return middle - reach, middle + reach


def _round(start: list[FloatArray], way: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Within a distance of 1, over as many axes as are given."""
    square = sum(d * d for d in way)
    along = sum(o * d for o, d in zip(start, way, strict=True))
    root = along * along - square * (sum(o * o for o in start) - 1)
    half = np.sqrt(np.maximum(root, 0))
    far = np.where(root > 0, (half - along) / square, -np.inf)
    return np.asarray((-half - along) / square), far


def _window(
    shape: Shape, camera: Camera, origin: FloatArray, axes: FloatArray
) -> tuple[slice, slice]:
    """Return the part of the image in which a shape may be seen; empty if it cannot be seen."""
    corners = _CORNERS * shape.half @ rotation(shape.yaw).T + shape.centre
    x, y, forward = ((corners - origin) @ axes.T).T  # (8,) each
    if (forward <= NEAREST).any():  # its projection is unbounded
        whole = slice(None if (forward > NEAREST).any() else 0)
        return whole, whole
    return (
        _slice(y / forward * camera.fy + camera.cy, camera.size[0]),
        _slice(x / forward * camera.fx + camera.cx, camera.size[1]),
    )


def _slice(places: FloatArray, length: int) -> slice:
    first, last = np.clip([places.min() - 1, places.max() + 2], 0, length)
    return slice(int(first), int(last))
