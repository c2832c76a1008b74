"""`idisc explain --data`: a report on the usage of IDRs over a dataset, and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from idisc import files
from idisc.cli import progress, tables
from idisc.cli.evaluate import note_network_size
from idisc.cli.explain_photos import FigureFolder
from idisc.errors import InputError, pluralize

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset, Sample
    from idisc.evaluate.run import Result
    from idisc.explain.figures import Comparison
    from idisc.explain.usage import Report
    from idisc.predict.predictor import Predictor

PANELS = 5  # rows of a figure of panels


def fit_size(dataset: Dataset, predictors: Sequence[Predictor]) -> Dataset:
    """Return the dataset at the size that `idisc evaluate` chooses for the first network.

    It holds for all networks, and a note names those that were trained at another size.
    """
    first, *others = predictors
    rule = first.size_rule(dataset)
    if rule is None:
        return dataset
    note_network_size(first, dataset)
    for other in others:
        if other.model.training_size != first.model.training_size:
            tables.note(
                f"{other.model.name}: uses the picture size of {first.model.name}; --size selects"
                " another"
            )
    return dataset.at_network_size(rule)


def thin_out(dataset: Dataset, limit: int | None) -> Dataset:
    """Return the dataset with `limit` evenly spaced pictures; None: with all."""
    from idisc.data.dataset import evenly_spaced

    thinned = copy(dataset)
    kept = evenly_spaced(len(dataset), limit or 0)
    thinned.records = [dataset.records[index] for index in kept]
    return thinned


def explain_dataset(
    dataset: Dataset, predictors: Mapping[str, Predictor], folder: FigureFolder
) -> None:
    """Write the usage report of the first network, and panels of all networks."""
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import check_task, evaluate
    from idisc.explain.idrs import explain
    from idisc.explain.usage import Collector
    from idisc.predict.open import network_of

    for name, predictor in predictors.items():
        check_task(name, predictor.engine.task, dataset.spec)
    first = folder.predictor
    network, collector = network_of(first.engine), Collector()

    def collect(sample: Sample) -> Any:
        size = sample.target.shape[0], sample.target.shape[1]
        try:
            explanation = explain(network, sample.image, size)
        except InputError as error:
            raise error.within(sample.record.image) from None
        collector.add(sample.record.image, explanation)
        return explanation.prediction * np.float32(first.camera_factor(sample.camera))

    with progress.bar(f"explaining {dataset.spec.name}") as advance:
        (result,) = evaluate(dataset, collect, [PROTOCOLS["paper"]], progress=advance)
    report = collector.report()
    _print_usage(report, dataset)
    with progress.elapsed("drawing"):
        written = _write_report(report, dataset, folder)
        written += _panels(dataset, result, predictors, folder)
    for path in written:
        click.echo(f"written: {path}")


def _print_usage(report: Report, dataset: Dataset) -> None:
    from idisc.explain.usage import COLUMNS, KINDS

    rows = [
        [f"{level.name}, {KINDS[kind]}", *level.row(kind)]
        for level in report.levels
        for kind in level.total
    ]
    title = f"IDRs over {dataset.spec.title}, {pluralize(len(dataset), 'picture')}"
    tables.show(title, ["maps", *COLUMNS], rows)


def _write_report(report: Report, dataset: Dataset, folder: FigureFolder) -> list[Path]:
    from idisc.explain import figures, usage_page

    about = {
        **folder.about,
        "dataset": f"{dataset.spec.title} ({dataset.spec.name}), split {dataset.split}",
        "licence of the dataset": dataset.spec.licence,
        "manifest SHA-256": dataset.source.sha256 or "none",
    }
    title = f"{folder.predictor.model.name} on {dataset.spec.title}"
    page = folder.path / "usage.html"
    with files.atomic(page) as draft:
        draft.write_text(usage_page.page(report, title, about), encoding="utf-8")
    numbers = folder.save_report("usage", report, about)
    matrices = folder.save_figure("similarity", figures.similarity(report.levels, title))
    return [page, numbers, matrices]


def _panels(
    dataset: Dataset, result: Result, predictors: Mapping[str, Predictor], folder: FigureFolder
) -> list[Path]:
    """Write panels of evenly spaced pictures, and of the worst pictures of the first network."""
    from idisc.data.dataset import evenly_spaced
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import predict_sample
    from idisc.evaluate.scoring import score
    from idisc.evaluate.tables import ranking_metric
    from idisc.explain import figures

    def compare(sample: Sample) -> Comparison:
        predictions, valid = {}, np.zeros(sample.target.shape[:2], bool)
        for name, predictor in predictors.items():
            prediction = predict_sample(predictor, sample).maps
            scored, _ = score(sample, prediction, PROTOCOLS["paper"], dataset.spec)
            predictions[name], valid = scored.prediction, scored.valid
        label = Path(sample.record.image).as_posix()
        return figures.Comparison(label, sample.image, sample.target, valid, predictions)

    first, *others = predictors
    metric = ranking_metric(result)
    comparisons = {
        "panels": [compare(dataset[index]) for index in evenly_spaced(len(dataset), PANELS)],
        "worst": [compare(ranked.sample) for ranked in result.worst[:PANELS] if ranked.row.numbers],
    }
    titles = {
        "panels": f"{dataset.spec.title}: evenly spaced pictures",
        "worst": f"{dataset.spec.title}: the worst pictures of {first}, by {metric}",
    }
    models = {name: predictors[name].model for name in others}
    about = {
        f"other network, {name}": f"{model.name}, {model.sha256}" for name, model in models.items()
    }
    paths, task = [], dataset.spec.task
    for name, rows in comparisons.items():
        if rows:
            limit = task.error_limit(dataset.spec.domain, *(row.target for row in rows))
            grid = figures.panels(rows, limit, titles[name], task)
            paths.append(folder.save_figure(name, grid, about))
    return paths
