"""manifest.jsonl, the content of a prepared dataset with one line per image; and published lists.

The first line states the dataset, how targets are stored, and the options of the preparation; each
other line is a `Record`. Paths are relative to the manifest's folder. Lines are sorted and contain
the hash of their files, so that the SHA-256 of the manifest identifies the whole dataset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from idisc import configs, files
from idisc.camera import Camera
from idisc.data.catalog import DatasetSpec
from idisc.data.decode import TARGETS, Target
from idisc.errors import DataError, InputError, lookup
from idisc.sizes import Size

NAME = "manifest.jsonl"


class EmptySplit(DataError):
    """A valid dataset without images of the requested split."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """An image and its ground truth."""

    image: str  # path below the dataset's folder
    target: str  # path of the depth or the normals; "" if there is none
    split: str  # train or test
    scene: str = ""  # must not be shared between splits
    sensor: str = ""  # name of the camera of a car with several
    size: tuple[int, ...] | None = None  # (height, width) of the image
    intrinsics: tuple[float, ...] | None = None  # fx, fy, cx, cy of the stored image
    scale: float | None = None  # metres per unit of the target, if it differs from the dataset's
    valid: float | None = None  # share of the target's pixels with a value
    sha256: str = ""  # of the image's bytes followed by the target's

    def __post_init__(self) -> None:
        for name, count in (("size", 2), ("intrinsics", 4)):
            values = getattr(self, name)
            if values is not None and len(values) != count:
                raise InputError(name, f"{len(values)} numbers, {count} expected")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The records of one dataset and how to read their targets."""

    dataset: str  # a name of DATASETS
    target: Target
    records: tuple[Record, ...]
    root: Path  # the folder of the paths
    prepared: Mapping[str, Any] = field(default_factory=dict)  # the options of the preparation
    sha256: str = ""  # of manifest.jsonl, or of the list used instead

    def records_of(self, split: str) -> tuple[Record, ...]:
        """Return the records of one split; raise EmptySplit if there are none."""
        chosen = tuple(record for record in self.records if record.split == split)
        if not chosen:
            splits = ", ".join(sorted({record.split for record in self.records})) or "none"
            raise EmptySplit(self.root, f"no image of split '{split}'", f"its splits: {splits}")
        return chosen


def write(manifest: Manifest) -> str:
    """Write manifest.jsonl into the root, sorted; returns its SHA-256."""
    header = {
        "format": configs.FORMAT,
        "dataset": manifest.dataset,
        "target": configs.to_json(manifest.target),
        "prepared": dict(manifest.prepared),
    }
    ordered = sorted(manifest.records, key=lambda record: (record.split, record.image))
    lines = [json.dumps(header), *(_line(record) for record in ordered)]
    path = manifest.root / NAME
    with files.atomic(path) as draft:
        draft.write_bytes(("\n".join(lines) + "\n").encode())
    return files.sha256(path)


def read(root: Path) -> Manifest:
    """Read the manifest of a prepared folder."""
    path = root / NAME
    if not path.is_file():
        raise DataError(root, f"contains no {NAME}", "run `idisc prepare`, or pass --list FILE")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    except ValueError as error:
        raise DataError(path, f"damaged ({error})", "prepare the dataset again") from None
    header = rows[0] if rows and isinstance(rows[0], dict) else {}
    if header.get("format") != configs.FORMAT:
        raise DataError(path, f"no header of {configs.FORMAT} in its first line")
    prepared = header.get("prepared", {})
    if len(rows) < 2 or not isinstance(prepared, dict):
        reason = "contains no images" if len(rows) < 2 else "prepared is not an object"
        raise DataError(path, reason, "prepare the dataset again")
    return Manifest(
        dataset=str(header.get("dataset")),
        target=_target(header.get("target"), path),
        records=tuple(
            configs.from_json(Record, row, f"{path}:{number}")
            for number, row in enumerate(rows[1:], start=2)
        ),
        root=root,
        prepared=prepared,
        sha256=files.sha256(path),
    )


@dataclass(frozen=True)
class ListLine:
    """One line of a published list: `image target focal`."""

    image: str
    target: str
    split: str

    @property
    def stem(self) -> str:
        """The path of its image without suffix, which names its frame."""
        return PurePosixPath(self.image).with_suffix("").as_posix()


def read_list(path: Path, column: int = 1) -> list[ListLine]:
    """Read a published list file: fields separated by spaces; lines with target None are left out.

    The split is `train` if the name of the file contains it, else `test`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(path, "no such list file") from None
    except ValueError:
        raise InputError(path, "not a text file", "each line of a list is `image depth`") from None
    split = "train" if "train" in path.stem.lower() else "test"
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) <= column:
            raise InputError(
                f"{path}:{number}",
                f"{len(parts)} fields",
                f"image and target (field {column + 1}) are needed",
            )
        for name in (parts[0], parts[column]):
            if ".." in PurePosixPath(name).parts:
                raise InputError(
                    f"{path}:{number}",
                    f"{name} is outside the dataset's folder",
                    "the paths of a list are relative to it",
                )
        if parts[column] != "None":
            # Paths of some lists begin with a slash, but are relative to the dataset.
            lines.append(ListLine(parts[0].lstrip("/"), parts[column].lstrip("/"), split))
    if not lines:
        raise InputError(path, "no line names an image and its target")
    return lines


Pair = TypeVar("Pair", ListLine, Record)


def drop_repeated(pairs: Iterable[Pair]) -> tuple[list[Pair], list[str]]:
    """Return each pair of a split once, in their order, and the images that were repeated."""
    kept: dict[tuple[str, str, str], Pair] = {}
    repeated: dict[str, None] = {}
    for pair in pairs:
        key = pair.split, pair.image, pair.target
        if key in kept:
            repeated[pair.image] = None
        kept.setdefault(key, pair)
    return list(kept.values()), list(repeated)


def from_lists(
    paths: Sequence[Path], root: Path, spec: DatasetSpec, *, complete: bool = True
) -> Manifest:
    """Use published lists, such as those of train and test, as a manifest of files below `root`.

    Lines without files are left out, as is usual for KITTI (697 lines, 652 images), unless
    `complete` is False; if all are without, it is an error. A repeated line counts once.
    """
    records: list[Record] = []
    missing: set[str] = set()
    repeated: list[str] = []
    for path in paths:
        lines, repeated_here = drop_repeated(read_list(path, spec.list_column))
        matrices = _read_intrinsics(path)
        listed = [
            Record(
                image=line.image,
                target=_existing(root, line.target) or line.target,
                split=line.split,
                scene=PurePosixPath(line.image).parent.as_posix(),
                sensor=next((s for s in spec.hidden_rows if f"/{s}/" in f"/{line.image}"), ""),
                intrinsics=matrices.get(line.image) or None,
            )
            for line in lines
        ]
        found = [r for r in listed if (root / r.image).is_file() and (root / r.target).is_file()]
        if not found:
            raise DataError(root, f"contains no files of the {len(lines)} lines of {path.name}")
        records += found if complete else listed
        missing |= {line.image for line in lines} - {record.image for record in found}
        repeated += repeated_here
    return Manifest(
        dataset=spec.name,
        target=spec.target,
        records=tuple(drop_repeated(records)[0]),
        root=root,
        prepared={
            "list": paths[0].name,
            "missing": sorted(missing),
            **({"repeated": repeated} if repeated else {}),
        },
        sha256=files.sha256(*paths),
    )


def is_changed(root: Path, record: Record) -> bool:
    """Return whether the files of a record differ from its hash, if it has one."""
    paths = [root / name for name in (record.image, record.target) if name]
    return bool(record.sha256) and files.sha256(*paths) != record.sha256


def camera_of(record: Record, spec: DatasetSpec, size: Size) -> Camera | None:
    """Return the camera of a record whose image has this size: its own, or its dataset's."""
    if record.intrinsics is None:
        return spec.camera_of(record.image, size)
    fx, fy, cx, cy = record.intrinsics
    height, width = record.size or size
    camera = Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=(height, width), origin="calibration")
    return camera if camera.size == size else camera.resized(size)


def _line(record: Record) -> str:
    values = {
        key: value for key, value in configs.to_json(record).items() if value not in ("", None)
    }
    return json.dumps({"target": "", **values})


def _target(data: object, path: Path) -> Target:
    kind = str(data.get("kind")) if isinstance(data, dict) else "missing"
    return configs.from_json(lookup(TARGETS, kind, f"{path}: target"), data, f"{path}: target")


def _existing(root: Path, target: str) -> str | None:
    """Return the path of a target; KITTI's lists treat the folders train and val as merged."""
    return next(
        (name for name in (target, f"train/{target}", f"val/{target}") if (root / name).is_file()),
        None,
    )


def _read_intrinsics(path: Path) -> dict[str, tuple[float, ...]]:
    """Read `argo_intrinsics.json` next to `argo_train.txt`: {image: K}; an empty file has none."""
    sidecar = path.with_name(f"{path.stem.split('_')[0]}_intrinsics.json")
    if not sidecar.is_file() or not sidecar.stat().st_size:
        return {}
    table = files.read_json(sidecar)
    try:
        return {
            name: (float(k[0][0]), float(k[1][1]), float(k[0][2]), float(k[1][2]))
            for name, k in table.items()
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise InputError(sidecar, "{image: 3x3 matrix} is needed") from None
