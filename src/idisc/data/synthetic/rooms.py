"""Rooms: walls, floor and ceiling, with the furniture of one of five uses.

Furniture is placed at walls or free where nothing else is; doors, windows and pictures hang where
the wall is still visible.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic.pieces import cloth, make_piece, wood
from idisc.data.synthetic.scenes import (
    Bounds,
    Generator,
    Light,
    Material,
    Piece,
    Point,
    Scene,
    Shape,
    bounds,
    moved,
    overlap,
    paint,
    rotation,
    solid,
    textured,
    toned,
)

_WALLS = (0.0, math.pi / 2, math.pi, -math.pi / 2)  # yaw of furniture at -y, +x, +y, -x
_USES = (  # furniture at the walls, the most important first, and free-standing
    (
        ("sofa", "television", "bookcase", "lamp", "plant", "dresser", "bookcase"),
        ("coffee table", "armchair", "armchair"),
    ),
    (("bed", "wardrobe", "dresser", "desk", "lamp", "plant"), ("armchair", "coffee table")),
    (("kitchen", "fridge", "dresser", "plant", "cartons"), ("table", "chair", "chair", "chair")),
    (("desk", "bookcase", "desk", "bookcase", "wardrobe", "plant"), ("table", "chair", "chair")),
    (("cartons", "bookcase", "wardrobe", "cartons", "plant"), ("cartons", "chair", "table")),
)


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

    def at_wall(self, piece: Piece, wall: int, tries: int = 6) -> Point | None:
        """Place a piece at a wall; returns where it is, or None if it does not fit."""
        x, y, _ = self.size
        length, distance = (y, x / 2) if wall % 2 else (x, y / 2)
        low, high = bounds(*piece)
        first, last = -length / 2 - low[0], length / 2 - high[0]
        flat = low[2] > 0.01 or high[1] < 0.2  # a picture, a window, a door
        gap = 0.001 if flat else 0.02  # furniture stands in front of the skirting board
        for _ in range(tries if last > first else 0):
            along = self.generator.uniform(first, last)
            place = tuple((rotation(_WALLS[wall]) @ (along, gap - distance, 0.0)).tolist())
            if self.put(piece, _WALLS[wall], place):
                return place
        return None


def make_room(generator: Generator) -> Scene:
    """Return a furnished room with its lights; the origin is the middle of its floor."""
    site = _Site(generator)
    shell = _shell(generator, site.size)
    windows = _openings(generator, site)
    _furnish(generator, site)
    _decorate(generator, site)
    x, y = (generator.uniform(-0.2, 0.2, 2) * site.size[:2]).tolist()
    top = site.size[2]
    lights = _lighting(generator, windows, (x, y, top - 0.22))
    shade = Material(colour=lights[0].colour, glow=2.5)
    spans = (x - 0.22, x + 0.22), (y - 0.22, y + 0.22), (top - 0.12, top)
    tint = paint(generator, (0.05, 0.15), (0.0, 0.15), (0.9, 1.0))
    return Scene(
        room=site.size,
        shapes=(*shell, *site.shapes, solid(*spans, shade, "tube", shadow=False)),
        lights=lights,
        ambient=toned(tint, generator.uniform(0.25, 0.55)),
        seed=int(generator.integers(1 << 16)),
    )


def _shell(generator: Generator, size: Point) -> list[Shape]:
    """Floor, ceiling, walls (one may differ in colour) and skirting boards."""
    ceiling = Material(colour=paint(generator, saturation=(0, 0.08), value=(0.8, 0.97)))
    trim = Material(colour=paint(generator, saturation=(0, 0.2), value=(0.6, 0.95)))
    paper, other = _wallpaper(generator), _wallpaper(generator, bold=True)
    bold = int(generator.integers(8))  # half of the rooms have such a wall
    x, y, z = size[0] / 2, size[1] / 2, size[2]
    shapes = [
        solid((-x, x), (-y, y), (-0.1, 0), _flooring(generator), shadow=False),
        solid((-x, x), (-y, y), (z, z + 0.1), ceiling, shadow=False),
    ]
    for wall, yaw in enumerate(_WALLS):
        half, out = (y, x) if wall % 2 else (x, y)
        material = other if wall == bold else paper
        side = (
            solid((-half, half), (-out - 0.1, -out), (0, z), material, shadow=False),
            solid((-half, half), (-out, 0.015 - out), (0, 0.09), trim, shadow=False),
        )
        shapes += moved(side, yaw, (0, 0, 0))
    return shapes


def _wallpaper(generator: Generator, bold: bool = False) -> Material:
    saturation, value = ((0.2, 0.7), (0.3, 0.8)) if bold else ((0.0, 0.25), (0.65, 0.97))
    colour = paint(generator, saturation=saturation, value=value)
    choices = ("plain", 0.8, 0.5), ("stripes", 0.2, 0.8), ("brick", 0.25, 0.5), ("tiles", 0.25, 0.5)
    texture, scale, second = choices[int(generator.choice(4, p=(0.65, 0.15, 0.1, 0.1)))]
    return textured(generator, texture, scale, colour, second)


def _flooring(generator: Generator) -> Material:
    if generator.random() < 0.5:
        return wood(generator, scale=generator.uniform(0.09, 0.18))
    colour = paint(generator, saturation=(0.0, 0.4), value=(0.35, 0.85))
    texture, scale = (("tiles", 0.35), ("rough", 0.06))[int(generator.integers(2))]
    return textured(generator, texture, scale * generator.uniform(0.8, 1.3), colour, 0.45)


def _openings(generator: Generator, site: _Site) -> list[Point]:
    """Add a door and one to three windows; return where daylight comes from."""
    door, *others = (int(wall) for wall in generator.permutation(4))
    site.at_wall(make_piece(generator, "door"), door)
    walls = others[: int(generator.integers(1, 4))]
    places = [site.at_wall(make_piece(generator, "window"), wall) for wall in walls]
    return [(0.9 * place[0], 0.9 * place[1], 1.6) for place in places if place]


def _furnish(generator: Generator, site: _Site) -> None:
    at_walls, free = _USES[int(generator.integers(len(_USES)))]
    for name in at_walls:
        piece = make_piece(generator, name)
        any(site.at_wall(piece, int(wall)) for wall in generator.permutation(4))
    for name in free:
        piece = make_piece(generator, name)
        for _ in range(10):
            x, y = (generator.uniform(-0.3, 0.3, 2) * site.size[:2]).tolist()
            yaw = float(generator.integers(4)) * math.pi / 2 + generator.normal(0, 0.25)
            if site.put(piece, yaw, (x, y, 0.0)):
                break


def _decorate(generator: Generator, site: _Site) -> None:
    """Pictures on the walls, a carpet below everything."""
    for wall in generator.permutation(4)[: int(generator.integers(1, 5))]:
        site.at_wall(make_piece(generator, "picture"), int(wall))
    if generator.random() < 0.5:
        x, y = (generator.uniform(0.25, 0.4, 2) * site.size[:2]).tolist()
        rug = solid((-x, x), (-y, y), (0, 0.008), cloth(generator), shadow=False)
        site.shapes.append(rug)  # thin enough to be below furniture


def _lighting(generator: Generator, windows: list[Point], lamp: Point) -> tuple[Light, ...]:
    """Return a lamp below the ceiling, and daylight from two windows: every light costs time."""
    warm = paint(generator, (0.08, 0.14), (0.05, 0.35), (0.95, 1.0))
    day = paint(generator, (0.55, 0.62), (0.0, 0.25), (0.9, 1.0))
    return tuple(
        Light(position=place, colour=toned(colour, generator.uniform(0.4, 1.3)), reach=4.0)
        for place, colour in zip((lamp, *windows), (warm, day, day), strict=False)
    )
