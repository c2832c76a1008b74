"""Streets: a road between pavements and houses, with cars, trees, lamps and people.

The road runs along y, its middle at x = 0; the camera is near y = 0 and looks along it. The sky has
no depth.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic.scenes import (
    Light,
    Material,
    Piece,
    Scene,
    Shape,
    Span,
    ball,
    box,
    moved,
    paint,
    textured,
    toned,
    tube,
)

Generator = np.random.Generator
GROUND = 1024.0  # metres to the end of the world
_START, _END = -12.0, 90.0  # metres along the road between which something stands
_KERB = 0.14  # metres
_DARK = Material(colour=(0.012, 0.012, 0.014))
_STEEL = Material(colour=(0.12, 0.13, 0.13))


def make_street(generator: Generator) -> Scene:
    """A road with everything beside it."""
    lane = generator.uniform(2.8, 3.6)  # metres from the middle to the line at the side
    parking = generator.random() < 0.65  # a strip for parked cars beside the lanes
    edge = lane + (2.3 if parking else 0.4)  # to the kerb
    path = generator.uniform(1.8, 4.0)  # of the pavement
    shapes = _ground(generator, lane, edge, path)
    for side in (-1, 1):
        shapes += _houses(generator, side, edge + path)
        shapes += _kerbside(generator, side, edge)
        for _ in range(int(generator.integers(0, 4))):
            shapes += _person(generator, side * (edge + generator.uniform(0.9, path)))
        at, chance = generator.uniform(4, 14), generator.uniform(0.2, 0.8)
        while parking and at < 55:
            if generator.random() < chance:
                shapes += _car(generator, side * (edge - 1.15), at)
            at += generator.uniform(5.5, 9)
        if generator.random() < 0.5:  # traffic
            shapes += _car(generator, side * lane * 0.5, generator.uniform(9, 45))
    if generator.random() < 0.65:  # houses across the end of the road
        at = generator.uniform(45, _END)
        for x in (-24.0, -8.0, 8.0):
            row = _house(generator, 1, at, x, 16.0, int(generator.integers(2, 6)))
            shapes += moved(row, math.pi / 2, (0, 0, 0))
    day = paint(generator, (0.55, 0.62), (0.05, 0.35), (0.85, 1.0))
    blue = paint(generator, (0.56, 0.61), (0.2, 0.7), (0.6, 0.95))
    return Scene(
        shapes=tuple(shapes),
        lights=(_sun(generator),),
        ambient=toned(day, generator.uniform(0.35, 0.7)),
        sky=(toned(day, 1.2), blue),
        seed=int(generator.integers(1 << 16)),
    )


def _sun(generator: Generator) -> Light:
    """High enough that the street is not all in shadow."""
    turn, climb = generator.uniform(0, 2 * math.pi), generator.uniform(0.7, 1.25)
    x, y, z = math.cos(turn) * math.cos(climb), math.sin(turn) * math.cos(climb), math.sin(climb)
    warm = paint(generator, (0.08, 0.14), (0.02, 0.2), (0.95, 1.0))
    colour = toned(warm, generator.uniform(0.3, 1.6))
    return Light(position=(x * 1e4, y * 1e4, z * 1e4), colour=colour)


def _across(side: int, near: float, far: float) -> Span:
    """From `near` to `far` on one side of the road."""
    return (near, far) if side > 0 else (-far, -near)


def _ground(generator: Generator, lane: float, edge: float, path: float) -> list[Shape]:
    """The road, then kerbs, pavements and grass on both sides."""
    grey = paint(generator, (0.55, 0.7), (0.0, 0.08), (0.28, 0.5))
    asphalt = textured(generator, "road", lane, grey, (0.75, 0.75, 0.7))
    stone = paint(generator, (0.05, 0.12), (0.0, 0.15), (0.5, 0.75))
    slabs = textured(generator, "tiles", generator.uniform(0.4, 0.8), stone, 0.55)
    green = paint(generator, (0.2, 0.33), (0.3, 0.7), (0.3, 0.6))
    lawn = textured(generator, "rough", 0.5, green)
    kerb = Material(colour=toned(stone, 0.8), second=toned(stone, 0.4), texture="tiles", scale=1.0)
    whole, half = (-GROUND, GROUND), (-GROUND / 2, GROUND / 2)
    shapes = [box(whole, whole, (-1.0, 0.0), asphalt, shadow=False)]
    strips = (edge, kerb), (edge + 0.15, slabs), (edge + path, lawn)
    ends = edge + 0.15, edge + path, GROUND / 2
    for side in (-1, 1):
        for (near, material), far in zip(strips, ends, strict=True):
            span = _across(side, near, far)
            shapes.append(box(span, half, (-0.5, _KERB), material, shadow=False))
    return shapes


def _houses(generator: Generator, side: int, front: float) -> list[Shape]:
    """A row of houses along one side, with some trees and gaps between them."""
    shapes: list[Shape] = []
    at = _START - 10.0 * generator.random()
    floors = int(generator.integers(1, 6))
    back = float(generator.choice([0.0, 3.0, 6.0]))
    while at < _END:
        long = generator.uniform(7, 18)
        if generator.random() < 0.2:
            shapes += _tree(generator, side * (front + 4), at + long / 2, tall=1.4)
            at += long * 0.6
            continue
        floors = int(np.clip(floors + generator.integers(-1, 2), 1, 6))
        near = front + back + generator.uniform(0, 0.8)
        shapes += _house(generator, side, near, at, long, floors)
        at += long + float(generator.choice([0.0, 0.0, 3.0]))
    return shapes


def _house(
    generator: Generator, side: int, near: float, at: float, long: float, floors: int
) -> list[Shape]:
    """Walls with windows, a darker base, a roof that juts out, a door, perhaps a bay."""
    storey = generator.uniform(2.7, 3.4)
    tall = floors * storey + _KERB
    colour = paint(generator, (0.0, 0.17), (0.05, 0.6), (0.4, 0.95))
    frame = paint(generator, saturation=(0.0, 0.2), value=(0.2, 0.95))
    wall = textured(generator, "facade", storey, colour, frame)
    base = Material(colour=toned(colour, 0.4))
    roof = Material(colour=paint(generator, (0.0, 0.08), (0.1, 0.6), (0.2, 0.5)))
    door = Material(colour=paint(generator, value=(0.15, 0.6)), texture="panels", scale=1.0)
    end, middle = at + long, at + long / 2
    parts: list[tuple[Span, Span, Span, Material]] = [  # across, along, up
        ((0, 11), (at, end), (_KERB, tall), wall),
        ((-0.05, 11), (at, end), (_KERB, _KERB + 0.5), base),
        ((-0.4, 11.4), (at - 0.1, end + 0.1), (tall, tall + 0.4), roof),
        ((-0.06, 1), (middle - 0.55, middle + 0.55), (_KERB, 2.3), door),
    ]
    if generator.random() < 0.5:  # an upper roof, set back
        parts.append(((1.2, 9), (at + 0.8, end - 0.8), (tall + 0.4, tall + 2.2), roof))
    if floors > 1 and generator.random() < 0.35:  # a bay or balcony
        first = at + generator.uniform(0.1, 0.6) * long
        parts.append(((-1.1, 1), (first, first + 2.4), (storey, tall - 0.3), wall))
    return [
        box(_across(side, near + x[0], near + x[1]), y, z, material) for x, y, z, material in parts
    ]


def _car(generator: Generator, x: float, y: float) -> Piece:
    """Body, cabin, four wheels and lights; on the left it comes towards the camera."""
    saturation = (0.0, 0.9) if generator.random() < 0.5 else (0.0, 0.05)
    colour = paint(generator, saturation=saturation, value=(0.1, 0.95))
    shell = Material(colour=colour, second=toned(colour, 0.6), scale=0.6)
    glass = Material(colour=colour, second=(0.015, 0.02, 0.025), texture="glazing", scale=1.1)
    half, long = generator.uniform(0.82, 0.95), generator.uniform(1.85, 2.4)
    waist, roof = generator.uniform(0.8, 1.0), generator.uniform(1.4, 1.75)
    cabin = (-long + float(generator.choice([0.1, 0.5])), long * 0.35)
    red, white = Material(colour=(0.5, 0.01, 0.01), glow=0.3), Material(colour=(0.9, 0.9, 0.85))
    bumper = (-half - 0.01, half + 0.01), (-long - 0.04, long + 0.04), (0.3, 0.48)
    inner = (0.1 - half, half - 0.1)
    shapes = [
        box((-half, half), (-long, long), (0.3, waist), shell),
        box(inner, cabin, (waist, roof - 0.03), glass),
        box(inner, cabin, (roof - 0.03, roof), shell),
        box(*bumper, _DARK, shadow=False),
    ]
    for left in (0.02 - half, half - 0.28):
        for end, lamp in ((-long - 0.02, red), (long - 0.04, white)):
            spans = (left, left + 0.26), (end, end + 0.06), (waist - 0.25, waist - 0.1)
            shapes.append(box(*spans, lamp, shadow=False))
        for end in (-long * 0.62, long * 0.62):
            shapes.append(ball((left + 0.13, end, 0.32), 0.32, _DARK, shadow=False))
    yaw = (0.0 if x > 0 else math.pi) + generator.normal(0, 0.02)
    return moved(shapes, yaw, (x, y, 0))


def _tree(generator: Generator, x: float, y: float, tall: float = 1.0) -> list[Shape]:
    """A trunk and a few balls of leaves."""
    bark = paint(generator, (0.05, 0.1), (0.2, 0.5), (0.2, 0.45))
    green = paint(generator, (0.15, 0.36), (0.4, 0.8), (0.3, 0.65))
    leaves = textured(generator, "rough", 0.6, green, 0.15)
    high, radius = generator.uniform(2.2, 3.6) * tall, generator.uniform(0.1, 0.22)
    shapes = [tube(x, y, (0, high), radius, textured(generator, "rough", 0.2, bark))]
    for _ in range(int(generator.integers(2, 5))):
        dx, dy, dz = (generator.uniform((-0.8, -0.8, -0.2), (0.8, 0.8, 1.8)) * tall).tolist()
        centre = (x + dx, y + dy, high + 0.5 + dz)
        shapes.append(ball(centre, generator.uniform(0.8, 1.5) * tall, leaves))
    return shapes


def _kerbside(generator: Generator, side: int, edge: float) -> list[Shape]:
    """Street lamps, trees and signs between road and pavement."""
    shapes: list[Shape] = []
    x, step, at = side * (edge + 0.5), generator.uniform(9, 18), generator.uniform(2, 9)
    with_trees = generator.random() < 0.6
    while at < 70:
        draw = generator.random()
        if with_trees and draw < 0.55:
            shapes += _tree(generator, x, at)
        elif draw < 0.8:
            tall, arm = generator.uniform(4.5, 8), sorted((x, x - side * 1.4))
            shapes.append(tube(x, at, (0, tall), 0.07, _STEEL))
            span = (arm[0], arm[1]), (at - 0.06, at + 0.06), (tall, tall + 0.1)
            shapes.append(box(*span, _STEEL))
        at += step * generator.uniform(0.8, 1.2)
    return shapes


def _person(generator: Generator, x: float) -> list[Shape]:
    """Legs, a coat and a head."""
    y, tall = generator.uniform(4, 35), generator.uniform(1.55, 1.9)
    trousers = Material(colour=paint(generator, saturation=(0, 0.6), value=(0.1, 0.5)))
    skin = Material(colour=paint(generator, (0.04, 0.08), (0.3, 0.6), (0.35, 0.9)))
    hip, neck = _KERB + 0.48 * tall, _KERB + 0.86 * tall
    return [
        tube(x - 0.09, y - 0.08, (_KERB, hip), 0.08, trousers),
        tube(x + 0.09, y + 0.08, (_KERB, hip), 0.08, trousers),
        tube(x, y, (hip, neck), 0.2, Material(colour=paint(generator))),
        ball((x, y, neck + 0.1), 0.115, skin),
    ]
