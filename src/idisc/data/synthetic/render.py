"""Render a scene as an image with exact depth and normals.

A ray is expressed in the axes of a shape, in units of its half extents; then pixels box, ball and
tube is a unit one, and the parameter of the ray does not change. A camera ray has z = 1 in the axes
of the camera, so its parameter is the depth. It is computed in float64: float32 depth is exact.

Shading is Lambertian: ambient light, and lamps or a sun, the first of which casts shadows. The
linear light then becomes a photo with exposure, white balance, vignetting and noise. Arrays of the
image are (3, P) or (P,) for its P pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic.materials import Surface, noise
from idisc.data.synthetic.scene import Generator, Pose, Scene, Shape, rotation
from idisc.sizes import Size

FloatArray = NDArray[np.floating[Any]]
NEAREST = 0.02  # metres: anything nearer to the camera is not seen
_INFINITY = 1e4  # metres: where the sky is, for arithmetic
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)  # (8, 3)


@dataclass(frozen=True)
class Hits:
    """The nearest surface in each pixel."""

    depth: NDArray[np.float64]  # (H, W) metres; inf: nothing
    shape: NDArray[np.int32]  # (H, W) index of the shape; -1: nothing
    rays: NDArray[np.float64]  # (3, H, W) direction in the world, of length 1 along the axis


@dataclass(frozen=True, kw_only=True)
class Shot:
    """An image, its ground truth, and everything it was made from."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB
    depth: NDArray[np.float32]  # (H, W) metres along the optical axis; 0: sky
    normals: NDArray[np.float32]  # (H, W, 3) in camera axes, towards it; (0, 0, 0): sky
    scene: Scene
    camera: Camera
    pose: Pose


def camera_rays(camera: Camera, pose: Pose) -> NDArray[np.float64]:
    """Return a ray (3, H, W) through the centre of each pixel."""
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


def interval(
    shape: Shape, origin: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return where rays enter and leave a shape (H, W); near >= far if they miss it.

    The direction is (3, H, W), the origin (3,) or (3, H, W).
    """
    start = _to_local(shape, [o - c for o, c in zip(origin, shape.centre, strict=True)])
    step = _to_local(shape, direction)
    if shape.form == "ball":
        return _round(start, step)
    flat_axes = (0, 1, 2) if shape.form == "box" else (2,)
    intervals = [_slab(start[axis], step[axis]) for axis in flat_axes]
    if shape.form == "tube":
        intervals.append(_round(start[:2], step[:2]))
    nears, fars = zip(*intervals, strict=True)
    return np.maximum.reduce(nears), np.minimum.reduce(fars)


def _to_local(shape: Shape, vector: Any) -> list[FloatArray]:
    """Return a world vector (3, ...) in the axes of a shape, in units of its half extents."""
    sin, cos = math.sin(shape.yaw), math.cos(shape.yaw)
    x, y, z = vector
    x, y = (cos * x + sin * y, cos * y - sin * x) if shape.yaw else (x, y)
    return [x / shape.half[0], y / shape.half[1], z / shape.half[2]]


def _slab(start: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return where rays are between -1 and 1 along one axis."""
    inverse = 1 / np.where(step == 0, step.dtype.type(1e-12), step)
    middle, reach = -start * inverse, np.abs(inverse)
    return middle - reach, middle + reach


def _round(start: list[FloatArray], step: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return where rays are within a distance of 1 of the origin, over the given axes."""
    square = sum(d * d for d in step)
    along = sum(o * d for o, d in zip(start, step, strict=True))
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
    places = y / forward * camera.fy + camera.cy, x / forward * camera.fx + camera.cx
    ends = [
        np.clip([place.min() - 1, place.max() + 2], 0, length).astype(int)
        for place, length in zip(places, camera.size, strict=True)
    ]
    return slice(*ends[0]), slice(*ends[1])


def render(scene: Scene, camera: Camera, pose: Pose, hits: Hits, generator: Generator) -> Shot:
    """Render what `cast` has hit; exposure and noise are drawn from the generator."""
    index, rays = hits.shape.ravel(), hits.rays.reshape(3, -1)
    depth = np.minimum(hits.depth.ravel(), _INFINITY)
    points = np.array(pose.position)[:, None] + depth * rays
    normals, light = np.zeros_like(points), np.zeros(points.shape, np.float32)
    glow = np.zeros(len(index), np.float32)
    for number in np.unique(index[index >= 0]):
        shape, seen = scene.shapes[number], np.flatnonzero(index == number)
        normal, *places = _surface(shape, points[:, seen])
        cosine = -np.einsum("ip,ip->p", rays[:, seen], normal)
        cosine /= np.linalg.norm(rays[:, seen], axis=0)
        pixel = depth[seen] / camera.fx / np.sqrt(np.maximum(cosine, 0.15))
        surface = Surface(shape.material, *(a.astype(np.float32) for a in (*places, pixel)))
        stain = 0.86 + 0.24 * surface.noise(1.7, int(number) + scene.seed)
        light[:, seen] = surface.colours() * stain
        normals[:, seen], glow[seen] = normal, shape.material.glow
    light *= _irradiance(scene, points, normals, camera.size) + glow
    sky = index < 0
    light[:, sky] = _sky(scene, rays[:, sky])
    depth[sky] = 0
    return Shot(
        image=_as_photo(_smooth_edges(light.reshape(3, *camera.size), hits.shape), generator),
        depth=depth.reshape(camera.size).astype(np.float32),
        normals=(pose.axes @ normals).T.reshape(*camera.size, 3).astype(np.float32),
        scene=scene,
        camera=camera,
        pose=pose,
    )


def _surface(shape: Shape, points: FloatArray) -> list[FloatArray]:
    """Return, for points (3, P) on a shape, normals (3, P), u, v and the extents along them."""
    half, turn = np.array(shape.half)[:, None], rotation(shape.yaw)
    local = np.stack(_to_local(shape, points - np.array(shape.centre)[:, None]))
    pixels = np.arange(points.shape[1])
    if shape.form == "box":  # a point on a side has |x|, |y| or |z| = 1
        axis = np.abs(local).argmax(axis=0)
        normal = np.zeros_like(local)
        normal[axis, pixels] = np.sign(local[axis, pixels])
        metres = (1 + local) * half
        along, up = np.array([1, 0, 0])[axis], np.array([2, 2, 1])[axis]
        extents = 2 * half[along, 0], 2 * half[up, 0]
        return [turn @ normal, metres[along, pixels], metres[up, pixels], *extents]
    gradient = local / half
    if shape.form == "tube":
        lid = np.abs(local[2]) > np.hypot(local[0], local[1])
        gradient = gradient * np.where(lid, [[0], [0], [1]], [[1], [1], [0]])
    u = (np.arctan2(local[1], local[0]) + np.pi) * half[0]
    extents = (np.full(len(pixels), 2 * np.pi * half[0]), np.full(len(pixels), 2 * half[2]))
    normal = turn @ (gradient / np.linalg.norm(gradient, axis=0))
    return [normal, u, (1 + local[2]) * half[2], *extents]


def _irradiance(scene: Scene, points: FloatArray, normals: FloatArray, size: Size) -> FloatArray:
    """Return the light (3, P) that falls on each point."""
    points, normals = points.astype(np.float32), normals.astype(np.float32)
    if scene.room is None:  # darker at the foot of walls
        openness = 1 - 0.3 * np.clip(1 - points[2] / 1.5, 0, 1) ** 2
    else:  # darker in corners
        half = _column(scene.room) / 2
        inward = half - np.abs(points - half * [[0], [0], [1]])  # metres to the walls
        openness = (1 - 0.3 * np.maximum(1 - inward / 0.45, 0) ** 2).prod(axis=0)
    total: FloatArray = _column(scene.ambient) * (openness * (0.8 + 0.2 * normals[2]))
    for number, light in enumerate(scene.lights):
        to_light = _column(light.position) - points
        square = np.einsum("ip,ip->p", to_light, to_light)
        cosine = np.einsum("ip,ip->p", to_light, normals) / np.sqrt(np.maximum(square, 1e-6))
        strength = np.maximum(cosine, 0) / (1 + square * np.float32(3 / light.reach**2))
        if number == 0:
            grids = (array.reshape(3, *size) for array in (points, to_light))
            strength = strength * _unshaded(scene, *grids)
        total = total + _column(light.colour) * strength
    return total


def _column(values: tuple[float, float, float]) -> FloatArray:
    return np.array(values, np.float32)[:, None]


def _unshaded(scene: Scene, points: FloatArray, to_light: FloatArray) -> FloatArray:
    """Return (P,): 1 where no shape is between a point (3, H, W) and the light, 0 in shadow.

    Only a quarter of the rays is cast, so that shadows have soft edges.
    """
    size, points, to_light = points.shape[1:], points[:, ::2, ::2], to_light[:, ::2, ::2]
    gap = 0.01 / np.sqrt((to_light**2).sum(axis=0))  # 1 cm: a surface casts no shadow on itself
    reached = np.ones(to_light.shape[1:], bool)
    for shape in scene.shapes:
        near, far = interval(shape, points, to_light)
        reached &= (np.maximum(near, gap) >= far) | (near > 1)
    full = reached.astype(np.float32).repeat(2, axis=0).repeat(2, axis=1)[: size[0], : size[1]]
    return _blurred(full[None]).ravel()


def _sky(scene: Scene, rays: FloatArray) -> FloatArray:
    """Return colours (3, P) between those of the horizon and the zenith, with clouds."""
    x, y, z = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
    low, high = (_column(colour) for colour in scene.sky)
    sky = low + (high - low) * np.sqrt(np.clip(z, 0, 1))
    height = np.maximum(z, 0.03) + np.float32(0.1)
    coarse, fine = (noise(x / height * f, y / height * f, scene.seed) for f in (1.0, 2.7))
    clouds = 0.7 * np.clip((0.6 * coarse + 0.4 * fine) * 2.5 - 1.1, 0, 1)
    return np.asarray(sky + (1.1 - sky) * clouds)


def _blurred(values: FloatArray) -> FloatArray:
    """Return the mean of (C, H, W) with the weights 1 2 1 along both axes."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    return np.asarray((rows[..., :-2] + 2 * rows[..., 1:-1] + rows[..., 2:]) / 16)


def _smooth_edges(light: FloatArray, shape: NDArray[np.int32]) -> FloatArray:
    """Give pixels on a border between two shapes the mean around them, as on a sensor."""
    across, down = np.diff(shape, axis=1, append=shape[:, -1:]), np.diff(shape, axis=0)
    border = (across != 0) | (np.roll(across, 1, axis=1) != 0)
    border[:-1] |= down != 0
    border[1:] |= down != 0
    return np.where(border, _blurred(light), light)


def _as_photo(light: FloatArray, generator: Generator) -> NDArray[np.uint8]:
    """Return a photo (H, W, 3) of linear light (3, H, W), with vignetting and noise."""
    _, height, width = light.shape
    target = generator.uniform(0.16, 0.3)  # mean of the linear image; 0.18 is photographers' grey
    balance = np.exp(generator.normal(0, 0.07, (3, 1, 1)))
    gain = (balance * target / max(float(np.minimum(light, 2).mean()), 1e-4)).astype(np.float32)
    rows, columns = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)[None]
    exposed = light * gain * (1 - generator.uniform(0, 0.18) * (rows**2 + columns**2))
    developed = 255 * np.sqrt(1 - np.exp(-1.6 * exposed))  # a shoulder, then gamma 2
    developed += generator.normal(0, generator.uniform(1, 4), light.shape)
    pixels = np.clip(developed + 0.5, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(pixels.transpose(1, 2, 0))
