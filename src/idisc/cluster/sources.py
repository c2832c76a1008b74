"""The pictures of a job, divided into parts: files, WebDataset shards (tar) and Parquet tables.

The division depends on the sources only, not on the number of workers, so that a job that is
started again has the same parts. This module does not decode pictures.
"""

from __future__ import annotations

import math
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import PurePath, PurePosixPath
from typing import Literal

import pyarrow as pa
from pyarrow import parquet

from idisc.cluster import storage
from idisc.cluster.pictures import Picture, picture_of
from idisc.errors import InputError, combine, first_line
from idisc.predict import inputs

Kind = Literal["files", "tar", "parquet"]
SUFFIXES: dict[str, Kind] = {
    suffix: "parquet" if suffix == ".parquet" else "tar" for suffix in inputs.TABLES
}
KEY_COLUMNS = ("key", "__key__", "id", "image_id", "path", "file_name", "filename", "name", "url")
MAX_PART_SIZE = 256  # pictures: about a minute of prediction
MIN_PARTS, MAX_PARTS = 32, 100_000  # so that small jobs are divided, and notes can be listed
_BATCH_ROWS = 16  # of a table, read at once
_READERS = 16  # tables whose number of rows is read at the same time


@dataclass(frozen=True, kw_only=True)
class Part:
    """Pictures that one worker predicts and writes."""

    name: str = ""  # unique within the job
    kind: Kind
    places: tuple[str, ...]  # paths or addresses of files, or of one shard or table
    names: tuple[str, ...] = ()  # of the results of files
    start: int = 0  # first row of a table
    stop: int | None = None  # the row after the last one; None: all rows


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of tables; None: detected by type and name."""

    picture: str | None = None  # bytes of a file
    key: str | None = None


def list_parts(
    arguments: Sequence[str], *, recursive: bool = False, part_size: int | None = None
) -> list[Part]:
    """Return the parts of all sources; InputError if a source has no picture.

    `part_size` is the number of pictures of a part; by default it follows from their number.
    """
    files: list[tuple[str, str]] = []  # place and name
    paths: list[str] = []
    tables: list[str] = []
    for argument in arguments:
        found = _tables(argument, recursive)
        tables += found
        if not found and storage.is_remote(argument):
            files += _remote_files(argument, recursive)
        elif not found:
            paths.append(argument)
    files += _local_files(paths, recursive) if paths else []
    with ThreadPoolExecutor(_READERS) as pool:
        counted = list(pool.map(_count_rows, tables))
    total = len(files) + sum(map(sum, counted))
    count = min(max(math.ceil(total / MAX_PART_SIZE), MIN_PARTS), MAX_PARTS)
    size = part_size or max(1, math.ceil(total / count))
    parts = [
        part
        for place, rows in zip(tables, counted, strict=True)
        for part in _divide_table(place, rows, size)
    ]
    taken = set[str]()
    listed = [(place, unique_name(name, taken)) for place, name in files]
    for start in range(0, len(listed), size):
        places, names = zip(*listed[start : start + size], strict=True)
        parts.append(Part(kind="files", places=places, names=names))
    if not parts:
        raise InputError(", ".join(arguments), "no picture in it")
    return [replace(part, name=f"{number:06d}") for number, part in enumerate(parts)]


def read_part(part: Part, columns: Columns) -> Iterator[Picture]:
    """Yield the pictures of a part; the last one of a damaged table or shard is an error."""
    if part.kind == "files":
        yield from map(_read_file, part.places, part.names)
        return
    (place,) = part.places
    try:
        yield from _read_tar(place) if part.kind == "tar" else _read_table(part, columns)
    except InputError as error:
        yield Picture(place, error)
    except (OSError, ValueError, tarfile.TarError, EOFError, pa.ArrowException) as error:
        reason = f"damaged, so its other pictures are missing ({first_line(error)})"
        yield Picture(place, InputError(place, reason))


def check_columns(parts: Iterable[Part], columns: Columns) -> None:
    """Raise an InputError if the first table lacks the columns; workers report other tables."""
    place = next((part.places[0] for part in parts if part.kind == "parquet"), None)
    if place is None:
        return
    try:
        with storage.open_file(place) as file:
            schema = parquet.read_schema(file)
    except (OSError, pa.ArrowException):
        return  # damaged
    _find_columns(schema, columns, place)


def unique_name(name: str, taken: set[str]) -> str:
    """Return a name, with a number if it is `taken` in lower or upper case; add it to `taken`."""
    number, unique = 1, name
    while unique.lower() in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique.lower())
    return unique


def file_name(key: str) -> str:
    """Return a file name for a picture in a table: its key without scheme and suffix."""
    path = PurePosixPath(key.partition("://")[2] or key)
    kept = path.with_suffix("") if path.suffix.lower() in inputs.PICTURES else path
    return re.sub(r"[^\w.-]+", "_", str(kept).strip("/")).lstrip(".") or "picture"


def _kind(place: str) -> Kind | None:
    name = place.lower()
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), None)


def _is_picture(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in inputs.PICTURES


def _tables(argument: str, recursive: bool) -> list[str]:
    """Return the tables and shards of an argument; none if it names picture files."""
    if argument == inputs.STDIN:
        return []
    folder = storage.is_folder(argument)  # Spark writes folders with names of tables
    if _kind(argument) and not folder:
        found = storage.expand(argument)
        if not found:
            raise InputError(argument, "no table or shard matches")
        if found == [argument]:
            storage.open_file(argument).close()  # InputError if it does not exist
        return found
    if not folder:
        return []
    names = sorted(storage.sizes_below(argument, recursive=recursive))
    shown = [name for name in names if not any(part[0] in "._" for part in name.split("/"))]
    if any(map(_is_picture, shown)):
        return []
    return [storage.join(argument, name) for name in shown if _kind(name)]


def _remote_files(argument: str, recursive: bool) -> list[tuple[str, str]]:
    """Return the picture files of a folder, a pattern or an address, and names for results."""
    folder, found = argument.rpartition("/")[0], storage.expand(argument)
    if found == [argument] and storage.is_folder(argument):
        folder, below = argument, sorted(storage.sizes_below(argument, recursive=recursive))
        found = [storage.join(argument, name) for name in below if _is_picture(name)]
    if not found:
        remedy = "" if recursive else "--recursive includes subfolders"
        raise InputError(argument, "no pictures in it", remedy)
    return [(place, file_name(place.removeprefix(folder))) for place in found]


def _local_files(arguments: list[str], recursive: bool) -> list[tuple[str, str]]:
    if inputs.STDIN in arguments:
        raise InputError("-", "workers cannot read stdin", "leave out --cluster")
    listed = inputs.find(arguments, recursive=recursive)
    if listed.problems:
        raise combine(listed.problems)
    found = [(str(item.path), item.name) for item in listed.inputs]
    for path, _ in found:
        if PurePath(path).suffix.lower() in inputs.VIDEOS:
            raise InputError(path, "a video", "predict it in a call without --cluster")
    return found


def _count_rows(place: str) -> list[int]:
    """Return the number of rows of each group of a table; none for shards and damaged tables."""
    if _kind(place) != "parquet":
        return []
    try:
        with storage.open_file(place) as file:
            return _group_sizes(parquet.ParquetFile(file))
    except (InputError, OSError, pa.ArrowException):
        return []  # the worker reports the reason


def _group_sizes(file: parquet.ParquetFile) -> list[int]:
    groups = range(file.num_row_groups)
    return [file.metadata.row_group(group).num_rows for group in groups]


def _divide_table(place: str, groups: Sequence[int], size: int) -> Iterator[Part]:
    """Divide each group of rows into parts of about the same size; a shard is one part."""
    if not groups:
        yield Part(kind=_kind(place) or "files", places=(place,))
        return
    for end, rows in zip(accumulate(groups), groups, strict=True):
        count = math.ceil(rows / size)
        edges = [end - rows + rows * index // count for index in range(count + 1)] if rows else []
        for start, stop in pairwise(edges):
            yield Part(kind="parquet", places=(place,), start=start, stop=stop)


def _read_file(place: str, name: str) -> Picture:
    try:
        return Picture(place, storage.read(place), name)
    except InputError as error:
        return Picture(place, error, name)


def _read_tar(place: str) -> Iterator[Picture]:
    """Yield the pictures of a WebDataset shard; the key is the name without its suffix."""
    with (
        storage.open_file(place) as stream,
        tarfile.open(fileobj=stream, mode="r|*", bufsize=storage.BLOCK) as shard,
    ):
        for member in shard:
            if member.isfile() and _is_picture(member.name):  # and not a label or a caption
                file = shard.extractfile(member)
                suffix = PurePosixPath(member.name).suffix
                key = member.name.removesuffix(suffix).removeprefix("./")
                yield Picture(key, file.read() if file else b"")


def _read_table(part: Part, columns: Columns) -> Iterator[Picture]:
    """Yield the rows of a part of a Parquet file."""
    (place,) = part.places
    with storage.open_file(place) as opened:
        file = parquet.ParquetFile(opened, buffer_size=storage.BLOCK)  # groups may be large
        picture, key = _find_columns(file.schema_arrow, columns, place)
        spans = list(pairwise(accumulate(_group_sizes(file), initial=0)))  # rows of each group
        stop = file.metadata.num_rows if part.stop is None else part.stop
        groups = [g for g, (start, end) in enumerate(spans) if start < stop and part.start < end]
        row = spans[groups[0]][0] if groups else 0
        columns_read = [picture, *([key] if key else [])]
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns_read):
            for index in range(max(part.start - row, 0), min(stop - row, len(batch))):
                name = f"{PurePosixPath(place).name}#{row + index}"
                name = str(batch[key][index]) if key else name
                yield picture_of(name, batch[picture][index].as_py())
            row += len(batch)
            if row >= stop:
                return


def _find_columns(schema: pa.Schema, given: Columns, place: str) -> tuple[str, str | None]:
    """Return the columns of pictures and keys of a table; InputError if they are ambiguous."""
    for name in (given.picture, given.key):
        if name is not None and name not in schema.names:
            there = ", ".join(schema.names)
            raise InputError(place, f"no column {name}", f"the table has {there}")
    possible = [field.name for field in schema if _has_bytes(field.type)]
    if given.picture is None and len(possible) != 1:
        reason = f"columns of bytes: {', '.join(possible) or 'none'}"
        raise InputError(place, reason, "name that of the pictures with --column")
    key = given.key or next((name for name in KEY_COLUMNS if name in schema.names), None)
    return given.picture or possible[0], key


def _has_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _has_bytes(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
