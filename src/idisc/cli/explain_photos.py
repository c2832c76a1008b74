"""`idisc explain` of photos: figures of each photo, and a grid of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idisc import configs, files, visualize
from idisc.cli import progress, tables
from idisc.cli.batch import Failures
from idisc.errors import IdiscError, InputError, one_line

if TYPE_CHECKING:
    from idisc.explain.grid import Grid
    from idisc.explain.idrs import Explanation
    from idisc.explain.usage import Collector, LevelUsage, Report, Usage
    from idisc.predict.inputs import Input
    from idisc.predict.predictor import Predictor

GRID_PHOTOS = 6  # photos of the common grid
GRID_IDRS, MUTED_IDRS = 3, 5  # for each level, in the common grid and in the figures of muting


@dataclass(frozen=True)
class Selection:
    """The levels and IDRs to show and to mute."""

    idrs: tuple[int, ...]  # none: representative ones
    levels: tuple[int, ...]  # none: all
    muted: Mapping[int, set[int]]  # IDRs by level

    def check(self, predictor: Predictor) -> None:
        """Raise InputError for levels and IDRs that the network does not have."""
        from idisc.predict.open import network_of

        model = network_of(predictor.engine).config
        count, last = model.afp.idrs, model.resolutions - 1
        levels = [(f"--level {level}", level) for level in self.levels]
        levels += [(f"--mute {level}", level) for level in self.muted]
        for option, level in levels:
            if not 0 <= level <= last:
                raise InputError(option, f"this network has levels 0 to {last}")
        idrs = [(f"--idrs {idr}", idr) for idr in self.idrs]
        for level, muted in self.muted.items():
            idrs += [(f"--mute {level}:{idr}", idr) for idr in sorted(muted)]
        for option, idr in idrs:
            if idr >= count:
                raise InputError(option, f"this network has IDRs 0 to {count - 1}")
        for level, muted in self.muted.items():
            if len(muted) == count:
                raise InputError("--mute", f"all {count} IDRs of level {level}", "one must be left")

    def idrs_of(self, usage: Usage, count: int) -> tuple[int, ...]:
        """Return the IDRs to show of a level."""
        return self.idrs or tuple(usage.representative(count))

    def has_level(self, level: int) -> bool:
        """Return whether a level is to be shown."""
        return not self.levels or level in self.levels


@dataclass(frozen=True)
class FigureFolder:
    """Where figures and numbers are written, and of which network they are."""

    path: Path
    suffix: str  # of figures
    predictor: Predictor

    @property
    def about(self) -> dict[str, str]:
        """The metadata of every file."""
        from idisc.provenance_text import describe_data, describe_licence

        model = self.predictor.model
        return {
            "model": model.name,
            "weights_sha256": model.sha256,
            "trained on": describe_data(model),
            "licence": describe_licence(model),
        }

    def save_figure(self, name: str, grid: Grid, more: Mapping[str, str] | None = None) -> Path:
        """Write one figure; `more` is added to its metadata."""
        from idisc.explain.grid import save

        return save(grid, self.path / f"{name}.{self.suffix}", {**self.about, **(more or {})})

    def save_report(self, name: str, report: Report, about: Mapping[str, str]) -> Path:
        """Write the numbers of a report as JSON."""
        path = self.path / f"{name}.json"
        files.write_json(path, {"format": configs.FORMAT, **about, **report.as_json()})
        return path


class ExplanationRun:
    """Explains photos one by one, and then all together."""

    def __init__(
        self, folder: FigureFolder, selection: Selection, size: tuple[int, int] | None
    ) -> None:
        from idisc.explain.usage import Collector

        self.folder, self.selection, self.size = folder, selection, size
        self.collector: Collector = Collector()
        self.grid_photos: list[tuple[str, Explanation]] = []  # of the common grid

    def explain_all(self, items: Sequence[Input], problems: Sequence[IdiscError]) -> None:
        """Explain all photos and print the written files; InputError if some of them failed."""
        failures = Failures(problems)
        with progress.bar("explaining") as advance:
            for done, item in enumerate(items, start=1):
                with failures.recording(item.label):
                    click.echo(one_line(self._explain(item)))
                advance(done, len(items))
        if self.grid_photos:
            click.echo(self._explain_together())
        failures.finish(len(items) + len(problems))

    def _explain(self, item: Input) -> str:
        """Write all figures of one photo, and return a line about them."""
        from idisc.explain.idrs import explain_photo
        from idisc.images import read_photo

        name = files.name_text(item.path.name if item.path else item.label)
        photo = read_photo(item.source(), name)
        self._note_aspect(item.label, photo.size)
        explanation = explain_photo(self.folder.predictor, photo, self.size)
        usages = self.collector.add(item.name, explanation)
        if len(self.grid_photos) < GRID_PHOTOS:
            self.grid_photos.append((files.name_text(item.name), explanation))
        written = [
            str(self.folder.save_figure(f"{item.name}_{name}", grid))
            for name, grid in self._figures(explanation, usages, photo.name)
        ]
        numbers = ", ".join(f"{usage.pictures['attention'][0]:.1f}" for usage in usages)
        about = f"{numbers} effective IDRs at levels 0 to {len(usages) - 1}"
        if explanation.task.metric:
            low, high = visualize.depth_limits(explanation.depth)
            about = f"{low:.2f} to {high:.2f} m; {about}"
        return f"{item.label}: {about} -> {', '.join(written)}"

    def _note_aspect(self, label: str, picture: tuple[int, int]) -> None:
        """Print a note if a photo is distorted by the requested size."""
        from idisc.predict.reliability import check_aspect
        from idisc.provenance_text import describe_warning
        from idisc.sizes import fit_aspect

        if self.size is None:
            return
        if warning := check_aspect(self.size, picture, fit_aspect(self.size, picture)):
            tables.note(f"{label}: {describe_warning(warning)}")

    def _figures(
        self, explanation: Explanation, usages: Sequence[LevelUsage], name: str
    ) -> Iterator[tuple[str, Grid]]:
        """Yield the figures of one photo with their names."""
        from idisc.explain import ablate, figures

        selected = [
            (level, usage.total["attention"])
            for level, usage in zip(explanation.levels, usages, strict=True)
            if self.selection.has_level(level.index)
        ]
        for level, usage in selected:
            sheet = figures.contact_sheet(explanation, level, usage, name)
            yield f"idrs_level{level.index}", sheet
        yield "partition", figures.partition(explanation, name)
        yield "similarity", figures.similarity(usages, name)
        alone, without = ablate.levels_alone(explanation), ablate.leave_one_out(explanation)
        yield "levels", figures.levels(explanation, alone, without, name)
        for level, usage in selected:
            idrs = self.selection.idrs_of(usage, MUTED_IDRS)
            effects = {idr: ablate.mute(explanation, {level.index: {idr}}) for idr in idrs}
            yield f"muting_level{level.index}", figures.muting(explanation, level, effects, name)
        if self.selection.muted:
            effect = ablate.mute(explanation, self.selection.muted)
            yield "muted", figures.muted_together(explanation, effect, name)

    def _explain_together(self) -> str:
        """Write the common grid and the numbers of all photos, and return a line about them."""
        from idisc.explain import figures

        report = self.collector.report()
        idrs = {
            level.index: self.selection.idrs_of(level.total["attention"], GRID_IDRS)
            for level in report.levels
            if self.selection.has_level(level.index)
        }
        grid = self.folder.save_figure("idrs", figures.idr_grid(self.grid_photos, idrs))
        numbers = self.folder.save_report("idrs", report, self.folder.about)
        return f"all: {grid}, {numbers}"
