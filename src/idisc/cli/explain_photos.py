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
    from idisc.explain.usage import Collector, LevelUsage, Usage
    from idisc.predict.inputs import Input
    from idisc.predict.predictor import Predictor

GRID_PICTURES, GRID_IDRS, MUTED_IDRS = 6, 3, 5  # of one figure; IDRs for each level


@dataclass(frozen=True)
class Selection:
    """The levels and IDRs to show and to mute; without any, all levels and representative IDRs."""

    idrs: tuple[int, ...]
    levels: tuple[int, ...]
    muted: Mapping[int, set[int]]  # IDRs by level

    def check(self, predictor: Predictor) -> None:
        """Raise InputError for levels and IDRs that the network does not have."""
        from idisc.predict.open import network_of

        model = network_of(predictor.engine).config
        count, last = model.afp.idrs, model.resolutions - 1
        levels = [(f"--level {level}", level) for level in self.levels]
        levels += [(f"--mute {level}", level) for level in self.muted]
        for typed, level in levels:
            if not 0 <= level <= last:
                raise InputError(typed, f"this network has levels 0 to {last}")
        idrs = [(f"--idrs {idr}", idr) for idr in self.idrs]
        for level, muted in self.muted.items():
            idrs += [(f"--mute {level}:{idr}", idr) for idr in sorted(muted)]
        for typed, idr in idrs:
            if idr >= count:
                raise InputError(typed, f"this network has IDRs 0 to {count - 1}")
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
    """Where figures are written, in which format, and of which network they are."""

    path: Path
    suffix: str
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

    def figure(self, name: str, grid: Grid, more: Mapping[str, str] | None = None) -> Path:
        """Write one figure; `more` is added to its metadata."""
        from idisc.explain.grid import save

        return save(grid, self.path / f"{name}.{self.suffix}", {**self.about, **(more or {})})


class PhotoRun:
    """Explains photos one by one and collects their failures."""

    def __init__(
        self, folder: FigureFolder, selection: Selection, size: tuple[int, int] | None
    ) -> None:
        from idisc.explain.usage import Collector

        self.folder, self.selection, self.size = folder, selection, size
        self.collector: Collector = Collector()
        self.shown: list[tuple[str, Explanation]] = []  # pictures of the common grid

    def run(self, items: Sequence[Input], problems: Sequence[IdiscError]) -> None:
        """Explain all photos and print the written files; the exit code is 2 if one failed."""
        failures = Failures(problems)
        with progress.bar("explaining") as advance:
            for done, item in enumerate(items, start=1):
                try:
                    click.echo(one_line(self._photo(item)))
                except Exception as error:  # whatever it is, the other photos are explained
                    failures.add(item.label, error)
                advance(done, len(items))
        if self.shown:
            click.echo(self._together())
        failures.finish(len(items) + len(problems))

    def _photo(self, item: Input) -> str:
        """Write all figures of one photo, and return a line about them."""
        from idisc.explain.idrs import explain_photo
        from idisc.images import read_photo

        name = "stdin" if item.path is None else files.name_text(item.path.name)
        photo = read_photo(item.source(), name)
        self._note_shape(item.label, photo.size)
        explanation = explain_photo(self.folder.predictor, photo, self.size)
        usages = self.collector.add(item.name, explanation)
        if len(self.shown) < GRID_PICTURES:
            self.shown.append((files.name_text(item.name), explanation))
        written = [
            self.folder.figure(f"{item.name}_{name}", grid)
            for name, grid in self._figures(explanation, usages, photo.name)
        ]
        numbers = ", ".join(f"{usage.pictures['attention'][0]:.1f}" for usage in usages)
        about = f"{numbers} effective IDRs at levels 0 to {len(usages) - 1}"
        if explanation.task.metric:
            low, high = visualize.depth_limits(explanation.depth)
            about = f"{low:.2f} to {high:.2f} m; {about}"
        where = ", ".join(str(path) for path in written)
        return f"{item.label}: {about} -> {where}"

    def _note_shape(self, label: str, picture: tuple[int, int]) -> None:
        """Print a note if a picture is distorted by the requested size."""
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

    def _together(self) -> str:
        """Write the common grid and the numbers of all photos, and return a line about them."""
        from idisc.explain import figures

        report = self.collector.report()
        chosen = {
            level.index: self.selection.idrs_of(level.total["attention"], GRID_IDRS)
            for level in report.levels
            if self.selection.has_level(level.index)
        }
        path = self.folder.figure("idrs", figures.idr_grid(self.shown, chosen))
        numbers = self.folder.path / "idrs.json"
        files.write_json(
            numbers, {"format": configs.FORMAT, **self.folder.about, **report.as_json()}
        )
        return f"all: {path}, {numbers}"
