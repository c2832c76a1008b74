"""Files by path or address (s3://, gs://, hdfs://), through the filesystems of pyarrow."""

from __future__ import annotations

import fnmatch
import glob
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from pyarrow import fs

from idisc import files
from idisc.errors import InputError, first_line

BLOCK = 8 << 20  # bytes that are read or written at once
_REMOTE = ("s3", "gs", "gcs", "hdfs", "viewfs")
_ATOMIC = ("s3", "gcs")  # an object appears when it is closed, never in part


def is_remote(place: str) -> bool:
    """Tell whether a place is an address and not a path of the local filesystem."""
    scheme, separator, _ = place.partition("://")
    return bool(separator) and scheme in _REMOTE


def join(place: str, *names: str) -> str:
    """Return the place of a file below another place."""
    return "/".join([place.rstrip("/"), *names])


def read(place: str) -> bytes:
    """Return the content of a file; InputError if it cannot be read."""
    with _errors_at(place), open_file(place) as file:
        return bytes(file.read())


def open_file(place: str) -> Any:
    """Return a file to read from, in any order."""
    with _errors_at(place):
        system, path = _located(place)
        return system.open_input_file(path)


def write(place: str, content: bytes | IO[bytes]) -> None:
    """Write a file atomically; an open file is copied from its start."""
    source = io.BytesIO(content) if isinstance(content, bytes) else content
    source.seek(0)
    with _errors_at(place):
        if not is_remote(place):
            with files.atomic(Path(place)) as draft, draft.open("wb") as file:
                shutil.copyfileobj(source, file, BLOCK)
            return
        system, path = _located(place)
        folder, _, name = path.rpartition("/")
        draft_path = path
        if system.type_name not in _ATOMIC:
            system.create_dir(folder, recursive=True)
            draft_path = f"{folder}/.{name}.part"
        with system.open_output_stream(draft_path) as stream:
            shutil.copyfileobj(source, stream, BLOCK)
        if draft_path != path:
            system.move(draft_path, path)


def remove_drafts(place: str) -> None:
    """Remove the incomplete files of killed writers from a folder."""
    if not is_remote(place):
        for draft in Path(place).rglob(".*.part"):
            draft.unlink(missing_ok=True)


def check_writable(place: str) -> None:
    """Raise an InputError if no file can be written below a place."""
    try:
        if is_remote(place):
            probe = join(place, "_idisc", "writable")
            write(probe, b"")
            system, path = _located(probe)
            system.delete_file(path)
        elif Path(place).exists() and not Path(place).is_dir():
            raise InputError(place, "a file", "name a folder")
        else:
            files.check_writable(Path(place))
    except InputError as error:
        raise InputError(f"-o {place}", *error.args[1:]) from None


def sizes_below(place: str, *, recursive: bool = False) -> dict[str, int]:
    """Return the names of the files in a folder, relative to it, with their sizes in bytes.

    A folder that does not exist has none.
    """
    with _errors_at(place):
        system, path = _located(place)
        selector = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        found = system.get_file_info(selector)
    start = len(path) + 1
    return {info.path[start:]: info.size for info in found if info.type == fs.FileType.File}


def is_folder(place: str) -> bool:
    """Tell whether a place is a folder."""
    with _errors_at(place):
        system, path = _located(place)
        return bool(system.get_file_info(path).type == fs.FileType.Directory)


def expand(pattern: str) -> list[str]:
    """Return the files that match a path or an address with * and ?, sorted."""
    if not glob.has_magic(pattern) or (not is_remote(pattern) and Path(pattern).exists()):
        return [pattern]
    if not is_remote(pattern):
        return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    fixed = glob.escape(pattern).partition("[")[0].rpartition("/")[0]
    wanted = pattern[len(fixed) + 1 :]
    return sorted(
        join(fixed, name)
        for name in sizes_below(fixed, recursive="/" in wanted)
        if fnmatch.fnmatchcase(name, wanted) and name.count("/") == wanted.count("/")
    )


@cache
def _root(scheme: str, authority: str) -> tuple[Any, str]:
    """Return the filesystem of an authority, and the start of its paths."""
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if scheme == "s3" and server:  # not all versions of pyarrow look for it
        return fs.S3FileSystem(endpoint_override=server), authority
    # By default, Google's library tries for 15 minutes, even without credentials.
    limit = "?retry_limit_seconds=60" if scheme in ("gs", "gcs") else ""
    system, root = fs.FileSystem.from_uri(f"{scheme}://{authority}{limit}")
    return system, root


def _located(place: str) -> tuple[Any, str]:
    """Return the filesystem and the path in it."""
    if not is_remote(place):
        return fs.LocalFileSystem(), str(Path(place).absolute())
    scheme, _, rest = place.partition("://")
    authority, _, path = rest.partition("/")
    system, root = _root(
        scheme, authority
    )  # only these: a path may have characters that a URI cannot have
    return system, f"{root.rstrip('/')}/{path}".rstrip("/")


@contextmanager
def _errors_at(place: str) -> Iterator[None]:
    """Turn the errors of filesystems into an InputError with the place."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(place, "no such file or folder") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(place, reason or first_line(error)) from None
