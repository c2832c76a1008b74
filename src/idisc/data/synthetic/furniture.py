"""Pieces of furniture, each a few shapes of usual sizes.

A piece stands in its own axes: x along the wall behind it, its back at y = 0, its front towards +y,
the floor at z = 0. `rooms` moves it to its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from idisc.data.synthetic.scenes import (
    Material,
    Piece,
    Shape,
    Span,
    ball,
    bounds,
    box,
    moved,
    paint,
    textured,
    toned,
    tube,
)

Generator = np.random.Generator
Maker = Callable[[Generator], Piece]
_DARK = Material(colour=(0.01, 0.01, 0.012))


def wood(generator: Generator, scale: float = 0.25) -> Material:
    """Light birch to dark oak."""
    colour = paint(generator, (0.06, 0.11), (0.3, 0.7), (0.35, 0.85))
    return textured(generator, "planks", scale, colour, 0.45)


def body(generator: Generator) -> Material:
    """Wood, or white, grey or coloured lacquer."""
    if generator.random() < 0.6:
        return wood(generator)
    strong = generator.random() < 0.35
    saturation, value = ((0.4, 0.9), (0.3, 0.8)) if strong else ((0.0, 0.15), (0.3, 0.95))
    return Material(colour=paint(generator, saturation=saturation, value=value))


def cloth(generator: Generator) -> Material:
    """Covers of beds, sofas and cushions."""
    colour = paint(generator, saturation=(0.1, 0.8), value=(0.25, 0.9))
    choices = ("rough", 0.04), ("plaid", 0.15), ("stripes", 0.12)
    texture, scale = choices[int(generator.choice(3, p=(0.5, 0.3, 0.2)))]
    other = paint(generator, value=(0.5, 0.95)) if texture != "rough" else 0.6
    return textured(generator, texture, scale, colour, other)


def _cupboard(x: Span, y: Span, z: Span, material: Material, door: float = 0.5) -> Shape:
    second = toned(material.colour, 0.3)
    front = Material(colour=material.colour, second=second, texture="panels", scale=door)
    return box(x, y, z, material, front)


def _ends(half: float, thick: float) -> tuple[Span, Span]:
    """The two ends of a span from -half to half."""
    return (-half, thick - half), (half - thick, half)


def _clutter(generator: Generator, half: float, depth: float, height: float) -> Piece:
    """A few small things on a surface of this height."""
    things: list[Shape] = []
    for _ in range(int(generator.integers(1, 4))):
        x, y = generator.uniform(-0.8, 0.8) * half, generator.uniform(0.25, 0.75) * depth
        size, material = generator.uniform(0.04, 0.11), body(generator)
        book = box((-1.6 * size, 1.6 * size), (-size, size), (0, size), cloth(generator))
        vase = tube(0, 0, (0, 3 * size), size / 1.5, material)
        thing = (vase, ball((0, 0, size), size, material), book)[int(generator.integers(3))]
        things += moved((thing,), generator.uniform(-1, 1), (x, y, height))
    return tuple(things)


def _table(generator: Generator, tall: float = 0.74, bare: bool = False) -> Piece:
    half, depth = generator.uniform(0.4, 0.9), generator.uniform(0.6, 0.95)
    material, below = body(generator), tall - 0.04
    top = box((-half, half), (0, depth), (below, tall), material)
    sides = (0.0, 0.06), (depth - 0.06, depth)
    legs = [box(x, y, (0, below), material) for x in _ends(half - 0.03, 0.06) for y in sides]
    return (top, *legs, *(() if bare else _clutter(generator, half, depth, tall)))


def _chair(generator: Generator) -> Piece:
    material, high = body(generator), generator.uniform(0.8, 1.0)
    seat = box((-0.22, 0.22), (0, 0.44), (0.43, 0.47), material)
    back = box((-0.22, 0.22), (0, 0.04), (0.6, high), material)
    posts = [box(x, (0, 0.04), (0, high), material) for x in _ends(0.22, 0.04)]
    legs = [box(x, (0.4, 0.44), (0, 0.43), material) for x in _ends(0.22, 0.04)]
    return (seat, back, *posts, *legs)


def _dining(generator: Generator) -> Piece:
    top, pattern = _table(generator), _chair(generator)
    far = bounds(*top)[1][1] + 0.9
    group = list(moved(top, 0.0, (0, 0.55, 0)))
    for x in (-0.3, 0.3):
        group += moved(pattern, 0.0, (x, 0.2, 0))
        group += moved(pattern, generator.normal(np.pi, 0.2), (x, far, 0))
    return tuple(group)


def _desk(generator: Generator) -> Piece:
    colour = paint(generator, value=(0.3, 0.9))
    shine = textured(generator, "picture", 0.3, colour, _DARK.colour, glow=0.8)
    x = generator.uniform(-0.15, 0.15)
    screen = box((x - 0.28, x + 0.28), (0.15, 0.19), (0.86, 1.2), _DARK, shine)
    foot = box((x - 0.1, x + 0.1), (0.12, 0.22), (0.74, 0.86), _DARK)
    seat = moved(_chair(generator), generator.normal(np.pi, 0.4), (x, 1.1, 0))
    return (*_table(generator, bare=True), screen, foot, *seat)


def _sofa(generator: Generator, seats: int = 0) -> Piece:
    seats = seats or int(generator.integers(2, 4))
    inner, depth = seats * generator.uniform(0.28, 0.34), generator.uniform(0.8, 0.95)
    half, cover = inner + 0.16, cloth(generator)
    base = box((-half, half), (0, depth), (0.06, 0.28), cover)
    back = box((-half, half), (0, 0.22), (0.28, 0.8), cover)
    arms = [box(x, (0, depth), (0.28, 0.6), cover) for x in _ends(half, 0.16)]
    spans = pairwise(np.linspace(-inner, inner, seats + 1).tolist())
    seat = (0.2, depth + 0.02), (0.28, 0.43)
    cushions = [box((left + 0.01, right - 0.01), *seat, cover) for left, right in spans]
    pillow = box((-0.2, 0.2), (0, 0.12), (0, 0.38), cloth(generator))
    side = float(generator.choice([-1.0, 1.0])) * (inner - 0.25)
    return (base, back, *arms, *cushions, *moved((pillow,), 0.2, (side, 0.24, 0.43)))


def _bed(generator: Generator) -> Piece:
    half, long, frame = float(generator.choice([0.48, 0.7, 0.9])), 2.05, body(generator)
    white = Material(colour=paint(generator, saturation=(0, 0.15), value=(0.8, 0.95)))
    spots = (0.0,) if half < 0.6 else (-half / 2, half / 2)
    over = (-half - 0.01, half + 0.01), (0.65, long + 0.01), (0.25, 0.52)
    return (
        box((-half, half), (0, 0.06), (0, generator.uniform(0.8, 1.2)), frame),
        box((-half, half), (0.06, long), (0.05, 0.28), frame),
        box((0.02 - half, half - 0.02), (0.06, long - 0.02), (0.28, 0.48), white),
        box(*over, cloth(generator)),
        *(box((x - 0.3, x + 0.3), (0.12, 0.5), (0.48, 0.6), white) for x in spots),
    )


def _bookcase(generator: Generator) -> Piece:
    half, material = generator.uniform(0.3, 0.65), body(generator)
    rows, step = int(generator.integers(3, 7)), generator.uniform(0.3, 0.38)
    tall = rows * step + 0.05
    shapes = [box(x, (0, 0.3), (0, tall), material) for x in _ends(half, 0.02)]
    shapes.append(box((-half, half), (0, 0.02), (0, tall), material))
    for row in range(rows + 1):
        foot = 0.05 + row * step
        shapes.append(box((-half, half), (0.02, 0.3), (foot - 0.025, foot), material))
        if row < rows and generator.random() < 0.85:
            thick, behind = generator.uniform(0.025, 0.05), toned(material.colour, 0.5)
            spines = textured(generator, "books", thick, (0.8, 0.8, 0.8), behind)
            end, deep = half * (0.97 - generator.uniform(0, 0.8)), generator.uniform(0.18, 0.26)
            high = foot + step * generator.uniform(0.7, 0.9)
            shapes.append(box((0.02 - half, end), (0.02, deep), (foot, high), spines))
    return tuple(shapes)


def _wardrobe(generator: Generator) -> Piece:
    half, tall = generator.uniform(0.4, 1.1), generator.uniform(1.8, 2.2)
    return (_cupboard((-half, half), (0, 0.55), (0, tall), body(generator)),)


def _dresser(generator: Generator) -> Piece:
    half, depth = generator.uniform(0.4, 0.9), generator.uniform(0.38, 0.5)
    tall = generator.uniform(0.6, 0.95)
    chest = _cupboard((-half, half), (0, depth), (0, tall), body(generator), 0.45)
    return (chest, *_clutter(generator, half, depth, tall))


def _television(generator: Generator) -> Piece:
    half, tall, wide = (generator.uniform(*r) for r in ((0.7, 1.0), (0.4, 0.55), (0.4, 0.6)))
    bench = _cupboard((-half, half), (0, 0.42), (0, tall), body(generator))
    screen = box((-wide, wide), (0.15, 0.2), (tall + 0.06, tall + 0.06 + wide * 1.13), _DARK)
    return (bench, screen, box((-0.15, 0.15), (0.12, 0.28), (tall, tall + 0.06), _DARK))


def _kitchen(generator: Generator) -> Piece:
    half, fronts = generator.uniform(0.9, 1.7), body(generator)
    span = (-half, half)
    colour = paint(generator, saturation=(0, 0.4), value=(0.6, 0.95))
    wall = textured(generator, "tiles", generator.uniform(0.1, 0.2), colour, (0.3, 0.3, 0.3))
    return (
        _cupboard(span, (0, 0.58), (0.0, 0.87), fronts, 0.6),
        box(span, (0, 0.62), (0.87, 0.91), body(generator)),
        _cupboard(span, (0, 0.35), (1.45, 2.1), fronts, 0.6),
        box(span, (0, 0.015), (0.91, 1.45), wall, shadow=False),
        *_clutter(generator, half, 0.5, 0.91),
    )


def _fridge(generator: Generator) -> Piece:
    material = Material(colour=paint(generator, saturation=(0, 0.05), value=(0.6, 0.95)))
    handle = box((0.22, 0.25), (0.62, 0.66), (0.8, 1.2), _DARK)
    return (_cupboard((-0.3, 0.3), (0, 0.62), (0, 1.75), material, 0.6), handle)


def _floor_lamp(generator: Generator) -> Piece:
    metal, tall = Material(colour=(0.08, 0.08, 0.08)), generator.uniform(1.3, 1.7)
    warm = paint(generator, (0.08, 0.15), (0.05, 0.3), (0.9, 1.0))
    shade = Material(colour=warm, glow=1.2)
    top = ball((0, 0.2, tall), 0.17, shade, shadow=False)
    if generator.random() < 0.5:
        top = tube(0, 0.2, (tall - 0.15, tall + 0.15), 0.2, shade, shadow=False)
    return tube(0, 0.2, (0, 0.03), 0.16, metal), tube(0, 0.2, (0, tall), 0.018, metal), top


def _plant(generator: Generator) -> Piece:
    pot = Material(colour=paint(generator, (0.02, 0.08), (0.1, 0.7), (0.4, 0.9)))
    green = paint(generator, (0.22, 0.36), (0.4, 0.8), (0.25, 0.6))
    leaves = textured(generator, "rough", 0.12, green, 0.2)
    shapes = [tube(0, 0.25, (0, 0.32), 0.16, pot)]
    for _ in range(int(generator.integers(2, 5))):
        x, y, z = generator.uniform((-0.12, 0.13, 0.45), (0.12, 0.37, 0.95)).tolist()
        shapes.append(ball((x, y, z), generator.uniform(0.12, 0.24), leaves))
    return tuple(shapes)


def _cartons(generator: Generator) -> Piece:
    brown = paint(generator, (0.07, 0.1), (0.3, 0.5), (0.5, 0.75))
    paper = textured(generator, "panels", 2.0, brown, 0.4)
    upper, lower = np.sort(generator.uniform(0.12, 0.3, 2)).tolist()
    first = box((-lower, lower), (0, 2 * lower), (0, 1.5 * lower), paper)
    second = box((-upper, upper), (-upper, upper), (0, 1.3 * upper), paper)
    return (first, *moved((second,), generator.normal(0, 0.3), (0, lower, 1.5 * lower)))


_armchair: Maker = partial(_sofa, seats=1)
_coffee_table: Maker = partial(_table, tall=0.42)
USES: dict[str, tuple[tuple[Maker, ...], tuple[Maker, ...]]] = {
    "living": (
        (_sofa, _television, _bookcase, _floor_lamp, _plant, _dresser, _bookcase),
        (_coffee_table, _armchair, _armchair),
    ),
    "bedroom": (
        (_bed, _wardrobe, _dresser, _desk, _floor_lamp, _bookcase, _plant),
        (_armchair, _chair),
    ),
    "kitchen": ((_kitchen, _fridge, _dresser, _table, _plant, _cartons), (_dining, _chair)),
    "office": (
        (_desk, _bookcase, _desk, _bookcase, _wardrobe, _plant, _cartons),
        (_table, _chair, _chair),
    ),
    "storage": (
        (_cartons, _bookcase, _wardrobe, _cartons, _table, _dresser, _cartons),
        (_cartons, _chair, _table),
    ),
}
"""Furniture of a room by its use: at the walls, the most important first, and free-standing."""
