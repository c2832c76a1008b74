"""Where the results of `idisc predict` go: next to each picture, into a folder, or to stdout.

A hidden file in a folder of results lists the picture of each name, so that the results of two
pictures called a.jpg, predicted one after the other, do not overwrite each other.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idisc import configs, files
from idisc.cli import tables
from idisc.errors import InputError

if TYPE_CHECKING:
    from idisc.formats import Format, FormatOptions
    from idisc.predict.inputs import Input
    from idisc.prediction import Prediction
    from idisc.tasks import Task

STREAMED = "png16"  # the default format for stdout
SOURCES = ".idisc.json"  # in a folder of results: the picture of each name


@dataclass(frozen=True)
class Saving:
    """Where results go, and in which formats."""

    folder: Path | None  # None: next to each picture, and from stdin to stdout
    formats: tuple[Format, ...]  # none: the default formats
    options: FormatOptions
    normals: bool
    viewer: bool = False  # the default formats include the viewer, which a gallery opens

    def check(self, items: Sequence[Input]) -> None:
        """Raise an InputError before any work is done if results cannot be written."""
        if self.folder is not None:
            if str(self.folder) == "-":
                raise InputError("-o -", "no folder", "leave it out to write to stdout")
            if self.folder.exists() and not self.folder.is_dir():
                raise InputError(f"-o {self.folder}", "a file", "name a folder")
            files.check_writable(self.folder)
        if not self.streams(items):
            return
        if self.normals:
            raise InputError(
                "--normals", "stdout has room for one file", "leave it out, or pass -o DIR"
            )
        if len(self.formats) > 1:
            raise InputError("--save", "stdout has room for one format", "name one, or pass -o DIR")
        if sys.stdout.isatty():
            raise InputError(
                "stdout", "a terminal", "redirect it to a file or a program, or pass -o DIR"
            )

    def streams(self, items: Sequence[Input]) -> bool:
        """Tell whether the bytes of a result go to stdout, which then has no text."""
        return self.folder is None and any(item.path is None for item in items)

    def place(self, item: Input) -> Path:
        """Return the folder of its files."""
        return self.folder or (item.path.parent if item.path else Path())

    def rows(self, item: Input, task: Task) -> tuple[Format, ...]:
        """Return the formats of a picture for a network of this task."""
        from idisc.formats import FORMATS, default_formats

        if item.path is None and self.folder is None:
            return self.formats or (FORMATS[STREAMED],)
        rows = self.formats or default_formats(task)
        if self.viewer and not self.formats and task.metric:
            rows = (*rows, FORMATS["html"])
        return tuple(dict.fromkeys([*rows, FORMATS["normals"]])) if self.normals else rows

    def write(self, item: Input, prediction: Prediction, rows: Sequence[Format]) -> list[Path]:
        """Write a result; return its files, none for stdout."""
        from idisc import formats

        if item.path is None and self.folder is None:
            self._stream(prediction, rows[0])
            return []
        self._check_overwriting(item, rows)
        return formats.save(prediction, self.place(item), item.name, rows, self.options)

    def _check_overwriting(self, item: Input, rows: Sequence[Format]) -> None:
        """Raise an InputError if a PNG of the user, such as ground truth, would be overwritten."""
        from idisc.predict.inputs import is_result

        for row in rows:
            path = self.place(item) / f"{item.name}{row.suffix}"
            if path.suffix == ".png" and path.is_file() and not is_result(path):
                raise InputError(
                    item.label, f"{path} exists and was not written by idisc", "choose another -o"
                )

    def _stream(self, prediction: Prediction, row: Format) -> None:
        from idisc import formats

        content = formats.encode(prediction, row, self.options)[row.suffix]
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            tables.give_up_stdout()
            raise InputError("stdout", f"cannot be written ({error.strerror})") from None


class Sources:
    """The pictures that the results in a folder belong to, by name; empty without a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.known: dict[str, str] = {}  # name in lower case -> path relative to the folder
        self.changed = False
        if folder is not None and (folder / SOURCES).is_file():
            found = files.read_json(folder / SOURCES)
            sources = found.get("sources") if isinstance(found, dict) else None
            texts = sources.items() if isinstance(sources, dict) else ()
            self.known = {name: text for name, text in texts if isinstance(text, str)}

    def check(self, item: Input) -> None:
        """Raise an InputError if the name belongs to another picture that still exists."""
        if self.folder is None or item.path is None:
            return
        theirs = self.known.get(item.name.lower())
        if theirs is None or theirs == _relative(item.path, self.folder):
            return
        if (self.folder / theirs).exists() and self.has_results(item):
            raise InputError(
                item.path,
                f"{self.folder / item.name}_... exists and belongs to {theirs}",
                "choose another -o, or remove it",
            )

    def has_results(self, item: Input) -> bool:
        """Tell whether there are results under the name of a picture."""
        if self.folder is None:
            return False
        name = glob.escape(str(self.folder / item.name))
        return bool(glob.glob(f"{name}_*"))  # noqa: PTH207

    def add(self, item: Input) -> None:
        """Assign the name of a picture to it."""
        if self.folder is not None and item.path is not None:
            path = _relative(item.path, self.folder)
            self.changed |= self.known.get(item.name.lower()) != path
            self.known[item.name.lower()] = path

    def write(self) -> None:
        """Write the list into the folder."""
        if self.folder is not None and self.changed:
            content = {"format": configs.FORMAT, "sources": self.known}
            files.write_json(self.folder / SOURCES, content)


def _relative(source: Path, folder: Path) -> str:
    """Return the path relative to the folder, so that both may be moved together."""
    try:
        return Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return source.resolve().as_posix()
