"""Predict NYU's labelled set with FastDepth, a third-party network, for `idisc evaluate`.

The ONNX file of FastDepth (Wofk et al., ICRA 2019, MIT licence) maps 224x224 RGB in [0, 1] to
224x224 metres. FastDepth was trained on the centre of the picture: 640x480 resized to 333x250,
cropped to 304x228, and resized to 224x224. This script does the same, and writes the prediction to
its place in the frame, with 0 around it. It is independent of the code that computes the scores.

    idisc prepare nyu_labelled --raw RAW --out nyu_labelled
    python score_fastdepth.py --data nyu_labelled --model fastdepth.onnx --out predictions
    idisc evaluate --predictions predictions --data nyu_labelled --holes skip
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from PIL import Image

from idisc.cli.main import run_script
from idisc.errors import InputError

FRAME = (640, 480)  # width and height, as Pillow counts
REDUCED = (333, 250)
MIDDLE = (14, 11, 318, 239)  # left, top, right, bottom: 304x228 of the reduced picture
INPUT = (224, 224)
COVERED = (27, 21, 612, 460)  # the same middle in the whole frame


def read(path: Path) -> NDArray[np.float32]:
    """The input of the network (1, 3, 224, 224) for a picture."""
    with Image.open(path) as picture:
        whole = picture.convert("RGB").resize(REDUCED, Image.Resampling.BILINEAR)
    middle = whole.crop(MIDDLE).resize(INPUT, Image.Resampling.BILINEAR)
    values = np.asarray(middle, dtype=np.float32) / 255  # (224, 224, 3)
    return values.transpose(2, 0, 1)[None]


def placed(depth: NDArray[np.float32]) -> NDArray[np.float32]:
    """The frame (480, 640) with a prediction (224, 224) in its place, and 0 around it."""
    left, top, right, bottom = COVERED
    size = (right - left, bottom - top)
    frame = np.zeros((FRAME[1], FRAME[0]), dtype=np.float32)
    resized = Image.fromarray(depth).resize(size, Image.Resampling.BILINEAR)
    frame[top:bottom, left:right] = np.asarray(resized)
    return frame


def test_pictures(data: Path) -> list[str]:
    """Names of the test pictures: of a prepared folder, or all of a folder of pairs."""
    manifest = data / "manifest.jsonl"
    if not manifest.is_file():
        return [str(path.relative_to(data)) for path in sorted(data.glob("images/*"))]
    lines = manifest.read_text(encoding="utf-8").splitlines()[1:]  # the first one is its header
    return [row["image"] for row in map(json.loads, lines) if row["split"] == "test"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Predictions of FastDepth as NPY, in metres.")
    parser.add_argument("--data", type=Path, required=True, help="prepared nyu_labelled, or pairs")
    parser.add_argument("--model", type=Path, required=True, help="fastdepth.onnx")
    parser.add_argument("--out", type=Path, required=True, help="folder for the predictions")
    options = parser.parse_args()
    images = test_pictures(options.data)
    if not images or not options.model.is_file():
        missing = options.model if images else options.data / "images"
        raise InputError(f"{missing}: not there, or nothing in it")
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # errors only; the file has initialisers that nothing uses
    session = onnxruntime.InferenceSession(options.model, quiet, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for image in images:
        depth = session.run(None, {name: read(options.data / image)})[0][0, 0]  # (224, 224)
        path = options.out / Path(image).with_suffix(".npy")  # the picture's name is all it needs
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, placed(depth))


if __name__ == "__main__":
    run_script(main)
