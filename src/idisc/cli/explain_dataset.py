"""The half of `idisc explain` that looks at a dataset: a report on IDRs, and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc import config, files, visualize
from idisc.cli import datasets, progress, tables
from idisc.cli.explain_photos import FigureFolder
from idisc.errors import InputError, counted

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset, Sample
    from idisc.data.framing import SizeRule
    from idisc.evaluate.run import Result
    from idisc.explain.figures import Case
    from idisc.explain.usage import Report
    from idisc.predict.predictor import Predictor
    from idisc.sizes import Size

CASES = 5  # rows of qualitative panels


def common_rule(usual: Size | None, predictors: Sequence[Predictor]) -> SizeRule | None:
    """How `evaluate` shows pictures to the first network, if not at the dataset's usual size.

    All others see them so, too; those that were trained at another size are noted.
    """
    first, *others = predictors
    rule = datasets.size_rule(first.engine, usual)
    for other in others:
        if rule and other.facts.training_size != first.facts.training_size:
            tables.note(
                f"{other.facts.name}: sees pictures as {first.facts.name} does; --size asks for"
                " another"
            )
    return rule


def thin_out(dataset: Dataset, limit: int | None) -> Dataset:
    """The dataset with some of its pictures, evenly spread; None: with all."""
    from idisc.data.dataset import spread_evenly

    some = copy(dataset)
    some.records = [dataset.records[place] for place in spread_evenly(len(dataset), limit or 0)]
    return some


def explain_dataset(
    dataset: Dataset, predictors: Mapping[str, Predictor], saving: FigureFolder
) -> None:
    """The usage report of the first network, and panels of all of them."""
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import evaluate
    from idisc.explain.idrs import explain
    from idisc.explain.usage import Collector
    from idisc.predict.engine import network_of

    for name, predictor in predictors.items():
        datasets.check_task(name, predictor.engine, dataset.spec)
    network, collector = network_of(saving.predictor.engine), Collector()

    def watched(sample: Sample) -> Any:
        size = sample.target.shape[0], sample.target.shape[1]
        try:
            explanation = explain(network, sample.image, size)
        except InputError as error:
            raise InputError(f"{sample.record.image}: {error}") from None
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
    from idisc.explain.usage import COLUMNS, KINDS

    rows = [
        [f"{level.name}, {KINDS[kind]}", *level.row(kind)]
        for level in report.levels
        for kind in level.total
    ]
    title = f"IDRs over {dataset.spec.title}, {counted(len(dataset), 'picture')}"
    tables.show(title, ["maps", *COLUMNS], rows)


def _write_report(report: Report, dataset: Dataset, saving: FigureFolder) -> list[Path]:
    from idisc.explain import figures, usage_page
    from idisc.explain.usage import KINDS

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
    usages = {
        KINDS[kind]: [level.total[kind] for level in report.levels]
        for kind in report.levels[0].total
    }
    heads = [level.name for level in report.levels]
    matrices = saving.figure("likeness", figures.likeness(usages, heads, title))
    return [page, numbers, matrices]


def _panels(
    dataset: Dataset, result: Result, predictors: Mapping[str, Predictor], saving: FigureFolder
) -> list[Path]:
    """Typical pictures, evenly spread over the dataset, and the worst of the first network."""
    from idisc.data.dataset import spread_evenly
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import EnginePredictor, score
    from idisc.evaluate.tables import ranking_metric
    from idisc.explain import figures

    ask = {name: EnginePredictor(predictor.engine) for name, predictor in predictors.items()}

    def case(sample: Sample) -> Case:
        predictions, valid = {}, np.zeros(sample.target.shape[:2], bool)
        for name, predictor in ask.items():
            scored, _ = score(sample, predictor(sample), PROTOCOLS["paper"], dataset.spec, False)
            predictions[name], valid = scored.prediction, scored.valid
        label = Path(sample.record.image).as_posix()
        return figures.Case(label, sample.image, sample.target, valid, predictions)

    chosen = {
        "panels": [case(dataset[index]) for index in spread_evenly(len(dataset), CASES)],
        "worst": [case(each.sample) for each in result.worst[:CASES] if each.row.numbers],
    }
    first, ranked = next(iter(ask)), ranking_metric(result)
    titles = {
        "panels": f"{dataset.spec.title}: pictures evenly spread over it",
        "worst": f"{dataset.spec.title}: the worst pictures of {first}, by {ranked}",
    }
    others = list(predictors.items())[1:]
    beside = {
        f"beside it, {name}": f"{each.facts.name}, {each.facts.sha256}" for name, each in others
    }
    paths = []
    for name, cases in chosen.items():
        if cases:
            normals = cases[0].target.ndim == 3
            targets = [each.target for each in cases]
            limit = visualize.ERROR_LIMIT_DEG
            if not normals:
                limit = visualize.error_limit_m(dataset.spec.domain, *targets)
            paths.append(saving.figure(name, figures.panels(cases, limit, titles[name]), beside))
    return paths
