"""`idisc evaluate`: score a network, an exported file or files of predictions by a protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from idisc import configs, files
from idisc.cli import clusters, options, progress, tables
from idisc.data import folder
from idisc.errors import InputError, one_line, pluralize

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset
    from idisc.evaluate.protocols import Protocol
    from idisc.evaluate.run import Result
    from idisc.predict.predictor import Predictor


@click.command(name="evaluate")
@options.model
@options.convention
@click.option("--onnx", type=options.PATH, help="Exported ONNX file, instead of --weights.")
@click.option(
    "--predictions",
    type=options.PATH,
    help="Folder of PNG, NPY or NPZ files, named after the pictures.",
)
@click.option("--data", type=options.FOLDER, help="Folder made by `idisc prepare`, or your own.")
@click.option("--dataset", help="Dataset name, name:paper or name:normals [from the manifest]")
@click.option(
    "--list", "listing", type=options.PATH, help="Published list of paths relative to --data."
)
@options.split
@click.option(
    "--protocol",
    "names",
    type=options.Name("idisc.evaluate.protocols", "PROTOCOLS", "protocol"),
    multiple=True,
    default=["paper"],
    show_default=True,
    help="Evaluation protocol; repeat it to score the same predictions under several.",
)
@click.option(
    "--scale",
    type=float,
    help="Metres per unit of stored predictions, e.g. 0.001 [1 for arrays of floats]",
)
@click.option(
    "--fit",
    type=click.Choice(["error", "resize"]),
    default="error",
    show_default=True,
    help="Predictions of another size: report an error, or resize them.",
)
@click.option(
    "--holes",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Predicted pixels that are 0 or NaN: report an error, or skip them.",
)
@click.option("--clouds", is_flag=True, help="Add F1 and chamfer distance of point clouds.")
@click.option("--boundaries", is_flag=True, help="Add F1 of depth edges, for exact ground truth.")
@click.option(
    "--size",
    type=options.NetworkSize(),
    help="Size of the picture in the network [as in training, or the dataset's]",
)
@options.device
@options.precision
@clusters.cluster
@click.option(
    "--out", type=options.PATH, help="New folder for report.html, report.json, images.csv."
)
@click.option(
    "--kitti-submission",
    "benchmark",
    type=options.FOLDER,
    help="Predict the pictures of KITTI's benchmark into --out and zip them; nothing is scored.",
)
@options.changes
def command(
    model: str | None,
    convention: str | None,
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
    cluster: str | None,
    out: Path | None,
    benchmark: Path | None,
    changes: tuple[str, ...],
) -> None:
    """Score predictions on a dataset and compare them with the numbers of the paper.

    --set changes a field of the protocol: averaging=pixel, window=full_frame, eigen or garg,
    cap=none, clamp=true, rescale=median, batch_size=4. The result is named after the changes.
    """
    from idisc.data.dataset import open_dataset
    from idisc.evaluate.predictions import PredictionFiles, Reading
    from idisc.evaluate.run import evaluate
    from idisc.evaluate.scoring import Extras
    from idisc.predict.predictor import load

    source: Predictor | PredictionFiles
    _check(click.get_current_context().params)
    protocols = [_protocol(name, changes) for name in dict.fromkeys(names)]
    opening = partial(load, onnx or model, device, precision, convention)
    if benchmark and out:
        source = opening()
        tables.note_terms(source.model)
        _submit(source, benchmark, out)
        return
    if data is None:
        raise click.UsageError("--data, the folder of the dataset, is needed")
    if predictions is None:
        source = opening()
        tables.note_terms(source.model)
        if source.engine.convention:
            name = source.engine.convention.name
            options.refuse(f"networks of this package; the convention {name} has a size", size=size)
        opened = open_dataset(data, dataset, split, listing, size, source.engine.task)
        note_size(source, opened)
    else:
        opened = open_dataset(data, dataset, split, listing)
        reading = Reading(scale=scale, fit=fit, holes=holes, task=opened.spec.task)
        source = PredictionFiles(predictions, opened.records, reading)
    _note_source(opened)
    extras = Extras(clouds=clouds, boundaries=boundaries)
    with (
        clusters.executor_of(cluster, None) as executor,
        progress.bar(f"evaluating {opened.spec.name}") as advance,
    ):
        place = executor if cluster else None  # None also reads ahead
        results = evaluate(
            opened, source, protocols, extras=extras, executor=place, progress=advance
        )
    _tell(results, out)


def note_size(predictor: Predictor, dataset: Dataset) -> None:
    """Print a note if a network sees a dataset at another size than the dataset's own."""
    if not dataset.has_own_size and predictor.size_rule(dataset.spec.size):
        tables.note(
            f"{predictor.model.name}: sees pictures at {predictor.usual_size()};"
            " --size asks for another"
        )


def _check(params: Mapping[str, Any]) -> None:
    """Raise UsageError for options that exclude each other, or would have no effect."""
    usual = {"device": "cpu", "fit": "error", "holes": "error", "split": "test"}
    given = {name: None if value == usual.get(name) else value for name, value in params.items()}
    given["names"] = None if given["names"] == ("paper",) else given["names"]
    if sum(given[source] is not None for source in ("model", "onnx", "predictions")) > 1:
        raise click.UsageError("only one of --weights, --onnx and --predictions can be scored")
    kind, unused = "networks", ["device", "precision", "size", "convention", "cluster"]
    if given["predictions"] is None:
        kind, unused = "--predictions", ["scale", "fit", "holes"]
    options.refuse(kind, **{name: given[name] for name in unused})
    if given["out"]:
        files.check_new_folder(given["out"])
    if given["benchmark"] is None:
        return
    if given["predictions"] is not None or given["out"] is None:
        raise click.UsageError("--kitti-submission needs a network and --out")
    named = {"list": given["listing"], "protocol": given["names"], "set": given["changes"]}
    scoring = ("data", "dataset", "clouds", "boundaries", "size", "split", "cluster")
    named |= {name: given[name] for name in scoring}
    options.refuse("scoring, not for --kitti-submission", **named)


def _protocol(name: str, changes: tuple[str, ...]) -> Protocol:
    from idisc.evaluate.protocols import PROTOCOLS, changed

    for change in changes:
        if change.partition("=")[0].strip() in ("name", "source"):
            raise InputError(f"--set {change}", "a protocol is named after its changes")
    protocol = PROTOCOLS[name]
    return changed(protocol, configs.override(protocol, changes))


def _note_source(dataset: Dataset) -> None:
    """Print which list of pictures was used, and what it lacks or repeats."""
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


def _tell(results: Sequence[Result], out: Path | None) -> None:
    """Print the results, and write reports if there is a folder for them."""
    from idisc.evaluate.tables import describe_hint, describe_sources

    for result in results:
        _print(result)
    first = results[0]
    if first.model and first.model.non_commercial:
        for title, values in describe_sources(first).items():
            texts = "; ".join(f"{name}: {text}" for name, text in values.items())
            tables.paragraph(one_line(f"{title}. {texts}."))
    if resized := first.about.get("resized"):
        tables.note(f"predictions of another size, by their aspect: {resized}")
    if first.unit_hint:
        tables.note(describe_hint(first.unit_hint))
    if out is None:
        return
    from idisc.evaluate import report

    for result in results:  # in a folder of its own if there are several
        name = re.sub(r"[^\w.-]+", "-", result.protocol.name)
        place = out if len(results) == 1 else out / name
        report.write(result, place)
        click.echo(f"report: {place / report.HTML}")


def _submit(predictor: Predictor, images: Path, out: Path) -> None:
    """Predict the pictures of KITTI's benchmark into a new folder, with the zip to upload."""
    from idisc.evaluate import kitti_benchmark

    with progress.bar("predicting") as advance:
        count = kitti_benchmark.write_submission(predictor, images, out, advance)
    if count != kitti_benchmark.PICTURES:
        tables.note(
            f"{images}: {pluralize(count, 'picture')}; the benchmark has {kitti_benchmark.PICTURES}"
        )
    click.echo(f"submission: {out / kitti_benchmark.ARCHIVE}, {pluralize(count, 'picture')}")


def _print(result: Result) -> None:
    from idisc.evaluate import tables as texts
    from idisc.evaluate.tables import format_value

    columns, rows = texts.compare_with_paper(result)
    tables.show(
        f"{result.spec.title}, {texts.describe_pictures(result)}; protocol {result.protocol.name}",
        ["", *columns],
        [
            [row.name, *(format_value(name, row.numbers.get(name)) for name in columns)]
            for row in rows
        ],
        {row.name: row.note for row in rows},
    )
    for name in dict.fromkeys([*texts.headline(result), *result.totals]):
        low, high = result.intervals.get(name, (None, None))
        ends = f"[{format_value(name, low)}, {format_value(name, high)}]" if low is not None else ""
        value = format_value(name, result.totals[name], unit=True)
        click.echo(f"  {name:<16}{value:>12}  {ends}")
    if result.calibration:
        tables.paragraph(texts.describe_calibration(result.calibration))
    if ratio := texts.describe_ratio(result):
        tables.paragraph(ratio)
    tables.paragraph(
        f"{texts.describe_protocol(result)} 95 % intervals by bootstrap over pictures."
    )
