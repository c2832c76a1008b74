"""A scene to render: shapes with materials, lights, and the pose of the camera.

World axes: x and y on the ground, z up, in metres; the floor of a room and a street are at z = 0.
A yaw turns counter-clockwise seen from above, in radians. A camera of yaw 0 looks along y, with x
to its right. Colours are linear RGB, 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator
Point = tuple[float, float, float]
Colour = tuple[float, float, float]
Span = tuple[float, float]
Form = Literal["box", "ball", "tube"]
Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest corner (3,) of a box along the axes."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """The look of a surface; textures are drawn in metres, so that they show perspective."""

    colour: Colour
    second: Colour = (0.0, 0.0, 0.0)  # lines, gaps or frames, depending on the texture
    texture: str = "plain"  # a name of materials.TEXTURES
    scale: float = 0.8  # metres of its period
    seed: int = 0  # of its irregularities
    glow: float = 0.0  # emitted light, in units of its colour


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An upright box, ball (ellipsoid) or tube (closed cylinder)."""

    form: Form
    centre: Point
    half: Point  # half of its extent along its own axes
    material: Material
    yaw: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Light:
    """A lamp that shines in all directions; the sun is one far away."""

    position: Point
    colour: Colour  # on a surface that faces it from nearby
    reach: float = math.inf  # metres after which a quarter of it is left


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Everything that can be seen; only the first light casts shadows."""

    shapes: tuple[Shape, ...]
    lights: tuple[Light, ...]
    ambient: Colour
    room: Point | None = None  # metres along x, y, z of a room around the origin; None outdoors
    sky: tuple[Colour, Colour] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))  # at the horizon, above
    seed: int = 0  # of stains and clouds


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Position and direction of the camera; angles in radians."""

    position: Point
    yaw: float = 0.0
    pitch: float = 0.0  # up is positive
    roll: float = 0.0

    @property
    def axes(self) -> NDArray[np.float64]:
        """(3, 3): right, down and forward of the camera, each as a row in the world."""
        right, ahead, up = rotation(self.yaw).T
        forward = math.cos(self.pitch) * ahead + math.sin(self.pitch) * up
        down = np.cross(forward, right)
        rolled = math.cos(self.roll) * right + math.sin(self.roll) * down
        return np.stack([rolled, np.cross(forward, rolled), forward])


def rotation(yaw: float) -> NDArray[np.float64]:
    """Return a matrix (3, 3) that turns vectors about the vertical."""
    sin, cos = math.sin(yaw), math.cos(yaw)
    return np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def solid(x: Span, y: Span, z: Span, material: Material, form: Form = "box") -> Shape:
    """Return a shape from its two ends on each axis."""
    centre = (x[0] + x[1]) / 2, (y[0] + y[1]) / 2, (z[0] + z[1]) / 2
    half = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2, (z[1] - z[0]) / 2
    return Shape(form=form, centre=centre, half=half, material=material)


def moved(shapes: Iterable[Shape], yaw: float, offset: Point) -> list[Shape]:
    """Rotate shapes about the origin, then shift them."""
    matrix = rotation(yaw)
    return [
        replace(s, centre=tuple((matrix @ s.centre + offset).tolist()), yaw=s.yaw + yaw)
        for s in shapes
    ]


def bounds(*shapes: Shape) -> Bounds:
    """Return the smallest box along the axes that contains all shapes."""
    centres = np.array([shape.centre for shape in shapes])
    extents = np.array([np.abs(rotation(shape.yaw)) @ shape.half for shape in shapes])
    return (centres - extents).min(axis=0), (centres + extents).max(axis=0)


def overlap(one: Bounds, other: Bounds, margin: float) -> bool:
    """Return whether two boxes are nearer to each other than the margin along all axes."""
    return bool((one[0] < other[1] + margin).all() and (one[1] > other[0] - margin).all())
