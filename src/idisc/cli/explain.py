"""`idisc explain`: what the network sees in photos, and how its IDRs do over a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc import config, files, visualize
from idisc.cli import options, progress, tables
from idisc.cli.batch import Failures
from idisc.errors import IdiscError, InputError, require
from idisc.zoo import cards

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset, Sample
    from idisc.evaluate.run import Result
    from idisc.explain.figures import Case
    from idisc.explain.idrs import Explanation
    from idisc.explain.sheets import Grid
    from idisc.explain.usage import Collector, Report, Usage
    from idisc.predict.inputs import Input
    from idisc.predict.predictor import Predictor

Muted = dict[int, set[int]]
GRID_PICTURES, GRID_IDRS, MUTED_IDRS = 6, 3, 5  # of one figure; IDRs for each level
CASES = 5  # rows of qualitative panels


@click.command(name="explain")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option("-o", "--out", type=options.PATH, required=True, help="Folder of the results.")
@click.option(
    "--weights",
    "--model",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Checkpoint folder or name of `idisc models` [the default model]; several with --data.",
)
@click.option("--idrs", metavar="3,7,12", help="Which to show [the strongest that differ]")
@click.option("--level", "levels", type=int, multiple=True, help="0 is the coarsest [all]")
@click.option("--mute", "mutes", multiple=True, metavar="LEVEL:IDR,...", help="Depth without them.")
@click.option(
    "--format",
    "suffix",
    type=click.Choice(["png", "pdf"]),
    default="png",
    show_default=True,
    help="Of the figures; pdf has letters as letters.",
)
@click.option("--data", type=options.FOLDER, help="Explain a dataset instead of pictures.")
@click.option("--dataset", help="Its name, or name:paper [that of the manifest]")
@options.split
@click.option("--limit", type=click.IntRange(min=1), help="Pictures of it, evenly spread [all]")
@click.option("--size", type=options.NetworkSize(), help="Of the picture in the network.")
@options.device
def command(
    pictures: tuple[str, ...],
    out: Path,
    models: tuple[str, ...],
    idrs: str | None,
    levels: tuple[int, ...],
    mutes: tuple[str, ...],
    suffix: str,
    data: Path | None,
    dataset: str | None,
    split: str,
    limit: int | None,
    size: tuple[int, int] | None,
    device: str,
) -> None:
    """Show what the network sees in each PICTURE: its IDRs, its levels, and depth without some.

    Of pictures (files, folders, patterns): for each a sheet of all IDRs of every level, the
    partition, the likeness of maps, depth by level and with single IDRs muted; for all together a
    grid of the same IDRs, and numbers as JSON. With --data, over a dataset: a report on the usage
    of IDRs (HTML and JSON), and panels of picture, ground truth, prediction and error, several
    networks side by side, for typical and for the worst pictures.
    """
    from idisc.predict import inputs

    if bool(pictures) == (data is not None):
        raise click.UsageError("name pictures, or a dataset with --data")
    if data is not None:
        options.refuse("pictures, not for --data", idrs=idrs, level=levels, mute=mutes)
    else:
        options.refuse("--data", dataset=dataset, split=split != "test", limit=limit)
        if len(models) > 1:
            raise click.UsageError("several --weights are for --data; pictures take one")
    choice = Choice(_numbers(idrs, "--idrs"), tuple(sorted(set(levels))), _muted(mutes))
    found = None if data is not None else inputs.find(pictures)
    if suffix == "pdf":
        require("matplotlib", extra="figures")
    opened = None if data is None else _opened(data, dataset, split, size)
    predictors = {name: _open(model, device) for name, model in _named(models).items()}
    saving = Saving(out, suffix, next(iter(predictors.values())))
    if found is not None:
        choice.check(saving.predictor)
        PhotoRun(saving, choice, size).run(found.inputs, found.problems)
    elif opened is not None:
        _explain_dataset(_thinned(opened, limit), predictors, saving)


@dataclass(frozen=True)
class Choice:
    """What of the network to look at; empty is all, or what seems worth it."""

    idrs: tuple[int, ...]
    levels: tuple[int, ...]
    muted: Muted

    def check(self, predictor: Predictor) -> None:
        """Before any work is done: numbers that the network does not have."""
        from idisc.predict.engine import network_of

        model = network_of(predictor.engine).config
        count, last = model.afp.idrs, model.resolutions - 1
        for option, wanted in (("--level", self.levels), ("--mute", self.muted)):
            for level in wanted:
                if not 0 <= level <= last:
                    raise InputError(f"{option} {level}: this network has levels 0 to {last}")
        for option, idrs in (("--idrs", self.idrs), *(("--mute", i) for i in self.muted.values())):
            for idr in idrs:
                if idr >= count:
                    raise InputError(f"{option} {idr}: this network has IDRs 0 to {count - 1}")
            if option == "--mute" and len(idrs) == count:
                raise InputError(f"--mute: all {count} IDRs of a level; one must be left")

    def of(self, usage: Usage, count: int) -> tuple[int, ...]:
        """The IDRs to show of a level."""
        return self.idrs or tuple(usage.telling(count))


@dataclass(frozen=True)
class Saving:
    """Where figures go, and as what."""

    folder: Path
    suffix: str
    predictor: Predictor

    @property
    def about(self) -> dict[str, str]:
        """What every file says of itself."""
        facts = self.predictor.facts
        return {"model": facts.name, "weights_sha256": facts.sha256, "trained on": facts.data}

    def figure(self, name: str, grid: Grid) -> Path:
        """Write one figure."""
        from idisc.explain import sheets

        return sheets.save(grid, self.folder / f"{name}.{self.suffix}", self.about)


class PhotoRun:
    """Photos one after the other; what fails is kept for the summary."""

    def __init__(self, saving: Saving, choice: Choice, size: tuple[int, int] | None) -> None:
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

    def _figures(
        self, explanation: Explanation, usages: Sequence[Usage], name: str
    ) -> dict[str, Grid]:
        from idisc.explain import ablate, figures
        from idisc.explain.usage import usage_of

        grids: dict[str, Grid] = {}
        levels = [each for each in explanation.levels if self._wanted(each.index)]
        for level in levels:
            usage = usages[level.index]
            sheet = figures.contact_sheet(explanation, level, usage, name)
            grids[f"idrs_level{level.index}"] = sheet
        grids["partition"] = figures.partition(explanation, name)
        alike = {"read by ISD": list(usages)}
        owned = [level.partition for level in explanation.levels if level.partition is not None]
        if owned:
            alike["dealt out by AFP"] = [usage_of(each) for each in owned]
        grids["likeness"] = figures.likeness(alike, [lev.name for lev in explanation.levels], name)
        if explanation.prediction.ndim == 3:
            return grids  # metres are what the others show
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


def _explain_dataset(dataset: Dataset, predictors: Mapping[str, Predictor], saving: Saving) -> None:
    """The usage report of the first network, and panels of all of them."""
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import evaluate
    from idisc.explain.idrs import explain
    from idisc.explain.usage import Collector
    from idisc.predict.engine import network_of

    for name, predictor in predictors.items():
        if predictor.engine.task != dataset.spec.task:
            raise InputError(
                f"{name}: predicts {predictor.engine.task}, {dataset.spec.name} holds"
                f" {dataset.spec.task}"
            )
    network, collector = network_of(saving.predictor.engine), Collector()

    def watched(sample: Sample) -> Any:
        size = sample.target.shape[0], sample.target.shape[1]
        explanation = explain(network, sample.image, size)
        if np.isnan(explanation.prediction).any():
            raise InputError(f"{sample.record.image}: {saving.predictor.facts.name} predicts NaN")
        collector.add(sample.record.image, explanation)
        return explanation.prediction

    with progress.bar(f"explaining {dataset.spec.name}") as advance:
        (result,) = evaluate(dataset, watched, [PROTOCOLS["paper"]], progress=advance)
    report = collector.report()
    _print_usage(report, dataset)
    for path in (
        *_write_report(report, dataset, saving),
        *_panels(dataset, result, predictors, saving),
    ):
        click.echo(f"written: {path}")


def _print_usage(report: Report, dataset: Dataset) -> None:
    rows = [
        [
            f"level {level.index}, stride {level.stride}, {kind}",
            *(
                f"{value:.2f}"
                for value in (usage.effective, np.mean(level.pictures[kind]), usage.used)
            ),
            str(len(usage.merged)),
            str(len(usage.idle)),
        ]
        for level in report.levels
        for kind, usage in level.total.items()
    ]
    columns = ["maps", "in effect", "in a picture", "used", "merged", "idle"]
    tables.show(f"IDRs over {dataset.spec.title}, {len(dataset)} pictures", columns, rows)


def _write_report(report: Report, dataset: Dataset, saving: Saving) -> list[Path]:
    from idisc.explain import figures, usage_page

    about = {
        **saving.about,
        "dataset": f"{dataset.spec.title} ({dataset.spec.name}), split {dataset.split}",
        "manifest SHA-256": dataset.source.sha256 or "none",
    }
    page, numbers = saving.folder / "usage.html", saving.folder / "usage.json"
    title = f"{saving.predictor.facts.name} on {dataset.spec.title}"
    with files.atomic(page) as draft:
        draft.write_text(usage_page.page(report, title, about), encoding="utf-8")
    files.write_json(numbers, {"format": config.FORMAT, **about, **report.as_json()})
    names = {"attention": "read by ISD", "partition": "dealt out by AFP"}
    usages = {
        names[kind]: [level.total[kind] for level in report.levels]
        for kind in report.levels[0].total
    }
    heads = [f"level {level.index} (stride {level.stride})" for level in report.levels]
    matrices = saving.figure("likeness", figures.likeness(usages, heads, title))
    return [page, numbers, matrices]


def _panels(
    dataset: Dataset, result: Result, predictors: Mapping[str, Predictor], saving: Saving
) -> list[Path]:
    """Typical pictures, evenly spread over the dataset, and the worst of the first network."""
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import EnginePredictor, score
    from idisc.explain import figures

    ask = {name: EnginePredictor(predictor.engine) for name, predictor in predictors.items()}

    def case(sample: Sample) -> Case:
        predictions, valid = {}, np.zeros(sample.target.shape[:2], bool)
        for name, predictor in ask.items():
            scored, _ = score(sample, predictor(sample), PROTOCOLS["paper"], dataset.spec, False)
            predictions[name], valid = scored.prediction, scored.valid
        label = Path(sample.record.image).as_posix()
        return figures.Case(label, sample.image, sample.target, valid, predictions)

    spread = np.unique(np.linspace(0, len(dataset) - 1, CASES).round().astype(int)).tolist()
    chosen = {
        "panels": [case(dataset[index]) for index in spread],
        "worst": [case(each.sample) for each in result.worst[:CASES] if each.row.numbers],
    }
    titles = {
        "panels": f"{dataset.spec.title}: pictures evenly spread over it",
        "worst": f"{dataset.spec.title}: the worst pictures of {next(iter(ask))}",
    }
    paths = []
    for name, cases in chosen.items():
        if cases:
            normals = cases[0].target.ndim == 3
            targets = [each.target for each in cases]
            limit = visualize.ERROR_LIMIT_DEG
            if not normals:
                limit = visualize.error_limit_m(dataset.spec.domain, *targets)
            paths.append(saving.figure(name, figures.panels(cases, limit, titles[name])))
    return paths


def _open(model: str | None, device: str) -> Predictor:
    """A network with its insides; of a model that ships, its checkpoint."""
    from idisc.predict.engine import network_of, open_model
    from idisc.predict.predictor import Predictor

    engine = open_model(model, device, part=cards.CHECKPOINT)
    network_of(engine)  # says what is wrong with it
    return Predictor(engine)


def _opened(data: Path, dataset: str | None, split: str, size: tuple[int, int] | None) -> Dataset:
    from idisc.cli.evaluate import named_in
    from idisc.data.dataset import open_dataset

    return open_dataset(data, dataset or named_in(data), split, None, size)


def _thinned(dataset: Dataset, limit: int | None) -> Dataset:
    """The dataset, or some of its pictures, evenly spread."""
    if limit is None or limit >= len(dataset):
        return dataset
    some = copy(dataset)
    places = np.linspace(0, len(dataset) - 1, limit).round().astype(int)
    some.records = [dataset.records[place] for place in places]
    return some


def _named(models: Sequence[str]) -> dict[str, str | None]:
    """Networks by what they are called in a figure: their folders, with as much as tells them."""
    if not models:
        return {"default": None}
    for parts in (1, 2):
        names = ["/".join(Path(model).resolve().parts[-parts:]) for model in models]
        if len(set(names)) == len(models):
            return dict(zip(names, models, strict=True))
    return {model: model for model in models}


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    """3,7,12 as numbers, each once, in the order given."""
    if text is None:
        return ()
    if not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", text):
        raise InputError(f"{option} {text}: write numbers of IDRs as 3,7,12")
    return tuple(dict.fromkeys(int(number) for number in text.split(",")))


def _muted(texts: Sequence[str]) -> Muted:
    """LEVEL:IDR,IDR ... by level."""
    found: Muted = {}
    for text in texts:
        level, colon, idrs = text.partition(":")
        if not colon or not level.strip().isdigit():
            raise InputError(f"--mute {text}: write it as LEVEL:IDR, such as 0:3 or 2:3,7")
        found.setdefault(int(level), set()).update(_numbers(idrs, f"--mute {level}:"))
    return found
