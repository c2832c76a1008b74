"""Predictions on disk, matched to pictures by name: 16-bit PNG, NPY, NPZ; normals as 8-bit PNG.

A prediction for `rgb/kitchen_0004/rgb_00045.jpg` may be called `rgb/kitchen_0004/rgb_00045.png`,
`kitchen_0004/rgb_00045.npy` or `rgb_00045.png`, if that is unique, and `_` may replace `/`. All
files may be below further folders, which are the same for all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from idisc import files
from idisc.data.dataset import Sample
from idisc.data.decode import ARRAYS, TARGETS, DepthMap, FloatArray, NormalMap, read_array
from idisc.data.manifest import Record
from idisc.errors import InputError, first_names
from idisc.sizes import Size, describe_size, resize_map, size_text
from idisc.tasks import DEPTH, Task

SUFFIXES = (".png", *ARRAYS)
# How far the logarithms of equal aspect ratios may differ: networks see KITTI's 375x1242 as 192x640
# or 320x1024, which is up to 0.04 off.
_ASPECT_TOLERANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of predictions are read."""

    scale: float | None = None  # metres per unit; required for integers, floats default to metres
    # Files of another size than the ground truth or the full frame: raise an error, or resize them,
    # with aligned corners, to the one of the two that has their aspect ratio.
    fit: Literal["error", "resize"] = "error"
    # Pixels without a prediction (0, negative or not finite): raise an error, or do not score them.
    holes: Literal["error", "skip"] = "error"
    task: Task = DEPTH

    def __post_init__(self) -> None:
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"--scale {self.scale:g}", "a number above 0 is needed")


class PredictionFiles:
    """A folder with one prediction for each record."""

    def __init__(self, folder: Path, records: Sequence[Record], reading: Reading) -> None:
        self.reading, self.folder = reading, folder
        self.paths = _match(folder, [record.image for record in records])
        self.resized = {"scored crop": 0, "full frame": 0}  # files, by what they were resized to

    def about(self) -> dict[str, str]:
        """Return which files were scored and how they were read, for the report."""
        about = {
            "predictions": self.folder.resolve().name,
            "predictions_sha256": files.sha256(*self.paths.values()),
            "holes": self.reading.holes,
            "fit": self.reading.fit,
        }
        if self.reading.scale is not None:
            about["scale"] = f"{self.reading.scale:g} m"
        if any(self.resized.values()):
            about["resized"] = ", ".join(
                f"{count} to the {what}" for what, count in self.resized.items() if count
            )
        return about

    def __call__(self, sample: Sample) -> FloatArray:
        """Return the prediction for a sample at the size of its target: (Hg, Wg) or (Hg, Wg, 3).

        Depth is in metres; holes are NaN if they may be skipped.
        """
        path = self.paths[sample.record.image]
        values = self._read(path)
        size, (top, left, full) = _size(sample.target), sample.place
        crop = np.s_[top : top + size[0], left : left + size[1]]
        if _size(values) == size:
            return self._without_holes(values, path)
        if _size(values) == full:  # cropped first, as holes outside the crop do not matter
            return self._without_holes(values[crop], path)
        whole = self._shows_full_frame(_size(values), size, full, path)
        self.resized["full frame" if whole else "scored crop"] += 1
        values = self._without_holes(values, path)  # first, as a resize would blend them in
        return resize_map(values, full)[crop] if whole else resize_map(values, size)

    def _shows_full_frame(self, found: Size, size: Size, full: Size, path: Path) -> bool:
        """Return whether a file of another size has the aspect ratio of the full frame."""
        expected = " or ".join(dict.fromkeys(size_text(each) for each in (size, full)))
        reason = f"{describe_size(found)} pixels, {expected} expected"
        if self.reading.fit == "error":
            raise InputError(path, reason, "pass --fit resize to stretch it")
        off_size, off_full = (
            abs(math.log(found[1] * other[0] / (found[0] * other[1]))) for other in (size, full)
        )
        if size != full and min(off_size, off_full) > _ASPECT_TOLERANCE:
            raise InputError(
                path,
                f"{reason}; its aspect is neither that of the scored crop nor of the full frame",
                "resize it to one of them",
            )
        return off_full < off_size

    def _without_holes(self, values: FloatArray, path: Path) -> FloatArray:
        holes = ~(np.isfinite(values) & (values > 0))
        if not self.reading.task.metric or not holes.any():  # normals may be negative
            return values
        if self.reading.holes == "error":
            what = "NaN or infinite" if not np.isfinite(values).all() else "0 or less"
            raise InputError(
                path,
                f"{holes.sum()} pixels are {what}",
                "correct them, or pass --holes skip to score the others only",
            )
        return np.where(holes, np.float32(np.nan), values)

    def _read(self, path: Path) -> FloatArray:
        task = self.reading.task
        if task.directions:
            if path.suffix.lower() == ".png":
                return NormalMap(empty=-1).read(path)  # never empty: black is a direction here
            raise InputError(path, "normals are read from 8-bit RGB PNG")
        if not task.metric:
            return TARGETS[task.name]().read(path)
        if self.reading.scale is None:
            if path.suffix.lower() in ARRAYS and read_array(path).dtype.kind == "f":
                return DepthMap(metres_per_unit=1.0).read(path)
            raise InputError(
                path,
                "its unit is unknown",
                "pass --scale 0.001 for millimetres, 0.00390625 for KITTI's 1/256 m",
            )
        return DepthMap(metres_per_unit=self.reading.scale).read(path)


def _size(values: FloatArray) -> Size:
    return values.shape[0], values.shape[1]


def _match(folder: Path, images: Sequence[str]) -> dict[str, Path]:
    """Return the file of each picture; one error names all pictures without one.

    Leading folders of the pictures may be missing in the names of the files, and the files may be
    in further folders. Both are the same for all pictures, so that a file of another scene with the
    same number is not used for a missing one. The choice with the most matches is taken.
    """
    index = _index_by_ending(folder)
    best: list[_Match] = [{}]
    for omitted in range(max(len(PurePosixPath(image).parts) for image in images)):
        matches = _matches(images, index, omitted)
        most = max(map(len, matches), default=0)
        if most > len(best[0]):
            best = [match for match in matches if len(match) == most]
    found: dict[str, Path] = {}
    for image in best[0]:
        paths = [path for match in best for path in match.get(image, [])]
        if len(paths) > 1:
            names = ", ".join(str(path.relative_to(folder)) for path in paths[:3])
            raise InputError(folder, f"several predictions for {image}: {names}")
        found[image] = paths[0]
    if not found:
        raise _unmatched(folder, images, index)
    missing = [image for image in images if image not in found]
    if missing:
        names = first_names(missing, 10)
        raise InputError(folder, f"{len(missing)} of {len(images)} predictions missing: {names}")
    return found


def _unmatched(folder: Path, images: Sequence[str], index: _Index) -> InputError:
    """Return an error that contrasts an expected name with an existing one."""
    first = PurePosixPath(images[0])
    names = [path.relative_to(folder) for files in index.values() for _, path in files]
    name = next((name for name in names if first.stem in name.stem), names[0])
    unique = len({PurePosixPath(image).stem for image in images}) == len(images)
    expected = (PurePosixPath(first.name) if unique else first).with_suffix(name.suffix)
    return InputError(
        folder,
        f"none of the {len(images)} predictions found by name: that of {first} would be called"
        f" {expected}, but the folder has e.g. {name.as_posix()}",
        "rename the files after the pictures, without additions",
    )


_Match = dict[str, list[Path]]
"""Files by picture, all of them below one folder."""
_Index = dict[str, list[tuple[str, Path]]]
"""Files by every ending of their path without suffix, each with the folder before that ending."""


def _index_by_ending(folder: Path) -> _Index:
    if not folder.is_dir():
        raise InputError(folder, "no such folder of predictions")
    index: _Index = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES and path.is_file():
            parts = path.relative_to(folder).with_suffix("").parts
            for start in range(len(parts)):
                index["/".join(parts[start:])].append(("/".join(parts[:start]), path))
    if not index:
        raise InputError(folder, "contains no PNG, NPY or NPZ files")
    return index


def _matches(images: Sequence[str], index: _Index, omitted: int) -> list[_Match]:
    """Return a match for each folder, without the first `omitted` folders of the pictures.

    A file matches the first picture of its name only.
    """
    matches: dict[str, _Match] = defaultdict(dict)
    taken: set[Path] = set()
    for image in images:
        parts = PurePosixPath(image).with_suffix("").parts[omitted:]
        candidates = index.get("/".join(parts)) or index.get("_".join(parts)) or []
        for root, path in candidates:
            if path not in taken:
                matches[root].setdefault(image, []).append(path)
        taken.update(path for _, path in candidates)
    return list(matches.values())
