"""Anybody's outputs on disk, matched to pictures by name: 16-bit PNG, NPY, NPZ; normals as PNG.

A prediction for `rgb/kitchen_0004/rgb_00045.jpg` may be called `rgb/kitchen_0004/rgb_00045.png`,
`kitchen_0004/rgb_00045.npy`, `rgb_00045.png`, or have `_` for `/`, as far as that is unique; all of
them may lie below further folders, the same for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from idisc.data.dataset import Sample
from idisc.data.decode import ARRAYS, DepthMap, FloatArray, NormalMap, read_array
from idisc.data.manifest import Record
from idisc.errors import InputError
from idisc.images import resize_map

SUFFIXES = (".png", *ARRAYS)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of predictions are to be understood."""

    scale: float | None = None  # metres of one unit of an integer; arrays of floats are in metres
    # Another size than ground truth or full frame: an error, or resized with aligned corners.
    fit: Literal["error", "resize"] = "error"
    # A pixel of 0, less or NaN is no prediction: an error, or left out of the score.
    holes: Literal["error", "skip"] = "error"
    task: Literal["depth", "normals"] = "depth"


class PredictionFiles:
    """A folder of predictions, one for each record."""

    def __init__(self, folder: Path, records: Sequence[Record], reading: Reading) -> None:
        self.reading = reading
        self.paths = _matched(folder, [record.image for record in records])

    def __call__(self, sample: Sample) -> FloatArray:
        """The prediction for a sample, (H, W) metres or (H, W, 3) at the ground truth's size.

        Holes come back as NaN if they may be skipped.
        """
        path = self.paths[sample.record.image]
        values = self._cropped(self._decoded(path), path, sample)
        if values.ndim == 2:
            values = self._without_holes(values, path)  # before a resize that would smear them
        size = sample.target.shape[0], sample.target.shape[1]
        return values if values.shape[:2] == size else resize_map(values, size)

    def _without_holes(self, values: FloatArray, path: Path) -> FloatArray:
        holes = ~(np.isfinite(values) & (values > 0))
        if not holes.any():
            return values
        if self.reading.holes == "error":
            what = "NaN or infinite" if not np.isfinite(values).all() else "0 or less"
            raise InputError(
                f"{path}: {holes.sum()} pixels are {what}; mend them, or pass --holes skip to"
                " score the others only"
            )
        return np.where(holes, np.float32(np.nan), values)

    def _decoded(self, path: Path) -> FloatArray:
        if self.reading.task == "normals":
            if path.suffix.lower() == ".png":
                return NormalMap(empty=-1).read(path)  # no byte: a predicted black is a direction
            raise InputError(f"{path}: normals are read from 8-bit RGB PNG")
        if path.suffix.lower() in ARRAYS and read_array(path).dtype.kind == "f":
            return DepthMap(metres_per_unit=1.0).read(path)
        if self.reading.scale is None:
            raise InputError(
                f"{path}: what is one unit of it? Pass --scale 0.001 for millimetres, 0.00390625"
                " for KITTI's 1/256 m"
            )
        return DepthMap(metres_per_unit=self.reading.scale).read(path)

    def _cropped(self, values: FloatArray, path: Path, sample: Sample) -> FloatArray:
        """Of the full frame what is scored; another size is an error, or left to be resized."""
        size = sample.target.shape[0], sample.target.shape[1]
        if values.shape[:2] == size:
            return values
        top, left, full = sample.place
        if values.shape[:2] == full:
            return values[top : top + size[0], left : left + size[1]]
        if self.reading.fit == "resize":
            return values
        expected = " or ".join(dict.fromkeys(f"{h}x{w}" for h, w in (size, full)))
        raise InputError(
            f"{path}: {values.shape[0]}x{values.shape[1]} pixels, {expected} expected;"
            " pass --fit resize to stretch it"
        )


def _matched(folder: Path, images: Sequence[str]) -> dict[str, Path]:
    """The file of each picture; all pictures without one are named in one error.

    As many leading folders are left off as gives most matches, of pictures the same number and of
    files the same folder for all: a file of another scene with the same number must not stand in
    for a missing one.
    """
    index = _by_ending(folder)
    best: list[_Match] = [{}]
    for leave_off in range(max(len(PurePosixPath(image).parts) for image in images)):
        matches = _matches(images, index, leave_off)
        longest = max(map(len, matches), default=0)
        if longest > len(best[0]):
            best = [match for match in matches if len(match) == longest]
    found: dict[str, Path] = {}
    for image in images:
        paths = [path for match in best for path in match.get(image, [])]
        if len(paths) > 1:
            names = ", ".join(str(path.relative_to(folder)) for path in paths[:3])
            raise InputError(f"{folder}: several predictions for {image}: {names}")
        if paths and image in best[0]:
            found[image] = paths[0]
    if not found:
        raise InputError(f"{folder}: {_unlike(folder, images, index)}")
    missing = [image for image in images if image not in found]
    if missing:
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise InputError(
            f"{folder}: {len(missing)} of {len(images)} predictions missing:"
            f" {', '.join(missing[:10])}{more}"
        )
    return found


def _unlike(folder: Path, images: Sequence[str], index: _Index) -> str:
    """What a prediction would be called and what the files are called, side by side."""
    first = PurePosixPath(images[0])
    names = [path.relative_to(folder) for files in index.values() for _, path in files]
    name = next((name for name in names if first.stem in name.stem), names[0])
    unique = len({PurePosixPath(image).stem for image in images}) == len(images)
    expected = (PurePosixPath(first.name) if unique else first).with_suffix(name.suffix)
    return (
        f"none of the {len(images)} predictions found by name: that of {first} would be called"
        f" {expected}, but the folder has e.g. {name.as_posix()}; rename the files after the"
        " pictures, without additions"
    )


_Match = dict[str, list[Path]]
"""Files by picture, all of them below one folder."""
_Index = dict[str, list[tuple[str, Path]]]
"""Files by every ending of their path without suffix, each with what comes before the ending."""


def _by_ending(folder: Path) -> _Index:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of predictions")
    index: _Index = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            parts = path.relative_to(folder).with_suffix("").parts
            for start in range(len(parts)):
                index["/".join(parts[start:])].append(("/".join(parts[:start]), path))
    if not index:
        raise InputError(f"{folder}: no PNG, NPY or NPZ in it")
    return index


def _matches(images: Sequence[str], index: _Index, leave_off: int) -> list[_Match]:
    """What each folder of files has for the pictures; a file is for one picture only."""
    matches: dict[str, _Match] = defaultdict(dict)
    taken: set[Path] = set()
    for image in images:
        parts = PurePosixPath(image).with_suffix("").parts[leave_off:]
        files = index.get("/".join(parts)) or index.get("_".join(parts)) or []
        for root, path in files:
            if path not in taken:
                matches[root].setdefault(image, []).append(path)
        taken.update(path for _, path in files)
    return list(matches.values())
