"""DIODE: `(train|val)/(indoors|outdoor)/scene_*/scan_*/` with a PNG and two NPY for each view.

    <stem>.png   <stem>_depth.npy (H, W, 1) float32 metres   <stem>_depth_mask.npy (H, W)

As published: no depth where the mask is below 1e-6, at most 100 m, stored in 1/256 m, rounded
down. The split `val` is the one to test on. `intrinsics.txt` of the devkit is used if it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from idisc.data.catalog import DIODE, DatasetSpec
from idisc.data.decode import FloatArray, read_array
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Scene,
    by_scene,
    frame_by_frame,
    stated_camera,
    stem_of,
)
from idisc.errors import InputError
from idisc.images import picture_size
from idisc.sizes import size_text

NEEDS = "the extracted archive, val/indoors/scene_*/scan_*/*.png with *_depth.npy,"
_SPLITS = {"train": "train", "val": "test"}
_PARTS = {"indoors": ("indoors",), "outdoor": ("outdoor",), "both": ("indoors", "outdoor")}
_MAX_DEPTH = 100.0  # metres; beyond it the published preparation clips


def scenes(raw: Path, choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """One scene for each scan."""
    found = _found(raw, _PARTS[choices.diode_part]) if lines is None else lines
    return by_scene(found, raw, _scan_of)


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The views of a scan."""
    del choices  # they chose the scans
    spec = _calibrated(scene.source / "intrinsics.txt")
    return frame_by_frame(partial(_frame, scene.source, spec), scene.wanted or ())


def _found(raw: Path, parts: Sequence[str]) -> Iterator[ListLine]:
    for folder, split in _SPLITS.items():
        for part in parts:
            scans = (raw / folder / part).glob("scene_*/scan_*")
            for name in sorted({name for scan in scans for name in _views(raw, scan)}):
                yield ListLine(name, name, split)


def _views(raw: Path, scan: Path) -> Iterator[str]:
    """Pictures that are there, or whose depth is: their absence is a fault."""
    below = scan.relative_to(raw)
    yield from (f"{below.as_posix()}/{path.name}" for path in scan.glob("*.png"))
    for path in scan.glob("*_depth.npy"):
        yield f"{below.as_posix()}/{path.name.removesuffix('_depth.npy')}.png"


def _scan_of(line: ListLine) -> str:
    """`indoors/scene_00019/scan_00183`, without the folder of the split."""
    return "/".join(PurePosixPath(line.image).parts[1:-1])


def _frame(raw: Path, spec: DatasetSpec, line: ListLine) -> Frame:
    # The published lists name `_depth.png`, which the published preparation makes from the arrays.
    image = raw / line.image
    size, depth = picture_size(image), _depth(image)
    if depth.shape != size:
        raise InputError(f"{image}: {size_text(size)} pixels; its depth has {depth.shape}")
    return Frame(
        name=stem_of(line),
        image=image,
        target=depth,
        camera=stated_camera(spec, line.image, size),
    )


def _depth(image: Path) -> FloatArray:
    """Depth (H, W) in metres, 0 where the mask says that there is none."""
    path = image.with_name(f"{image.stem}_depth.npy")
    depth, mask = read_array(path), read_array(path.with_name(f"{path.stem}_mask.npy"))
    if depth.shape != mask.shape:
        raise InputError(f"{path}: {depth.shape}; its mask has {mask.shape}")
    there = (mask.astype(np.float32) >= 1e-6) & np.isfinite(depth.astype(np.float32))
    metres = np.where(there, depth, 0).astype(np.float32)
    return np.clip(metres, 0, np.float32(_MAX_DEPTH))


def _calibrated(path: Path) -> DatasetSpec:
    """The catalog's entry with the intrinsics of the devkit's file, `[fx, ...] = [886.81, ...]`."""
    if not path.is_file():
        return DIODE
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(r"=\s*\[([^\]]*)\]", text)
    try:
        fx, fy, cx, cy = (float(word) for word in (found[1] if found else "").split(","))
    except ValueError:
        raise InputError(f"{path}: no `[fx, fy, cx, cy] = [...]` in it; four are needed") from None
    (_, size), *_ = DIODE.cameras.values()
    return replace(DIODE, cameras={"": ((fx, fy, cx, cy), size)})
