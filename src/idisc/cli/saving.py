"""Where the results of `idisc predict` go: beside each picture, into a folder, or to stdout.

A folder of results remembers of which picture each name is, in a hidden file: two pictures called
a.jpg, predicted into it one after the other, must not become one result.
"""

from __future__ import annotations

import glob
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from idisc import config, files
from idisc.cli import tables
from idisc.errors import InputError

if TYPE_CHECKING:
    from idisc.outputs import Options
    from idisc.predict.inputs import Input
    from idisc.predict.prediction import Prediction
    from idisc.settings import Task

STREAMED = ("png16", "npy")  # formats that one can read from stdout
SOURCES = ".idisc.json"  # in a folder of results: names, and the pictures they are of


@dataclass(frozen=True)
class Saving:
    """Where results go, and as what."""

    folder: Path | None  # None: beside each picture, and of stdin to stdout
    formats: tuple[str, ...]  # none: the usual ones
    options: Options
    normals: bool

    def check(self, items: Sequence[Input]) -> None:
        """Before any work is done: what cannot end well."""
        if self.folder is not None:
            if self.folder.exists() and not self.folder.is_dir():
                raise InputError(f"-o {self.folder}: a file; name a folder")
            files.check_writable(self.folder)
        if not self.streams(items):
            return
        if self.normals:
            raise InputError("--normals: stdin to stdout is depth alone; leave it out, or -o DIR")
        if len(self.formats) > 1 or any(kind not in STREAMED for kind in self.formats):
            raise InputError(f"stdin to stdout is one of {' or '.join(STREAMED)}; or pass -o DIR")
        if sys.stdout.isatty():
            raise InputError(
                "stdout is a terminal; send it to a file or another program, or -o DIR"
            )

    def streams(self, items: Sequence[Input]) -> bool:
        """Whether stdout is for bytes, and words have to go elsewhere."""
        return self.folder is None and any(item.path is None for item in items)

    def place(self, item: Input) -> Path:
        """The folder of its files."""
        return self.folder or (item.path.parent if item.path else Path())

    def kinds(self, item: Input, task: Task) -> tuple[str, ...]:
        """The formats of what a network for this task says of a picture."""
        from idisc.predict.prediction import USUAL_FORMATS

        if item.path is None and self.folder is None:
            return self.formats or STREAMED[:1]
        formats = self.formats or USUAL_FORMATS[task]
        return tuple(dict.fromkeys([*formats, "normals"])) if self.normals else formats

    def write(self, item: Input, prediction: Prediction) -> list[Path]:
        """The files written; none for stdout."""
        if item.path is None and self.folder is None:
            self._stream(prediction, *self.kinds(item, prediction.task))
            return []
        formats = self.kinds(item, prediction.task)
        self._spare(item, formats)
        return prediction.save(self.place(item), formats, name=item.name, options=self.options)

    def _spare(self, item: Input, formats: Sequence[str]) -> None:
        """A PNG of that name may be the user's own, as the depth of many datasets is."""
        from idisc.outputs import WRITERS
        from idisc.predict.inputs import is_result

        for kind in formats:
            path = self.place(item) / f"{item.name}{WRITERS[kind].suffix}"
            if path.suffix == ".png" and path.is_file() and not is_result(path):
                raise InputError(
                    f"{item.label}: {path} is there, and no result of ours; -o names another place"
                )

    def _stream(self, prediction: Prediction, kind: str) -> None:
        from idisc import outputs

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"stdin{outputs.WRITERS[kind].suffix}"
            outputs.write(kind, path, prediction, self.options)
            content = path.read_bytes()
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            tables.give_up_stdout()
            raise InputError(f"stdout: cannot be written ({error.strerror})") from None


class Sources:
    """Which picture each name in a folder of results belongs to; without a folder, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.known: dict[str, str] = {}  # names in lower case -> pictures, as seen from the folder
        self.changed = False
        if folder is not None and (folder / SOURCES).is_file():
            found = files.read_json(folder / SOURCES)
            sources = found.get("sources") if isinstance(found, dict) else None
            self.known = dict(sources) if isinstance(sources, dict) else {}

    def check(self, item: Input) -> None:
        """InputError if the name is that of another picture, which is still there."""
        if self.folder is None or item.path is None:
            return
        theirs = self.known.get(item.name.lower())
        if theirs is None or theirs == _way(item.path, self.folder):
            return
        results = glob.escape(str(self.folder / item.name))
        if (self.folder / theirs).exists() and glob.glob(f"{results}_*"):  # noqa: PTH207
            raise InputError(
                f"{item.path}: {self.folder / item.name}_... is there and of {theirs}; choose"
                " another -o, or remove it"
            )

    def add(self, item: Input) -> None:
        """From now on the name is this picture's."""
        if self.folder is not None and item.path is not None:
            way = _way(item.path, self.folder)
            self.changed |= self.known.get(item.name.lower()) != way
            self.known[item.name.lower()] = way

    def write(self) -> None:
        """Into the folder."""
        if self.folder is not None and self.changed:
            content = {"format": config.FORMAT, "sources": self.known}
            files.write_json(self.folder / SOURCES, content)


def _way(source: Path, folder: Path) -> str:
    """From the folder to a picture, so that both may be moved together."""
    try:
        return Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return source.resolve().as_posix()
