"""Rooms: walls, floor and ceiling, with the furniture of one of five uses.

Furniture is placed at walls or free where nothing else is; doors, windows and pictures hang where
the wall is still visible.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic.furniture import USES, cloth, wood
from idisc.data.synthetic.scenes import (
    Bounds,
    Light,
    Material,
    Piece,
    Point,
    Scene,
    Shape,
    ball,
    bounds,
    box,
    moved,
    overlap,
    paint,
    textured,
    toned,
    tube,
    turn,
)

Generator = np.random.Generator
_WALLS = (0.0, math.pi / 2, math.pi, -math.pi / 2)  # yaw of furniture at -y, +x, +y, -x


class _Site:
    """A room while it is being furnished."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        x, y, z = generator.uniform((3.0, 3.4, 2.3), (6.2, 7.5, 3.0)).tolist()
        self.size: Point = (x, y, z)
        self.shapes: list[Shape] = []
        self.taken: list[Bounds] = []

    def put(self, piece: Piece, yaw: float, offset: Point) -> bool:
        """Place a piece, if there is room for it."""
        placed = moved(piece, yaw, offset)
        low, high = bounds(*placed)
        x, y, z = self.size
        walls = np.array([x / 2, y / 2, z]) + 1e-6
        if (high > walls).any() or (low[:2] < -walls[:2]).any():
            return False
        if any(overlap((low, high), other, 0.04) for other in self.taken):
            return False
        self.taken.append((low, high))
        self.shapes += placed
        return True

    def at_wall(self, piece: Piece, wall: float, tries: int = 6) -> Point | None:
        """Place a piece at a wall; returns where it is, or None if it does not fit."""
        x, y, _ = self.size
        length, distance = (x, y / 2) if abs(math.sin(wall)) < 0.5 else (y, x / 2)
        low, high = bounds(*piece)
        first, last = -length / 2 - low[0], length / 2 - high[0]
        flat = low[2] > 0.01 or high[1] < 0.2  # a picture, a window, a door
        gap = 0.001 if flat else 0.02  # furniture stands in front of the skirting board
        for _ in range(tries if last > first else 0):
            place = turn((self.generator.uniform(first, last), gap - distance, 0.0), wall)
            if self.put(piece, wall, place):
                return place
        return None


def make_room(generator: Generator) -> Scene:
    """A furnished room with its lights; the origin is the middle of its floor."""
    site = _Site(generator)
    trim = Material(colour=paint(generator, saturation=(0, 0.2), value=(0.6, 0.95)))
    shell = _shell(generator, site.size, trim)
    windows = _openings(generator, site, trim)
    _furnish(generator, site)
    _decorate(generator, site)
    lamp, lights = _lighting(generator, site, windows)
    tint = paint(generator, (0.05, 0.15), (0.0, 0.15), (0.9, 1.0))
    return Scene(
        room=site.size,
        shapes=(*shell, *site.shapes, lamp),
        lights=lights,
        ambient=toned(tint, generator.uniform(0.25, 0.55)),
        seed=int(generator.integers(1 << 16)),
    )


def _shell(generator: Generator, size: Point, trim: Material) -> list[Shape]:
    """Floor, ceiling, walls (one may differ in colour) and skirting boards."""
    ceiling = Material(colour=paint(generator, saturation=(0, 0.08), value=(0.8, 0.97)))
    x, y, z = size[0] / 2, size[1] / 2, size[2]
    walls = [_wallpaper(generator)] * 4
    if generator.random() < 0.4:
        walls[int(generator.integers(4))] = _wallpaper(generator, bold=True)
    floor = _flooring(generator)
    shapes = [
        box((-x, x), (-y, y), (-0.1, 0), floor, shadow=False),
        box((-x, x), (-y, y), (z, z + 0.1), ceiling, shadow=False),
    ]
    for side, wall in zip((-1, 1), walls[:2], strict=True):
        for out, material, top in ((0.1, wall, z), (-0.015, trim, 0.09)):
            across, along = (
                sorted((side * x, side * (x + out))),
                sorted((side * y, side * (y + out))),
            )
            other = walls[2 + (side > 0)] if material is wall else trim
            shapes.append(box((across[0], across[1]), (-y, y), (0, top), material, shadow=False))
            shapes.append(box((-x, x), (along[0], along[1]), (0, top), other, shadow=False))
    return shapes


def _wallpaper(generator: Generator, bold: bool = False) -> Material:
    saturation, value = ((0.2, 0.7), (0.3, 0.8)) if bold else ((0.0, 0.25), (0.65, 0.97))
    colour = paint(generator, saturation=saturation, value=value)
    choices = (
        ("plain", 0.8, 0.5),
        ("stripes", 0.2, 0.8),
        ("brick", 0.25, 0.5),
        ("tiles", 0.25, 0.5),
    )
    texture, scale, second = choices[int(generator.choice(4, p=(0.65, 0.15, 0.1, 0.1)))]
    return textured(generator, texture, scale, colour, second)


def _flooring(generator: Generator) -> Material:
    if generator.random() < 0.5:
        return wood(generator, scale=generator.uniform(0.09, 0.18))
    colour = paint(generator, saturation=(0.0, 0.4), value=(0.35, 0.85))
    texture, scale = (("tiles", 0.35), ("rough", 0.06))[int(generator.integers(2))]
    return textured(generator, texture, scale * generator.uniform(0.8, 1.3), colour, 0.45)


def _openings(generator: Generator, site: _Site, trim: Material) -> list[Point]:
    """A door and one to three windows; returns where daylight comes from."""
    colour = paint(generator, saturation=(0, 0.6), value=(0.4, 0.95))
    leaf = textured(generator, "panels", 2.0, colour, 0.4)
    door = (
        box((-0.5, 0.5), (0, 0.03), (0, 2.08), trim, shadow=False),
        box((-0.43, 0.43), (0.0, 0.05), (0, 2.02), leaf, shadow=False),
        ball((0.36, 0.09, 1.02), 0.035, Material(colour=(0.3, 0.3, 0.3))),
    )
    first, *others = generator.permutation(4)
    site.at_wall(door, _WALLS[first])
    places: list[Point] = []
    for wall in others[: int(generator.integers(1, 4))]:
        place = site.at_wall(_window(generator, site.size[2], trim), _WALLS[wall])
        if place is not None:
            places.append((0.9 * place[0], 0.9 * place[1], 1.6))
    return places


def _window(generator: Generator, ceiling: float, trim: Material) -> Piece:
    day = paint(generator, (0.55, 0.62), (0.0, 0.3), (0.9, 1.0))
    view = textured(generator, "outlook", 0.3, day, trim.colour, glow=1.6)
    half, foot, head = generator.uniform(0.45, 0.9), 0.85, min(2.15, ceiling - 0.15)
    pane = box((-half, half), (0, 0.02), (foot, head), view, shadow=False)
    sill = box((-half - 0.05, half + 0.05), (0, 0.12), (foot - 0.04, foot), trim)
    if generator.random() < 0.4:
        return pane, sill
    colour = paint(generator, saturation=(0.0, 0.6), value=(0.5, 0.95))
    drape = textured(generator, "stripes", 0.1, colour)
    ends = (-half - 0.12, half - 0.12)
    return pane, sill, *(box((x, x + 0.24), (0.03, 0.1), (0.1, head + 0.1), drape) for x in ends)


def _furnish(generator: Generator, site: _Site) -> None:
    needed, free = USES[str(generator.choice(list(USES)))]
    for maker in needed[: int(generator.integers(5, len(needed) + 1))]:
        piece = maker(generator)
        any(site.at_wall(piece, _WALLS[wall]) for wall in generator.permutation(4))
    for maker in free[: int(generator.integers(1, len(free) + 1))]:
        piece = maker(generator)
        for _ in range(10):
            x, y = (generator.uniform(-0.3, 0.3, 2) * site.size[:2]).tolist()
            yaw = float(generator.integers(4)) * math.pi / 2 + generator.normal(0, 0.25)
            if site.put(piece, yaw, (x, y, 0.0)):
                break


def _decorate(generator: Generator, site: _Site) -> None:
    """Pictures on the walls, a carpet below everything."""
    for wall in generator.permutation(4)[: int(generator.integers(1, 5))]:
        half, tall = generator.uniform(0.2, 0.6), generator.uniform(0.3, 0.8)
        foot = generator.uniform(1.3, 1.5)
        colour = paint(generator, saturation=(0.3, 1.0), value=(0.3, 0.9))
        frame = paint(generator, saturation=(0.0, 0.4))
        art = textured(generator, "picture", 0.3, colour, frame)
        panel = box((-half, half), (0.0, 0.025), (foot, foot + tall), art, shadow=False)
        site.at_wall((panel,), _WALLS[wall])
    if generator.random() < 0.5:
        x, y = (generator.uniform(0.25, 0.4, 2) * site.size[:2]).tolist()
        rug = box((-x, x), (-y, y), (0, 0.008), cloth(generator), shadow=False)
        site.shapes.append(rug)  # thin enough to be below furniture


def _lighting(
    generator: Generator, site: _Site, windows: list[Point]
) -> tuple[Shape, tuple[Light, ...]]:
    """A lamp below the ceiling, and daylight from the windows."""
    x, y = (generator.uniform(-0.2, 0.2, 2) * site.size[:2]).tolist()
    below = site.size[2] - 0.12
    warm = paint(generator, (0.08, 0.14), (0.05, 0.35), (0.95, 1.0))
    shade = Material(colour=warm, glow=2.5)
    lamp = tube(x, y, (below, below + 0.12), 0.22, shade, shadow=False)
    if generator.random() < 0.4:
        lamp = ball((x, y, below - 0.08), 0.14, shade, shadow=False)
    power = generator.uniform(0.5, 1.3)
    lights = [Light(position=(x, y, below - 0.1), colour=toned(warm, power), reach=4.0)]
    for window in windows[:2]:  # every light costs time
        day = paint(generator, (0.55, 0.62), (0.0, 0.25), (0.9, 1.0))
        colour = toned(day, generator.uniform(0.3, 1.2))
        lights.append(Light(position=window, colour=colour, reach=3.0))
    return lamp, tuple(lights)
