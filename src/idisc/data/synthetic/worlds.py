"""Furnished rooms, streets, and cameras in them that have enough to see."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from idisc.camera import Camera
from idisc.data.synthetic.materials import make_material, scaled
from idisc.data.synthetic.pieces import make_piece
from idisc.data.synthetic.render import Hits, Shot, cast, render
from idisc.data.synthetic.scene import (
    Bounds,
    Generator,
    Light,
    Point,
    Pose,
    Scene,
    Shape,
    bounds,
    moved,
    overlap,
    rotation,
    solid,
)
from idisc.sizes import Size

Kind = Literal["room", "street"]
CLEARANCE = 0.3  # metres between the camera and anything
_TRIES = 30  # for a position in one scene, before another scene is made
_WALLS = (0.0, math.pi / 2, math.pi, -math.pi / 2)  # yaw of furniture at -y, +x, +y, -x
_ROOMS = (  # furniture at the walls, the most important first; and free-standing furniture
    ("sofa television bookcase lamp plant dresser bookcase", "coffee_table armchair armchair"),
    ("bed wardrobe dresser desk lamp plant", "armchair coffee_table"),
    ("kitchen fridge dresser plant cartons", "table chair chair chair"),
    ("desk bookcase desk bookcase wardrobe plant", "table chair chair"),
    ("cartons bookcase wardrobe cartons plant", "cartons chair table"),
)
_START, _END = -12.0, 90.0  # metres along a road between which something stands
_GROUND = 1024.0  # metres to the end of the world
_KERB = 0.14  # metres


def make_shot(generator: Generator, kind: Kind, size: Size) -> Shot:
    """Render a new scene of this kind, seen from a position with enough to see."""
    make_scene = make_room if kind == "room" else make_street
    while True:
        scene = make_scene(generator)
        for _ in range(3):
            pose = place_camera(generator, scene)
            if pose is None:
                break
            # The lenses of Kinects and phones in rooms; of phones and cars in streets.
            mean, deviation, low, high = (63, 7, 50, 80) if kind == "room" else (72, 10, 52, 90)
            fov_deg = float(np.clip(generator.normal(mean, deviation), low, high))
            camera = Camera.from_fov(fov_deg, size, origin="rendered")
            hits = cast(scene, camera, pose)
            if _shows_enough(hits, kind):
                return render(scene, camera, pose, hits, generator)


def place_camera(generator: Generator, scene: Scene) -> Pose | None:
    """Return a pose at the height of a hand or an eye, clear of everything; None without one."""
    for _ in range(_TRIES):
        pose = _in_street(generator) if scene.room is None else _in_room(generator, scene.room)
        point = np.array(pose.position), np.array(pose.position)  # as a box without extent
        if not any(overlap(point, bounds(shape), CLEARANCE) for shape in scene.shapes):
            return pose
    return None


def _shows_enough(hits: Hits, kind: Kind) -> bool:
    """Return whether several near and far things are seen, none of which fills the image."""
    seen = hits.shape >= 0
    if seen.mean() < 0.45:  # sky
        return False
    nearest, near, far = np.percentile(hits.depth[seen][::7], (0.5, 10, 90))  # a seventh is enough
    surroundings = 2 if kind == "room" else 1  # floor and ceiling, or the ground
    shares = np.bincount(hits.shape[seen], minlength=20)[surroundings:] / hits.shape.size
    min_depth = 0.5 if kind == "room" else 1.5  # metres
    several = (shares > 0.004).sum() >= (12 if kind == "room" else 7)
    return bool(nearest > min_depth and far > 1.8 * near and several and shares.max() < 0.45)


def _in_room(generator: Generator, room: Point) -> Pose:
    """Return a pose anywhere in the room, looking across its middle, mostly a little down."""
    half = np.array(room[:2]) / 2
    x, y = (generator.uniform(-0.9, 0.9, 2) * half).tolist()
    to_x, to_y = (generator.uniform(-0.45, 0.45, 2) * half).tolist()
    height, distance = generator.uniform(1.0, 1.8), math.hypot(to_x - x, to_y - y)
    pitch = math.atan2(generator.uniform(0.3, 1.3) - height, max(distance, 1.5))
    return Pose(
        position=(x, y, height),
        yaw=math.atan2(x - to_x, to_y - y),
        pitch=float(np.clip(pitch, -0.5, 0.1)),
        roll=generator.normal(0, 0.03),
    )


def _in_street(generator: Generator) -> Pose:
    """Return a pose in a car on the road, or on foot next to it."""
    if generator.random() < 0.6:
        x, height, sway = generator.uniform(-2, 2), generator.uniform(1.4, 1.8), 0.08
    else:
        x, height, sway = generator.uniform(4, 8) * generator.choice([-1, 1]), 1.7, 0.3
    return Pose(
        position=(float(x), generator.uniform(-2, 6), float(height)),
        yaw=float(generator.normal(0, sway) + 0.04 * x),
        pitch=generator.normal(-0.01, 0.03),
        roll=generator.normal(0, 0.01),
    )


class _RoomBuilder:
    """A room, its furniture so far, and the space that it occupies."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        x, y, z = generator.uniform((3.0, 3.4, 2.3), (6.2, 7.5, 3.0)).tolist()
        self.size: Point = (x, y, z)
        self.shapes: list[Shape] = []
        self.occupied: list[Bounds] = []

    def put(self, piece: list[Shape], yaw: float, offset: Point) -> bool:
        """Place a piece, if there is space for it."""
        placed = moved(piece, yaw, offset)
        low, high = bounds(*placed)
        x, y, z = self.size
        walls = np.array([x / 2, y / 2, z]) + 1e-6
        outside = (high > walls).any() or (low[:2] < -walls[:2]).any()
        if outside or any(overlap((low, high), other, 0.04) for other in self.occupied):
            return False
        self.occupied.append((low, high))
        self.shapes += placed
        return True

    def put_at_wall(self, name: str, wall: int) -> Point | None:
        """Place a new piece at a wall; returns where it is, or None if it does not fit."""
        piece = make_piece(self.generator, name)
        x, y, _ = self.size
        length, distance = (y, x / 2) if wall % 2 else (x, y / 2)
        low, high = bounds(*piece)
        first, last = -length / 2 - low[0], length / 2 - high[0]
        gap = 0.001 if high[1] < 0.2 else 0.02  # furniture stands in front of the skirting board
        for _ in range(6 if last > first else 0):
            along = self.generator.uniform(first, last)
            place = tuple((rotation(_WALLS[wall]) @ (along, gap - distance, 0.0)).tolist())
            if self.put(piece, _WALLS[wall], place):
                return place
        return None

    def put_free(self, name: str) -> None:
        """Place a new piece somewhere in the middle of the room, if it fits."""
        piece = make_piece(self.generator, name)
        for _ in range(10):
            x, y = (self.generator.uniform(-0.3, 0.3, 2) * self.size[:2]).tolist()
            yaw = float(self.generator.integers(4)) * math.pi / 2 + self.generator.normal(0, 0.25)
            if self.put(piece, yaw, (x, y, 0.0)):
                return

    def random_walls(self) -> list[int]:
        """Return the walls in a random order."""
        return [int(wall) for wall in self.generator.permutation(4)]


def make_room(generator: Generator) -> Scene:
    """Return a furnished room with its lights; the origin is the middle of its floor."""
    room = _RoomBuilder(generator)
    shell = _shell(generator, room.size)
    door, *others = room.random_walls()
    room.put_at_wall("door", door)
    windows = [room.put_at_wall("window", wall) for wall in others[: int(generator.integers(1, 4))]]
    at_walls, free = _ROOMS[int(generator.integers(len(_ROOMS)))]
    for name in at_walls.split():
        for wall in room.random_walls():
            if room.put_at_wall(name, wall):
                break
    for name in free.split():
        room.put_free(name.replace("_", " "))
    for wall in room.random_walls()[: int(generator.integers(1, 5))]:
        room.put_at_wall("picture", wall)
    x, y = (generator.uniform(-0.2, 0.2, 2) * room.size[:2]).tolist()
    top, glass = room.size[2], make_material(generator, "lamplight")
    lamp = solid((x - 0.22, x + 0.22), (y - 0.22, y + 0.22), (top - 0.12, top), glass, "tube")
    day = make_material(generator, "daylight").colour
    lights = [((x, y, top - 0.22), glass.colour)]
    lights += [((0.9 * place[0], 0.9 * place[1], 1.6), day) for place in windows if place]
    return Scene(
        room=room.size,
        shapes=(*shell, *room.shapes, lamp),
        lights=tuple(
            Light(position=place, colour=scaled(colour, generator.uniform(0.4, 1.3)), reach=4.0)
            for place, colour in lights[:3]  # every light costs time
        ),
        ambient=scaled(day, generator.uniform(0.25, 0.55)),
        seed=int(generator.integers(1 << 16)),
    )


def _shell(generator: Generator, size: Point) -> list[Shape]:
    """Return floor, ceiling, walls (one may differ in colour), skirting boards, maybe a carpet."""
    paper = make_material(generator, "wall", "wall", "wallpaper", "brick")
    bold, wall_of_bold = make_material(generator, "bold wall"), int(generator.integers(8))
    trim = make_material(generator, "white", "wood")
    floor = make_material(generator, "parquet", "parquet", "tiles", "carpet")
    x, y, z = size[0] / 2, size[1] / 2, size[2]
    shapes = [
        solid((-x, x), (-y, y), (-0.1, 0), floor),
        solid((-x, x), (-y, y), (z, z + 0.1), make_material(generator, "white")),
    ]
    for wall, yaw in enumerate(_WALLS):
        half, out = (y, x) if wall % 2 else (x, y)
        side = solid(
            (-half, half), (-out - 0.1, -out), (0, z), bold if wall == wall_of_bold else paper
        )
        board = solid((-half, half), (-out, 0.015 - out), (0, 0.09), trim)
        shapes += moved((side, board), yaw, (0, 0, 0))
    if generator.random() < 0.5:  # thin enough to be below furniture
        x, y = (generator.uniform(0.25, 0.4, 2) * size[:2]).tolist()
        rug = make_material(generator, "cloth", "stripes")
        shapes.append(solid((-x, x), (-y, y), (0, 0.008), rug))
    return shapes


def make_street(generator: Generator) -> Scene:
    """Return a street with its houses, cars, trees, lamps and people.

    The road runs along y, its middle at x = 0; the camera is near y = 0 and looks along it.
    """
    asphalt = make_material(generator, "asphalt")
    lane = asphalt.scale  # metres from the middle to the line at the side
    parking = 0.5 if generator.random() < 0.65 else 0.0  # how much of the kerb has parked cars
    edge = lane + (2.3 if parking else 0.4)  # to the kerb
    path = generator.uniform(1.8, 4.0)  # of the pavement
    whole, half = (-_GROUND, _GROUND), (-_GROUND / 2, _GROUND / 2)
    shapes = [solid(whole, whole, (-1.0, 0.0), asphalt)]
    ends = edge, edge + 0.15, edge + path, _GROUND / 2
    for near, far, name in zip(ends, ends[1:], ("slabs", "slabs", "lawn"), strict=False):
        material = make_material(generator, name)
        for span in ((near, far), (-far, -near)):
            shapes.append(solid(span, half, (-0.5, _KERB), material))
    middle = (_START + _END) / 2
    for yaw in (0.0, math.pi):  # everything right of the road, then the same on the left
        side = [
            *_along_road(generator, ("house", "house", "tower"), edge + path, 13.0, 0.85),
            *_along_road(generator, ("street lamp", "tree"), edge + 0.6, 13.0, 0.7),
            *_along_road(generator, ("person",), edge + 0.6 * path, 20.0, 0.4),
            *_along_road(generator, ("car",), edge - 1.15, 7.0, parking),
            *_along_road(generator, ("car",), lane * 0.5, 35.0, 0.4),  # traffic
        ]
        shapes += moved(moved(side, 0.0, (0, -middle, 0)), yaw, (0, middle, 0))
    if generator.random() < 0.65:  # houses across the end of the road
        across = generator.uniform(45, _END)
        for at in (-26.0, -12.0, 2.0):
            house = moved(make_piece(generator, "house"), 0.0, (0, at, 0))
            shapes += moved(house, math.pi / 2, (0, across, 0))
    day = make_material(generator, "daylight").colour
    azimuth, elevation = generator.uniform(0, 2 * math.pi), generator.uniform(0.7, 1.25)
    x, y, z = (
        math.cos(azimuth) * math.cos(elevation),
        math.sin(azimuth) * math.cos(elevation),
        math.sin(elevation),
    )
    sun = scaled(make_material(generator, "lamplight").colour, generator.uniform(0.3, 1.6))
    return Scene(
        shapes=tuple(shapes),
        lights=(Light(position=(x * 1e4, y * 1e4, z * 1e4), colour=sun),),
        ambient=scaled(day, generator.uniform(0.35, 0.7)),
        sky=(scaled(day, 1.2), make_material(generator, "blue sky").colour),
        seed=int(generator.integers(1 << 16)),
    )


def _along_road(
    generator: Generator, names: tuple[str, ...], x: float, step: float, chance: float
) -> list[Shape]:
    """Place copies of some of these pieces along the road at x, about every `step` metres."""
    shapes: list[Shape] = []
    at = _START + generator.uniform(-0.5, 0.5) * step
    while at < _END:
        if generator.random() < chance:
            name = names[int(generator.integers(len(names)))]
            shapes += moved(make_piece(generator, name), 0.0, (x, at, 0))
        at += step * generator.uniform(0.9, 1.2)
    return shapes
