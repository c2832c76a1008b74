"""Mark some pixels of the sky as far, because LiDAR does not measure the sky.

The input is a folder of pairs with a table (pairs.csv). In the copy, a small share of the pixels
that look like sky has a large depth. Sky is bright or blue, smooth, above every LiDAR return
of its columns, and connected to the upper border of the picture. White walls are sometimes taken
for sky; the small share keeps such errors, and the sky itself, from dominating the loss.

    python mark_sky.py road road_with_sky
    idisc train road --data road_with_sky --weights indoor --out run
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from idisc.cli.main import run_script
from idisc.errors import InputError

TABLE = "pairs.csv"
SKY_M = 120.0  # beyond what the LiDAR of a car measures
SHARE = 0.05  # of the pixels of the sky that get a depth
SMALLEST = 0.004  # share of the picture; smaller regions are gaps between leaves


def find_sky(image: NDArray[np.uint8], measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels of the sky (H, W) in an image (H, W, 3) with LiDAR returns (H, W)."""
    height, width = measured.shape
    red, green, blue = np.moveaxis(image.astype(np.float32) / 255, -1, 0)
    light = (red + green + blue) / 3
    smoothed = ndimage.gaussian_filter(light, 1.0)
    slope = np.hypot(ndimage.sobel(smoothed, 0), ndimage.sobel(smoothed, 1))
    is_white = (light > 0.62) & (blue >= red - 0.03)
    is_blue = (light > 0.35) & (blue > red + 0.08) & (blue >= green - 0.02)
    found = (is_white | is_blue) & (ndimage.maximum_filter(slope, 5) < 0.25)

    around = ndimage.maximum_filter(measured, 7)
    highest = np.where(around.any(0), around.argmax(0), 0.45 * height)  # row, for each column
    highest = np.minimum(ndimage.minimum_filter1d(highest, 9), 0.6 * height)
    found &= np.arange(height)[:, None] < highest

    regions, count = ndimage.label(ndimage.binary_opening(found, np.ones((3, 5))))
    pixels = np.bincount(regions.ravel(), minlength=count + 1)
    at_border = np.isin(np.arange(count + 1), regions[:3])
    kept = at_border & (pixels > SMALLEST * height * width)
    kept[0] = False  # no region
    return np.asarray(ndimage.binary_erosion(kept[regions], np.ones((3, 3)), border_value=1))


def mark(source: Path, out: Path) -> None:
    """Copy a folder of pairs; prints the share of the sky."""
    if not (source / TABLE).is_file():
        raise InputError(source / TABLE, "no such file")
    if out.exists():
        raise InputError(out, "exists", "name a new folder")
    with (source / TABLE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    generator, shares = np.random.default_rng(0), []
    for row in rows:
        image = np.asarray(Image.open(source / row["image"]).convert("RGB"))
        depth = np.array(Image.open(source / row["depth"]))
        if depth.shape != image.shape[:2]:
            raise InputError(source / row["depth"], "its size is not that of the picture")
        sky = find_sky(image, depth > 0)
        shares.append(sky.mean())
        depth[sky & (generator.random(sky.shape) < SHARE)] = round(
            SKY_M / float(row["depth_scale"])
        )
        for name in (row["image"], row["depth"]):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / row["image"], out / row["image"])
        Image.fromarray(depth).save(out / row["depth"])
    shutil.copyfile(source / TABLE, out / TABLE)
    sys.stdout.write(f"{len(rows)} pictures, {np.mean(shares):.1%} of their pixels are sky\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="folder of pairs with pairs.csv")
    parser.add_argument("out", type=Path, help="new folder")
    given = parser.parse_args()
    mark(given.source, given.out)


if __name__ == "__main__":
    run_script(main)
