"""Rooms that no network here has seen, as NYU's camera would see them: Taskonomy's sample building.

Its views are 256x256 with a field of view of 75 degrees. The middle of each, as wide and as high as
a picture of NYU-Depth v2, becomes a picture of 640x480 with its depth, in a folder of pairs:

    python crop_taskonomy.py --raw taskonomy --out views
    idisc evaluate --data views                                # metres as they are
    idisc evaluate --data views --set rescale=median           # after the scale is set right
    python score_fastdepth.py --data views --model fastdepth.onnx --out predictions
    idisc evaluate --predictions predictions --data views --holes skip
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

FRAME = (640, 480)  # width and height, as Pillow counts
FOCAL_PX = 518.86  # of NYU's camera at that size
MISSING, UNIT = 65_000, 512  # values from here on are no surface; others are 1/512 m


def main() -> None:
    parser = argparse.ArgumentParser(description="Views of Taskonomy cut to NYU's field of view.")
    parser.add_argument("--raw", type=Path, required=True, help="folder with rgb, depth and points")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pairs")
    given = parser.parse_args()
    for kind in ("images", "depth"):
        (given.out / kind).mkdir(parents=True, exist_ok=True)
    for path in sorted((given.raw / "rgb").glob("*_domain_rgb.jpg")):
        view = path.name.removesuffix("_domain_rgb.jpg")
        pose = json.loads((given.raw / "points" / f"{view}_domain_fixatedpose.json").read_text())
        with Image.open(path) as picture:
            side = picture.width
            focal = side / 2 / math.tan(pose["field_of_view_rads"] / 2)  # pixels of the view
            half = [focal * length / 2 / FOCAL_PX for length in FRAME]
            box = tuple(side / 2 + sign * length for sign in (-1, 1) for length in half)
            cut = picture.convert("RGB").resize(FRAME, Image.Resampling.BICUBIC, box=box)
        with Image.open(given.raw / "depth" / f"{view}_domain_depth.png") as stored:
            values = np.asarray(stored).astype(np.float32)
        metres = Image.fromarray(np.where(values < MISSING, values / UNIT, 0))
        nearest = np.asarray(metres.resize(FRAME, Image.Resampling.NEAREST, box=box))
        cut.save(given.out / "images" / f"{view}.png")
        depth = Image.fromarray(np.rint(1000 * nearest).astype(np.uint16))
        depth.save(given.out / "depth" / f"{view}.png")


if __name__ == "__main__":
    main()
