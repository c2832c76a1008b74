"""Streets: a road between pavements and houses, with cars, trees, lamps and people.

The road runs along y, its middle at x = 0; the camera is near y = 0 and looks along it. The sky has
no depth.
"""

from __future__ import annotations

import math

import numpy as np

from idisc.data.synthetic.pieces import make_piece
from idisc.data.synthetic.scenes import (
    Generator,
    Light,
    Material,
    Piece,
    Scene,
    Shape,
    moved,
    paint,
    solid,
    textured,
    toned,
)

_GROUND = 1024.0  # metres to the end of the world
_START, _END = -12.0, 90.0  # metres along the road between which something stands
_KERB = 0.14  # metres


def make_street(generator: Generator) -> Scene:
    """Return a street with its houses, cars, trees, lamps and people."""
    lane = generator.uniform(2.8, 3.6)  # metres from the middle to the line at the side
    parking = generator.random() < 0.65  # a strip for parked cars beside the lanes
    edge = lane + (2.3 if parking else 0.4)  # to the kerb
    path = generator.uniform(1.8, 4.0)  # of the pavement
    shapes = _ground(generator, lane, edge, path)
    for yaw in (0.0, math.pi):  # everything right of the road, then the same on the left
        side = _houses(generator, edge + path) + _kerbside(generator, edge, path)
        at, chance = generator.uniform(4, 14), generator.uniform(0.2, 0.8)
        while parking and at < 55:
            if generator.random() < chance:
                side += moved(make_piece(generator, "car"), 0.0, (edge - 1.15, at, 0))
            at += generator.uniform(5.5, 9)
        if generator.random() < 0.5:  # traffic
            place = lane * 0.5, generator.uniform(9, 45), 0.0
            side += moved(make_piece(generator, "car"), generator.normal(0, 0.02), place)
        middle = (_START + _END) / 2  # about which the left side is turned
        turned = moved(moved(side, 0.0, (0, -middle, 0)), yaw, (0, middle, 0))
        shapes += turned
    if generator.random() < 0.65:  # houses across the end of the road
        row = [s for at in (-24.0, -8.0, 8.0) for s in _house(generator, 0.0, at, 16.0, 4)]
        shapes += moved(row, math.pi / 2, (0, generator.uniform(45, _END), 0))
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


def _ground(generator: Generator, lane: float, edge: float, path: float) -> list[Shape]:
    """Return the road, then kerbs, pavements and grass on both sides."""
    grey = paint(generator, (0.55, 0.7), (0.0, 0.08), (0.28, 0.5))
    asphalt = textured(generator, "road", lane, grey, (0.75, 0.75, 0.7))
    stone = paint(generator, (0.05, 0.12), (0.0, 0.15), (0.5, 0.75))
    slabs = textured(generator, "tiles", generator.uniform(0.4, 0.8), stone, 0.55)
    green = paint(generator, (0.2, 0.33), (0.3, 0.7), (0.3, 0.6))
    lawn = textured(generator, "rough", 0.5, green)
    kerb = textured(generator, "tiles", 1.0, toned(stone, 0.8))
    whole, half = (-_GROUND, _GROUND), (-_GROUND / 2, _GROUND / 2)
    shapes = [solid(whole, whole, (-1.0, 0.0), asphalt, shadow=False)]
    ends = edge, edge + 0.15, edge + path, _GROUND / 2
    for near, far, material in zip(ends, ends[1:], (kerb, slabs, lawn), strict=False):
        for span in ((near, far), (-far, -near)):
            shapes.append(solid(span, half, (-0.5, _KERB), material, shadow=False))
    return shapes


def _houses(generator: Generator, front: float) -> list[Shape]:
    """Return a row of houses, with some trees and gaps between them."""
    shapes: list[Shape] = []
    at, floors = _START - 10.0 * generator.random(), int(generator.integers(1, 6))
    back = float(generator.choice([0.0, 3.0, 6.0]))
    while at < _END:
        long = generator.uniform(7, 18)
        if generator.random() < 0.2:
            shapes += moved(make_piece(generator, "tree"), 0.0, (front + 4, at + long / 2, 0))
            at += long * 0.6
            continue
        floors = int(np.clip(floors + generator.integers(-1, 2), 1, 6))
        shapes += _house(generator, front + back + generator.uniform(0, 0.8), at, long, floors)
        at += long + float(generator.choice([0.0, 0.0, 3.0]))
    return shapes


def _house(generator: Generator, near: float, at: float, long: float, floors: int) -> Piece:
    """Walls with windows, a darker base, a roof that juts out, a door, perhaps a bay."""
    storey = generator.uniform(2.7, 3.4)
    tall, middle = floors * storey, long * generator.uniform(0.3, 0.7)
    colour = paint(generator, (0.0, 0.17), (0.05, 0.6), (0.4, 0.95))
    frame = paint(generator, saturation=(0.0, 0.2), value=(0.2, 0.95))
    wall = textured(generator, "facade", storey, colour, frame)
    roof = Material(colour=paint(generator, (0.0, 0.08), (0.1, 0.6), (0.2, 0.5)))
    door = Material(colour=paint(generator, value=(0.15, 0.6)), texture="panels", scale=1.0)
    parts = [
        solid((0, 11), (0, long), (0, tall), wall),
        solid((-0.05, 11), (0, long), (0, 0.5), Material(colour=toned(colour, 0.4))),
        solid((-0.4, 11.4), (-0.1, long + 0.1), (tall, tall + 0.4), roof),
        solid((-0.06, 1), (middle - 0.55, middle + 0.55), (0, 2.2), door),
    ]
    if generator.random() < 0.5:  # an upper roof, set back
        parts.append(solid((1.2, 9), (0.8, long - 0.8), (tall + 0.4, tall + 2.2), roof))
    if floors > 1 and generator.random() < 0.35:  # a bay or balcony
        parts.append(solid((-1.1, 1), (middle, middle + 2.4), (storey, tall - 0.3), wall))
    return moved(parts, 0.0, (near, at, _KERB))


def _kerbside(generator: Generator, edge: float, path: float) -> list[Shape]:
    """Street lamps and trees at the kerb, people on the pavement."""
    shapes: list[Shape] = []
    step, at = generator.uniform(9, 18), _START + generator.uniform(2, 9)
    trees = 0.55 if generator.random() < 0.6 else 0.0
    while at < _END:
        draw = generator.random()
        name = "tree" if draw < trees else "street lamp"
        if draw < 0.8:  # the arm of a lamp points to the road
            shapes += moved(make_piece(generator, name), math.pi, (edge + 0.5, at, 0))
        at += step * generator.uniform(0.8, 1.2)
    for _ in range(int(generator.integers(0, 6))):
        x, y = edge + generator.uniform(0.9, path), generator.uniform(_START, _END)
        shapes += moved(make_piece(generator, "person"), generator.uniform(0, 3), (x, y, _KERB))
    return shapes
