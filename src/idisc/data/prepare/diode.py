"""DIODE: `(train|val)/(indoors|outdoor)/scene_*/scan_*/` with a PNG and two NPY for each view.

    <stem>.png   <stem>_depth.npy (H, W, 1) float32 metres   <stem>_depth_mask.npy (H, W)

As published, there is no depth where the mask is below 1e-6, and at most 100 m; it is stored in
1/256 m, rounded down. The split `val` is for testing. `intrinsics.txt` of the devkit is used if it
is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from idisc.camera import Camera
from idisc.data.catalog import KITTI_UNITS
from idisc.data.decode import FloatArray, read_array
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames
from idisc.errors import InputError
from idisc.sizes import Size, size_text

_SPLITS = {"train": "train", "val": "test"}
_MAX_DEPTH = 100.0  # metres; beyond it the published preparation clips
_SIZE = (768, 1024)  # of the images to which the intrinsics belong


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of DIODE."""

    diode_part: Literal["indoors", "outdoor", "both"] = "indoors"  # the paper uses indoors
    pictures: frames.Pictures = "copy"


def _scenes(raw: Path, options: Options, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return a scene for each scan: `indoors/scene_00019/scan_00183`, without the split."""
    found = _find(raw, options.diode_part) if lines is None else lines
    return frames.by_scene(found, raw, lambda line: "/".join(PurePosixPath(line.image).parts[1:-1]))


def _find(raw: Path, part: str) -> Iterator[ListLine]:
    for folder, split in _SPLITS.items():
        for kind in ("indoors", "outdoor") if part == "both" else (part,):
            scans = list((raw / folder / kind).glob("scene_*/scan_*"))
            # Images that are there, or whose depth is: a missing one is a fault.
            paths = {path for scan in scans for path in scan.glob("*.png")}
            paths |= {
                path.with_name(f"{path.name.removesuffix('_depth.npy')}.png")
                for scan in scans
                for path in scan.glob("*_depth.npy")
            }
            for name in sorted(path.relative_to(raw).as_posix() for path in paths):
                yield ListLine(name, name, split)


def _frame(raw: Path, line: ListLine) -> frames.Frame:
    # The published lists name `_depth.png`, which the published preparation makes from the arrays.
    image = raw / line.image
    return frames.Frame(
        name=line.stem,
        image=image,
        camera=partial(_camera, raw / "intrinsics.txt"),
        target=partial(_depth, image),
        convert=partial(_checked, image),
    )


def _depth(image: Path) -> FloatArray:
    """Return depth (H, W) in metres, 0 where the mask excludes it."""
    path = image.with_name(f"{image.stem}_depth.npy")
    depth, mask = read_array(path), read_array(path.with_name(f"{path.stem}_mask.npy"))
    if depth.shape != mask.shape:
        raise InputError(path, f"{depth.shape}", f"its mask has {mask.shape}")
    valid = (mask.astype(np.float32) >= 1e-6) & np.isfinite(depth.astype(np.float32))
    return np.clip(np.where(valid, depth, 0).astype(np.float32), 0, np.float32(_MAX_DEPTH))


def _checked(image: Path, depth: FloatArray, camera: Camera) -> FloatArray:
    if depth.shape != camera.size:
        raise InputError(image, f"{size_text(camera.size)} pixels", f"its depth has {depth.shape}")
    return depth


def _camera(path: Path, size: Size) -> Camera | None:
    """Read the devkit's file, `[fx, ...] = [886.81, ...]`; None without the file."""
    if not path.is_file():
        return None
    found = re.search(r"=\s*\[([^\]]*)\]", path.read_text(encoding="utf-8", errors="replace"))
    with frames.parsing(path):
        fx, fy, cx, cy = (float(word) for word in (found[1] if found else "").split(","))
        camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=_SIZE, origin="calibration")
    return camera if size == _SIZE else camera.resized(size)


PREPARATION = frames.Preparation(
    options=Options,
    scenes=_scenes,
    frames=frames.line_by_line(_frame),
    stored=KITTI_UNITS,
    needs="the extracted archive, val/indoors/scene_*/scan_*/*.png with *_depth.npy",
)
