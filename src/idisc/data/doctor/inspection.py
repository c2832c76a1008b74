"""Read the files of a dataset and collect the input of the checks.

A file that is wrong raises no error: the problem becomes a `Fault`, and the checks turn faults and
statistics into `Finding`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc.data import manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import has_value, read_target
from idisc.data.decode import ARRAYS, FloatArray
from idisc.data.doctor.alignment import Edges, find_edges
from idisc.data.framing import as_stored
from idisc.data.manifest import Manifest, Record
from idisc.data.units import rank_correlation
from idisc.errors import InputError
from idisc.images import FORMATS, read_image
from idisc.sizes import Size, describe_size, size_text

Result = TypeVar("Result")
RUN_LENGTH = 4
"""Consecutive records that are inspected together: only they show that a list is off by one."""
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_FOV_DEG = 15.0, 150.0  # a long lens, a fisheye
_MAX_VALUES = 1000  # of a depth map, from which percentiles over all maps are computed


@dataclass(frozen=True)
class Fault:
    """A problem that was met when a file was read."""

    code: str
    file: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class DepthStats:
    """Statistics of one depth map, in metres."""

    valid: float  # share of the pixels with a value
    undefined: int  # pixels that are NaN or infinite
    negative: int  # pixels below 0
    median: float = 0.0
    far: float = 0.0  # 95th percentile
    constant: bool = False  # one value everywhere
    slope: float = 0.0  # rank correlation of depth with the row: < 0 where the floor is near
    values: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The contents of the files of one record, summarized."""

    index: int  # in the order of its split
    record: Record
    faults: tuple[Fault, ...] = ()
    image_size: Size | None = None  # upright
    target_size: Size | None = None
    depth: DepthStats | None = None
    edges: Edges | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The input of every check."""

    source: Manifest
    spec: DatasetSpec
    samples: int
    absent: frozenset[str]  # files that do not exist or are empty
    inspections: Sequence[Inspection]

    def depths(self) -> dict[str, DepthStats]:
        """Return the statistics of the inspected depth maps by file."""
        return {one.record.target: one.depth for one in self.inspections if one.depth is not None}


def sample_indices(count: int, samples: int) -> list[int]:
    """Return at most `samples` of `count` indices, in evenly spaced runs; always the same ones."""
    if samples >= count:
        return list(range(count))
    length = min(RUN_LENGTH, samples)
    starts = np.linspace(0, max(count // RUN_LENGTH - 1, 0), samples // length).astype(int)
    return [int(start) * RUN_LENGTH + step for start in starts for step in range(length)]


def inspect(
    source: Manifest, spec: DatasetSpec, index: int, record: Record, *, keep_edges: bool
) -> Inspection:
    """Read the files of a record."""
    root, faults = source.root, list[Fault]()

    def attempt(code: str, name: str, read: Callable[[], Result]) -> Result | None:
        try:
            return read()
        except InputError as error:
            faults.append(Fault(code, name, str(error)))
            return None

    if manifest.is_changed(root, record):
        faults.append(Fault("changed", record.image, "another SHA-256"))
    image_mode, target_mode = (
        attempt("damaged", name, partial(_mode, root / name)) if name else None
        for name in (record.image, record.target)
    )
    image = target = None
    if image_mode in _EIGHT_BITS:
        image = attempt("damaged", record.image, lambda: read_image(root / record.image))
    if fault := _misplaced(spec, record, image_mode, target_mode):
        faults.append(fault)
    elif target_mode:
        target = attempt("damaged", record.target, lambda: read_target(source, record))
    size = None if image is None else (image.shape[0], image.shape[1])
    if size is not None:
        faults += _camera_faults(spec, record, size)
    stats = edges = None
    if target is not None and spec.target.kind == "depth":
        stats = _depth_stats(target, spec.min_depth)
        edges = find_edges(image, target) if image is not None and keep_edges else None
    if image is not None and target is not None:
        stored = as_stored(image, target, None)
        attempt("framing", record.image, lambda: spec.framing(stored))
    return Inspection(
        index=index,
        record=record,
        faults=tuple(faults),
        image_size=size,
        target_size=None if target is None else (target.shape[0], target.shape[1]),
        depth=stats,
        edges=edges,
    )


def _depth_stats(depth: FloatArray, min_depth: float) -> DepthStats:
    valid, finite = has_value(depth, min_depth), np.isfinite(depth)
    stats = DepthStats(
        valid=float(valid.mean()),
        undefined=int((~finite).sum()),
        negative=int((depth[finite] < 0).sum()),
    )
    values = depth[valid]
    if not values.size:
        return stats
    step = max(1, values.size // _MAX_VALUES)
    subset = values[step // 2 :: step]
    slope = rank_correlation(subset, np.nonzero(valid)[0][step // 2 :: step])
    return replace(
        stats,
        median=float(np.median(values)),
        far=float(np.percentile(values, 95)),
        constant=bool(values.min() == values.max()),
        slope=0.0 if np.isnan(slope) else slope,
        values=subset,
    )


def _mode(path: Path) -> str:
    """Return the mode of a picture from its header, or "array"."""
    if path.suffix.lower() in ARRAYS:
        return "array"
    try:
        with Image.open(path, formats=FORMATS) as picture:
            return picture.mode
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise InputError(path, "not an image, or its header is damaged") from None


def _misplaced(
    spec: DatasetSpec, record: Record, image_mode: str | None, target_mode: str | None
) -> Fault | None:
    """Return a fault if the image is a depth map, the depth map an image, or both."""
    no_image = image_mode is not None and image_mode not in _EIGHT_BITS
    if no_image and target_mode in _EIGHT_BITS:
        reason = f"{record.image} is {image_mode}, {record.target} is {target_mode}"
        return Fault("swapped", record.image, reason)
    if no_image:
        return Fault("picture", record.image, f"mode {image_mode}")
    if target_mode in _EIGHT_BITS and spec.task.metric:
        return Fault("bits", record.target, f"mode {target_mode}")
    return None


def _camera_faults(spec: DatasetSpec, record: Record, size: Size) -> Iterator[Fault]:
    """Yield the faults of the intrinsics, which belong to the upright image of this size."""
    if record.size and record.size != size:
        height, width = record.size
        reason = f"{describe_size((height, width))} stated, {size_text(size)} found"
        yield Fault("size", record.image, reason)
    try:
        camera = manifest.camera_of(record, spec, size)
    except InputError as error:
        yield Fault("centre", record.image, str(error))
        return
    if camera is None:
        return
    if not (0 < camera.cx < size[1] and 0 < camera.cy < size[0]):
        centre = f"({camera.cx:g}, {camera.cy:g}) of {describe_size(size)}"
        yield Fault("centre", record.image, centre)
    elif not _FOV_DEG[0] <= camera.fov_deg <= _FOV_DEG[1]:
        yield Fault("angle", record.image, f"{camera.fov_deg:.0f} degrees")
