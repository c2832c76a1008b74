"""A scene and a camera -> an image with exact depth and normals.

Shading is Lambertian: ambient light, and lamps or a sun, the first of which casts shadows. The film
adds exposure, white balance, vignetting and noise. Only the geometry is physically exact.

Arrays of the image are (3, P) or (P,) for its P pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic import casting, textures
from idisc.data.synthetic.casting import Hits
from idisc.data.synthetic.scenes import Pose, Scene, Shape, rotation
from idisc.sizes import Size

FloatArray = NDArray[np.floating[Any]]
_INFINITY = 1e4  # metres: where the sky is, for arithmetic


@dataclass(frozen=True)
class Rendered:
    """An image and its ground truth."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB
    depth: NDArray[np.float32]  # (H, W) metres along the optical axis; 0: sky
    normals: NDArray[np.float32]  # (H, W, 3) in camera axes, towards it; (0, 0, 0): sky


def render(
    scene: Scene,
    camera: Camera,
    pose: Pose,
    generator: np.random.Generator,
    hits: Hits | None = None,
) -> Rendered:
    """Render an image of `camera.size`; the generator is for the film (exposure, noise).

    Rays that have been cast already can be passed as `hits`.
    """
    hits = hits or casting.cast(scene, camera, pose)
    index, rays = hits.shape.ravel(), hits.rays.reshape(3, -1)
    depth = np.minimum(hits.depth.ravel(), _INFINITY)
    points = np.array(pose.position)[:, None] + depth * rays
    normals, albedo = np.zeros_like(points), np.zeros(points.shape, np.float32)
    glow = np.zeros(len(index), np.float32)
    for number in np.unique(index[index >= 0]):
        shape, seen = scene.shapes[number], np.flatnonzero(index == number)
        normal, *places = _surface(shape, points[:, seen])
        slant = -np.einsum("ip,ip->p", rays[:, seen], normal)
        slant /= np.linalg.norm(rays[:, seen], axis=0)
        pixel = depth[seen] / camera.fx / np.sqrt(np.maximum(slant, 0.15))
        surface = textures.Surface(
            shape.material, *(place.astype(np.float32) for place in (*places, pixel))
        )
        stain = 0.86 + 0.24 * surface.noise(1.7, int(number) + scene.seed)
        albedo[:, seen] = textures.TEXTURES[shape.material.texture](surface) * stain
        normals[:, seen], glow[seen] = normal, shape.material.glow
    light = albedo * (_irradiance(scene, points, normals, hits) + glow)
    sky = index < 0
    light[:, sky] = _sky(scene, rays[:, sky])
    depth[sky] = 0
    smooth = _smooth_edges(light.reshape(3, *camera.size), hits.shape)
    return Rendered(
        _film(smooth, generator),
        depth.reshape(camera.size).astype(np.float32),
        (pose.axes @ normals).T.reshape(*camera.size, 3).astype(np.float32),
    )


def _surface(shape: Shape, points: FloatArray) -> list[FloatArray]:
    """Of points (3, P) on a shape: normals (3, P); u, v, and the extents along them, (P,) each."""
    half, turn = np.array(shape.half)[:, None], rotation(shape.yaw)
    local = np.stack(casting.to_local(shape, points - np.array(shape.centre)[:, None]))
    every = np.arange(points.shape[1])
    if shape.form == "box":  # a point on a side has |x|, |y| or |z| = 1
        axis = np.abs(local).argmax(axis=0)
        normal = np.zeros_like(local)
        normal[axis, every] = np.sign(local[axis, every])
        metres = (1 + local) * half
        along, up = np.array([1, 0, 0])[axis], np.array([2, 2, 1])[axis]
        extents = 2 * half[along, 0], 2 * half[up, 0]
        return [turn @ normal, metres[along, every], metres[up, every], *extents]
    gradient = local / half
    if shape.form == "tube":
        lid = np.abs(local[2]) > np.hypot(local[0], local[1])
        gradient = gradient * np.where(lid, [[0], [0], [1]], [[1], [1], [0]])
    u = (np.arctan2(local[1], local[0]) + np.pi) * half[0]
    extents = (np.full(len(every), 2 * np.pi * half[0]), np.full(len(every), 2 * half[2]))
    normal = turn @ (gradient / np.linalg.norm(gradient, axis=0))
    return [normal, u, (1 + local[2]) * half[2], *extents]


def _irradiance(scene: Scene, points: FloatArray, normals: FloatArray, hits: Hits) -> FloatArray:
    """Light (3, P) that falls on each point."""
    points, normals = points.astype(np.float32), normals.astype(np.float32)
    if scene.room is None:  # darker at the foot of walls
        openness = 1 - 0.3 * np.clip(1 - points[2] / 1.5, 0, 1) ** 2
    else:  # darker in corners
        half = _column(scene.room) / 2
        inward = half - np.abs(points - half * [[0], [0], [1]])  # metres to the walls
        openness = (1 - 0.3 * np.maximum(1 - inward / 0.45, 0) ** 2).prod(axis=0)
    total: FloatArray = _column(scene.ambient) * (openness * (0.8 + 0.2 * normals[2]))
    for number, light in enumerate(scene.lights):
        way = _column(light.position) - points
        square = np.einsum("ip,ip->p", way, way)
        cosine = np.einsum("ip,ip->p", way, normals) / np.sqrt(np.maximum(square, 1e-6))
        strength = np.maximum(cosine, 0) / (1 + square * np.float32(3 / light.reach**2))
        if number == 0:
            strength = strength * _shadow(scene, points, hits.shape.shape)
        total = total + _column(light.colour) * strength
    return total


def _column(values: tuple[float, float, float]) -> FloatArray:
    return np.array(values, np.float32)[:, None]


def _shadow(scene: Scene, points: FloatArray, size: Size) -> FloatArray:
    """(P,): 1 in the first light, 0 in its shadow; a quarter of the rays, so edges are soft."""
    coarse = points.reshape(3, *size)[:, ::2, ::2]
    reached = casting.is_lit(scene, coarse, np.array(scene.lights[0].position)).astype(np.float32)
    full = reached.repeat(2, axis=0).repeat(2, axis=1)[: size[0], : size[1]]
    return _blurred(full[None]).ravel()


def _sky(scene: Scene, rays: FloatArray) -> FloatArray:
    """Colours (3, P) from the horizon to the zenith, with clouds."""
    x, y, z = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
    low, high = (_column(colour) for colour in scene.sky)
    sky = low + (high - low) * np.sqrt(np.clip(z, 0, 1))
    height = np.maximum(z, 0.03) + np.float32(0.1)
    coarse, fine = (textures.noise(x / height * f, y / height * f, scene.seed) for f in (1.0, 2.7))
    clouds = 0.7 * np.clip((0.6 * coarse + 0.4 * fine) * 2.5 - 1.1, 0, 1)
    return np.asarray(sky + (1.1 - sky) * clouds)


def _blurred(values: FloatArray) -> FloatArray:
    """Weights 1 2 1 along both axes of (C, H, W)."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    return np.asarray((rows[..., :-2] + 2 * rows[..., 1:-1] + rows[..., 2:]) / 16)


def _smooth_edges(light: FloatArray, shape: NDArray[np.int32]) -> FloatArray:
    """Pixels on a border between two shapes get the mean around them, as on a sensor."""
    padded = np.pad(shape, 1, mode="edge")
    neighbours = padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]
    border = np.any([other != shape for other in neighbours], axis=0)
    return np.where(border, _blurred(light), light)


def _film(light: FloatArray, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Linear light (3, H, W) as a photo (H, W, 3): exposure, white balance, vignette, noise."""
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
