"""`idisc evaluate`: a network, an exported file or anybody's predictions, scored by a protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from idisc import config, files
from idisc.cli import datasets, options, progress, tables
from idisc.data import catalog, folder
from idisc.errors import InputError, pluralize

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset
    from idisc.evaluate.protocols import Protocol
    from idisc.evaluate.run import EnginePredictor, Result
    from idisc.predict.engine import Engine


_ANOTHER_UNIT = 100.0  # times the ground truth, or a part of it: no network is so wrong


@click.command(name="evaluate")
@options.model
@click.option("--onnx", type=options.PATH, help="As --weights, of an exported file.")
@click.option("--predictions", type=options.PATH, help="Folder of PNG, NPY or NPZ by name.")
@click.option("--data", type=options.FOLDER, help="Folder made by `idisc prepare`, or your own.")
@click.option("--dataset", help="Name, name:paper or name:normals [that of the manifest]")
@click.option(
    "--list", "listing", type=options.PATH, help="Published list file; its paths are below --data."
)
@options.split
@click.option(
    "--protocol",
    "names",
    type=options.Name("idisc.evaluate.protocols", "PROTOCOLS", "protocol"),
    multiple=True,
    default=["paper"],
    show_default=True,
    help="Give it twice to see the same predictions under two.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    help="Metres of one unit of a prediction, e.g. 0.001; arrays of floats are metres without it.",
)
@click.option(
    "--fit",
    type=click.Choice(["error", "resize"]),
    default="error",
    show_default=True,
    help="Predictions of another size: refuse, or stretch by their aspect.",
)
@click.option(
    "--holes",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Predicted pixels of 0 or NaN: refuse or leave out.",
)
@click.option("--clouds", is_flag=True, help="Also F1 and chamfer distance of point clouds.")
@click.option("--boundaries", is_flag=True, help="Also F1 of depth edges, for exact depth.")
@click.option(
    "--size",
    type=options.NetworkSize(),
    help="Of the picture in the network [as in training, or the dataset's]",
)
@options.device
@options.precision
@click.option(
    "--out", type=options.PATH, help="New folder for report.html, report.json, images.csv."
)
@click.option(
    "--kitti-submission",
    "benchmark",
    type=options.FOLDER,
    help="Pictures of KITTI's benchmark, to be predicted into --out and zipped; nothing is scored.",
)
@options.changes
def command(
    model: str | None,
    onnx: Path | None,
    predictions: Path | None,
    data: Path | None,
    dataset: str | None,
    listing: Path | None,
    split: str,
    names: tuple[str, ...],
    scale: float | None,
    fit: Literal["error", "resize"],
    holes: Literal["error", "skip"],
    clouds: bool,
    boundaries: bool,
    size: tuple[int, int] | None,
    device: str,
    precision: Any,
    out: Path | None,
    benchmark: Path | None,
    changes: tuple[str, ...],
) -> None:
    """Score predictions on a dataset and set them beside the paper's numbers.

    --set changes a field of the protocol: averaging=pixel, window=full_frame, eigen or garg,
    cap=none, clamp=true, rescale=median, batch_size=4. The result is named after the changes.
    """
    from idisc.data.dataset import open_dataset
    from idisc.evaluate.predictions import PredictionFiles, Reading
    from idisc.evaluate.run import Extras, evaluate
    from idisc.predict.open import open_model

    _check(click.get_current_context().params)
    opening = partial(open_model, onnx or model, device, precision)
    if out:
        files.check_new_folder(out)
    if benchmark is not None and out is not None:
        _submit(opening(), benchmark, out)
        return
    if data is None:
        raise click.UsageError("--data, the folder of the dataset, is needed")
    protocols = [_protocol(name, changes) for name in dict.fromkeys(names)]
    name = dataset or datasets.named_in(data)
    engine = opening() if predictions is None else None
    if engine is not None:
        name = catalog.name_for_task(name, engine.task)
    reopen = partial(open_dataset, data, name, split, listing)
    opened = reopen(size)
    predictor: PredictionFiles | EnginePredictor
    if predictions is not None:
        reading = Reading(scale=scale, fit=fit, holes=holes, task=opened.spec.task)
        predictor = PredictionFiles(predictions, opened.records, reading)
    elif engine is not None:
        predictor = _network(engine, opened)
        if size is None and (rule := datasets.size_rule(engine, opened.spec.size)):
            opened = reopen(rule)
    extras = Extras(clouds=clouds, boundaries=boundaries)
    _note_source(opened)
    with progress.bar(f"evaluating {opened.spec.name}") as advance:
        results = evaluate(opened, predictor, protocols, extras=extras, progress=advance)
    about = predictor.about()
    _tell([replace(result, about=about) for result in results], out)


def _check(given: Mapping[str, Any]) -> None:
    """UsageError for options that exclude each other, or would do nothing."""
    other_than = {
        name: given[name] != usual
        for name, usual in {
            "device": "cpu",
            "fit": "error",
            "holes": "error",
            "split": "test",
            "names": ("paper",),
        }.items()
    }
    if sum(given[source] is not None for source in ("model", "onnx", "predictions")) > 1:
        raise click.UsageError("only one of --weights, --onnx and --predictions can be scored")
    if given["predictions"] is None:
        changed = {name: other_than[name] for name in ("fit", "holes")}
        options.refuse("--predictions", scale=given["scale"], **changed)
    else:
        own = {name: given[name] for name in ("precision", "size")}
        options.refuse("networks", device=other_than["device"], **own)
    if given["benchmark"] is None:
        return
    if given["predictions"] is not None or given["out"] is None:
        raise click.UsageError("--kitti-submission needs a network and --out")
    options.refuse(
        "scoring, not for --kitti-submission",
        **{name: given[name] for name in ("data", "dataset", "clouds", "boundaries", "size")},
        list=given["listing"],
        split=other_than["split"],
        protocol=other_than["names"],
        set=given["changes"],
    )


def _protocol(name: str, changes: tuple[str, ...]) -> Protocol:
    from idisc.evaluate.protocols import PROTOCOLS, changed

    for change in changes:
        if change.partition("=")[0].strip() in ("name", "source"):
            raise InputError(f"--set {change}", "a protocol is named after what was changed of it")
    protocol = PROTOCOLS[name]
    return changed(protocol, config.override(protocol, changes))


def _network(engine: Engine, dataset: Dataset) -> EnginePredictor:
    from idisc.evaluate.run import EnginePredictor

    datasets.check_task(engine.name, engine, dataset.spec)
    return EnginePredictor(engine)


def _note_source(dataset: Dataset) -> None:
    """What a file that lists the pictures was found to be, or to lack."""
    prepared = dataset.source.prepared
    if prepared.get("from") == folder.LIST:
        tables.note(f"{dataset.source.root}: pairs are those of {folder.LIST}")
    if missing := prepared.get("missing"):
        tables.note(
            f"{prepared['list']}: {len(missing)} lines without their files left out,"
            f" first {missing[0]}"
        )
    if repeated := prepared.get("repeated"):
        tables.note(
            f"{dataset.source.root}: {pluralize(len(repeated), 'pair')} named more than once, each"
            f" counts once, first {repeated[0]}"
        )


def _note_doubts(result: Result) -> None:
    """What was done to predictions of another size, and a unit that cannot be."""
    if resized := result.about.get("resized"):
        tables.note(f"predictions of another size, by their aspect: {resized}")
    if not 1 / _ANOTHER_UNIT < result.ratio < _ANOTHER_UNIT:
        tables.note(
            f"predictions are {result.ratio:.3g} times the ground truth: another unit?"
            " --scale says the metres of one, 0.001 for millimetres"
        )


def _tell(results: Sequence[Result], out: Path | None) -> None:
    """On the screen, and in a folder if there is one."""
    for result in results:
        _print(result)
    _note_doubts(results[0])
    if out:
        _write(results, out)


def _write(results: Sequence[Result], out: Path) -> None:
    """A report of each result, in folders of their own if there are several."""
    from idisc.evaluate import report

    for result in results:
        name = re.sub(r"[^\w.-]+", "-", result.protocol.name)
        place = out if len(results) == 1 else out / name
        report.write(result, place)
        click.echo(f"report: {place / report.HTML}")


def _submit(engine: Engine, images: Path, out: Path) -> None:
    """Predict the pictures of KITTI's benchmark into a new folder, with the zip to upload."""
    from idisc.evaluate import kitti_benchmark

    with progress.bar("predicting") as advance:
        count = kitti_benchmark.write_submission(engine, images, out, advance)
    if count != kitti_benchmark.PICTURES:
        tables.note(
            f"{images}: {pluralize(count, 'picture')}; the benchmark has {kitti_benchmark.PICTURES}"
        )
    click.echo(f"submission: {out / kitti_benchmark.ARCHIVE}, {pluralize(count, 'picture')}")


def _print(result: Result) -> None:
    from idisc.evaluate.tables import headline, measured, rows_beside_paper, scored, text

    spec, protocol = result.spec, result.protocol
    columns, rows = rows_beside_paper(result)
    tables.show(
        f"{spec.title}, {scored(result)}; protocol {protocol.name}",
        ["", *columns],
        [
            [row.name, *(text(name, v) for name, v in zip(columns, row.values, strict=True))]
            for row in rows
        ],
        {row.name: row.note for row in rows},
    )
    for name in dict.fromkeys([*headline(result), *result.totals]):
        low, high = result.intervals.get(name, (None, None))
        interval = f"[{text(name, low)}, {text(name, high)}]" if low is not None else ""
        click.echo(f"  {name:<16}{text(name, result.totals[name], unit=True):>12}  {interval}")
    if result.calibration:
        tables.paragraph(f"Spread: {result.calibration}. No error bound.")
    tables.paragraph(f"{measured(result)} 95 % intervals by bootstrap over pictures.")
