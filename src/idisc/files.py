"""Writing that either happens or does not, reading that says what is wrong, and hashes.

Every file the package writes goes through `atomic` or `atomic_folder`: readers see the old content
or the new one, never half of it, also after a power cut.
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

from idisc.errors import InputError


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it takes the place of `path` if the block ends without an error."""
    if path.is_dir():
        raise InputError(path, "a folder", "the name of a file is needed")
    with _place_beside(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        with _naming(path, draft):
            yield draft
            _publish(draft)
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """The same for a folder: it appears under its name with all of its files, or not at all.

    It is a new one, unless it is to `replace` one that is there.
    """
    if not replace:
        check_new_folder(path)
    with _place_beside(path):
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    draft = Path(name)
    try:
        with _naming(path, draft):
            yield draft
            draft.chmod(0o777 & ~_umask())
            for file in draft.rglob("*"):
                if file.is_file():
                    _publish(file)
            _exchange(path, draft, replace)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _exchange(path: Path, draft: Path, replace: bool) -> None:
    """The draft under its name; what was there is gone only once that has happened."""
    former = draft.with_suffix(".old")
    if path.exists():
        if replace:
            path.replace(former)
        else:
            path.rmdir()  # an empty one, which the user made first
    try:
        draft.replace(path)
    except OSError:
        if former.exists():
            former.replace(path)
        raise
    shutil.rmtree(former, ignore_errors=True)


def check_new_folder(path: Path) -> None:
    """A result never goes where something is already: InputError, before any work is done."""
    if path.resolve() == Path.cwd():
        raise InputError(path, "the folder you are in", "name a new one")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(path, "exists already", "choose another name or remove it first")
    place = next(parent for parent in (path, *path.resolve().parents) if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise InputError(path, f"cannot be written, because of {place}")


def check_writable(path: Path) -> None:
    """That a file can be made at `path` or below it: InputError, before any work is done."""
    place = next(parent for parent in (path, *path.resolve().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=place if place.is_dir() else place.parent):
            pass
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror})", "name another") from None
    if place.resolve() != path.resolve() and not place.is_dir():
        raise InputError(path, f"cannot be written ({place} is a file)", "name another")


def sha256(*paths: Path) -> str:
    """SHA-256 of a file's bytes, in hex; of several as if they were one, end to end."""
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
    """Read a JSON file; a missing or broken one is an InputError that names it."""
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
    """On disk for good, and as open to others as the user's files are: a draft is private."""
    file.chmod(0o666 & ~_umask())
    with file.open("rb+") as content:
        os.fsync(content.fileno())


@contextmanager
def _naming(path: Path, draft: Path) -> Iterator[None]:
    """A full disk names no file, or the draft, which nobody knows: the error is one of `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(draft)):
            raise  # of another file
        # numpy says how many bytes it could not write, and not why
        reason = error.strerror or f"cannot be written, is the disk full? ({error})"
        raise OSError(error.errno or errno.ENOSPC, reason, str(path)) from error


@contextmanager
def _place_beside(path: Path) -> Iterator[None]:
    """The parent of `path`, made if need be; an error names `path`, not the draft beside it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(path, f"cannot be written ({error.strerror})") from None
