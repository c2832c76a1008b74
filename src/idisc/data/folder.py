"""A user's own pairs: a folder of pictures and one of depth, or a file that lists them.

    DIR/images/a.jpg  DIR/depth/a.png        pairs by name; 16-bit PNG in millimetres, or NPY, NPZ
    DIR/a.jpg  DIR/a.png                     the same in one folder, if no name has other files
    DIR/pairs.csv                            columns image, depth and, if known, split, scene,
                                             fx, fy, cx, cy, depth_scale (metres of one unit)
    DIR/pairs.jsonl                          the same as one JSON object in each line
    DIR/list.txt                             `picture depth` in each line, as in lists of the field;
                                             what follows, mostly a focal length, is not read

`train/` and `test/` (or `val/`) folders around `images/` and `depth/` are splits; without them
every pair is in both splits. A CSV or JSONL file without the columns image and depth, such as the
log of a training, is ignored.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from idisc.data.catalog import FOLDER
from idisc.data.decode import ARRAYS
from idisc.data.manifest import NAME, Manifest, Record, once, read_list
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


def read(root: Path, *, complete: bool = True) -> Manifest:
    """The pairs of a folder; an InputError says what was looked for if there are none.

    If not `complete`, which the doctor needs, pairs with a missing or misplaced file are included.
    """
    tables, others = _tables(root)
    if len(tables) > 1:
        names = ", ".join(path.name for path in tables)
        raise InputError(root, f"several tables ({names})", "keep the one that counts")
    if tables:
        index, found = tables[0].name, _from_table(tables[0], root, complete)
    elif (root / LIST).is_file():
        index, found = LIST, _from_list(root / LIST, root, complete)
    else:
        index, found = FOLDERS, _from_folders(root, complete)
    records, repeated = once(found)
    if not records:
        lists = f" ({', '.join(path.name for path in others)} lists none)" if others else ""
        raise InputError(
            root / index if tables else root,
            "no pairs" if tables else f"no dataset: neither {NAME} nor pairs{lists}",
            "images/NAME.jpg with depth/NAME.png (or .npy), NAME.jpg with NAME.png, a CSV or JSONL"
            f" with the columns image and depth, or {LIST}, is needed",
        )
    names = "\n".join(f"{r.image} {r.target}" for r in records)
    digest = hashlib.sha256(names.encode("utf-8", "surrogatepass"))
    return Manifest(
        dataset="folder",
        target=FOLDER.target,
        records=tuple(records),
        root=root,
        prepared={"from": index, **({"repeated": repeated} if repeated else {})},
        sha256=digest.hexdigest(),
    )


def _tables(root: Path) -> tuple[list[Path], list[Path]]:
    """Files that list pairs, and files that list something else, such as the log of a training."""
    found: tuple[list[Path], list[Path]] = [], []
    for path in sorted(path for path in root.iterdir() if path.suffix in TABLES):
        found[0 if _lists_pairs(path) else 1].append(path)
    return found


def _lists_pairs(table: Path) -> bool:
    """Decide by the columns of the first row; a missing or wrong row is reported later."""
    try:
        _, row = next(_rows(table), (0, None))
    except InputError:
        return True
    return row is None or any(str(name).strip().lower() in ("image", "depth") for name in row)


def _from_folders(root: Path, complete: bool) -> Iterator[Record]:
    splits = [path for path in sorted(root.iterdir()) if path.is_dir() and path.name in SPLITS]
    if not splits:
        for record in _pairs(root, root, "", complete):
            yield replace(record, split="train")
            yield replace(record, split="test")
    for folder in splits:
        yield from _pairs(root, folder, SPLITS[folder.name], complete)


def _pairs(root: Path, folder: Path, split: str, complete: bool) -> Iterator[Record]:
    images = next((folder / name for name in IMAGE_FOLDERS if (folder / name).is_dir()), None)
    depths = next((folder / name for name in DEPTH_FOLDERS if (folder / name).is_dir()), None)
    if images is None or depths is None:
        yield from _flat_pairs(root, folder, split, complete)
        return
    pictures, maps = _of_kinds(images, PICTURES), _of_kinds(depths, MAPS)
    if not complete:
        pictures, maps = pictures or _of_kinds(images, MAPS), maps or _of_kinds(depths, PICTURES)
    found = {path.relative_to(depths).with_suffix(""): path for path in maps}
    names = [path.relative_to(images).with_suffix("") for path in pictures]
    alone = [path for path, name in zip(pictures, names, strict=True) if name not in found]
    if alone and complete:
        more = f" (and {len(alone) - 1} more pictures without depth)" if len(alone) > 1 else ""
        raise InputError(alone[0], f"no depth of that name in {depths}{more}")
    for image, name in zip(pictures, names, strict=True):
        scene = "" if name.parent == Path() else name.parent.as_posix()
        depth = found.get(name, depths / f"{name}.png")
        yield _record(root, image, depth, {"split": split, "scene": scene}, complete=complete)


def _flat_pairs(root: Path, folder: Path, split: str, complete: bool) -> Iterator[Record]:
    """Pairs of files with one name in one folder, if one is a picture and the other a depth map."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in (*PICTURES, *MAPS):
            groups.setdefault(path.stem, []).append(path)
    if not any(len(paths) > 1 for paths in groups.values()):
        return
    pairs = {name: _picture_and_map(paths) for name, paths in groups.items()}
    if not any(picture and depth for picture, depth in pairs.values()):
        return
    for name, (picture, depth) in pairs.items():
        if complete and len(groups[name]) > 2:
            names = ", ".join(path.name for path in groups[name])
            raise InputError(folder / name, f"several files of one name ({names})", "keep a pair")
        if complete and picture and not depth:
            raise InputError(picture, f"no depth of that name in {folder}")
        if picture:
            depth = depth or folder / f"{name}.png"
            yield _record(root, picture, depth, {"split": split}, complete=complete)


def _picture_and_map(paths: Sequence[Path]) -> tuple[Path | None, Path | None]:
    """The picture and the depth map among files of one name, as far as there are such."""
    maps = [path for path in paths if path.suffix.lower() in ARRAYS or _has_16_bits(path)]
    pictures = [path for path in paths if path not in maps]
    return next(iter(pictures), None), next(iter(maps), None)


def _has_16_bits(path: Path) -> bool:
    """Tell depth from pictures by the header: one channel of more than 8 bits."""
    if path.suffix.lower() not in MAPS:
        return False
    try:
        with Image.open(path) as picture:
            return picture.mode.startswith(("I", "F"))
    except (OSError, ValueError):
        return False  # reading it later reports the reason


def _of_kinds(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in suffixes]


def _from_table(table: Path, root: Path, complete: bool) -> Iterator[Record]:
    for number, row in _rows(table):
        where = f"{table}:{number}"
        unknown = sorted(str(name) for name in set(row) - set(_COLUMNS))
        if unknown or not row.get("image") or not row.get("depth"):
            what = f"column {unknown[0]}" if unknown else "image or depth missing"
            raise InputError(where, what, f"columns are {', '.join(_COLUMNS)}")
        yield from _records(row, root, where, complete)


def _from_list(path: Path, root: Path, complete: bool) -> Iterator[Record]:
    for line in read_list(path):
        row = {"image": line.image, "depth": line.target}
        yield from _records(row, root, str(path), complete)


def _records(row: dict[str, Any], root: Path, where: str, complete: bool) -> Iterator[Record]:
    """One record, or one of each split where the row states none."""
    image, depth = root / str(row["image"]), root / str(row["depth"])
    for path in (image, depth):
        if complete and not path.is_file():
            raise InputError(where, f"{path}: no such file")
    for split in [row["split"]] if row.get("split") else ["train", "test"]:
        yield _record(root, image, depth, {**row, "split": split}, where, complete=complete)


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


def _record(
    root: Path,
    image: Path,
    depth: Path,
    row: dict[str, Any],
    where: str = "",
    *,
    complete: bool = True,
) -> Record:
    split = str(row.get("split") or "")
    if split and split.lower() not in SPLITS:
        raise InputError(where, f"split '{split}'", f"it is one of {', '.join(SPLITS)}")
    numbers = [row.get(name) for name in _INTRINSICS]
    given = [number for number in numbers if number not in (None, "")]
    if len(given) not in (0, 4):
        raise InputError(where, f"{len(given)} of fx, fy, cx, cy", "all four or none are needed")
    intrinsics = tuple(_number(row, name, where) for name in _INTRINSICS) if given else None
    scale = None
    if row.get("depth_scale") not in (None, ""):
        scale = _number(row, "depth_scale", where)
        if not 0 < scale < math.inf:
            remedy = "it is the metres of one unit, 0.001 for millimetres"
            raise InputError(where, f"depth_scale {scale:g}", remedy)
    array = depth.suffix.lower() in ARRAYS
    return Record(
        image=_below(root, image),
        target=_below(root, depth),
        split=SPLITS.get(split.lower(), ""),
        scene=str(row.get("scene") or ""),
        size=picture_size(image) if intrinsics and complete else None,
        intrinsics=intrinsics,
        scale=scale if scale is not None else (1.0 if array else None),  # arrays are in metres
    )


def _number(row: dict[str, Any], column: str, where: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise InputError(f"{where}: column {column}", f"'{row[column]}' is not a number") from None


def _below(root: Path, path: Path) -> str:
    """Relative to the folder; a table may also name files elsewhere, by their whole path."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
