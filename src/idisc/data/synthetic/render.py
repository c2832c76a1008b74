"""A scene and a camera -> a picture with its exact depth and normals.

Light is Lambert's: ambient, and lamps or a sun, the first of which throws shadows. The film behind
it has exposure, white balance, vignetting and noise of its own. Nothing here is physically exact
but the geometry, which is the point: depth and normals are those of the shapes.

P pixels see something; what is known of them stands in arrays (P,) or (3, P).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic import casting, textures
from idisc.data.synthetic.casting import Hits
from idisc.data.synthetic.scenes import (
    Box,
    Cylinder,
    Light,
    Material,
    Pose,
    Scene,
    Shape,
    half_extent,
)

FloatArray = NDArray[np.floating[Any]]
Exact = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Rendered:
    """A picture and its ground truth."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB
    depth: NDArray[np.float32]  # (H, W) metres along the optical axis; 0: sky
    normals: NDArray[np.float32]  # (H, W, 3) in the camera's axes, to the camera; (0, 0, 0): sky


@dataclass(frozen=True)
class _Surface:
    """What the pixels see."""

    shape: Indices  # (P,) index of the shape
    side: Indices  # (P,) which of its six materials
    depth: Exact  # (P,) metres
    ray: Exact  # (3, P) way of the light backwards, in the world, 1 along the camera's axis
    points: Exact  # (3, P) in the world
    normals: Exact  # (3, P) in the world, to the camera
    place: Exact  # (2, P) metres on the surface
    extent: Exact  # (2, P) metres of the whole surface


def render(scene: Scene, camera: Camera, pose: Pose, generator: np.random.Generator) -> Rendered:
    """The picture of `camera.size`; the generator is for the film (exposure, noise)."""
    return develop(scene, camera, pose, casting.cast(scene, camera, pose), generator)


def develop(
    scene: Scene, camera: Camera, pose: Pose, hits: Hits, generator: np.random.Generator
) -> Rendered:
    """The same, of rays that have been cast."""
    seen = np.flatnonzero(hits.shape >= 0)
    free = np.flatnonzero(hits.shape < 0)
    surface = _surface(scene.shapes, hits, seen)
    depth, normals, light = (
        np.zeros((channels, hits.shape.size), np.float32) for channels in (1, 3, 3)
    )
    depth[0, seen] = surface.depth
    normals[:, seen] = pose.axes @ surface.normals
    light[:, seen] = _radiance(scene, camera, hits, surface, seen)
    if len(free):
        light[:, free] = _sky(scene, hits, free)
    smooth = _smooth_edges(light.reshape(3, *camera.size), hits.shape)
    return Rendered(
        _film(smooth, generator),
        depth.reshape(camera.size),
        np.ascontiguousarray(normals.T).reshape(*camera.size, 3),
    )


def _surface(shapes: Sequence[Shape], hits: Hits, seen: Indices) -> _Surface:
    """Points, normals and places on the surfaces, all boxes at once, then all that is round."""
    index, depth = hits.shape.take(seen).astype(np.intp), hits.depth.take(seen)
    ray = np.stack([axis.take(seen) for axis in hits.rays.direction], dtype=np.float64)  # (3, P)
    points = np.array([*map(float, hits.rays.origin)])[:, None] + depth * ray
    normals, place = np.empty_like(points), np.empty((2, len(seen)))
    extent, side = np.empty_like(place), np.zeros(len(seen), np.intp)
    is_box = np.array([isinstance(shape, Box) for shape in shapes])[index]
    for where, locate in ((is_box, _on_boxes), (~is_box, _on_rounds)):
        chosen = np.flatnonzero(where)
        if len(chosen):
            found = locate(shapes, index[chosen], points[:, chosen])
            normals[:, chosen], place[:, chosen], extent[:, chosen], side[chosen] = found
    return _Surface(index, side, depth, ray, points, normals, place, extent)


_Found = tuple[Exact, Exact, Exact, Indices]


def _on_boxes(shapes: Sequence[Shape], index: Indices, points: Exact) -> _Found:
    """The side of its box that each point is on: normal, place, extent and number of the side."""
    yaw = np.array([shape.yaw if isinstance(shape, Box) else 0.0 for shape in shapes])
    sin, cos = np.sin(yaw)[index], np.cos(yaw)[index]
    inward = np.array([isinstance(shape, Box) and shape.hollow for shape in shapes])[index]
    (x, y, z), (half_x, half_y, half_z) = _from_centre(shapes, index, points)
    x, y = cos * x + sin * y, cos * y - sin * x
    # A point on a side is as far out along its axis as one can be, and nowhere farther.
    out_x, out_y, out_z = np.abs(x) / half_x, np.abs(y) / half_y, np.abs(z) / half_z
    upright = out_z > np.maximum(out_x, out_y)
    across = ~upright & (out_x > out_y)  # the sides -x and +x
    positive = np.where(upright, z, np.where(across, x, y)) > 0
    way = np.where(positive ^ inward, 1.0, -1.0)
    flat = np.where(upright, 0.0, way)
    normals = np.stack(
        [np.where(across, cos, -sin) * flat, np.where(across, sin, cos) * flat, way - flat]
    )
    extent = np.stack([np.where(across, half_y, half_x), np.where(upright, half_y, half_z)])
    place = np.stack([np.where(across, y, x), np.where(upright, y, z)]) + extent
    side = np.where(upright, 4, np.where(across, 0, 2)) + positive
    return normals, place, 2 * extent, side


def _on_rounds(shapes: Sequence[Shape], index: Indices, points: Exact) -> _Found:
    """The same for spheres and cylinders, which are unrolled from their axis."""
    apart, (radius, _, half) = _from_centre(shapes, index, points)
    upright = np.array([isinstance(shape, Cylinder) for shape in shapes])[index]
    x, y, z = apart
    lid = upright & (np.abs(z) / half > np.hypot(x, y) / radius)
    side = np.where(lid, 0.0, 1 / radius)
    normals = np.stack(
        [x * side, y * side, np.where(lid, np.sign(z), np.where(upright, 0, z / radius))]
    )
    turn = np.arctan2(y, x) + np.pi
    place = np.stack([turn * radius, z + half])
    extent = np.stack([2 * np.pi * radius, 2 * half])
    return normals, place, extent, np.zeros(len(index), np.intp)


def _from_centre(shapes: Sequence[Shape], index: Indices, points: Exact) -> tuple[Exact, Exact]:
    """Way (3, P) of points from the centres of their shapes, and half extents (3, P) of those."""
    centre = np.array([shape.centre for shape in shapes]).T
    half = np.array([half_extent(shape) for shape in shapes]).T
    return points - centre.take(index, axis=1), half.take(index, axis=1)


def _radiance(
    scene: Scene, camera: Camera, hits: Hits, surface: _Surface, seen: Indices
) -> FloatArray:
    """Linear light (3, P) that comes from each point to the camera."""
    numbers, materials = _materials(scene.shapes)
    material = numbers[surface.shape, surface.side]
    albedo = _albedo(materials, material, surface, camera)
    u, v = (surface.place * 1.7).astype(np.float32)
    stain = textures.noise(u, v, (surface.shape + scene.seed).astype(np.int32))
    albedo *= 0.86 + 0.24 * stain
    light = _irradiance(scene, surface, _shadow(scene, hits).take(seen))
    light += np.array([one.glow for one in materials], np.float32)[material]
    return albedo * light


def _materials(shapes: Sequence[Shape]) -> tuple[Indices, list[Material]]:
    """Numbers (N, 6) of the materials of every shape, and the materials."""
    known: dict[Material, int] = {}
    numbers = []
    for shape in shapes:
        all_six = shape.materials if len(shape.materials) == 6 else shape.materials * 6
        numbers.append([known.setdefault(material, len(known)) for material in all_six])
    return np.array(numbers), list(known)


def _albedo(
    materials: list[Material], material: Indices, surface: _Surface, camera: Camera
) -> FloatArray:
    """Colours (3, P), one texture after the other."""
    albedo = np.empty((3, len(material)), np.float32)
    colour = np.array([one.colour for one in materials], np.float32).T
    second = np.array([one.second for one in materials], np.float32).T
    scale = np.array([one.scale for one in materials], np.float32)
    seed = np.array([one.seed for one in materials], np.int32)
    names = np.array([one.texture for one in materials])
    pixel = _pixel_size(surface, camera)
    for name in sorted(set(names)):
        here = np.flatnonzero((names == name)[material])
        if len(here):
            of = material[here]
            (u, v), (width, height) = (
                values.take(here, axis=1).astype(np.float32)
                for values in (surface.place, surface.extent)
            )
            colours = colour.take(of, axis=1), second.take(of, axis=1)
            patch = textures.Patch(u, v, width, height, scale[of], seed[of], *colours, pixel[here])
            albedo[:, here] = textures.TEXTURES[name](patch)
    return albedo


def _pixel_size(surface: _Surface, camera: Camera) -> FloatArray:
    """Metres (P,) of surface below a pixel, between those across and those along the view."""
    speed = np.sqrt(np.einsum("ip,ip->p", surface.ray, surface.ray))
    cosine = -np.einsum("ip,ip->p", surface.ray, surface.normals) / speed
    size = surface.depth / camera.fx / np.sqrt(np.maximum(cosine, 0.15))
    return np.asarray(size, np.float32)


def _irradiance(scene: Scene, surface: _Surface, shadow: FloatArray) -> FloatArray:
    """Light (3, P) that falls on each point."""
    points, normals = surface.points.astype(np.float32), surface.normals.astype(np.float32)
    ambient = _openness(scene, points) * (0.8 + 0.2 * normals[2])
    total: FloatArray = _column(scene.ambient) * ambient
    for light in scene.lights:
        strength = _lambert(light, points, normals)
        if light is scene.lights[0]:
            strength *= shadow
        total += _column(light.colour) * strength
    return total


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, np.float32)[:, None]


def _lambert(light: Light, points: FloatArray, normals: FloatArray) -> FloatArray:
    way = _column(light.position) - points
    square = np.einsum("ip,ip->p", way, way)
    cosine = np.einsum("ip,ip->p", way, normals) / np.sqrt(np.maximum(square, 1e-6))
    fading: FloatArray = np.maximum(cosine, 0) / (1 + square * np.float32(3 / light.reach**2))
    return fading


def _openness(scene: Scene, points: FloatArray) -> FloatArray:
    """How much of the ambient light (P,) comes into corners of a room, or to the foot of a wall."""
    first = scene.shapes[0]
    if scene.kind == "street":
        foot: FloatArray = np.clip(1 - points[2] / 1.5, 0, 1)
        return 1 - 0.3 * foot * foot
    inward = _column(half_extent(first)) - np.abs(points - _column(first.centre))  # metres to walls
    shade = np.maximum(1 - inward / np.float32(0.45), 0)
    open_share: FloatArray = (1 - 0.3 * shade * shade).prod(axis=0)
    return open_share


def _shadow(scene: Scene, hits: Hits) -> FloatArray:
    """(H, W): 1 in the first light, 0 in its shadow; a quarter of the rays, so edges are soft."""
    height, width = hits.depth.shape
    coarse = (slice(None, None, 2), slice(None, None, 2))
    depth = np.minimum(hits.depth[coarse], 1e4)  # the sky is not shaded, but has to be somewhere
    points = np.stack(
        [hits.rays.origin[i] + depth * hits.rays.direction[i][coarse] for i in range(3)]
    )
    reached = casting.lit(scene, points, scene.lights[0].position).astype(np.float32)
    return _blurred(reached.repeat(2, axis=0).repeat(2, axis=1)[:height, :width])


def _sky(scene: Scene, hits: Hits, free: Indices) -> FloatArray:
    """Colours (3, P) from the horizon to the zenith, with clouds."""
    speed = np.sqrt(hits.rays.square.take(free))
    x, y, z = ((axis.take(free) / speed).astype(np.float32) for axis in hits.rays.direction)
    low, high = (_column(colour) for colour in scene.sky)
    sky = low + (high - low) * np.sqrt(np.clip(z, 0, 1))
    height = np.maximum(z, 0.03) + np.float32(0.1)
    u, v, seed = x / height, y / height, np.full(len(z), scene.seed, np.int32)
    cloud = 0.6 * textures.noise(u, v, seed) + 0.4 * textures.noise(u * 2.7, v * 2.7, seed + 5)
    white = 0.7 * np.clip(cloud * 2.5 - 1.1, 0, 1)
    clouded: FloatArray = sky + (np.float32(1.1) - sky) * white
    return clouded


def _blurred(values: FloatArray) -> FloatArray:
    """Weights 1 2 1 along the two last axes, (..., H, W)."""
    for axis in (-2, -1):
        values = np.moveaxis(values, axis, 0)
        blurred = 0.5 * values
        blurred[1:] += 0.25 * values[:-1]
        blurred[:-1] += 0.25 * values[1:]
        blurred[0] += 0.25 * values[0]
        blurred[-1] += 0.25 * values[-1]
        values = np.moveaxis(blurred, 0, axis)
    return values


def _smooth_edges(light: FloatArray, shape: NDArray[np.int32]) -> FloatArray:
    """Pixels on a border between two shapes get the mean around them, as on a sensor."""
    border = np.zeros(shape.shape, bool)
    down, across = shape[1:] != shape[:-1], shape[:, 1:] != shape[:, :-1]
    border[1:] |= down
    border[:-1] |= down
    border[:, 1:] |= across
    border[:, :-1] |= across
    return np.where(border, _blurred(light), light)


def _film(light: FloatArray, generator: np.random.Generator) -> NDArray[np.uint8]:
    """Linear light (3, H, W) as a photo (H, W, 3): exposure, white balance, vignette, noise."""
    _, height, width = light.shape
    target = generator.uniform(0.16, 0.3)  # mean of the linear picture; 0.18 is photographers' grey
    balance = np.exp(generator.normal(0, 0.07, (3, 1, 1)))
    gain = (balance * target / max(float(np.minimum(light, 2).mean()), 1e-4)).astype(np.float32)
    fall = generator.uniform(0, 0.35)
    rows = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    columns = np.linspace(-1, 1, width, dtype=np.float32)[None]
    exposed = light * gain * (1 - fall / 2 * (rows**2 + columns**2))
    developed = 255 * np.sqrt(1 - np.exp(-1.6 * exposed))  # a shoulder, then gamma 2
    grain = generator.standard_normal(light.shape, dtype=np.float32)
    developed += grain * np.float32(generator.uniform(1, 4))
    bytes_ = np.clip(developed + 0.5, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(bytes_.transpose(1, 2, 0))
