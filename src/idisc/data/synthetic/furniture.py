"""Pieces of furniture, each a handful of shapes of usual sizes.

A piece stands in its own axes: x along the wall behind it, its back at y = 0, its front towards +y,
the floor at z = 0. `rooms` turns and shifts it to its place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from idisc.data.synthetic.scenes import (
    Cylinder,
    Material,
    Shape,
    Sphere,
    block,
    bounds,
    moved,
    paint,
    textured,
    toned,
    with_front,
)

Piece = tuple[Shape, ...]
Maker = Callable[[np.random.Generator], Piece]


def wood(generator: np.random.Generator, scale: float = 0.25) -> Material:
    """Light birch to dark oak."""
    colour = paint(generator, (0.06, 0.11), (0.3, 0.7), (0.35, 0.85))
    return textured(generator, "planks", scale, colour, 0.45)


def lacquer(generator: np.random.Generator) -> Material:
    """White, grey or one strong colour."""
    strong = generator.random() < 0.35
    saturation, value = ((0.4, 0.9), (0.3, 0.8)) if strong else ((0.0, 0.15), (0.3, 0.95))
    return Material(colour=paint(generator, saturation=saturation, value=value))


def body(generator: np.random.Generator) -> Material:
    """What furniture is made of."""
    return wood(generator) if generator.random() < 0.6 else lacquer(generator)


def cloth(generator: np.random.Generator) -> Material:
    """Covers of beds, sofas and cushions."""
    colour = paint(generator, saturation=(0.1, 0.8), value=(0.25, 0.9))
    texture, scale = (("plaid", 0.15), ("rough", 0.04), ("stripes", 0.12), ("checker", 0.08))[
        int(generator.choice(4, p=(0.2, 0.5, 0.2, 0.1)))
    ]
    other = paint(generator, value=(0.5, 0.95)) if texture != "rough" else toned(colour, 0.6)
    return textured(generator, texture, scale, colour, other)


def fronted(material: Material, width: float) -> tuple[Material, ...]:
    """A body whose front has doors of about this width."""
    front = Material(
        colour=material.colour, second=toned(material.colour, 0.3), texture="panels", scale=width
    )
    return with_front(front, material)


def glowing(colour: tuple[float, float, float], glow: float) -> Material:
    """A lamp."""
    return Material(colour=colour, glow=glow)


def legs(
    width: float, depth: float, height: float, thick: float, material: Material
) -> list[Shape]:
    """Four legs below the corners."""
    xs = ((-width / 2, -width / 2 + thick), (width / 2 - thick, width / 2))
    ys = ((0.0, thick), (depth - thick, depth))
    return [block(x, y, (0, height), material) for x in xs for y in ys]


def clutter(generator: np.random.Generator, width: float, depth: float, height: float) -> Piece:
    """A few small things on a surface of this height."""
    things: list[Shape] = []
    for _ in range(int(generator.integers(1, 4))):
        x = generator.uniform(-0.4, 0.4) * width
        y = generator.uniform(0.25, 0.75) * depth
        kind, material = int(generator.integers(3)), lacquer(generator)
        size = generator.uniform(0.04, 0.11)
        if kind == 0:
            tall = generator.uniform(0.1, 0.28)
            things.append(
                Cylinder(
                    centre=(x, y, height + tall / 2),
                    radius=size / 1.5,
                    height=tall,
                    materials=(material,),
                )
            )
        elif kind == 1:
            things.append(Sphere(centre=(x, y, height + size), radius=size, materials=(material,)))
        else:
            book = block((-size * 1.6, size * 1.6), (-size, size), (0, size), cloth(generator))
            things.append(moved(book, generator.uniform(-1, 1), (x, y, height)))
    return tuple(things)


def _table(generator: np.random.Generator, tall: float = 0.74) -> tuple[Piece, Piece]:
    """A top on four legs, and something to lie on it."""
    width, depth = generator.uniform(0.8, 1.8), generator.uniform(0.6, 0.95)
    material = body(generator)
    top = block((-width / 2, width / 2), (0, depth), (tall - 0.04, tall), material)
    below = legs(width - 0.06, depth, tall - 0.04, 0.06, material)
    return (top, *below), clutter(generator, width, depth, tall)


def table(generator: np.random.Generator) -> Piece:
    """A table with something on it."""
    bare, things = _table(generator)
    return bare + things


def coffee_table(generator: np.random.Generator) -> Piece:
    """A low table."""
    bare, things = _table(generator, tall=generator.uniform(0.35, 0.48))
    return bare + things


def chair(generator: np.random.Generator) -> Piece:
    """A seat, a back and four legs; its back is to y = 0."""
    material, high = body(generator), generator.uniform(0.8, 1.0)
    seat = block((-0.22, 0.22), (0, 0.44), (0.43, 0.47), material)
    back = block((-0.22, 0.22), (0, 0.04), (0.6, high), material)
    posts = [block(x, (0, 0.04), (0.47, high), material) for x in ((-0.22, -0.18), (0.18, 0.22))]
    return (seat, back, *posts, *legs(0.44, 0.44, 0.43, 0.04, material))


def dining(generator: np.random.Generator) -> Piece:
    """A table with chairs on both long sides."""
    bare, things = _table(generator)
    group: list[Shape] = [moved(shape, 0.0, (0, 0.55, 0)) for shape in bare + things]
    far = bounds(*bare)[1][1] + 0.55  # its other side
    pattern = chair(generator)
    for x in (-0.3, 0.3):
        group += [moved(shape, 0.0, (x, 0.2, 0)) for shape in pattern]
        swing = generator.normal(np.pi, 0.2)
        group += [moved(shape, swing, (x, far + 0.35, 0)) for shape in pattern]
    return tuple(group)


def desk(generator: np.random.Generator) -> Piece:
    """A table with a screen and a chair before it."""
    bare, _ = _table(generator)  # the screen takes its room
    dark = Material(colour=(0.01, 0.01, 0.012))
    shine = Material(
        colour=paint(generator, value=(0.3, 0.9)), second=dark.colour, texture="picture", glow=0.8
    )
    x, tall = generator.uniform(-0.2, 0.2), 0.74
    screen = block(
        (x - 0.28, x + 0.28), (0.15, 0.19), (tall + 0.12, tall + 0.46), *with_front(shine, dark)
    )
    foot = block((x - 0.1, x + 0.1), (0.12, 0.22), (tall, tall + 0.12), dark)
    swing = generator.normal(np.pi, 0.4)
    seat = [moved(shape, swing, (x, 1.1, 0)) for shape in chair(generator)]
    return (*bare, screen, foot, *seat)


def sofa(generator: np.random.Generator) -> Piece:
    """Base, back, two arms, seat cushions and a pillow."""
    width, depth = generator.uniform(1.4, 2.3), generator.uniform(0.8, 0.95)
    cover, half = cloth(generator), width / 2
    base = block((-half, half), (0, depth), (0.06, 0.28), cover)
    back = block((-half, half), (0, 0.22), (0.28, 0.8), cover)
    arms = [
        block(x, (0, depth), (0.28, 0.6), cover)
        for x in ((-half, 0.18 - half), (half - 0.18, half))
    ]
    inner, count = width - 0.4, 2 if width < 1.9 else 3
    seats = [
        block(
            (-inner / 2 + i * inner / count + 0.01, -inner / 2 + (i + 1) * inner / count - 0.01),
            (0.2, depth + 0.02),
            (0.28, 0.43),
            cover,
        )
        for i in range(count)
    ]
    pillow = block((-0.2, 0.2), (0, 0.12), (0, 0.38), cloth(generator))
    side = float(generator.choice([-1.0, 1.0])) * (half - 0.45)
    return (base, back, *arms, *seats, moved(pillow, 0.2, (side, 0.24, 0.43)))


def armchair(generator: np.random.Generator) -> Piece:
    """A sofa for one."""
    cover = cloth(generator)
    arms = [block(x, (0, 0.8), (0.1, 0.6), cover) for x in ((-0.42, -0.28), (0.28, 0.42))]
    seat = block((-0.28, 0.28), (0.15, 0.8), (0.12, 0.43), cover)
    return (*arms, seat, block((-0.42, 0.42), (0, 0.18), (0.1, 0.85), cover))


def bed(generator: np.random.Generator) -> Piece:
    """Headboard at the wall, mattress, blanket, pillows."""
    width, long = float(generator.choice([0.95, 1.4, 1.8])), 2.05
    half, frame = width / 2, body(generator)
    white = Material(colour=paint(generator, saturation=(0, 0.15), value=(0.8, 0.95)))
    head = block((-half, half), (0, 0.06), (0, generator.uniform(0.8, 1.2)), frame)
    base = block((-half, half), (0.06, long), (0.05, 0.28), frame)
    mattress = block((0.02 - half, half - 0.02), (0.06, long - 0.02), (0.28, 0.48), white)
    blanket = block(
        (-half - 0.01, half + 0.01), (0.65, long + 0.01), (0.25, 0.52), cloth(generator)
    )
    spots = (0.0,) if width < 1.2 else (-width / 4, width / 4)
    rests = [block((x - 0.32, x + 0.32), (0.12, 0.5), (0.48, 0.6), white) for x in spots]
    return (head, base, mattress, blanket, *rests)


def bookcase(generator: np.random.Generator) -> Piece:
    """Sides, back and boards, with books of all colours on the boards."""
    width, depth = generator.uniform(0.6, 1.3), 0.3
    rows = int(generator.integers(3, 7))
    step, half, material = generator.uniform(0.3, 0.38), width / 2, body(generator)
    tall = rows * step + 0.05
    sides = [
        block(x, (0, depth), (0, tall), material)
        for x in ((-half, 0.02 - half), (half - 0.02, half))
    ]
    shapes: list[Shape] = [*sides, block((-half, half), (0, 0.02), (0, tall), material)]
    for row in range(rows + 1):
        foot = 0.05 + row * step
        shapes.append(block((-half, half), (0.02, depth), (foot - 0.025, foot), material))
        if row < rows and generator.random() < 0.85:
            thick, behind = generator.uniform(0.025, 0.05), toned(material.colour, 0.5)
            backs = textured(generator, "books", thick, (0.8, 0.8, 0.8), behind)
            end = half - 0.02 - generator.uniform(0, 0.4) * width
            high = foot + step * generator.uniform(0.7, 0.9)
            shapes.append(
                block(
                    (0.02 - half, end),
                    (0.02, generator.uniform(0.18, 0.26)),
                    (foot, high),
                    backs,
                )
            )
    return tuple(shapes)


def wardrobe(generator: np.random.Generator) -> Piece:
    """A tall cupboard with doors."""
    half, depth = generator.uniform(0.4, 1.1), generator.uniform(0.45, 0.62)
    tall = generator.uniform(1.8, 2.2)
    return (block((-half, half), (0, depth), (0, tall), *fronted(body(generator), 0.5)),)


def dresser(generator: np.random.Generator) -> Piece:
    """A low cupboard with things on it."""
    half, depth = generator.uniform(0.4, 0.9), generator.uniform(0.38, 0.5)
    tall = generator.uniform(0.6, 0.95)
    chest = block((-half, half), (0, depth), (0, tall), *fronted(body(generator), 0.45))
    return (chest, *clutter(generator, 2 * half, depth, tall))


def television(generator: np.random.Generator) -> Piece:
    """A flat screen on a long low bench."""
    half, tall = generator.uniform(0.7, 1.0), generator.uniform(0.4, 0.55)
    bench = block((-half, half), (0, 0.42), (0, tall), *fronted(body(generator), 0.5))
    dark = Material(colour=(0.008, 0.008, 0.01))
    wide = generator.uniform(0.4, 0.6)
    screen = block((-wide, wide), (0.15, 0.2), (tall + 0.06, tall + 0.06 + wide * 1.13), dark)
    return (bench, screen, block((-0.15, 0.15), (0.12, 0.28), (tall, tall + 0.06), dark))


def kitchen(generator: np.random.Generator) -> Piece:
    """Counter with a worktop, cupboards above it, tiles between them."""
    half, fronts = generator.uniform(0.9, 1.7), lacquer(generator)
    span = (-half, half)
    colour = paint(generator, saturation=(0, 0.4), value=(0.6, 0.95))
    wall = textured(generator, "tiles", generator.uniform(0.1, 0.2), colour, (0.3, 0.3, 0.3))
    return (
        block(span, (0, 0.58), (0.0, 0.87), *fronted(fronts, 0.6)),
        block(span, (0, 0.62), (0.87, 0.91), body(generator)),
        block(span, (0, 0.35), (1.45, 2.1), *fronted(fronts, 0.6)),
        block(span, (0, 0.015), (0.91, 1.45), wall, shadow=False),
        *clutter(generator, 2 * half, 0.5, 0.91),
    )


def fridge(generator: np.random.Generator) -> Piece:
    """White or steel, taller than a child."""
    material = Material(colour=paint(generator, saturation=(0, 0.05), value=(0.6, 0.95)))
    front = block((-0.3, 0.3), (0, 0.62), (0, 1.75), *fronted(material, 0.6))
    return (front, block((0.22, 0.25), (0.62, 0.66), (0.8, 1.2), Material(colour=(0.1, 0.1, 0.1))))


def floor_lamp(generator: np.random.Generator) -> Piece:
    """A foot, a pole and a bright shade."""
    metal, tall = Material(colour=(0.08, 0.08, 0.08)), generator.uniform(1.3, 1.7)
    shade = glowing(paint(generator, (0.08, 0.15), (0.05, 0.3), (0.9, 1.0)), 1.2)
    foot = Cylinder(centre=(0, 0.2, 0.015), radius=0.16, height=0.03, materials=(metal,))
    pole = Cylinder(centre=(0, 0.2, tall / 2), radius=0.018, height=tall, materials=(metal,))
    if generator.random() < 0.5:
        top: Shape = Sphere(centre=(0, 0.2, tall), radius=0.17, materials=(shade,), shadow=False)
    else:
        top = Cylinder(
            centre=(0, 0.2, tall), radius=0.2, height=0.3, materials=(shade,), shadow=False
        )
    return foot, pole, top


def plant(generator: np.random.Generator) -> Piece:
    """Leaves over a pot."""
    pot = Material(colour=paint(generator, (0.02, 0.08), (0.1, 0.7), (0.4, 0.9)))
    green = paint(generator, (0.22, 0.36), (0.4, 0.8), (0.25, 0.6))
    leaves = textured(generator, "rough", 0.12, green, 0.2)
    shapes: list[Shape] = [
        Cylinder(centre=(0, 0.25, 0.16), radius=0.16, height=0.32, materials=(pot,))
    ]
    for _ in range(int(generator.integers(2, 5))):
        x, y, z = generator.uniform((-0.12, 0.13, 0.45), (0.12, 0.37, 0.95)).tolist()
        radius = generator.uniform(0.12, 0.24)
        shapes.append(Sphere(centre=(x, y, z), radius=radius, materials=(leaves,)))
    return tuple(shapes)


def cartons(generator: np.random.Generator) -> Piece:
    """Packing cases, one on the other."""
    brown = paint(generator, (0.07, 0.1), (0.3, 0.5), (0.5, 0.75))
    paper = textured(generator, "panels", 2.0, brown, 0.4)
    sizes = np.sort(generator.uniform(0.12, 0.3, 2))[::-1].tolist()
    lower = block((-sizes[0], sizes[0]), (0, 2 * sizes[0]), (0, 1.5 * sizes[0]), paper)
    upper = block((-sizes[1], sizes[1]), (-sizes[1], sizes[1]), (0, 1.3 * sizes[1]), paper)
    swing = generator.normal(0, 0.3)
    return lower, moved(upper, swing, (0, sizes[0], 1.5 * sizes[0]))
