"""Where the results of `idisc predict` go: next to each picture, into a folder, or to stdout."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
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

STDOUT_FORMAT = "png16"  # the default for stdout, which has room for one
SOURCES = ".idisc.json"  # the file of `SourceIndex` in a folder of results


class SourceIndex:
    """The picture of each name in a folder of results, stored in a hidden file of the folder.

    It prevents the results of two pictures called a.jpg, predicted by two calls, from overwriting
    each other. Without a folder, results are next to their pictures, and the index stays empty.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._stored: dict[str, str] = {}  # name in lower case -> path relative to the folder
        if folder is not None and (folder / SOURCES).is_file():
            record = files.read_json(folder / SOURCES)
            sources = record.get("sources") if isinstance(record, dict) else None
            paths = sources.items() if isinstance(sources, dict) else ()
            self._stored = {name: path for name, path in paths if isinstance(path, str)}
        self._paths = dict(self._stored)

    def check(self, item: Input) -> None:
        """Raise an InputError if the name has results of another picture that still exists."""
        if self.folder is None or item.path is None:
            return
        other = self._paths.get(item.name.lower())
        if other is None or other == _relative(item.path, self.folder):
            return
        results = glob.escape(str(self.folder / item.name)) + "_*"
        if (self.folder / other).exists() and glob.glob(results):  # noqa: PTH207
            raise InputError(
                item.path,
                f"{self.folder / item.name}_... exists and belongs to {other}",
                "choose another -o, or remove it",
            )

    def add(self, item: Input) -> None:
        """Assign the name of a picture to it; call this before its results are written."""
        if self.folder is not None and item.path is not None:
            self._paths[item.name.lower()] = _relative(item.path, self.folder)

    def save(self) -> None:
        """Write the file, unless nothing has changed or no result was written."""
        if self.folder is not None and self.folder.is_dir() and self._paths != self._stored:
            content = {"format": configs.FORMAT, "sources": self._paths}
            files.write_json(self.folder / SOURCES, content)


def _relative(source: Path, folder: Path) -> str:
    """Return the path relative to the folder, so that both may be moved together."""
    try:
        return Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return source.resolve().as_posix()


@dataclass(frozen=True)
class ResultWriter:
    """Writes results to one place, in formats that may depend on the network."""

    folder: Path | None  # None: next to each picture, and from stdin to stdout
    formats: tuple[Format, ...]  # none: the default formats
    options: FormatOptions
    normals: bool  # also write normals
    gallery: bool  # the default formats include the viewer, which the gallery opens
    sources: SourceIndex = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", SourceIndex(self.folder))

    def check(self, items: Sequence[Input]) -> None:
        """Raise an InputError before any work is done if results cannot be written."""
        if self.folder is not None:
            if str(self.folder) == "-":
                raise InputError("-o -", "no folder", "leave it out to write to stdout")
            if self.folder.exists() and not self.folder.is_dir():
                raise InputError(f"-o {self.folder}", "a file", "name a folder")
            files.check_writable(self.folder)
        if not self.uses_stdout(items):
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

    def uses_stdout(self, items: Sequence[Input]) -> bool:
        """Tell whether the bytes of a result go to stdout, which then has no text."""
        return self.folder is None and any(item.path is None for item in items)

    def folder_of(self, item: Input) -> Path:
        """Return the folder for the files of an input."""
        return self.folder or (item.path.parent if item.path else Path())

    def formats_for(self, item: Input, task: Task) -> tuple[Format, ...]:
        """Return the formats of a photo for a network of this task."""
        from idisc.formats import FORMATS, default_formats

        if self.uses_stdout([item]):
            return self.formats or (FORMATS[STDOUT_FORMAT],)
        formats = self.formats or default_formats(task)
        if self.gallery and not self.formats and task.metric:
            formats = (*formats, FORMATS["html"])
        return tuple(dict.fromkeys([*formats, FORMATS["normals"]])) if self.normals else formats

    def video_formats(self, item: Input) -> tuple[tuple[Format, ...], list[str]]:
        """Return the formats of a video, and the names of those that are only for photos."""
        from idisc.predict.video import MP4, video_formats

        requested = self.formats or (MP4,)
        formats = tuple(row for row in requested if row.in_video)
        left_out = [row.name for row in requested if not row.in_video]
        if not formats:
            reason = f"{', '.join(left_out)} of a video"
            raise InputError(item.label, reason, f"the formats are {video_formats()}")
        if self.normals and "normals" not in left_out:
            left_out.append("normals")
        return formats, left_out

    def write(self, item: Input, prediction: Prediction, formats: Sequence[Format]) -> list[Path]:
        """Write the result of a photo; return its files, none for stdout."""
        from idisc.formats import save

        if self.uses_stdout([item]):
            self._write_to_stdout(prediction, formats[0])
            return []
        self._check_overwriting(item, formats)
        self.sources.add(item)
        return save(prediction, self.folder_of(item), item.name, formats, self.options)

    def _check_overwriting(self, item: Input, formats: Sequence[Format]) -> None:
        """Raise an InputError if a PNG of the user, such as ground truth, would be overwritten."""
        from idisc.predict.inputs import is_result

        for row in formats:
            path = self.folder_of(item) / f"{item.name}{row.suffix}"
            if path.suffix == ".png" and path.is_file() and not is_result(path):
                raise InputError(
                    item.label, f"{path} exists and was not written by idisc", "choose another -o"
                )

    def _write_to_stdout(self, prediction: Prediction, row: Format) -> None:
        from idisc.formats import encode

        content = encode(prediction, row, self.options)[row.suffix]
        try:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        except OSError as error:
            tables.discard_stdout()
            raise InputError("stdout", f"cannot be written ({error.strerror})") from None
