"""The half of `idisc explain` that looks at photos: figures of each, and a grid of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idisc import config, files, visualize
from idisc.cli import progress, tables
from idisc.cli.batch import Failures
from idisc.errors import IdiscError, InputError

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation
    from idisc.explain.sheets import Grid
    from idisc.explain.usage import Collector, Usage
    from idisc.predict.inputs import Input
    from idisc.predict.predictor import Predictor

GRID_PICTURES, GRID_IDRS, MUTED_IDRS = 6, 3, 5  # of one figure; IDRs for each level


@dataclass(frozen=True)
class Mute:
    """One --mute: IDRs of a level, and how that was typed."""

    text: str
    level: int
    idrs: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """What of the network to look at; empty is all, or what seems worth it."""

    idrs: tuple[int, ...]
    levels: tuple[int, ...]
    mutes: tuple[Mute, ...]

    @property
    def muted(self) -> dict[int, set[int]]:
        """All that is muted, by level."""
        found: dict[int, set[int]] = {}
        for mute in self.mutes:
            found.setdefault(mute.level, set()).update(mute.idrs)
        return found

    def check(self, predictor: Predictor) -> None:
        """Before any work is done: numbers that the network does not have."""
        from idisc.predict.engine import network_of

        model = network_of(predictor.engine).config
        count, last = model.afp.idrs, model.resolutions - 1
        levels = [(f"--level {level}", level) for level in self.levels]
        levels += [(f"--mute {mute.text}", mute.level) for mute in self.mutes]
        for typed, level in levels:
            if not 0 <= level <= last:
                raise InputError(f"{typed}: this network has levels 0 to {last}")
        idrs = [(f"--idrs {idr}", idr) for idr in self.idrs]
        idrs += [(f"--mute {mute.text}", max(mute.idrs)) for mute in self.mutes]
        for typed, idr in idrs:
            if idr >= count:
                raise InputError(f"{typed}: this network has IDRs 0 to {count - 1}")
        for level, muted in self.muted.items():
            if len(muted) == count:
                raise InputError(f"--mute: all {count} IDRs of level {level}; one must be left")

    def of(self, usage: Usage, count: int) -> tuple[int, ...]:
        """The IDRs to show of a level."""
        return self.idrs or tuple(usage.telling(count))


@dataclass(frozen=True)
class FigureFolder:
    """Where figures go, as what, and of which network they are."""

    folder: Path
    suffix: str
    predictor: Predictor

    @property
    def about(self) -> dict[str, str]:
        """What every file says of itself."""
        facts = self.predictor.facts
        return {"model": facts.name, "weights_sha256": facts.sha256, "trained on": facts.data}

    def figure(self, name: str, grid: Grid, beside: Mapping[str, str] | None = None) -> Path:
        """Write one figure; it may say more of itself."""
        from idisc.explain import sheets

        about = {**self.about, **(beside or {})}
        return sheets.save(grid, self.folder / f"{name}.{self.suffix}", about)


class PhotoRun:
    """Photos one after the other; what fails is kept for the summary."""

    def __init__(self, saving: FigureFolder, choice: Choice, size: tuple[int, int] | None) -> None:
        from idisc.explain.usage import Collector

        self.saving, self.choice, self.size = saving, choice, size
        self.collector: Collector = Collector()
        self.shown: list[tuple[str, Explanation]] = []  # pictures of the common grid

    def run(self, items: Sequence[Input], problems: Sequence[str]) -> None:
        """Explain them all, say what was written, and fail if something was not."""
        failures = Failures(problems)
        with progress.bar("explaining") as advance:
            for done, item in enumerate(items, start=1):
                try:
                    click.echo(self._photo(item))
                except IdiscError as error:
                    failures.add(item.label, error)
                advance(done, len(items))
        if self.shown:
            click.echo(self._together())
        failures.finish(len(items) + len(problems))

    def _photo(self, item: Input) -> str:
        """All figures of one photo; a line about them."""
        from idisc.explain.idrs import explain_photo
        from idisc.images import read_photo

        photo = read_photo(item.source(), "stdin" if item.path is None else item.path.name)
        self._note_shape(item.label, photo.size)
        explanation = explain_photo(self.saving.predictor, photo, self.size)
        usages = self.collector.add(item.name, explanation)
        if len(self.shown) < GRID_PICTURES:
            self.shown.append((item.name, explanation))
        written = [
            self.saving.figure(f"{item.name}_{name}", grid)
            for name, grid in self._figures(explanation, usages, photo.name).items()
        ]
        numbers = ", ".join(f"{usage.effective:.1f}" for usage in usages)
        about = f"{numbers} IDRs in effect at levels 0 to {len(usages) - 1}"
        if explanation.prediction.ndim == 2:
            low, high = visualize.depth_limits(explanation.depth)
            about = f"{low:.2f} to {high:.2f} m; {about}"
        where = ", ".join(str(path) for path in written)
        return f"{item.label}: {about} -> {where}"

    def _note_shape(self, label: str, picture: tuple[int, int]) -> None:
        """Say of a picture that it is squeezed into the size that was asked for."""
        from idisc.predict import doubts
        from idisc.predict.predictor import adapted

        if self.size is None:
            return
        if doubt := doubts.of_shape(self.size, picture, adapted(self.size, picture)):
            tables.note(f"{label}: {doubt}")

    def _figures(
        self, explanation: Explanation, usages: Sequence[Usage], name: str
    ) -> dict[str, Grid]:
        from idisc.explain import ablate, figures
        from idisc.explain.usage import KINDS, usage_of

        grids: dict[str, Grid] = {}
        levels = [each for each in explanation.levels if self._wanted(each.index)]
        for level in levels:
            usage = usages[level.index]
            sheet = figures.contact_sheet(explanation, level, usage, name)
            grids[f"idrs_level{level.index}"] = sheet
        grids["partition"] = figures.partition(explanation, name)
        alike = {KINDS["attention"]: list(usages)}
        owned = [level.partition for level in explanation.levels if level.partition is not None]
        if owned:
            alike[KINDS["partition"]] = [usage_of(each) for each in owned]
        grids["likeness"] = figures.likeness(alike, [lev.name for lev in explanation.levels], name)
        alone, without = ablate.alone(explanation), ablate.leave_one_out(explanation)
        grids["levels"] = figures.levels(explanation, alone, without, name)
        for level in levels:
            idrs = self.choice.of(usages[level.index], MUTED_IDRS)
            effects = ablate.mute_each(explanation, level.index, idrs)
            sheet = figures.muting(explanation, level, dict(zip(idrs, effects, strict=True)), name)
            grids[f"muting_level{level.index}"] = sheet
        if self.choice.muted:
            effect = ablate.mute(explanation, self.choice.muted)
            grids["muted"] = figures.muted_together(explanation, effect, name)
        return grids

    def _together(self) -> str:
        """The common grid and the numbers of all photos."""
        from idisc.explain import figures

        report = self.collector.report()
        chosen = {
            level.index: self.choice.of(level.total["attention"], GRID_IDRS)
            for level in report.levels
            if self._wanted(level.index)
        }
        path = self.saving.figure("idrs", figures.idr_grid(self.shown, chosen))
        numbers = self.saving.folder / "idrs.json"
        files.write_json(
            numbers, {"format": config.FORMAT, **self.saving.about, **report.as_json()}
        )
        return f"all: {path}, {numbers}"

    def _wanted(self, level: int) -> bool:
        return not self.choice.levels or level in self.choice.levels
