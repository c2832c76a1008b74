"""Cameras in scenes: how wide they see, where they stand, and whether there is much to see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.synthetic import casting
from idisc.data.synthetic.casting import Hits
from idisc.data.synthetic.render import Rendered, develop
from idisc.data.synthetic.rooms import make_room
from idisc.data.synthetic.scenes import Kind, Point, Pose, Scene, bounds, overlap
from idisc.data.synthetic.streets import make_street
from idisc.sizes import Size

CLEARANCE = 0.3  # metres between the camera and anything
_TRIES = 30  # for a place in one scene, before another scene is made


@dataclass(frozen=True)
class Shot:
    """A picture and all it was made from."""

    rendered: Rendered
    scene: Scene
    camera: Camera
    pose: Pose


def make_camera(generator: np.random.Generator, kind: Kind, size: Size) -> Camera:
    """Lenses of Kinects and phones in rooms, of phones and cars (KITTI: 81 degrees) in streets."""
    middle, spread, bounds_deg = (63, 7, (50, 80)) if kind == "room" else (72, 10, (52, 90))
    fov_deg = float(np.clip(generator.normal(middle, spread), *bounds_deg))
    return Camera.from_fov(fov_deg, size, origin="rendered")


def make_shot(generator: np.random.Generator, kind: Kind, size: Size) -> Shot:
    """A new scene of this kind, seen from a place with much to see."""
    make = make_room if kind == "room" else make_street
    while True:
        scene = make(generator)
        for _ in range(3):
            pose = place_camera(generator, scene)
            if pose is None:
                break
            camera = make_camera(generator, kind, size)
            hits = casting.cast(scene, camera, pose)
            if has_layers(hits, scene.kind):
                return Shot(develop(scene, camera, pose, hits, generator), scene, camera, pose)


def place_camera(generator: np.random.Generator, scene: Scene) -> Pose | None:
    """A place at the height of a hand or an eye, clear of everything; None if none was found."""
    for _ in range(_TRIES):
        pose = _in_room(generator, scene) if scene.kind == "room" else _in_street(generator)
        if is_clear(scene, pose.position):
            return pose
    return None


def is_clear(scene: Scene, position: Point) -> bool:
    """Nothing is within the clearance of a place, and a room's walls are around it."""
    (x, y, z), margins = position, (CLEARANCE,) * 3
    if scene.kind == "room":
        (west, south, floor), (east, north, ceiling) = bounds(scene.shapes[0])
        if min(x - west, east - x, y - south, north - y, z - floor, ceiling - z) < CLEARANCE:
            return False
    here = (position, position)
    return not any(overlap(here, bounds(shape), margins) for shape in scene.shapes[1:])


def has_layers(hits: Hits, kind: Kind) -> bool:
    """Near and far, several things, none of which fills the picture."""
    seen = hits.shape >= 0
    if seen.mean() < 0.45:  # sky
        return False
    depth = hits.depth[seen]
    nearest, near, far = np.percentile(depth[::7], (0.5, 10, 90))  # a seventh is enough
    shares = np.bincount(hits.shape[seen], minlength=2) / hits.shape.size
    things: NDArray[np.bool_] = shares[1:] > 0.004
    least = 0.5 if kind == "room" else 1.5  # metres
    return bool(
        nearest > least and far > 1.8 * near and things.sum() >= 7 and shares[1:].max() < 0.35
    )


def _in_room(generator: np.random.Generator, scene: Scene) -> Pose:
    """Somewhere in the room, looking across its middle, mostly a little down."""
    low, high = bounds(scene.shapes[0])
    half = np.array([high[0] - low[0], high[1] - low[1]]) / 2
    x, y = (generator.uniform(-0.9, 0.9, 2) * half).tolist()
    height = generator.uniform(1.0, 1.8)
    over, ahead = (generator.uniform(-0.45, 0.45, 2) * half).tolist()
    way = math.hypot(over - x, ahead - y)
    drop = math.atan2(generator.uniform(0.3, 1.3) - height, max(way, 1.5))
    return Pose(
        position=(x, y, height),
        yaw=math.atan2(x - over, ahead - y),
        pitch=float(np.clip(drop, -0.5, 0.1)),
        roll=generator.normal(0, 0.03),
    )


def _in_street(generator: np.random.Generator) -> Pose:
    """In a car on the road, or on foot beside it."""
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
