"""What `idisc predict` reports: a line about each result, each note once, and the gallery."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from idisc import files
from idisc.cli import tables
from idisc.errors import one_line, pluralize

if TYPE_CHECKING:
    from idisc.formats import Format
    from idisc.formats.gallery import Entry
    from idisc.predict.inputs import Input
    from idisc.predict.video import Outcome
    from idisc.prediction import Prediction
    from idisc.provenance import ModelInfo

LARGE_FILE = 200e6  # bytes: the size of larger files is printed


class Result(NamedTuple):
    """The result of one photo or video."""

    summary: str  # one line
    files: Sequence[Path]  # none: the result went to stdout
    notes: Sequence[str]
    model: ModelInfo
    entry: Entry | None = None  # of the gallery


class Report:
    """Collects results, prints them, and writes the gallery."""

    def __init__(self, items: Sequence[Input], gallery: Path | None, *, to_stderr: bool) -> None:
        """`gallery` is the path of its page; `to_stderr`: stdout contains a result."""
        self.gallery, self.to_stderr = gallery, to_stderr
        self.lines: list[str] = []
        self._titles = _titles(items)
        self._notes: dict[str, list[str]] = {}  # text -> inputs that it is about
        self._models: dict[ModelInfo, None] = {}  # each once, in order
        self._entries: list[Entry] = []  # of the gallery

    def entry_of(
        self, item: Input, prediction: Prediction, written: Sequence[Path], length: str = ""
    ) -> Entry | None:
        """Return the gallery's entry of a photo, or of a video's last frame, if there is a page."""
        if not self.gallery:
            return None
        from idisc.formats import gallery

        folder = self.gallery.parent
        return gallery.describe(self._titles[item], prediction, written, folder, length)

    def add(self, item: Input, result: Result) -> None:
        """Add the result of one input."""
        if result.entry:
            self._entries.append(result.entry)
        where = ", ".join(map(_with_size, result.files)) or "stdout"
        self.lines.append(f"{item.label}: {result.summary} -> {where}")
        self._models[result.model] = None
        for text in result.notes:
            self._notes.setdefault(text, []).append(item.label)

    def write_gallery(self) -> None:
        """Write the page of all results, if there is to be one."""
        if self.gallery and self._entries:
            from idisc.formats import gallery

            names = dict.fromkeys(model.name for model in self._models)
            page = gallery.render(self._entries, self.gallery.parent.resolve().name, list(names))
            with files.atomic(self.gallery) as draft:
                draft.write_bytes(page)
            self.lines.append(f"{pluralize(len(self._entries), 'result')} -> {self.gallery}")

    def show(self) -> None:
        """Print the lines, and the notes to stderr."""
        for line in self.lines:
            click.echo(one_line(line), err=self.to_stderr)
        for text, labels in self._notes.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")
        tables.note_models(*self._models)


def _titles(items: Sequence[Input]) -> dict[Input, str]:
    """Return the file name of each input, with its folder if another one has the same name."""
    names = {item: item.path.name if item.path else item.label for item in items}
    count = Counter(names.values())
    return {
        item: f"{item.path.parent.name}/{name}" if item.path and count[name] > 1 else name
        for item, name in names.items()
    }


def _with_size(path: Path) -> str:
    """Return a path, with its size if the file is large."""
    size = path.stat().st_size if path.is_file() else 0
    return f"{path} ({size / 1e9:.1f} GB)" if size > LARGE_FILE else str(path)


def notes_about(prediction: Prediction, formats: Sequence[Format] = ()) -> list[str]:
    """Return one line each for warnings, for notes about the picture and for an unusual unit."""
    from idisc.formats.numbers import describe_unusual_unit
    from idisc.provenance_text import describe_warning

    made = prediction.provenance
    notes = ["; ".join(map(describe_warning, made.warnings)), "; ".join(made.notes)]
    if any(row.name == "png16" for row in formats):
        notes.append(describe_unusual_unit(prediction) or "")
    return [text for text in notes if text]


def summarize(prediction: Prediction) -> str:
    """Return one line about the prediction of a photo."""
    from idisc.provenance_text import describe_depth
    from idisc.visualize import percentiles

    if prediction.depth is None:
        return "; ".join([prediction.task.name, *_camera_model_and_scale(prediction)])
    step = 1 + max(prediction.size) // 2000  # a sample is enough for these numbers
    sample = prediction.depth[::step, ::step].ravel()
    low, middle, high = percentiles(sample, 2, 50, 98)
    span, unit = describe_depth(low, high, prediction.unit), prediction.unit
    median = f"median {middle:.2f} m" if unit == "metre" else f"median {middle:.3g}, no metres"
    return "; ".join([f"mostly {span}, {median}", *_camera_model_and_scale(prediction)])


def summarize_video(outcome: Outcome) -> str:
    """Return one line about the result of a video."""
    from idisc.provenance_text import describe_depth

    parts = [video_length(outcome)]
    if outcome.limits:
        parts.append(f"colours {describe_depth(*outcome.limits, outcome.last.unit)}")
    if outcome.flicker is not None:
        after = "" if outcome.smoothed is None else f", smoothed {100 * outcome.smoothed:.2f} %"
        parts.append(f"flicker {100 * outcome.flicker:.2f} %{after}")
    if outcome.cuts:
        noun = "cuts at frames" if len(outcome.cuts) > 1 else "cut at frame"
        parts.append(f"scene {noun} {', '.join(map(str, outcome.cuts))}")
    return "; ".join([*parts, *_camera_model_and_scale(outcome.last), *outcome.notes])


def video_length(outcome: Outcome) -> str:
    """Return the number of frames and the duration of a video."""
    return f"{pluralize(outcome.frames, 'frame')} of {outcome.seconds:.1f} s"


def _camera_model_and_scale(prediction: Prediction) -> list[str]:
    """Return camera and model, and by how much depth was multiplied."""
    from idisc.provenance_text import describe_camera, describe_change, describe_range

    made, model = prediction.provenance, prediction.provenance.model
    span = describe_range(model) if model.depth_range else "depth range unknown"
    camera = describe_camera(prediction.camera)
    changes = [made.camera_correction, made.alignment, *made.rescalings]
    return [
        f"camera {camera}, model {model.name}, domain {model.domain} ({span})",
        *(describe_change(change) for change in changes if change),
    ]
