"""Runs `idisc predict`: predicts the inputs, writes their results and reports them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from idisc.cli import predict_report, progress
from idisc.cli.batch import Failures
from idisc.cli.predict_output import ResultWriter
from idisc.cli.predict_report import Report, Result
from idisc.errors import IdiscError, IdiscWarning

if TYPE_CHECKING:
    from pathlib import Path

    from idisc.images import Photo
    from idisc.predict.inputs import Input
    from idisc.predict.options import PredictOptions
    from idisc.predict.predictor import Predictor
    from idisc.prediction import Prediction

PIXELS_IN_PROGRESS = 40e6  # of photos that are read, predicted and written at the same time
MAX_IN_PROGRESS = 8  # photos, however small


class PredictionRun:
    """Predicts photos and videos in order; an input that fails does not stop the others."""

    def __init__(
        self,
        predictor: Predictor,
        options: PredictOptions,
        video_options: dict[str, Any],
        writer: ResultWriter,
        failures: Failures,
        gallery: Path | None,
    ) -> None:
        """`video_options` are fields of `video.Plan`; `gallery` is the path of its page."""
        self.predictor, self.options, self.video_options = predictor, options, video_options
        self.writer, self.failures, self.gallery = writer, failures, gallery

    def predict_all(self, items: Sequence[Input]) -> None:
        """Predict, write and report all inputs; InputError if some of them failed."""
        report = Report(items, self.gallery, to_stderr=self.writer.uses_stdout(items))
        try:
            with progress.bar("predicting") as advance, warnings.catch_warnings():
                warnings.simplefilter("ignore", IdiscWarning)  # the report contains them
                results = self._results(items, report, advance)
                for done, (item, get_result) in enumerate(results, start=1):
                    with self.failures.recording(item.label):
                        report.add(item, get_result())
                    advance(done, len(items))
        except KeyboardInterrupt:
            report.show()
            self.failures.show()
            raise
        finally:
            with self.failures.recording(str(self.writer.folder)):
                self.writer.sources.save()
        total = len(report.lines) + len(self.failures.errors)
        with self.failures.recording(str(self.gallery)):
            report.write_gallery()
        report.show()
        self.failures.finish(total)

    def _results(
        self, items: Sequence[Input], report: Report, advance: progress.Advance
    ) -> Iterator[tuple[Input, Callable[[], Result]]]:
        """Yield each input with a function that waits for its result or raises its error.

        Reading, predicting and writing of successive photos overlap. A video has all cores.
        """
        from idisc.predict.stages import in_stages

        stages = (self._read, self._predict, partial(self._write, report))
        for is_video, group in groupby(items, attrgetter("is_video")):
            if is_video:
                run = partial(self._predict_video, report, advance)
                yield from ((item, partial(run, item)) for item in group)
            else:
                photos = list(group)
                futures = in_stages(photos, stages, cost=_pixels, budget=PIXELS_IN_PROGRESS)
                for item, future in zip(photos, futures, strict=True):
                    yield item, future.result

    def _read(self, item: Input) -> tuple[Input, Photo]:
        from idisc.images import read_photo

        self.writer.sources.check(item)
        return item, read_photo(item.source(), item.path.name if item.path else item.label)

    def _predict(self, read: tuple[Input, Photo]) -> tuple[Input, Prediction]:
        item, photo = read
        return item, self.predictor.predict(photo, self.options)

    def _write(self, report: Report, predicted: tuple[Input, Prediction]) -> Result:
        """Write the files of a prediction; its maps, gigabytes of a large photo, are not kept."""
        item, prediction = predicted
        formats = self.writer.formats_for(item, prediction.task)
        written = self.writer.write(item, prediction, formats)
        notes = predict_report.notes_about(prediction, formats)
        return Result(
            predict_report.summarize(prediction),
            written,
            notes,
            prediction.provenance.model,
            report.entry_of(item, prediction, written),
        )

    def _predict_video(self, report: Report, advance: progress.Advance, item: Input) -> Result:
        from idisc.predict.video import Plan, predict_video

        assert item.path is not None  # stdin is never a video
        name = item.path.name
        formats, left_out = self.writer.video_formats(item)
        self.writer.sources.check(item)
        self.writer.sources.add(item)
        outcome = predict_video(
            self.predictor,
            item.path,
            self.writer.folder_of(item),
            Plan(formats=formats, options=self.writer.options, **self.video_options),
            name=item.name,
            advance=lambda done, total: advance(done, total, f"predicting {name}"),
            options=replace(self.options, normals=False),
        )
        notes = predict_report.notes_about(outcome.last)
        if left_out:
            notes.append(f"a video, without {', '.join(left_out)}, which are for pictures")
        summary = predict_report.summarize_video(outcome)
        length = predict_report.video_length(outcome)
        entry = report.entry_of(item, outcome.last, outcome.files, length)
        return Result(summary, outcome.files, notes, outcome.last.provenance.model, entry)


def _pixels(item: Input) -> float:
    """Return the pixels of a photo; small and unreadable ones count as an equal share."""
    from idisc.images import picture_size

    share = PIXELS_IN_PROGRESS / MAX_IN_PROGRESS
    try:
        return max(share, math.prod(picture_size(item.path))) if item.path else share
    except IdiscError:  # reported when the photo is read
        return share
