"""A rendered world as values: shapes with materials, lights, and where the camera stands.

World axes: x and y on the ground, z up, metres; a room's floor and a street are at z = 0. A yaw
turns counter-clockwise seen from above, radians. The camera of yaw 0 looks along y, its right hand
along x. Colours are linear RGB, 0 to 1.
"""

from __future__ import annotations

import colorsys
import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["room", "street"]
Point = tuple[float, float, float]
Colour = tuple[float, float, float]
Bounds = tuple[Point, Point]
"""Lowest and highest corner of a box along the axes."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a surface looks like; a texture is drawn in metres, so it shows perspective."""

    colour: Colour
    second: Colour = (0.0, 0.0, 0.0)  # lines, gaps, frames: what it is depends on the texture
    texture: str = "plain"  # a name of textures.TEXTURES
    scale: float = 0.3  # metres of its period
    seed: int = 0  # of its irregularities
    glow: float = 0.0  # light of its own, in units of its colour


@dataclass(frozen=True, kw_only=True)
class Box:
    """A box that stands upright; `hollow`: only its inside is seen, as of a room."""

    centre: Point
    half: Point  # half of its extent along its own axes
    materials: tuple[Material, ...]  # one, or six: -x, +x, -y, +y, -z, +z
    yaw: float = 0.0
    hollow: bool = False
    shadow: bool = True  # flat things on a wall or on the floor throw none


@dataclass(frozen=True, kw_only=True)
class Sphere:
    """A ball."""

    centre: Point
    radius: float
    materials: tuple[Material, ...]
    shadow: bool = True


@dataclass(frozen=True, kw_only=True)
class Cylinder:
    """An upright, closed cylinder."""

    centre: Point
    radius: float
    height: float
    materials: tuple[Material, ...]
    shadow: bool = True


Shape = Box | Sphere | Cylinder


@dataclass(frozen=True, kw_only=True)
class Light:
    """A lamp that shines to all sides; the sun is one far away."""

    position: Point
    colour: Colour  # what falls on a surface that faces it from close by
    reach: float = math.inf  # metres after which a quarter of it is left


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Everything there is to see; the first light throws shadows."""

    kind: Kind
    shapes: tuple[Shape, ...]  # the first one is the room, or the ground
    lights: tuple[Light, ...]
    ambient: Colour
    sky: tuple[Colour, Colour] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # at the horizon, above
    seed: int = 0  # of dirt and clouds


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Where the camera is and where it looks; angles in radians."""

    position: Point
    yaw: float = 0.0
    pitch: float = 0.0  # up is positive
    roll: float = 0.0

    @property
    def axes(self) -> NDArray[np.float64]:
        """(3, 3): the camera's right, down and forward, each as a row in the world."""
        sin, cos = math.sin(self.yaw), math.cos(self.yaw)
        right, ahead, up = np.array([cos, sin, 0.0]), np.array([-sin, cos, 0.0]), np.eye(3)[2]
        forward = math.cos(self.pitch) * ahead + math.sin(self.pitch) * up
        down = np.cross(forward, right)
        turned = math.cos(self.roll) * right + math.sin(self.roll) * down
        return np.stack([turned, np.cross(forward, turned), forward])


def turn(point: Point, yaw: float) -> Point:
    """A point turned about the vertical through the origin."""
    sin, cos = math.sin(yaw), math.cos(yaw)
    return cos * point[0] - sin * point[1], sin * point[0] + cos * point[1], point[2]


def moved(shape: Shape, yaw: float, offset: Point) -> Shape:
    """A shape turned about the origin, then shifted."""
    x, y, z = turn(shape.centre, yaw)
    centre = (x + offset[0], y + offset[1], z + offset[2])
    if isinstance(shape, Box):
        return replace(shape, centre=centre, yaw=shape.yaw + yaw)
    return replace(shape, centre=centre)


def half_extent(shape: Shape) -> Point:
    """Half of the extent of a shape along its own axes."""
    if isinstance(shape, Box):
        return shape.half
    upright = shape.radius if isinstance(shape, Sphere) else shape.height / 2
    return shape.radius, shape.radius, upright


def bounds(*shapes: Shape) -> Bounds:
    """The smallest box along the axes that holds all of the shapes."""
    spans = [_span(shape) for shape in shapes]
    low, high = zip(*spans, strict=True)
    (x, y, z), (u, v, w) = map(min, zip(*low, strict=True)), map(max, zip(*high, strict=True))
    return (x, y, z), (u, v, w)


def _span(shape: Shape) -> Bounds:
    (x, y, z), (u, v, w) = shape.centre, half_extent(shape)
    if isinstance(shape, Box):
        sin, cos = abs(math.sin(shape.yaw)), abs(math.cos(shape.yaw))
        u, v = cos * u + sin * v, sin * u + cos * v
    return (x - u, y - v, z - w), (x + u, y + v, z + w)


def overlap(one: Bounds, other: Bounds, margins: Point) -> bool:
    """Are two such boxes nearer to each other than the margins along all axes?"""
    return all(
        one[0][i] < other[1][i] + margins[i] and one[1][i] > other[0][i] - margins[i]
        for i in range(3)
    )


def block(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    *materials: Material,
    shadow: bool = True,
) -> Box:
    """A box along the axes from its two ends on each."""
    return Box(
        centre=((x[0] + x[1]) / 2, (y[0] + y[1]) / 2, (z[0] + z[1]) / 2),
        half=((x[1] - x[0]) / 2, (y[1] - y[0]) / 2, (z[1] - z[0]) / 2),
        materials=materials,
        shadow=shadow,
    )


def textured(
    generator: np.random.Generator,
    texture: str,
    scale: float,
    colour: Colour,
    second: Colour | float = 0.5,
) -> Material:
    """A material with irregularities of its own; `second` may be a factor of the colour."""
    other = toned(colour, second) if isinstance(second, float) else second
    seed = any_seed(generator)
    return Material(colour=colour, second=other, texture=texture, scale=scale, seed=seed)


def with_front(front: Material, rest: Material) -> tuple[Material, ...]:
    """Six materials: one for the side +y, which furniture shows to the room, one for the others."""
    return rest, rest, rest, front, rest, rest


def paint(
    generator: np.random.Generator,
    hue: tuple[float, float] = (0.0, 1.0),
    saturation: tuple[float, float] = (0.0, 1.0),
    value: tuple[float, float] = (0.1, 0.9),
) -> Colour:
    """A random colour between bounds as a painter names them (HSV of the picture)."""
    parts = [generator.uniform(*part) for part in (hue, saturation, value)]
    red, green, blue = colorsys.hsv_to_rgb(parts[0] % 1, parts[1], parts[2])
    return red**2, green**2, blue**2  # linear light; the film takes the root again


def toned(colour: Colour, factor: float) -> Colour:
    """A colour made darker or brighter."""
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


def any_seed(generator: np.random.Generator) -> int:
    """A seed for a texture."""
    return int(generator.integers(1 << 16))
