"""Atomic writes, JSON and hashes.

The package writes every file through `atomic` or `atomic_folder`: readers see the old content or
the new content, never a part of it, even after a power failure.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from idisc.errors import InputError, one_line


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it replaces `path` if the block ends without an error."""
    if path.is_dir():
        raise InputError(path, "a folder", "the name of a file is needed")
    with _parent_created(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        with _errors_name(path, draft):
            yield draft
            _publish(draft)
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to write to; it appears as `path` if the block ends without an error.

    `path` must not exist, unless it is to be replaced.
    """
    if not replace:
        check_new_folder(path)
    with _parent_created(path):
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    draft = Path(name)
    try:
        with _errors_name(path, draft):
            yield draft
            draft.chmod(0o777 & ~_umask())
            for file in draft.rglob("*"):
                if file.is_file():
                    _publish(file)
            _exchange(path, draft, replace)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _exchange(path: Path, draft: Path, replace: bool) -> None:
    """Rename the draft; an old folder is removed only after the new one is in place."""
    old = draft.with_suffix(".old")
    if path.exists():
        if replace:
            path.replace(old)
        else:
            path.rmdir()  # an empty folder that the user created
    try:
        draft.replace(path)
    except OSError:
        if old.exists():
            old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_new_folder(path: Path) -> None:
    """Raise an InputError if a folder cannot be created at `path`, or is not empty."""
    if path.resolve() == Path.cwd():
        raise InputError(path, "the current folder", "name a new one")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(path, "exists already", "choose another name or remove it first")
    check_writable(path)


def check_writable(path: Path) -> None:
    """Raise an InputError if no file can be created at `path` or below it."""
    existing = next(place for place in (path, *path.resolve().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing if existing.is_dir() else existing.parent):
            pass
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror})", "name another") from None
    if existing.resolve() != path.resolve() and not existing.is_dir():
        raise InputError(path, f"cannot be written ({existing} is a file)", "name another")


def name_text(name: str) -> str:
    """Return a file name as valid Unicode, for texts inside of files.

    Names on disk are bytes (Linux) or 16-bit units (Windows) that need not be valid text. Python
    represents the invalid parts as surrogates, which cannot be encoded. They become question
    marks. Control characters are escaped.
    """
    return one_line(name.encode("utf-8", "replace").decode())


def sha256(*paths: Path) -> str:
    """Return the SHA-256 of a file in hex; of several files, that of their concatenation."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    with atomic(path) as draft:
        draft.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file; InputError if it is missing or invalid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(path, f"not readable as JSON ({error})") from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _publish(file: Path) -> None:
    """Flush a file to the disk, and give it the usual permissions; drafts are private."""
    file.chmod(0o666 & ~_umask())
    with file.open("rb+") as content:
        os.fsync(content.fileno())


@contextmanager
def _errors_name(path: Path, draft: Path) -> Iterator[None]:
    """Name `path` in an OSError that names no file (a full disk) or the draft."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(draft)):
            raise  # about another file
        # numpy reports how many bytes it could not write, but no reason.
        reason = error.strerror or f"cannot be written, is the disk full? ({error})"
        raise OSError(error.errno or errno.ENOSPC, reason, str(path)) from error


@contextmanager
def _parent_created(path: Path) -> Iterator[None]:
    """Create the parent of `path`; an error names `path`, not the draft in the same folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror})") from None
