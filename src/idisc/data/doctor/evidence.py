"""What the doctor looks at: one record's files read once, and the numbers its checks need.

Reading never raises for a file that is wrong: what was wrong becomes a `Fault`, and the checks
(`data.doctor` lists them) make `Finding`s of faults and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from idisc.camera import Camera
from idisc.data import manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset, has_value
from idisc.data.decode import ARRAYS, FloatArray
from idisc.data.doctor.alignment import Edges, edges_of
from idisc.data.manifest import Manifest, Record
from idisc.errors import InputError, counted
from idisc.images import FORMATS, open_picture
from idisc.sizes import Size, size_text

Severity = Literal["error", "warning"]
RUN = 4
"""Records in a row that are looked at together: a list that is off by one shows only there."""
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_EXAMPLES = 3
_OF_ONE = {  # verbs
    "are": "is",
    "differ": "differs",
    "do": "does",
    "fit": "fits",
    "have": "has",
    "hold": "holds",
}
_NARROWEST_DEG, _WIDEST_DEG = 15.0, 150.0  # a long lens, a fisheye
_FEW = 1000  # values of a map that stand for all of them in percentiles


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, in one line, and all files it is wrong with."""

    severity: Severity
    check: str  # a word to search for: "scale", "missing", "shift"
    message: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """What was wrong with one file when it was read."""

    check: str
    file: str
    text: str


@dataclass(frozen=True, kw_only=True)
class DepthFacts:
    """Numbers of one depth map; metres."""

    valid: float  # share of the pixels with a value
    undefined: int  # pixels that are NaN or infinite
    negative: int  # pixels below 0
    median: float = 0.0
    far: float = 0.0  # 95th percentile
    constant: bool = False  # one value everywhere
    fall: float = 0.0  # rank correlation of depth with the row: < 0 where the floor is near
    values: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


@dataclass(frozen=True, kw_only=True)
class Look:
    """One record as its files are."""

    index: int  # in the order of its split
    record: Record
    faults: tuple[Fault, ...] = ()
    image_size: Size | None = None  # upright
    target_size: Size | None = None
    depth: DepthFacts | None = None
    edges: Edges | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that the checks may ask for."""

    source: Manifest
    spec: DatasetSpec
    samples: int
    absent: frozenset[str]  # files that are not there, or have no bytes
    looks: Sequence[Look]

    @property
    def kind(self) -> Literal["list", "own", "prepared"]:
        """How the records were found, which decides what a user can change."""
        if "list" in self.source.prepared:
            return "list"
        return "own" if "from" in self.source.prepared else "prepared"

    @property
    def shared(self) -> bool:
        """Every pair is in both splits: a folder of one's own without splits."""
        pairs = {split: set[tuple[str, str]]() for split in ("train", "test")}
        for record in self.source.records:
            pairs.setdefault(record.split, set()).add((record.image, record.target))
        return self.source.dataset == "folder" and pairs["train"] == pairs["test"]

    def faults(self, check: str) -> list[Fault]:
        """Faults of one kind over all records."""
        return [fault for look in self.looks for fault in look.faults if fault.check == check]


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more


def told(count: int, noun: str, what: str, total: int | None = None) -> str:
    """How many do what: `1 file has no ...`, `3 files have no ...`, `1 of 9 files has no ...`."""
    verb, _, rest = what.partition(" ")
    many = counted(count, noun) if total is None else f"{count:,} of {counted(total, noun)}"
    return f"{many} {_OF_ONE.get(verb, verb) if count == 1 else verb} {rest}"


def spread(count: int, samples: int) -> list[int]:
    """At most `samples` of `count` indices, evenly spread in runs of RUN; always the same ones."""
    if samples >= count:
        return list(range(count))
    runs = max(samples // RUN, 1)
    starts = np.linspace(0, count // RUN - 1, runs).astype(int) * RUN if count >= RUN else [0]
    return [int(start) + step for start in starts for step in range(min(RUN, samples))]


def look_at(dataset: Dataset, index: int, record: Record, aligning: bool) -> Look:
    """Read the files of a record; `aligning`: keep the edges, too."""
    root, spec = dataset.source.root, dataset.spec
    faults = list(_changed(root, record))
    image, image_mode = _picture(root / record.image, record.image, faults)
    target_mode, target_size = _header(root / record.target, record.target, faults)
    misplaced = list(_misplaced(dataset, record, image_mode, target_mode))
    faults += misplaced
    target = _target(dataset, record, faults) if target_mode and not misplaced else None
    size = None if image is None else (image.shape[0], image.shape[1])
    if size is not None:
        faults += _camera_faults(spec, record, size)
    if image is not None and target is not None:
        faults += _unframed(spec, record, image, target)
    depth = target if target is not None and target.ndim == 2 else None
    return Look(
        index=index,
        record=record,
        faults=tuple(faults),
        image_size=size,
        target_size=target_size if target is None else (target.shape[0], target.shape[1]),
        depth=None if depth is None else depth_facts(depth, spec.min_depth),
        edges=None if image is None or depth is None or not aligning else edges_of(image, depth),
    )


def depth_facts(depth: FloatArray, min_depth: float) -> DepthFacts:
    """The numbers of a map (H, W) in metres."""
    valid = has_value(depth, min_depth)
    share = float(valid.mean()) if valid.size else 0.0
    undefined = int((~np.isfinite(depth)).sum())
    with np.errstate(invalid="ignore"):
        negative = int(((depth < 0) & np.isfinite(depth)).sum())
    values = depth[valid]
    if not values.size:
        return DepthFacts(valid=share, undefined=undefined, negative=negative)
    step = max(1, values.size // _FEW)
    few = values[step // 2 :: step]
    return DepthFacts(
        valid=share,
        undefined=undefined,
        negative=negative,
        median=float(np.median(values)),
        far=float(np.percentile(values, 95)),
        constant=bool(values.min() == values.max()),
        fall=_rank_correlation(few, np.nonzero(valid)[0][step // 2 :: step]),
        values=few,
    )


def _rank_correlation(values: FloatArray, rows: NDArray[np.intp]) -> float:
    if values.size < 2 or rows[0] == rows[-1] or values.min() == values.max():
        return 0.0
    ranks = np.argsort(np.argsort(values, kind="stable"))
    return float(np.corrcoef(ranks, rows)[0, 1])


def _changed(root: Path, record: Record) -> Iterator[Fault]:
    if manifest.is_changed(root, record):
        yield Fault("changed", record.image, "sha256 differs")


def _picture(path: Path, name: str, faults: list[Fault]) -> tuple[NDArray[np.uint8] | None, str]:
    """Upright RGB (H, W, 3), or None and the mode of what it is instead."""
    if path.suffix.lower() in ARRAYS:
        return None, "array"
    try:
        with open_picture(path) as picture:
            mode = picture.mode
            if mode not in _EIGHT_BITS:
                return None, mode
            return np.asarray(ImageOps.exif_transpose(picture).convert("RGB")), mode
    except InputError as error:
        faults.append(Fault("damaged", name, _without(path, error)))
        return None, ""


def _misplaced(
    dataset: Dataset, record: Record, image_mode: str, target_mode: str
) -> Iterator[Fault]:
    """Depth where the picture should be, the picture where depth should be, or both."""
    no_picture = bool(image_mode) and image_mode not in _EIGHT_BITS
    no_depth = target_mode in _EIGHT_BITS and dataset.spec.task == "depth"
    if no_picture and target_mode in _EIGHT_BITS:
        text = f"{record.image} is {image_mode}, {record.target} is {target_mode}"
        yield Fault("swapped", record.image, text)
    elif no_picture:
        yield Fault("picture", record.image, f"mode {image_mode}")
    elif no_depth and _without_metres(dataset, record):
        yield Fault("bits", record.target, f"mode {target_mode}")


def _without_metres(dataset: Dataset, record: Record) -> bool:
    """A whole picture that the dataset's decoder refuses: it knows depth packed into colours."""
    try:
        with open_picture(dataset.source.root / record.target):
            pass
    except InputError:
        return False  # damaged, which reading it as a target says
    try:
        dataset.read_target(record)
    except InputError:
        return True
    return False


def _header(path: Path, name: str, faults: list[Fault]) -> tuple[str, Size | None]:
    """Mode and size of a target; an array says its own when it is read."""
    if not name:
        return "", None
    if path.suffix.lower() in ARRAYS:
        return "array", None
    try:
        with Image.open(path, formats=FORMATS) as picture:
            return picture.mode, (picture.height, picture.width)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        faults.append(Fault("damaged", name, "not a picture (or its first bytes are damaged)"))
        return "", None


def _target(dataset: Dataset, record: Record, faults: list[Fault]) -> FloatArray | None:
    try:
        return dataset.read_target(record)
    except InputError as error:
        text = _without(dataset.source.root / record.target, error)
        faults.append(Fault("damaged", record.target, text))
        return None


def _unframed(
    spec: DatasetSpec, record: Record, image: NDArray[np.uint8], target: FloatArray
) -> Iterator[Fault]:
    """A frame that is too small for the crop of its dataset."""
    try:
        spec.framing(image, target, None)
    except InputError as error:
        yield Fault("framing", record.image, str(error))


def _camera_faults(spec: DatasetSpec, record: Record, size: Size) -> Iterator[Fault]:
    """`size` is that of the upright picture, which intrinsics are for."""
    stated = record.size or size
    if tuple(stated) != size:
        text = f"{size_text((stated[0], stated[1]))} stated, {size_text(size)} found"
        yield Fault("size", record.image, text)
    found = manifest.intrinsics_of(replace(record, size=stated), spec)
    if found is None:
        return
    (fx, fy, cx, cy), (height, width) = found
    try:
        camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=(height, width), origin="manifest")
    except InputError as error:
        yield Fault("centre", record.image, str(error))
        return
    if not (0 < cx < width and 0 < cy < height):
        yield Fault("centre", record.image, f"({cx:g}, {cy:g}) of {height}x{width}")
    elif not _NARROWEST_DEG <= camera.fov_deg <= _WIDEST_DEG:
        yield Fault("angle", record.image, f"{camera.fov_deg:.0f} degrees")


def _without(path: Path, error: InputError) -> str:
    return str(error).removeprefix(f"{path}: ")
