"""Rays against shapes: which surface each pixel sees, and what a light reaches.

All shapes are convex, so a ray is inside one from `near` to `far` or never. A camera ray has a
direction with z = 1 in the camera's axes: its parameter is the depth, without any conversion.
What the camera sees is computed in float64, which leaves the float32 depth exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic.scenes import (
    Box,
    Cylinder,
    Pose,
    Scene,
    Shape,
    Sphere,
    half_extent,
    turn,
)

FloatArray = NDArray[np.floating[Any]]
Triple = tuple[FloatArray, FloatArray, FloatArray]
Window = tuple[slice, slice]
Interval = tuple[FloatArray, FloatArray]

WHOLE: Window = (slice(None), slice(None))
NEAREST = 0.02  # metres: what is nearer to the camera is not seen
_LEVEL = 1e-12  # in place of a direction of exactly 0, which has no inverse
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)  # (8, 3)


@dataclass(frozen=True)
class _Turned:
    """Rays in axes turned about the vertical, with what the slab test needs of them."""

    origin: Triple
    inverse: Triple  # 1 / direction
    size: Triple  # |1 / direction|


class Rays:
    """origin + t direction; both x, y, z, each (H, W), an origin that all share 0-dimensional."""

    def __init__(self, origin: Sequence[FloatArray], direction: Sequence[FloatArray]) -> None:
        self.origin: Triple = (origin[0], origin[1], origin[2])
        self.direction: Triple = (direction[0], direction[1], direction[2])
        self.flat = direction[0] ** 2 + direction[1] ** 2  # squared speed over the ground
        self.square = self.flat + direction[2] ** 2
        self._turned: dict[float, _Turned] = {}

    def turned(self, yaw: float) -> _Turned:
        """The rays in the axes of a box of this yaw; furniture shares few of them."""
        if yaw not in self._turned:
            sin, cos = math.sin(yaw), math.cos(yaw)
            (ox, oy, oz), (x, y, z) = self.origin, self.direction
            directions = (cos * x + sin * y, cos * y - sin * x, z)
            first, second, third = (1 / np.where(d == 0, _LEVEL, d) for d in directions)
            self._turned[yaw] = _Turned(
                (cos * ox + sin * oy, cos * oy - sin * ox, oz),
                (first, second, third),
                (np.abs(first), np.abs(second), np.abs(third)),
            )
        return self._turned[yaw]


@dataclass(frozen=True)
class Hits:
    """What the camera sees."""

    depth: NDArray[np.float64]  # (H, W) metres; inf: nothing
    shape: NDArray[np.int32]  # (H, W) index of the shape; -1: nothing
    rays: Rays


def camera_rays(camera: Camera, pose: Pose) -> Rays:
    """A ray through the centre of each pixel."""
    height, width = camera.size
    across = ((np.arange(width) - camera.cx) / camera.fx)[None]  # (1, W)
    down = ((np.arange(height) - camera.cy) / camera.fy)[:, None]  # (H, 1)
    right, below, forward = pose.axes
    direction = [across * right[i] + down * below[i] + forward[i] for i in range(3)]
    return Rays([np.asarray(value) for value in pose.position], direction)


def cast(scene: Scene, camera: Camera, pose: Pose) -> Hits:
    """The nearest surface in each pixel."""
    rays = camera_rays(camera, pose)
    depth = np.full(camera.size, np.inf)
    index = np.full(camera.size, -1, np.int32)
    windows = _windows(scene.shapes, camera, pose)
    for number, (shape, window) in enumerate(zip(scene.shapes, windows, strict=True)):
        if window is None:
            continue
        near, far = interval(shape, rays, window)
        seen = near < far
        surface = far if isinstance(shape, Box) and shape.hollow else near
        seen &= surface > NEAREST
        seen &= surface < depth[window]
        np.copyto(depth[window], surface, where=seen)
        np.copyto(index[window], number, where=seen)
    return Hits(depth, index, rays)


def lit(scene: Scene, points: FloatArray, light: Sequence[float]) -> NDArray[np.bool_]:
    """(H, W) of points (3, H, W): is there a straight way to the light?"""
    start = points.astype(np.float32)  # enough for a shadow
    rays = Rays([*start], [place - axis for place, axis in zip(light, start, strict=True)])
    gap = 0.01 / np.sqrt(rays.square)  # a centimetre of the way: a surface does not shade itself
    reached = np.ones(points.shape[1:], bool)
    for shape in scene.shapes:
        if shape.shadow and not (isinstance(shape, Box) and shape.hollow):
            near, far = interval(shape, rays, WHOLE)
            reached &= (np.maximum(near, gap) >= far) | (near > 1)
    return reached


def interval(shape: Shape, rays: Rays, window: Window) -> Interval:
    """From where to where each ray of a window is inside a shape; near >= far if it never is."""
    if isinstance(shape, Box):
        local = rays.turned(shape.yaw)
        centre = turn(shape.centre, -shape.yaw)
        first = _slab(local, 0, centre[0], shape.half[0], window)
        second = _slab(local, 1, centre[1], shape.half[1], window)
        third = _slab(local, 2, centre[2], shape.half[2], window)
        return _both(_both(first, second), third)
    if isinstance(shape, Cylinder):
        upright = _slab(rays.turned(0.0), 2, shape.centre[2], shape.height / 2, window)
        return _both(_round(shape, rays, window, axes=2), upright)
    return _round(shape, rays, window, axes=3)


def _slab(local: _Turned, axis: int, middle: float, half: float, window: Window) -> Interval:
    """Between two parallel planes."""
    inverse = local.inverse[axis][window]
    centre = (middle - _part(local.origin[axis], window)) * inverse
    reach = half * local.size[axis][window]
    return centre - reach, centre + reach


def _round(shape: Sphere | Cylinder, rays: Rays, window: Window, axes: int) -> Interval:
    """Within the radius in space (3 axes), or of the upright line through the centre (2 axes)."""
    way: FloatArray | float = 0.0
    distance: FloatArray | float = 0.0
    for axis in range(axes):
        apart = shape.centre[axis] - _part(rays.origin[axis], window)
        way = way + apart * rays.direction[axis][window]
        distance = distance + apart * apart
    square = (rays.flat if axes == 2 else rays.square)[window]
    root = way * way - square * (distance - shape.radius**2)
    half = np.sqrt(np.maximum(root, 0))
    near, far = (way - half) / square, (way + half) / square
    return near, np.where(root > 0, far, -np.inf)


def _both(one: Interval, other: Interval) -> Interval:
    return np.maximum(one[0], other[0], out=one[0]), np.minimum(one[1], other[1], out=one[1])


def _part(values: FloatArray, window: Window) -> FloatArray:
    return values[window] if np.ndim(values) else values


def _windows(shapes: Sequence[Shape], camera: Camera, pose: Pose) -> list[Window | None]:
    """The part of the picture in which each shape may be seen; None if in no part."""
    centre = np.array([shape.centre for shape in shapes])[:, None]  # (N, 1, 3)
    yaw = np.array([shape.yaw if isinstance(shape, Box) else 0.0 for shape in shapes])[:, None]
    local = np.array([half_extent(shape) for shape in shapes])[:, None] * _CORNERS  # (N, 8, 3)
    sin, cos = np.sin(yaw), np.cos(yaw)
    corners = np.stack(
        [
            cos * local[..., 0] - sin * local[..., 1],
            sin * local[..., 0] + cos * local[..., 1],
            local[..., 2],
        ],
        axis=-1,
    )  # (N, 8, 3)
    seen = (corners + centre - pose.position) @ pose.axes.T
    forward = seen[..., 2]
    height, width = camera.size
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = seen[..., 0] / forward * camera.fx + camera.cx
        rows = seen[..., 1] / forward * camera.fy + camera.cy
    behind, ahead = (forward <= NEAREST).any(axis=1), (forward > NEAREST).any(axis=1)
    found: list[Window | None] = []
    for number in range(len(shapes)):
        if behind[number]:  # its picture has no end on one side
            found.append(WHOLE if ahead[number] else None)
            continue
        window = _slice(rows[number], height), _slice(columns[number], width)
        found.append(window if all(part.start < part.stop for part in window) else None)
    return found


def _slice(places: FloatArray, length: int) -> slice:
    first, last = math.floor(places.min()), math.ceil(places.max()) + 1
    return slice(max(first, 0), max(min(last, length), 0))
