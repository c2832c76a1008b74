"""Crop the views of Taskonomy's sample building to the field of view of NYU's camera.

No model of this project was trained on this building. Its views have 256x256 pixels and a field of
view of 75 degrees. The centre of each view, with the field of view of NYU-Depth v2, becomes a
picture of 640x480 with its depth, in a folder of pairs:

    python crop_taskonomy.py --raw taskonomy --out views
    idisc evaluate --data views                                # metres as they are
    idisc evaluate --data views --set rescale=median           # after the scale is corrected
    python score_fastdepth.py --data views --model fastdepth.onnx --out predictions
    idisc evaluate --predictions predictions --data views --holes skip

--normals also writes the normals, in the folders of GeoNet's archive; the views of every fifth
point are for testing:

    python crop_taskonomy.py --raw taskonomy --out views --normals normals
    idisc prepare nyu_normals --raw normals --out taskonomy_normals
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from PIL import Image

from idisc.cli.main import run_script
from idisc.errors import InputError

FRAME = (640, 480)  # width and height, as Pillow counts
FOCAL_PX = 518.86  # of NYU's camera at that size
MISSING, UNIT = 65_000, 512  # values from here on are no surface; others are 1/512 m
NO_NORMAL = 128  # in all three channels; GeoNet's files are black there
Box = tuple[float, ...]


def put_pair(view: str, raw: Path, out: Path, cut: Image.Image, box: Box) -> None:
    """The cropped picture and its depth, in millimetres."""
    with Image.open(raw / "depth" / f"{view}_domain_depth.png") as stored:
        values = np.asarray(stored).astype(np.float32)
    metres = Image.fromarray(np.where(values < MISSING, values / UNIT, 0))
    nearest = np.asarray(metres.resize(FRAME, Image.Resampling.NEAREST, box=box))
    cut.save(out / "images" / f"{view}.png")
    Image.fromarray(np.rint(1000 * nearest).astype(np.uint16)).save(out / "depth" / f"{view}.png")


def put_normals(view: str, raw: Path, out: Path, cut: Image.Image, box: Box) -> None:
    """The cropped picture and its normals, both with y down and z forward."""
    point = view.split("_")[1]
    folder = out / ("test" if int(point) % 5 == 0 else "train")
    with Image.open(raw / "normal" / f"{view}_domain_normal.png") as stored:
        nearest = np.array(stored.convert("RGB").resize(FRAME, Image.Resampling.NEAREST, box=box))
    nearest[(nearest == NO_NORMAL).all(-1)] = 0
    for kind, picture in (("img", cut), ("norm", Image.fromarray(nearest))):
        (folder / kind / point).mkdir(parents=True, exist_ok=True)
        picture.save(folder / kind / point / f"{view}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="Views of Taskonomy cut to NYU's field of view.")
    parser.add_argument("--raw", type=Path, required=True, help="folder with rgb, depth, points")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pairs")
    parser.add_argument("--normals", type=Path, help="folder for pictures with normals")
    given = parser.parse_args()
    pictures = sorted((given.raw / "rgb").glob("*_domain_rgb.jpg"))
    if not pictures:
        raise InputError(f"{given.raw / 'rgb'}: no views (*_domain_rgb.jpg) in it")
    for kind in ("images", "depth"):
        (given.out / kind).mkdir(parents=True, exist_ok=True)
    for path in pictures:
        view = path.name.removesuffix("_domain_rgb.jpg")
        pose = json.loads((given.raw / "points" / f"{view}_domain_fixatedpose.json").read_text())
        with Image.open(path) as picture:
            side = picture.width
            focal = side / 2 / math.tan(pose["field_of_view_rads"] / 2)  # pixels of the view
            half = [focal * length / 2 / FOCAL_PX for length in FRAME]
            box = tuple(side / 2 + sign * length for sign in (-1, 1) for length in half)
            cut = picture.convert("RGB").resize(FRAME, Image.Resampling.BICUBIC, box=box)
        put_pair(view, given.raw, given.out, cut, box)
        if given.normals:
            put_normals(view, given.raw, given.normals, cut, box)


if __name__ == "__main__":
    run_script(main)
