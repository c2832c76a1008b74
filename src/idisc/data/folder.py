"""A user's own pairs: a folder of pictures and one of depth, or a file that lists them.

    DIR/images/a.jpg  DIR/depth/a.png        pairs by name; 16-bit PNG in millimetres, or NPY, NPZ
    DIR/a.jpg  DIR/a.png                     the same in one folder, if no name has other files
    DIR/pairs.csv                            columns image, depth and, if known, split, scene,
                                             fx, fy, cx, cy, depth_scale (metres of one unit)
    DIR/pairs.jsonl                          the same as one JSON object in each line
    DIR/list.txt                             `picture depth` in each line, as in published lists;
                                             further fields, mostly a focal length, are not read

`train/` and `test/` (or `val/`) folders around `images/` and `depth/` are splits; without them
every pair is in both splits. A CSV or JSONL file without the columns image and depth, such as the
log of a training, is ignored.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from idisc.data.catalog import FOLDER
from idisc.data.decode import ARRAYS
from idisc.data.manifest import NAME, Manifest, Record, drop_repeated, read_list
from idisc.errors import InputError
from idisc.images import picture_size

IMAGE_FOLDERS = ("images", "image", "rgb", "color", "colour", "imgs")
DEPTH_FOLDERS = ("depth", "depths", "gt", "depth_gt")
SPLITS = {"train": "train", "test": "test", "val": "test", "valid": "test", "validation": "test"}
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MAPS = (*ARRAYS, ".png", ".tif", ".tiff")
TABLES = (".csv", ".jsonl")
LIST = "list.txt"
FOLDERS = "folders"
"""`Manifest.prepared["from"]` of pairs that no file lists; otherwise it is the file's name."""
_INTRINSICS = ("fx", "fy", "cx", "cy")
_COLUMNS = ("image", "depth", "split", "scene", *_INTRINSICS, "depth_scale")


class _Pair(NamedTuple):
    image: Path
    depth: Path
    row: Mapping[str, Any]  # other columns of a table
    listed_in: str = ""  # the file that lists it, with the line if it is a table


def read(root: Path, *, complete: bool = True) -> Manifest:
    """Return the pairs of a folder; if there are none, an InputError states what is needed.

    If not `complete`, which the doctor needs, pairs with a missing or misplaced file are included.
    """
    paths = sorted(path for path in root.iterdir() if path.suffix in TABLES)
    tables = [path for path in paths if _lists_pairs(path)]
    if len(tables) > 1:
        names = ", ".join(path.name for path in tables)
        raise InputError(root, f"several tables ({names})", "keep only one")
    if tables:
        index, found = tables[0].name, _from_table(tables[0], root)
    elif (root / LIST).is_file():
        index, found = LIST, _from_list(root / LIST, root)
    else:
        index, found = FOLDERS, _from_folders(root, complete)
    records, repeated = drop_repeated(
        record for pair in found for record in _records(root, pair, complete)
    )
    if not records:
        others = ", ".join(path.name for path in paths if path not in tables)
        lists = f" ({others} lists none)" if others else ""
        raise InputError(
            root / index if tables else root,
            "no pairs" if tables else f"no dataset: neither {NAME} nor pairs{lists}",
            "images/NAME.jpg with depth/NAME.png (or .npy), NAME.jpg with NAME.png, a CSV or JSONL"
            f" with the columns image and depth, or {LIST}, is needed",
        )
    names = "\n".join(f"{r.image} {r.target}" for r in records)
    return Manifest(
        dataset="folder",
        target=FOLDER.target,
        records=tuple(records),
        root=root,
        prepared={"from": index, **({"repeated": repeated} if repeated else {})},
        sha256=hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _lists_pairs(table: Path) -> bool:
    """Return whether the first row has the columns; a missing or wrong row is reported later."""
    try:
        _, row = next(_rows(table), (0, None))
    except InputError:
        return True
    return row is None or any(str(name).strip().lower() in ("image", "depth") for name in row)


def _from_folders(root: Path, complete: bool) -> Iterator[_Pair]:
    splits = [path for path in sorted(root.iterdir()) if path.is_dir() and path.name in SPLITS]
    for folder in splits or [root]:
        row = {"split": SPLITS[folder.name]} if splits else {}
        images, depths = (
            next((folder / name for name in names if (folder / name).is_dir()), None)
            for names in (IMAGE_FOLDERS, DEPTH_FOLDERS)
        )
        if images is None or depths is None:
            yield from _flat_pairs(folder, row, complete)
            continue
        pictures, maps = _with_suffix(images, PICTURES), _with_suffix(depths, MAPS)
        if not complete:  # each may be in the folder of the other
            pictures = pictures or _with_suffix(images, MAPS)
            maps = maps or _with_suffix(depths, PICTURES)
        found = {path.relative_to(depths).with_suffix(""): path for path in maps}
        for image in pictures:
            name = image.relative_to(images).with_suffix("")
            scene = "" if name.parent == Path() else name.parent.as_posix()
            yield _Pair(image, found.get(name, depths / f"{name}.png"), {**row, "scene": scene})


def _flat_pairs(folder: Path, row: Mapping[str, Any], complete: bool) -> Iterator[_Pair]:
    """Yield pairs of a picture and a depth map that have the same name in the same folder."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in (*PICTURES, *MAPS):
            groups.setdefault(path.stem, []).append(path)
    # A folder of pictures alone has no names with two files; then no header is read.
    several = any(len(paths) > 1 for paths in groups.values())
    pairs = {name: _picture_and_map(paths) for name, paths in groups.items()} if several else {}
    if not any(picture and depth for picture, depth in pairs.values()):
        return
    for name, (picture, depth) in pairs.items():
        if complete and len(groups[name]) > 2:
            names = ", ".join(path.name for path in groups[name])
            raise InputError(folder / name, f"several files of one name ({names})", "keep a pair")
        if complete and picture and not depth:  # two photos may have one name
            raise InputError(picture, f"no depth of that name in {folder}")
        if picture:
            yield _Pair(picture, depth or folder / f"{name}.png", row)


def _picture_and_map(paths: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """Return the picture and the depth map among files of one name, or None for each."""
    maps = [path for path in paths if path.suffix.lower() in ARRAYS or _has_16_bits(path)]
    pictures = [path for path in paths if path not in maps]
    return next(iter(pictures), None), next(iter(maps), None)


def _has_16_bits(path: Path) -> bool:
    """Return whether the header states one channel of more than 8 bits, which is depth."""
    if path.suffix.lower() not in MAPS:
        return False
    try:
        with Image.open(path) as picture:
            return picture.mode.startswith(("I", "F"))
    except (OSError, ValueError):
        return False  # reading it later reports the reason


def _with_suffix(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in suffixes]


def _from_table(table: Path, root: Path) -> Iterator[_Pair]:
    for number, row in _rows(table):
        line = f"{table}:{number}"
        unknown = sorted(str(name) for name in set(row) - set(_COLUMNS))
        if unknown or not row.get("image") or not row.get("depth"):
            reason = f"column {unknown[0]}" if unknown else "image or depth missing"
            raise InputError(line, reason, f"columns are {', '.join(_COLUMNS)}")
        yield _Pair(root / str(row["image"]), root / str(row["depth"]), row, line)


def _from_list(path: Path, root: Path) -> Iterator[_Pair]:
    for line in read_list(path):
        yield _Pair(root / line.image, root / line.target, {}, str(path))


def _rows(table: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = table.read_text(encoding="utf-8-sig").splitlines()
    except ValueError:
        raise InputError(table, "not a text file in UTF-8", "save it again as one") from None
    if table.suffix == ".csv":
        # Cells beyond the header have no name of their own.
        yield from enumerate(csv.DictReader(lines, restkey="without a name"), start=2)
        return
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError as error:
            raise InputError(f"{table}:{number}", f"not JSON ({error})") from None
        if row is not None and not isinstance(row, dict):
            raise InputError(f"{table}:{number}", "one JSON object in each line is needed")
        if row:
            yield number, row


def _records(root: Path, pair: _Pair, complete: bool) -> Iterator[Record]:
    """One record, or one in each split for a pair without a split."""
    image, depth, row, listed_in = pair
    for path in (image, depth) if complete else ():
        if not path.is_file():
            if listed_in:
                raise InputError(listed_in, f"{path}: no such file")
            raise InputError(image, f"no depth of that name in {path.parent}")
    split = str(row.get("split") or "").lower()
    if split and split not in SPLITS:
        raise InputError(listed_in, f"split '{split}'", f"it is one of {', '.join(SPLITS)}")
    given = [name for name in _INTRINSICS if row.get(name) not in (None, "")]
    if len(given) not in (0, 4):
        reason = f"{len(given)} of fx, fy, cx, cy"
        raise InputError(listed_in, reason, "all four or none are needed")
    intrinsics = tuple(_number(row, name, listed_in) for name in given) or None
    scale = 1.0 if depth.suffix.lower() in ARRAYS else None  # arrays are in metres
    if row.get("depth_scale") not in (None, ""):
        scale = _number(row, "depth_scale", listed_in)
        if not 0 < scale < math.inf:
            remedy = "it is the metres of one unit, 0.001 for millimetres"
            raise InputError(listed_in, f"depth_scale {scale:g}", remedy)
    for name in (SPLITS[split],) if split else ("train", "test"):
        yield Record(
            image=_below(root, image),
            target=_below(root, depth),
            split=name,
            scene=str(row.get("scene") or ""),
            size=picture_size(image) if intrinsics and complete else None,
            intrinsics=intrinsics,
            scale=scale,
        )


def _number(row: Mapping[str, Any], column: str, line: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise InputError(f"{line}: column {column}", f"'{row[column]}' is not a number") from None


def _below(root: Path, path: Path) -> str:
    """Return a path relative to the folder; a table may also name files elsewhere, as absolute."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
