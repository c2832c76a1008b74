"""Rooms: four walls, floor and ceiling, and the furniture of one of five uses.

Furniture stands at walls or free, where nothing else is; doors, windows and pictures hang where the
wall is still to be seen.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic import furniture as f
from idisc.data.synthetic.scenes import (
    Bounds,
    Box,
    Cylinder,
    Light,
    Material,
    Point,
    Scene,
    Shape,
    Sphere,
    any_seed,
    block,
    bounds,
    moved,
    overlap,
    paint,
    textured,
    toned,
    turn,
)

# What a room is for: what stands at its walls, most needed first, and what stands free.
_USES: dict[str, tuple[tuple[f.Maker, ...], tuple[f.Maker, ...]]] = {
    "living": (
        (f.sofa, f.television, f.bookcase, f.floor_lamp, f.plant, f.dresser, f.bookcase),
        (f.coffee_table, f.armchair, f.armchair),
    ),
    "bedroom": (
        (f.bed, f.wardrobe, f.dresser, f.desk, f.floor_lamp, f.bookcase, f.plant),
        (f.armchair, f.chair),
    ),
    "kitchen": ((f.kitchen, f.fridge, f.dresser, f.table, f.plant, f.cartons), (f.dining, f.chair)),
    "office": (
        (f.desk, f.bookcase, f.desk, f.bookcase, f.wardrobe, f.plant, f.cartons),
        (f.table, f.chair, f.chair),
    ),
    "storage": (
        (f.cartons, f.bookcase, f.wardrobe, f.cartons, f.table, f.dresser, f.cartons),
        (f.cartons, f.chair, f.table),
    ),
}
_WALLS = (0.0, math.pi / 2, math.pi, -math.pi / 2)  # yaw of what stands at -y, +x, +y, -x


class _Site:
    """A room while it is being furnished."""

    def __init__(self, size: Point) -> None:
        self.size = size  # metres along x, y, z
        self.shapes: list[Shape] = []
        self.taken: list[Bounds] = []

    def along(self, wall: float) -> tuple[float, float]:
        """Length of a wall and its distance from the middle of the room."""
        x, y, _ = self.size
        return (x, y / 2) if abs(math.sin(wall)) < 0.5 else (y, x / 2)

    def at_wall(self, piece: f.Piece, wall: float, place: float, gap: float = 0.0) -> bool:
        """Stand a piece at a wall, `place` metres from its middle, if there is room for it."""
        _, distance = self.along(wall)
        return self.put(piece, wall, turn((place, gap - distance, 0.0), wall))

    def put(self, piece: f.Piece, yaw: float, offset: Point) -> bool:
        """Stand a piece somewhere, if there is room for it."""
        standing = [moved(shape, yaw, offset) for shape in piece]
        low, high = bounds(*standing)
        x, y, z = self.size[0] / 2 + 1e-6, self.size[1] / 2 + 1e-6, self.size[2]
        if min(low[0] + x, low[1] + y, x - high[0], y - high[1], z - high[2]) < 0:
            return False
        if any(overlap((low, high), other, (0.04, 0.04, 0.0)) for other in self.taken):
            return False
        self.taken.append((low, high))
        self.shapes += standing
        return True


def make_room(generator: np.random.Generator) -> Scene:
    """A room with its light, furnished for one use; the middle of its floor is the origin."""
    size = tuple(generator.uniform((3.0, 3.4, 2.3), (6.2, 7.5, 3.0)).tolist())
    site = _Site((size[0], size[1], size[2]))
    shell = _shell(generator, site.size)
    trim = Material(colour=paint(generator, saturation=(0, 0.2), value=(0.6, 0.95)))
    openings = _openings(generator, site, trim)
    _furnish(generator, site)
    _decorate(generator, site)
    skirting = _skirting(site.size, trim)
    lamp, lights = _lighting(generator, site, openings)
    tint = paint(generator, (0.05, 0.15), (0.0, 0.15), (0.9, 1.0))
    strength = generator.uniform(0.25, 0.55)
    return Scene(
        kind="room",
        shapes=(shell, *skirting, *site.shapes, lamp),
        lights=lights,
        ambient=toned(tint, strength),
        seed=any_seed(generator),
    )


def _shell(generator: np.random.Generator, size: Point) -> Box:
    """Walls, floor and ceiling; one wall may be of another colour."""
    wall = _wallpaper(generator)
    walls = [wall] * 4
    if generator.random() < 0.4:
        walls[int(generator.integers(4))] = _wallpaper(generator, bold=True)
    ceiling = Material(colour=paint(generator, saturation=(0, 0.08), value=(0.8, 0.97)))
    return Box(
        centre=(0, 0, size[2] / 2),
        half=(size[0] / 2, size[1] / 2, size[2] / 2),
        materials=(*walls, _flooring(generator), ceiling),
        hollow=True,
    )


def _wallpaper(generator: np.random.Generator, bold: bool = False) -> Material:
    saturation, value = ((0.2, 0.7), (0.3, 0.8)) if bold else ((0.0, 0.25), (0.65, 0.97))
    colour = paint(generator, saturation=saturation, value=value)
    texture, scale = (("plain", 0.8), ("stripes", 0.2), ("brick", 0.25), ("tiles", 0.25))[
        int(generator.choice(4, p=(0.65, 0.15, 0.1, 0.1)))
    ]
    second = toned(colour, 0.5 if texture in ("brick", "tiles", "plain") else 0.8)
    return textured(generator, texture, scale, colour, second)


def _flooring(generator: np.random.Generator) -> Material:
    kind = int(generator.choice(4, p=(0.5, 0.2, 0.2, 0.1)))
    if kind == 0:
        return f.wood(generator, scale=generator.uniform(0.09, 0.18))
    colour = paint(generator, saturation=(0.0, 0.4), value=(0.35, 0.85))
    texture, scale = (("tiles", 0.35), ("rough", 0.06), ("checker", 0.35))[kind - 1]
    return textured(generator, texture, scale * generator.uniform(0.8, 1.3), colour, 0.45)


def _openings(generator: np.random.Generator, site: _Site, trim: Material) -> list[Point]:
    """A door and one to three windows; returns where daylight comes from."""
    colour = paint(generator, saturation=(0, 0.6), value=(0.4, 0.95))
    leaf = Material(colour=colour, second=toned(colour, 0.4), texture="panels", scale=2.0)
    door = (
        block((-0.5, 0.5), (0, 0.03), (0, 2.08), trim, shadow=False),
        block((-0.43, 0.43), (0.0, 0.05), (0, 2.02), leaf, shadow=False),
        Sphere(
            centre=(0.36, 0.09, 1.02), radius=0.035, materials=(Material(colour=(0.3, 0.3, 0.3)),)
        ),
    )
    walls = generator.permutation(4)
    _try_wall(generator, site, door, _WALLS[walls[0]], tries=5)
    sources: list[Point] = []
    for wall in (_WALLS[i] for i in walls[1 : 1 + int(generator.integers(1, 4))]):
        half = generator.uniform(0.45, 0.9)
        pane = _window(generator, half, site.size[2], trim)
        place = _try_wall(generator, site, pane, wall, tries=5)
        if place is not None:
            _, distance = site.along(wall)
            sources.append(turn((place, 0.3 - distance, 1.6), wall))
    return sources


def _window(generator: np.random.Generator, half: float, ceiling: float, trim: Material) -> f.Piece:
    day = paint(generator, (0.55, 0.62), (0.0, 0.3), (0.9, 1.0))
    view = Material(
        colour=day, second=trim.colour, texture="outlook", seed=any_seed(generator), glow=1.6
    )
    foot, head = 0.85, min(2.15, ceiling - 0.15)
    shapes: list[Shape] = [
        block((-half, half), (0, 0.02), (foot, head), view, shadow=False),
        block((-half - 0.05, half + 0.05), (0, 0.12), (foot - 0.04, foot), trim),
    ]
    if generator.random() < 0.6:
        colour = paint(generator, saturation=(0.0, 0.6), value=(0.5, 0.95))
        drape = textured(generator, "folds", 0.12, colour)
        for end in (-half - 0.12, half - 0.12):
            shapes.append(block((end, end + 0.24), (0.03, 0.1), (0.1, head + 0.1), drape))
    return tuple(shapes)


def _try_wall(
    generator: np.random.Generator, site: _Site, piece: f.Piece, wall: float, tries: int
) -> float | None:
    """A place along the wall at which the piece fits, where it now stands; None if none did."""
    length, _ = site.along(wall)
    low, high = bounds(*piece)
    span = length / 2 + low[0], length / 2 - high[0]
    hangs, flat = low[2] > 0.01, high[1] < 0.2  # a picture or a window; a door
    gap = 0.001 if hangs or flat else 0.02  # furniture stands before the skirting board
    for _ in range(tries):
        if span[0] + span[1] <= 0:
            break
        place = generator.uniform(-span[0], span[1])
        if site.at_wall(piece, wall, place, gap=gap):
            return place
    return None


def _furnish(generator: np.random.Generator, site: _Site) -> None:
    needed, free = _USES[str(generator.choice(list(_USES)))]
    count = int(generator.integers(5, len(needed) + 1))
    for maker in needed[:count]:
        piece = maker(generator)
        for wall in generator.permutation(4):
            if _try_wall(generator, site, piece, _WALLS[wall], tries=6) is not None:
                break
    for maker in free[: int(generator.integers(1, len(free) + 1))]:
        piece = maker(generator)
        for _ in range(10):
            x, y = generator.uniform(-0.3, 0.3, 2) * site.size[:2]
            yaw = float(generator.integers(4)) * math.pi / 2 + generator.normal(0, 0.25)
            if site.put(piece, yaw, (float(x), float(y), 0.0)):
                break


def _decorate(generator: np.random.Generator, site: _Site) -> None:
    """Pictures on the walls, a carpet below everything."""
    for wall in generator.permutation(4)[: int(generator.integers(1, 5))]:
        half, tall = generator.uniform(0.2, 0.6), generator.uniform(0.3, 0.8)
        foot = generator.uniform(1.3, 1.5)
        art = Material(
            colour=paint(generator, saturation=(0.3, 1.0), value=(0.3, 0.9)),
            second=paint(generator, saturation=(0.0, 0.4)),
            texture="picture",
            seed=any_seed(generator),
        )
        spans = (-half, half), (0.0, 0.025), (foot, foot + tall)
        _try_wall(generator, site, (block(*spans, art, shadow=False),), _WALLS[wall], tries=4)
    if generator.random() < 0.5:
        half_x, half_y = (generator.uniform(0.25, 0.4, 2) * site.size[:2]).tolist()
        cloth = f.cloth(generator)
        rug = block((-half_x, half_x), (-half_y, half_y), (0, 0.008), cloth, shadow=False)
        site.shapes.append(rug)  # thin enough to lie below furniture


def _skirting(size: Point, material: Material) -> list[Shape]:
    """The boards at the foot of the walls."""
    x, y, thick, tall = size[0] / 2, size[1] / 2, 0.015, 0.09
    spans = [((-x, x), side) for side in ((-y, thick - y), (y - thick, y))]
    spans += [(side, (-y, y)) for side in ((-x, thick - x), (x - thick, x))]
    return [block(*span, (0, tall), material, shadow=False) for span in spans]


def _lighting(
    generator: np.random.Generator, site: _Site, windows: list[Point]
) -> tuple[Shape, tuple[Light, ...]]:
    """A lamp below the ceiling, and daylight from the windows."""
    x, y = (generator.uniform(-0.2, 0.2, 2) * site.size[:2]).tolist()
    below = site.size[2] - 0.12
    warm = paint(generator, (0.08, 0.14), (0.05, 0.35), (0.95, 1.0))
    shade = f.glowing(warm, 2.5)
    lamp: Shape = Cylinder(
        centre=(x, y, below + 0.06), radius=0.22, height=0.12, materials=(shade,), shadow=False
    )
    if generator.random() < 0.4:
        lamp = Sphere(centre=(x, y, below - 0.08), radius=0.14, materials=(shade,), shadow=False)
    power = generator.uniform(0.5, 1.3)
    lights = [Light(position=(x, y, below - 0.1), colour=toned(warm, power), reach=4.0)]
    for window in windows[:2]:  # every light costs a ray for each pixel
        day = paint(generator, (0.55, 0.62), (0.0, 0.25), (0.9, 1.0))
        strength = generator.uniform(0.3, 1.2)
        lights.append(Light(position=window, colour=toned(day, strength), reach=3.0))
    return lamp, tuple(lights)
