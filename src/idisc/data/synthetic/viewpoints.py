"""Cameras in scenes: field of view, position, and whether there is enough to see."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from idisc.camera import Camera
from idisc.data.synthetic import casting
from idisc.data.synthetic.render import Rendered, render
from idisc.data.synthetic.rooms import make_room
from idisc.data.synthetic.scenes import Generator, Point, Pose, Scene, bounds, overlap
from idisc.data.synthetic.streets import make_street
from idisc.sizes import Size

Kind = Literal["room", "street"]
CLEARANCE = 0.3  # metres between the camera and anything
_TRIES = 30  # for a position in one scene, before another scene is made


@dataclass(frozen=True)
class Shot:
    """An image and everything it was made from."""

    rendered: Rendered
    scene: Scene
    camera: Camera
    pose: Pose


def make_camera(generator: Generator, kind: Kind, size: Size) -> Camera:
    """Lenses of Kinects and phones in rooms, of phones and cars (KITTI: 81 degrees) in streets."""
    mean, deviation, low, high = (63, 7, 50, 80) if kind == "room" else (72, 10, 52, 90)
    fov_deg = float(np.clip(generator.normal(mean, deviation), low, high))
    return Camera.from_fov(fov_deg, size, origin="rendered")


def make_shot(generator: Generator, kind: Kind, size: Size) -> Shot:
    """Render a new scene of this kind, seen from a position with enough to see."""
    while True:
        scene = make_room(generator) if kind == "room" else make_street(generator)
        for _ in range(3):
            pose = place_camera(generator, scene)
            if pose is None:
                break
            camera = make_camera(generator, kind, size)
            hits = casting.cast(scene, camera, pose)
            if _has_layers(hits, kind):
                return Shot(render(scene, camera, pose, generator, hits), scene, camera, pose)


def place_camera(generator: Generator, scene: Scene) -> Pose | None:
    """Return a pose at the height of a hand or an eye, clear of everything; None without one."""
    for _ in range(_TRIES):
        pose = _in_street(generator) if scene.room is None else _in_room(generator, scene.room)
        if is_clear(scene, pose.position):
            return pose
    return None


def is_clear(scene: Scene, position: Point) -> bool:
    """Return whether a position is inside the room, and nothing is within its clearance."""
    x, y, z = position
    if scene.room is not None:
        width, length, height = scene.room
        if abs(x) > width / 2 or abs(y) > length / 2 or not 0 < z < height:
            return False
    here = np.array(position), np.array(position)
    return not any(overlap(here, bounds(shape), CLEARANCE) for shape in scene.shapes)


def _has_layers(hits: casting.Hits, kind: Kind) -> bool:
    """Near and far, and several things, none of which fills the image."""
    seen = hits.shape >= 0
    if seen.mean() < 0.45:  # sky
        return False
    nearest, near, far = np.percentile(hits.depth[seen][::7], (0.5, 10, 90))  # a seventh is enough
    surroundings = 2 if kind == "room" else 1  # floor and ceiling, or the ground
    shares = np.bincount(hits.shape[seen], minlength=20)[surroundings:] / hits.shape.size
    least = 0.5 if kind == "room" else 1.5  # metres
    several = (shares > 0.004).sum() >= (12 if kind == "room" else 7)
    return bool(nearest > least and far > 1.8 * near and several and shares.max() < 0.45)


def _in_room(generator: Generator, room: Point) -> Pose:
    """Anywhere in the room, looking across its middle, mostly a little down."""
    half = np.array(room[:2]) / 2
    x, y = (generator.uniform(-0.9, 0.9, 2) * half).tolist()
    over, ahead = (generator.uniform(-0.45, 0.45, 2) * half).tolist()
    height, way = generator.uniform(1.0, 1.8), math.hypot(over - x, ahead - y)
    drop = math.atan2(generator.uniform(0.3, 1.3) - height, max(way, 1.5))
    return Pose(
        position=(x, y, height),
        yaw=math.atan2(x - over, ahead - y),
        pitch=float(np.clip(drop, -0.5, 0.1)),
        roll=generator.normal(0, 0.03),
    )


def _in_street(generator: Generator) -> Pose:
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
