"""Draw the pictures of the README and the gallery: photo, depth, and the turning point cloud.

    python docs/examples/readme_animation.py PHOTO docs/images/room.webp
    python docs/examples/readme_animation.py PHOTO docs/images/kitchen.jpg --weights auto

A .webp file is an animation; all other formats are still pictures. The photo of the README is
`living_room.jpg` of the example photos.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import idisc
from idisc import geometry, visualize
from idisc.cli.main import run_script
from idisc.prediction import Prediction

HEIGHT = 260  # pixels, of each of the three panels
TURN_DEG, RISE_DEG = 11.0, 4.0  # the largest turn of the camera around the middle of the scene
FRAMES, FRAME_MS = 32, 100
STILL = 0.125  # where the camera of a still picture is, in turns


def turned(points: NDArray[np.float32], phase: float) -> NDArray[np.float32]:
    """Points (N, 3) as seen by a camera on an ellipse around the optical axis; phase in turns."""
    side = np.deg2rad(TURN_DEG) * np.sin(2 * np.pi * phase)
    up = np.deg2rad(RISE_DEG) * np.cos(2 * np.pi * phase)
    yaw = np.array([[np.cos(side), 0, np.sin(side)], [0, 1, 0], [-np.sin(side), 0, np.cos(side)]])
    pitch = np.array([[1, 0, 0], [0, np.cos(up), -np.sin(up)], [0, np.sin(up), np.cos(up)]])
    middle = np.median(points, axis=0)
    moved: NDArray[np.float32] = (points - middle) @ (pitch @ yaw).T + middle
    return moved


def cloud_picture(result: Prediction, kept: NDArray[np.bool_], phase: float) -> NDArray[np.uint8]:
    """The points as drawn by a moved camera; white where there is no point."""
    scale = HEIGHT / kept.shape[0]
    height, width = HEIGHT, round(kept.shape[1] * scale)
    points = turned(result.points[kept], phase)
    points = points + np.array([0, 0, 0.12 * np.median(points[:, 2])])  # a step back
    order = np.argsort(-points[:, 2])  # far ones first: near ones are painted over them
    points, colours = points[order], result.image[kept][order]
    camera = result.camera
    across = points[:, 0] / points[:, 2] * camera.fx + camera.cx
    below = points[:, 1] / points[:, 2] * camera.fy + camera.cy
    columns, rows = np.rint(across * scale).astype(int), np.rint(below * scale).astype(int)
    picture = np.full((height, width, 3), 255, np.uint8)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):  # four pixels: no gaps
        inside = (points[:, 2] > 0.1) & (rows + down >= 0) & (rows + down < height)
        inside &= (columns + right >= 0) & (columns + right < width)
        picture[rows[inside] + down, columns[inside] + right] = colours[inside]
    return picture


def panels(result: Prediction, phases: Sequence[float]) -> list[Image.Image]:
    """Photo, depth and cloud beside one another, one picture for each position of the camera."""
    low, high = visualize.depth_limits(result.depth)
    depth = visualize.depth_picture(result.depth, low, high)
    kept = ~geometry.is_between(result.depth)
    captions = ["photo", f"depth, {low:.1f} (light) to {high:.1f} m", "point cloud in metres"]
    clouds = (cloud_picture(result, kept, phase) for phase in phases)
    return [
        Image.fromarray(visualize.side_by_side([result.image, depth, cloud], captions, HEIGHT))
        for cloud in clouds
    ]


def main() -> None:
    """Predict a photo with a shipped model and write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("photo", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", default=None, help="name of a shipped model")
    given = parser.parse_args()
    result = idisc.load(given.weights).predict(given.photo)
    moving = given.out.suffix == ".webp"
    pictures = panels(result, [number / FRAMES for number in range(FRAMES)] if moving else [STILL])
    given.out.parent.mkdir(parents=True, exist_ok=True)
    animation = {"save_all": True, "append_images": pictures[1:], "duration": FRAME_MS, "loop": 0}
    pictures[0].save(given.out, quality=72 if moving else 88, **(animation if moving else {}))


if __name__ == "__main__":
    run_script(main)
