"""The picture of the README: a photo, its depth in metres, and its point cloud from another side.

    python docs/examples/readme_picture.py PHOTO docs/images/room.jpg

PHOTO was `waiting_room.jpg` of the example photos.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import idisc
from idisc import visualize
from idisc.cli.main import run_script

HEIGHT = 300  # of each of the three
TURN_DEG, RISE_DEG = 13.0, 8.0  # of the camera around the middle of the scene


def turned(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points (N, 3) as a camera sees them that walked to the side and up."""
    side, up = np.deg2rad([TURN_DEG, RISE_DEG])
    yaw = np.array([[np.cos(side), 0, np.sin(side)], [0, 1, 0], [-np.sin(side), 0, np.cos(side)]])
    pitch = np.array([[1, 0, 0], [0, np.cos(up), -np.sin(up)], [0, np.sin(up), np.cos(up)]])
    middle = np.median(points, axis=0)
    moved: NDArray[np.float32] = (points - middle) @ (pitch @ yaw).T + middle
    return moved


def cloud_picture(result: idisc.Prediction) -> NDArray[np.uint8]:
    """The point cloud drawn by a moved camera, white where nothing is known."""
    height, width = result.depth.shape
    points = turned(result.points.reshape(-1, 3)) + np.array([0, 0, 0.6])
    order = np.argsort(-points[:, 2])  # far ones first: near ones are painted over them
    points, colours = points[order], result.image.reshape(-1, 3)[order]
    camera = result.camera
    columns = np.rint(points[:, 0] / points[:, 2] * camera.fx + camera.cx).astype(int)
    rows = np.rint(points[:, 1] / points[:, 2] * camera.fy + camera.cy).astype(int)
    picture = np.full((height, width, 3), 255, np.uint8)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):  # a point covers four pixels
        inside = (points[:, 2] > 0.1) & (rows + down >= 0) & (rows + down < height)
        inside &= (columns + right >= 0) & (columns + right < width)
        picture[rows[inside] + down, columns[inside] + right] = colours[inside]
    return picture


def main() -> None:
    """Predict a photo with the default model and write the three beside one another."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("photo", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    result = idisc.load().predict(given.photo)
    low, high = visualize.depth_limits(result.depth)
    pictures = [
        result.image,
        visualize.depth_picture(result.depth, low, high),
        cloud_picture(result),
    ]
    captions = [
        "photo",
        f"depth, {low:.1f} (light) to {high:.1f} m",
        "point cloud, from another side",
    ]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(visualize.beside(pictures, captions, HEIGHT)).save(given.out, quality=88)


if __name__ == "__main__":
    run_script(main)
