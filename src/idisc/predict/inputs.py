"""Turns files, folders, patterns and stdin into a list of inputs with unique names.

Patterns are expanded here in addition to the shell: that of Windows does not expand them, and
quoted ones reach the program unexpanded. The list is complete before anything is read or written,
and its order depends on names only. `images` opens pictures, `video` opens videos, which are
recognised by their endings.
"""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from idisc.errors import InputError, combine

PICTURES: tuple[str, ...] = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
PICTURES += (".avif", ".heic", ".heif", ".jp2", ".ppm", ".pgm", ".pnm", ".qoi")
VIDEOS = (".mp4", ".m4v", ".mov", ".mkv", ".avi", ".webm")
SUFFIXES = PICTURES + VIDEOS
TABLES = (".parquet", ".tar", ".tar.gz", ".tgz")  # with many pictures; for `cluster.sources`
STDIN = "-"


@dataclass(frozen=True)
class Input:
    """A picture or video to predict."""

    name: str  # of its results, without suffix; unique within a call
    path: Path | None  # None: stdin

    @property
    def label(self) -> str:
        """Its name in messages."""
        return "stdin" if self.path is None else str(self.path)

    @property
    def is_video(self) -> bool:
        """By the ending of its name; animated pictures are pictures."""
        return self.path is not None and self.path.suffix.lower() in VIDEOS

    def source(self) -> Path | bytes:
        """Return what `images.read_photo` takes; stdin is read to its end."""
        if self.path is not None:
            return self.path
        if sys.stdin is None:  # Python's way to say that it was closed
            raise InputError(self.label, "closed", "redirect a picture to it")
        return sys.stdin.buffer.read()


@dataclass(frozen=True)
class Found:
    """The inputs of the arguments, and the arguments without any."""

    inputs: tuple[Input, ...]
    problems: tuple[InputError, ...]  # their subjects are the arguments


def find(
    arguments: Sequence[str],
    *,
    recursive: bool = False,
    beside: bool = False,
) -> Found:
    """Return the inputs of files, folders, patterns and "-", each once, in order.

    Folders and patterns stand for pictures and videos, without results of earlier calls; a file
    that is named itself is always included. With `beside`, results go to the folders of their
    pictures, and names are unique within each folder. InputError if there is no input.
    """
    paths: dict[str, Path | None] = {}
    roots: list[Path | None] = []  # the named folder of each picture that was found in one
    problems: list[InputError] = []
    for argument in arguments:
        try:
            found, broken = _expanded(argument, recursive)
            problems += broken
            for path in found:
                key = STDIN if path is None else os.path.normcase(path.resolve())
                if key not in paths:
                    paths[key] = path
                    roots.append(Path(argument) if Path(argument).is_dir() else None)
        except InputError as error:
            problems.append(error)
    if not paths:
        raise combine(problems) if problems else InputError("input", "no picture is given")
    return Found(_name_inputs(list(paths.values()), roots, beside), tuple(problems))


def _expanded(argument: str, recursive: bool) -> tuple[list[Path] | list[None], list[InputError]]:
    """Return the inputs of an argument, and errors about links that lead nowhere."""
    if argument == STDIN:
        return [None], []
    path, suffixes = Path(argument), SUFFIXES
    if path.is_dir():
        listed = _visible(path, recursive)
        remedy = "" if recursive else "--recursive includes subfolders"
        nothing = InputError(path, "no pictures or videos in this folder", remedy)
    elif not path.exists() and glob.has_magic(argument):
        suffix = path.suffix.lower()  # included if it is written out
        if suffix and not glob.has_magic(suffix):
            suffixes = (*SUFFIXES, suffix)
        listed = [Path(name) for name in glob.glob(argument, recursive=True)]  # noqa: PTH207
        nothing = InputError(argument, "no pictures or videos match")
    elif not path.exists():
        raise _broken_link(path) or InputError(path, "no such file")
    elif path.name.lower().endswith(TABLES):
        raise InputError(path, "a table or shard of pictures", "pass --cluster")
    else:
        return [path], []
    selected, broken = _select(listed, suffixes), _broken_links(listed, suffixes)
    if not selected and not broken:
        raise nothing
    return selected, broken


def list_folder(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of a folder with these suffixes, without hidden files and results."""
    return _select(_visible(folder, recursive=False), suffixes)


def _visible(folder: Path, recursive: bool) -> list[Path]:
    """Return the content of a folder without hidden files and folders."""
    below = folder.rglob("*") if recursive else folder.iterdir()
    return [
        path
        for path in below
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def _select(paths: list[Path], suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files with these suffixes that are not results, sorted."""
    kept = [path for path in paths if path.suffix.lower() in suffixes and path.is_file()]
    return sorted((path for path in kept if not is_result(path)), key=lambda path: path.parts)


def _broken_links(paths: list[Path], suffixes: tuple[str, ...]) -> list[InputError]:
    named = sorted(path for path in paths if path.suffix.lower() in suffixes)
    return [error for path in named if (error := _broken_link(path))]


def _broken_link(path: Path) -> InputError | None:
    """Return an error for a symbolic link that leads nowhere or back to itself."""
    if not path.is_symlink():
        return None
    try:
        path.stat()
    except OSError as error:
        return InputError(path, f"a link that cannot be followed ({error.strerror})")
    return None


def is_result(path: Path) -> bool:
    """Tell whether idisc wrote it: PNGs contain their record, films have a JSON file."""
    if path.suffix.lower() == ".mp4" and path.stem.endswith(("_depth", "_beside")):
        return path.with_suffix(".json").is_file()
    if path.suffix.lower() != ".png":
        return False
    try:
        with path.open("rb") as file:
            return b"tEXtidisc\0" in file.read(1 << 16)
    except OSError:
        return False  # opening it later reports the reason


def _name_inputs(
    paths: list[Path | None], roots: list[Path | None], beside: bool
) -> tuple[Input, ...]:
    """Name each input by its stem, with its suffix and folders if they are needed to be unique.

    The suffix is part of the name if another picture in the same folder differs in nothing else,
    whether it is predicted or not: a name should not depend on the other inputs.
    """
    homes = [path.resolve() if path else Path("stdin") for path in paths]
    scopes = [str(home.parent) if beside else "" for home in homes]
    stems = {
        home.parent: _count_stems(home.parent)
        for home, path in zip(homes, paths, strict=True)
        if path
    }
    plain = [
        home.stem + home.suffix.replace(".", "_")
        if path and stems[home.parent][home.stem.lower()] > 1
        else home.stem
        for path, home in zip(paths, homes, strict=True)
    ]
    counts = Counter(map(_key, scopes, plain))
    longer = list(map(_names_with_folders, paths, roots, plain))
    inputs: list[Input] = []
    taken: set[str] = set()
    for path, scope, stem, choices in zip(paths, scopes, plain, longer, strict=True):
        name = stem
        if counts[_key(scope, stem)] > 1:
            twins = [
                names
                for names, other in zip(longer, plain, strict=True)
                if _key("", other) == _key("", stem)
            ]
            distinct = (
                choice
                for choice, *names in zip(choices, *twins, strict=True)
                if len({each.lower() for each in names}) == len(twins)
            )
            name = next(distinct, stem)
        number = 1
        while _key(scope, name) in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(_key(scope, name))
        inputs.append(Input(name, path))
    return tuple(inputs)


def _names_with_folders(path: Path | None, root: Path | None, name: str) -> list[str]:
    """Return a name with the folders below the root, then with the last one, two and three."""
    if path is None:
        return [name] * 4
    below = path.relative_to(root).parts[:-1] if root else ()
    parents = path.resolve().parent.parts[1:]
    return ["_".join([*folders, name]) for folders in (below, *(parents[-n:] for n in (1, 2, 3)))]


def _count_stems(folder: Path) -> Counter[str]:
    """Count the pictures and videos of a folder by stem."""
    try:
        there = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]
    except OSError:
        return Counter()  # a folder without permission to list it
    return Counter(path.stem.lower() for path in there)


def _key(scope: str, name: str) -> str:
    return f"{scope}/{name}".lower()  # Windows and macOS ignore case
