"""Score normals against planes that are fitted to the depth of a dataset, with windows of any size.

    python docs/examples/score_normals.py --data nyu_labelled --model indoor_normals
    python docs/examples/score_normals.py --data nyu_labelled --every 10      # each tenth picture

`idisc evaluate` uses windows of 15 pixels in pictures that are 640 wide. Larger windows suppress
more noise of the sensor and of filled holes, and have no plane at more edges, so both the reference
and the scored pixels change. The last column is their share of the pixels with depth.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idisc.cli.main import run_script
from idisc.data.dataset import Dataset, Sample, open_dataset
from idisc.evaluate.protocols import PROTOCOLS
from idisc.geometry import FIT_REACH, plane_normals
from idisc.predict.predictor import load

WINDOWS = (1, 2, 3)  # times that of `idisc evaluate`
Score = tuple[float, float, float]


def score(sample: Sample, normals: NDArray[np.float32], data: Dataset, window: int) -> Score:
    """Return the mean angle in degrees, the share below 11.25 deg, and the share of pixels."""
    depth = sample.target
    assert sample.camera is not None
    camera = sample.camera.resized((depth.shape[0], depth.shape[1]))  # not of the network's input
    reference = plane_normals(depth, camera, window * FIT_REACH)
    valid = PROTOCOLS["paper"].valid(sample, data.spec)
    cosines = np.clip((reference * normals).sum(axis=-1)[valid], -1, 1)
    angles = np.degrees(np.arccos(cosines[np.isfinite(cosines)]))
    return float(angles.mean()), float((angles < 11.25).mean()), angles.size / valid.sum()


def main() -> None:
    """Print a row for each window, the mean over the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="indoor_normals")
    parser.add_argument("--split", default="test")
    parser.add_argument("--every", type=int, default=1, help="score every N-th picture")
    given = parser.parse_args()
    predictor = load(given.model)
    data = open_dataset(given.data, None, given.split)
    rule = predictor.size_rule(data)
    data = data.at_network_size(rule) if rule else data
    rows: dict[int, list[Score]] = {window: [] for window in WINDOWS}
    for index in range(0, len(data), given.every):
        sample = data[index]
        size = sample.target.shape[0], sample.target.shape[1]
        normals = predictor.predict_at(sample.image, size, sample.camera).maps
        normals = normals / np.linalg.norm(normals, axis=-1, keepdims=True)
        for window, found in rows.items():
            found.append(score(sample, normals, data, window))
    sys.stdout.write("window  mean deg  below 11.25 deg  pixels\n")
    for window, found in rows.items():
        angle, share, pixels = np.mean(found, axis=0)
        sys.stdout.write(f"x{window:<6}{angle:8.1f}{share:16.3f}{pixels:9.2f}\n")


if __name__ == "__main__":
    run_script(main)
