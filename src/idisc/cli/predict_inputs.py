"""Predicts the inputs of `idisc predict`, writes their results and reports them."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from idisc.cli import progress, tables
from idisc.cli.batch import Failures
from idisc.cli.saving import Saving, Sources
from idisc.errors import IdiscError, IdiscWarning, InputError, one_line, pluralize

if TYPE_CHECKING:
    from idisc.formats.gallery import Entry
    from idisc.images import Photo
    from idisc.predict.inputs import Input
    from idisc.predict.options import PredictOptions
    from idisc.predict.predictor import Predictor
    from idisc.predict.video import Outcome
    from idisc.prediction import Prediction

LARGE = 200e6  # bytes: the size of larger files is printed
PIXELS_IN_PROGRESS = 40e6  # of pictures that are read, predicted and written at the same time
MOST_IN_PROGRESS = 8  # of pictures, however small


class Done(NamedTuple):
    """The result of one picture or video."""

    about: str  # one line
    written: list[Path]
    notes: list[str]  # printed once for all pictures
    model: str  # its name
    entry: Entry | None = None  # of the gallery


class Run:
    """Predicts pictures and videos in order; failures are kept for the summary."""

    def __init__(
        self,
        predictor: Predictor,
        saving: Saving,
        how: PredictOptions,
        film: dict[str, Any],
        failures: Failures,
        gallery: Path | None = None,
    ) -> None:
        """`gallery` is the path of the page about all results, if one is written."""
        self.gallery = gallery
        self.entries: list[Entry] = []
        self.models: dict[str, None] = {}  # names in their order
        self.predictor, self.saving, self.how, self.film = predictor, saving, how, film
        self.sources = Sources(saving.folder)
        self.titles: dict[Input, str] = {}  # in the gallery
        self.lines: list[str] = []
        self.aside = False  # lines go to stderr, because stdout has bytes
        self.failures = failures
        self.notes: dict[str, list[str]] = {}  # text -> pictures

    def work(self, items: Sequence[Input]) -> None:
        """Predict, save and report each of them; InputError if some failed."""
        self.aside = self.saving.streams(items)
        self.titles = _titles(items)
        try:
            with progress.bar("predicting") as advance, warnings.catch_warnings():
                warnings.simplefilter("ignore", IdiscWarning)  # the report has them
                for done, (item, result) in enumerate(self._results(items, advance), start=1):
                    self._keep(item, result)
                    advance(done, len(items))
        except KeyboardInterrupt:
            self.tell()
            self.failures.tell()
            raise
        finally:
            self._write_sources()
        total = len(self.lines) + len(self.failures.found)
        self._write_gallery()
        self.tell()
        self.failures.finish(total)

    def _results(
        self, items: Sequence[Input], advance: progress.Move
    ) -> Iterator[tuple[Input, Callable[[], Done]]]:
        """Yield each item with a function that waits for its result or raises its error.

        Reading, predicting and writing of successive pictures overlap. A video has all cores.
        """
        from idisc.predict.stages import in_stages

        stages = (self._read, self._predict, self._write)
        for is_clip, group in groupby(items, attrgetter("is_video")):
            if is_clip:
                yield from ((item, partial(self._video, item, advance)) for item in group)
            else:
                some = list(group)
                futures = in_stages(some, stages, cost=_cost, budget=PIXELS_IN_PROGRESS)
                yield from (
                    (item, future.result) for item, future in zip(some, futures, strict=True)
                )

    def _write_sources(self) -> None:
        try:
            self.sources.write()
        except OSError as error:  # the results themselves are there
            self.failures.add(str(self.saving.folder), error)

    def _keep(self, item: Input, result: Callable[[], Done]) -> None:
        """Wait for the result of one picture or video, and keep what is reported about it."""
        try:
            done = result()
        except Exception as error:  # whatever it is, the other pictures are predicted
            self.failures.add(item.label, error)
            if self.sources.has_results(item):  # of formats that were written before
                self.sources.add(item)
            return
        where = ", ".join(map(_with_size, done.written)) or "stdout"
        self.lines.append(f"{item.label}: {done.about} -> {where}")
        for text in done.notes:
            self.notes.setdefault(text, []).append(item.label)
        if done.entry:
            self.entries.append(done.entry)
            self.models[done.model] = None

    def _read(self, item: Input) -> tuple[Input, Photo]:
        from idisc.images import read_photo

        self.sources.check(item)
        name = "stdin" if item.path is None else item.path.name
        return item, read_photo(item.source(), name)

    def _predict(self, read: tuple[Input, Photo]) -> tuple[Input, Prediction]:
        item, photo = read
        return item, self.predictor.predict(photo, self.how)

    def _write(self, predicted: tuple[Input, Prediction]) -> Done:
        from idisc.formats.numbers import describe_unusual_unit

        item, prediction = predicted
        rows = self.saving.rows(item, prediction.task)
        written, notes = self.saving.write(item, prediction, rows), _notes(prediction)
        self.sources.add(item)
        if any(row.name == "png16" for row in rows):
            notes += filter(None, [describe_unusual_unit(prediction)])
        return self._done(item, prediction, _summary(prediction), written, notes)

    def _video(self, item: Input, advance: progress.Move) -> Done:
        from idisc.predict.video import MP4, Plan, predict_video, video_formats

        self.sources.check(item)
        path = item.path or Path()  # stdin is never a video
        asked = self.saving.formats or (MP4,)
        rows = tuple(row for row in asked if row.in_video)
        if not rows:
            names = ", ".join(row.name for row in asked)
            raise InputError(path, f"{names} of a video", f"the formats are {video_formats()}")
        without = [row.name for row in asked if not row.in_video]
        without += ["normals"] if self.saving.normals and "normals" not in without else []
        plan = Plan(formats=rows, options=self.saving.options, **self.film)
        outcome = predict_video(
            self.predictor,
            path,
            self.saving.place(item),
            plan,
            name=item.name,
            advance=lambda done, total: advance(done, total, f"predicting {path.name}"),
            options=replace(self.how, normals=False),
        )
        notes = _notes(outcome.last)
        if without:
            notes.append(f"a video, without {', '.join(without)}, which are for pictures")
        self.sources.add(item)
        about, clip = _film_summary(outcome), _clip_length(outcome)
        return self._done(item, outcome.last, about, list(outcome.files), notes, clip)

    def _done(
        self,
        item: Input,
        shown: Prediction,
        about: str,
        written: list[Path],
        notes: list[str],
        clip: str = "",
    ) -> Done:
        """Return a result with its entry for the gallery, if there is one."""
        entry = None
        if self.gallery is not None:
            from idisc.formats import gallery

            folder = self.gallery.parent
            entry = gallery.describe(self.titles[item], shown, written, folder, clip)
        return Done(about, written, notes, shown.provenance.model.name, entry)

    def _write_gallery(self) -> None:
        if self.gallery is not None and self.entries:
            from idisc import files
            from idisc.formats import gallery

            title = self.gallery.parent.resolve().name
            page = gallery.render(self.entries, title, list(self.models))
            try:
                with files.atomic(self.gallery) as draft:
                    draft.write_bytes(page)
            except OSError as error:
                self.failures.add(str(self.gallery), error)
                return
            self.lines.append(f"{pluralize(len(self.entries), 'result')} -> {self.gallery}")

    def tell(self) -> None:
        """Print what was done."""
        for line in self.lines:
            click.echo(one_line(line), err=self.aside)
        for text, labels in self.notes.items():
            more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
            tables.note(f"{labels[0]}{more}: {text}")


def _titles(items: Sequence[Input]) -> dict[Input, str]:
    """Return the file name of each input, with its folder if another one has the same name."""
    names = {item: item.label if item.path is None else item.path.name for item in items}
    count = Counter(names.values())
    return {
        item: f"{item.path.parent.name}/{name}" if item.path and count[name] > 1 else name
        for item, name in names.items()
    }


def _cost(item: Input) -> float:
    """Return the pixels of a picture; small and unreadable ones count as an equal share."""
    from idisc.images import picture_size

    least = PIXELS_IN_PROGRESS / MOST_IN_PROGRESS
    try:
        return max(least, math.prod(picture_size(item.path))) if item.path else least
    except IdiscError:  # reported when the picture is read
        return least


def _clip_length(outcome: Outcome) -> str:
    return f"{pluralize(outcome.frames, 'frame')} of {outcome.seconds:.1f} s"


def _notes(prediction: Prediction) -> list[str]:
    """Return one line each for warnings, notes about the picture and the model's licence."""
    from idisc.provenance_text import describe_terms, describe_warning

    made = prediction.provenance
    notes = ["; ".join(map(describe_warning, made.warnings)), "; ".join(made.notes)]
    notes.append(describe_terms(made.model))
    return [text for text in notes if text]


def _summary(prediction: Prediction) -> str:
    """Return one line about a result."""
    from idisc.provenance_text import describe_depth
    from idisc.visualize import percentiles

    if prediction.depth is None:
        return "; ".join([prediction.task.name, *_made_by(prediction)])
    step = 1 + max(prediction.size) // 2000  # a sample is enough for these numbers
    sample = prediction.depth[::step, ::step].ravel()
    low, middle, high = percentiles(sample, 2, 50, 98)
    span, unit = describe_depth(low, high, prediction.unit), prediction.unit
    median = f"median {middle:.2f} m" if unit == "metre" else f"median {middle:.3g}, no metres"
    return "; ".join([f"mostly {span}, {median}", *_made_by(prediction)])


def _film_summary(outcome: Outcome) -> str:
    """Return one line about the result of a video."""
    from idisc.provenance_text import describe_depth

    parts = [_clip_length(outcome)]
    if outcome.limits:
        parts.append(f"colours {describe_depth(*outcome.limits, outcome.last.unit)}")
    if outcome.flicker is not None:
        after = "" if outcome.smoothed is None else f", smoothed {100 * outcome.smoothed:.2f} %"
        parts.append(f"flicker {100 * outcome.flicker:.2f} %{after}")
    if outcome.cuts:
        many = "cuts at frames" if len(outcome.cuts) > 1 else "cut at frame"
        parts.append(f"scene {many} {', '.join(map(str, outcome.cuts))}")
    return "; ".join([*parts, *_made_by(outcome.last), *outcome.notes])


def _made_by(prediction: Prediction) -> list[str]:
    """Return camera and model, and by how much depth was multiplied."""
    from idisc.provenance_text import describe_camera, describe_change, describe_range

    made, model = prediction.provenance, prediction.provenance.model
    known = describe_range(model) if model.depth_range else "depth range unknown"
    about = (
        f"camera {describe_camera(prediction.camera)}, model {model.name}, domain {model.domain}"
    )
    changes = [made.camera_correction, made.alignment, *made.rescalings]
    return [f"{about} ({known})", *(describe_change(change) for change in changes if change)]


def _with_size(path: Path) -> str:
    """Return a path, with its size if the file is large."""
    size = path.stat().st_size if path.is_file() else 0
    return f"{path} ({size / 1e9:.1f} GB)" if size > LARGE else str(path)
