"""Streets: a road between pavements and houses, with cars, trees, lamps and people.

The road runs along y, its middle at x = 0; the camera starts near y = 0 and looks along it. Sky has
no depth.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic.scenes import (
    Cylinder,
    Light,
    Material,
    Scene,
    Shape,
    Sphere,
    any_seed,
    block,
    moved,
    paint,
    textured,
    toned,
)

GROUND = 1024.0  # metres to the end of the world
_START, _END = -12.0, 90.0  # metres along the road between which something stands
_KERB = 0.14  # metres
_DARK = Material(colour=(0.012, 0.012, 0.014))
_STEEL = Material(colour=(0.12, 0.13, 0.13))


def make_street(generator: np.random.Generator) -> Scene:
    """A road with all that stands beside it."""
    lane = generator.uniform(2.8, 3.6)  # metres from the middle to the line at the side
    parking = generator.random() < 0.65  # a strip for parked cars beside the lanes
    edge = lane + (2.3 if parking else 0.4)  # to the kerb
    path = generator.uniform(1.8, 4.0)  # of the pavement
    shapes: list[Shape] = [_ground(generator, lane)]
    shapes += _pavements(generator, edge, path)
    for side in (-1, 1):
        shapes += _houses(generator, side, edge + path)
        shapes += _parked(generator, side, edge) if parking else []
        shapes += _kerbside(generator, side, edge)
        shapes += _people(generator, side, edge, path)
    shapes += _traffic(generator, lane)
    shapes += _closing(generator)
    day = paint(generator, (0.55, 0.62), (0.05, 0.35), (0.85, 1.0))
    blue = paint(generator, (0.56, 0.61), (0.2, 0.7), (0.6, 0.95))
    return Scene(
        kind="street",
        shapes=tuple(shapes),
        lights=(_sun(generator),),
        ambient=toned(day, generator.uniform(0.35, 0.7)),
        sky=(toned(day, 1.2), blue),
        seed=any_seed(generator),
    )


def _sun(generator: np.random.Generator) -> Light:
    """High enough that the street is not all in shadow."""
    turn, climb = generator.uniform(0, 2 * math.pi), generator.uniform(0.7, 1.25)
    way = (math.cos(turn) * math.cos(climb), math.sin(turn) * math.cos(climb), math.sin(climb))
    warm = paint(generator, (0.08, 0.14), (0.02, 0.2), (0.95, 1.0))
    return Light(
        position=(way[0] * 1e4, way[1] * 1e4, way[2] * 1e4),
        colour=toned(warm, generator.uniform(0.3, 1.6)),
    )


def _ground(generator: np.random.Generator, lane: float) -> Shape:
    grey = paint(generator, (0.55, 0.7), (0.0, 0.08), (0.28, 0.5))
    asphalt = textured(generator, "road", lane, grey, (0.75, 0.75, 0.7))
    reach = (-GROUND, GROUND)
    return block(reach, reach, (-1.0, 0.0), asphalt, shadow=False)


def _pavements(generator: np.random.Generator, edge: float, path: float) -> list[Shape]:
    """Slabs on both sides, and grass or gravel behind them."""
    stone = paint(generator, (0.05, 0.12), (0.0, 0.15), (0.5, 0.75))
    slabs = textured(generator, "tiles", generator.uniform(0.4, 0.8), stone, 0.55)
    green = paint(generator, (0.2, 0.33), (0.3, 0.7), (0.3, 0.6))
    lawn = textured(generator, "rough", 0.5, green)
    kerb = Material(colour=toned(stone, 0.8), second=toned(stone, 0.4), texture="tiles", scale=1.0)
    reach, shapes = (-GROUND / 2, GROUND / 2), []
    for side in (-1, 1):
        spans = ((edge, edge + 0.15), (edge + 0.15, edge + path), (edge + path, GROUND / 2))
        for (near, far), material in zip(spans, (kerb, slabs, lawn), strict=True):
            across = (near, far) if side > 0 else (-far, -near)
            shapes.append(block(across, reach, (-0.5, _KERB), material, shadow=False))
    return list(shapes)


def _houses(generator: np.random.Generator, side: int, front: float) -> list[Shape]:
    """A row of houses along one side, now and then a tree or a gap between them."""
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
        shapes += _house(generator, side, (near, at), long, floors)
        at += long + float(generator.choice([0.0, 0.0, 3.0]))
    return shapes


def _house(
    generator: np.random.Generator, side: int, corner: tuple[float, float], long: float, floors: int
) -> list[Shape]:
    """Walls with windows, a darker base, a roof that juts out, a door, perhaps a bay."""
    near, at = corner
    storey = generator.uniform(2.7, 3.4)
    tall = floors * storey + _KERB
    colour = paint(generator, (0.0, 0.17), (0.05, 0.6), (0.4, 0.95))
    frame = paint(generator, saturation=(0.0, 0.2), value=(0.2, 0.95))
    wall = textured(generator, "facade", storey, colour, frame)
    tiles = Material(colour=paint(generator, (0.0, 0.08), (0.1, 0.6), (0.2, 0.5)))
    door = Material(colour=paint(generator, value=(0.15, 0.6)), texture="panels", scale=1.0)

    def across(first: float, last: float) -> tuple[float, float]:
        return (near + first, near + last) if side > 0 else (-near - last, -near - first)

    span, middle = (at, at + long), at + long / 2
    shapes: list[Shape] = [
        block(across(0, 11), span, (_KERB, tall), wall),
        block(across(-0.05, 11), span, (_KERB, _KERB + 0.5), Material(colour=toned(colour, 0.4))),
        block(across(-0.4, 11.4), (at - 0.1, at + long + 0.1), (tall, tall + 0.4), tiles),
        block(across(-0.06, 1), (middle - 0.55, middle + 0.55), (_KERB, 2.3), door, shadow=False),
    ]
    if generator.random() < 0.5:  # the roof proper, set back
        shapes.append(
            block(across(1.2, 9), (at + 0.8, at + long - 0.8), (tall + 0.4, tall + 2.2), tiles)
        )
    if floors > 1 and generator.random() < 0.35:  # a bay or balcony
        first = at + generator.uniform(0.1, 0.6) * long
        shapes.append(block(across(-1.1, 1), (first, first + 2.4), (storey, tall - 0.3), wall))
    return shapes


def _closing(generator: np.random.Generator) -> list[Shape]:
    """What the road leads to: often houses across it, sometimes nothing but sky."""
    if generator.random() < 0.35:
        return []
    at, shapes = generator.uniform(45, _END), []
    for x in (-16.0, 0.0, 16.0):
        row = _house(generator, 1, (at, x - 8), 16.0, int(generator.integers(2, 6)))
        shapes += [moved(shape, math.pi / 2, (0, 0, 0)) for shape in row]
    return shapes


def _car(generator: np.random.Generator) -> list[Shape]:
    """Body, cabin, four wheels, lights; its nose towards +y, its middle at the origin."""
    hue = paint(generator, saturation=(0.0, 0.9), value=(0.1, 0.95))
    grey = paint(generator, saturation=(0.0, 0.05), value=(0.1, 0.95))
    colour = hue if generator.random() < 0.5 else grey
    shell = Material(colour=colour, second=toned(colour, 0.6), scale=0.6)
    glass = Material(colour=colour, second=(0.015, 0.02, 0.025), texture="glazing", scale=1.1)
    half, long = generator.uniform(0.82, 0.95), generator.uniform(1.85, 2.4)
    waist, roof = generator.uniform(0.8, 1.0), generator.uniform(1.4, 1.75)
    tail = -long + float(generator.choice([0.1, 0.5]))
    red, white = Material(colour=(0.5, 0.01, 0.01), glow=0.3), Material(colour=(0.9, 0.9, 0.85))
    shapes: list[Shape] = [
        block((-half, half), (-long, long), (0.3, waist), shell),
        block((0.1 - half, half - 0.1), (tail, long * 0.35), (waist, roof), *[glass] * 5, shell),
        block(
            (-half - 0.01, half + 0.01),
            (-long - 0.04, long + 0.04),
            (0.3, 0.48),
            _DARK,
            shadow=False,
        ),
    ]
    for x in (0.02 - half, half - 0.28):
        for y, lamp in ((-long - 0.02, red), (long - 0.04, white)):
            shapes.append(
                block((x, x + 0.26), (y, y + 0.06), (waist - 0.25, waist - 0.1), lamp, shadow=False)
            )
    shapes += [
        Sphere(centre=(x, y, 0.32), radius=0.32, materials=(_DARK,), shadow=False)
        for x in (0.22 - half, half - 0.22)
        for y in (-long * 0.62, long * 0.62)
    ]
    return shapes


def _parked(generator: np.random.Generator, side: int, edge: float) -> list[Shape]:
    """A row of cars at the kerb."""
    shapes: list[Shape] = []
    at = generator.uniform(4, 14)
    chance = generator.uniform(0.2, 0.8)
    while at < 55:
        if generator.random() < chance:
            turned = 0.0 if side > 0 else math.pi
            x = side * (edge - 1.15)
            shapes += [moved(part, turned, (x, at, 0)) for part in _car(generator)]
        at += generator.uniform(5.5, 9)
    return shapes


def _traffic(generator: np.random.Generator, lane: float) -> list[Shape]:
    """Cars that drive ahead or come towards us."""
    shapes: list[Shape] = []
    for side in (-1, 1):
        if generator.random() < 0.5:
            at = generator.uniform(9, 45)
            turned = (0.0 if side > 0 else math.pi) + generator.normal(0, 0.03)
            x = side * lane * 0.5
            shapes += [moved(part, turned, (x, at, 0)) for part in _car(generator)]
    return shapes


def _tree(generator: np.random.Generator, x: float, y: float, tall: float = 1.0) -> list[Shape]:
    """A trunk and a few balls of leaves."""
    bark = Material(
        colour=paint(generator, (0.05, 0.1), (0.2, 0.5), (0.2, 0.45)), texture="rough", scale=0.2
    )
    green = paint(generator, (0.15, 0.36), (0.4, 0.8), (0.3, 0.65))
    leaves = textured(generator, "rough", 0.6, green, 0.15)
    high = generator.uniform(2.2, 3.6) * tall
    shapes: list[Shape] = [
        Cylinder(
            centre=(x, y, high / 2),
            radius=generator.uniform(0.1, 0.22),
            height=high,
            materials=(bark,),
        )
    ]
    for _ in range(int(generator.integers(2, 5))):
        dx, dy, dz = generator.uniform((-0.8, -0.8, -0.2), (0.8, 0.8, 1.8)).tolist()
        radius = generator.uniform(0.8, 1.5) * tall
        centre = (x + dx * tall, y + dy * tall, high + 0.5 + dz * tall)
        shapes.append(Sphere(centre=centre, radius=radius, materials=(leaves,)))
    return shapes


def _kerbside(generator: np.random.Generator, side: int, edge: float) -> list[Shape]:
    """Street lamps, trees and signs between road and pavement."""
    shapes: list[Shape] = []
    step, at = generator.uniform(9, 18), generator.uniform(2, 9)
    with_trees = generator.random() < 0.6
    while at < 70:
        x = side * (edge + 0.5)
        draw = generator.random()
        if with_trees and draw < 0.55:
            shapes += _tree(generator, x, at)
        elif draw < 0.8:
            shapes += _street_lamp(x, at, -side, generator.uniform(4.5, 8))
        elif draw < 0.93:
            shapes += _sign(generator, x, at)
        at += step * generator.uniform(0.8, 1.2)
    return shapes


def _street_lamp(x: float, y: float, towards: int, tall: float) -> list[Shape]:
    arm = sorted((x, x + towards * 1.4))
    pole = Cylinder(centre=(x, y, tall / 2), radius=0.07, height=tall, materials=(_STEEL,))
    return [pole, block((arm[0], arm[1]), (y - 0.06, y + 0.06), (tall, tall + 0.1), _STEEL)]


def _sign(generator: np.random.Generator, x: float, y: float) -> list[Shape]:
    face = Material(
        colour=paint(generator, (0.55, 0.65), (0.6, 1.0), (0.4, 0.9)),
        second=(0.7, 0.05, 0.03) if generator.random() < 0.5 else (0.8, 0.8, 0.8),
        texture="picture",
    )
    pole = Cylinder(centre=(x, y, 1.3), radius=0.035, height=2.6, materials=(_STEEL,))
    return [pole, block((x - 0.3, x + 0.3), (y - 0.06, y - 0.04), (2.0, 2.6), face)]


def _people(generator: np.random.Generator, side: int, edge: float, path: float) -> list[Shape]:
    """Legs, a coat and a head each."""
    shapes: list[Shape] = []
    for _ in range(int(generator.integers(0, 4))):
        x = side * (edge + generator.uniform(0.9, path))
        y, tall = generator.uniform(4, 35), generator.uniform(1.55, 1.9)
        coat = Material(colour=paint(generator))
        legs = Material(colour=paint(generator, saturation=(0, 0.6), value=(0.1, 0.5)))
        skin = Material(colour=paint(generator, (0.04, 0.08), (0.3, 0.6), (0.35, 0.9)))
        foot, hip, neck = _KERB, _KERB + 0.48 * tall, _KERB + 0.86 * tall
        for dx, dy in ((-0.09, -0.08), (0.09, 0.08)):
            centre = (x + dx, y + dy, (foot + hip) / 2)
            shapes.append(
                Cylinder(centre=centre, radius=0.08, height=hip - foot, materials=(legs,))
            )
        body = Cylinder(
            centre=(x, y, (hip + neck) / 2), radius=0.2, height=neck - hip, materials=(coat,)
        )
        head = Sphere(centre=(x, y, neck + 0.1), radius=0.115, materials=(skin,))
        shapes += [body, head]
    return shapes
