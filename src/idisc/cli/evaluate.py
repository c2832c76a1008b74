"""`idisc evaluate`: score a network, an exported file or files of predictions by a protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc import configs, files
from idisc.cli import clusters, options, progress, tables
from idisc.data import folder
from idisc.errors import InputError, one_line, pluralize

if TYPE_CHECKING:
    from idisc.data.dataset import Dataset
    from idisc.evaluate.predictions import PredictionFiles
    from idisc.evaluate.protocols import Protocol
    from idisc.evaluate.run import Result
    from idisc.evaluate.tables import TableRow
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
@click.option(
    "--dataset", metavar="NAME", help="Dataset name, name:paper or name:normals [from the manifest]"
)
@click.option(
    "--list", "listing", type=options.PATH, help="Published list of paths relative to --data."
)
@options.split
@click.option(
    "--protocol",
    "protocols",
    type=options.name_in("idisc.evaluate.protocols", "PROTOCOLS", "protocol"),
    metavar="NAME",
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
    help="Predictions of another size: report an error or resize them.",
)
@click.option(
    "--holes",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Predicted pixels that are 0 or NaN: report an error or skip them.",
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
    data: Path | None,
    protocols: tuple[str, ...],
    changes: tuple[str, ...],
    out: Path | None,
    benchmark: Path | None,
    **given: Any,
) -> None:
    """Score predictions on a dataset and compare them with the numbers of the paper.

    --set changes a field of the protocol: averaging=pixel, window=full_frame, eigen or garg,
    cap=none, clamp=true, rescale=median, batch_size=4. The result is named after the changes.
    """
    _check(click.get_current_context().params)
    changed = [_protocol(name, changes) for name in dict.fromkeys(protocols)]
    if benchmark and out:
        _write_submission(_open_network(given), benchmark, out)
        return
    if data is None:
        raise click.UsageError("--data, the folder of the dataset, is needed")
    dataset, source = _open(data, given)
    _note_list(dataset)
    results = _evaluate(dataset, source, changed, given)
    for result in results:
        _print_result(result)
    _print_notes(results[0])
    if out is not None:
        _write_reports(results, out)


def _check(params: Mapping[str, Any]) -> None:
    """Raise UsageError for options that exclude each other, or would have no effect."""
    defaults = {
        "device": "cpu",
        "fit": "error",
        "holes": "error",
        "split": "test",
        "protocols": ("paper",),
    }
    given = {name: None if value == defaults.get(name) else value for name, value in params.items()}
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
    scoring = ("data", "dataset", "clouds", "boundaries", "size", "split", "cluster")
    named = {"list": given["listing"], "protocol": given["protocols"], "set": given["changes"]}
    named |= {name: given[name] for name in scoring}
    options.refuse("scoring, not for --kitti-submission", **named)


def _protocol(name: str, changes: tuple[str, ...]) -> Protocol:
    from idisc.evaluate.protocols import PROTOCOLS, changed

    for change in changes:
        if change.partition("=")[0].strip() in ("name", "source"):
            raise InputError(f"--set {change}", "a protocol is named after its changes")
    protocol = PROTOCOLS[name]
    return changed(protocol, configs.override(protocol, changes))


def _open_network(given: Mapping[str, Any]) -> Predictor:
    from idisc.predict.predictor import load

    model = given["onnx"] or given["model"]
    predictor = load(model, given["device"], given["precision"], given["convention"])
    tables.note_models(predictor.model)
    return predictor


def _open(
    data: Path, given: Mapping[str, Any]
) -> tuple[Dataset, Predictor] | tuple[Dataset, PredictionFiles]:
    """Open the dataset, and the network or the files of predictions."""
    from idisc.data.dataset import open_dataset
    from idisc.evaluate.predictions import PredictionFiles, Reading

    name, split, listing = given["dataset"], given["split"], given["listing"]
    if given["predictions"] is not None:
        dataset = open_dataset(data, name, split, listing)
        reading = Reading(
            scale=given["scale"], fit=given["fit"], holes=given["holes"], task=dataset.spec.task
        )
        return dataset, PredictionFiles(given["predictions"], dataset.records, reading)
    predictor, size = _open_network(given), given["size"]
    if predictor.engine.convention:
        kind = f"networks of this package; the convention {predictor.engine.convention.name}"
        options.refuse(f"{kind} has a size", size=size)
    dataset = open_dataset(data, name, split, listing, size, predictor.engine.task)
    note_network_size(predictor, dataset)
    return dataset, predictor


def note_network_size(predictor: Predictor, dataset: Dataset) -> None:
    """Print a note if a network sees a dataset at another size than the dataset's own."""
    if predictor.size_rule(dataset):
        tables.note(
            f"{predictor.model.name}: sees pictures at {predictor.describe_network_size()};"
            " --size asks for another"
        )


def _note_list(dataset: Dataset) -> None:
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


def _evaluate(
    dataset: Dataset,
    source: Predictor | PredictionFiles,
    protocols: Sequence[Protocol],
    given: Mapping[str, Any],
) -> list[Result]:
    from idisc.evaluate.run import evaluate
    from idisc.evaluate.scoring import Extras

    cluster = given["cluster"]
    with (
        clusters.executor_of(cluster, None) as executor,
        progress.bar(f"evaluating {dataset.spec.name}") as advance,
    ):
        return evaluate(
            dataset,
            source,
            protocols,
            extras=Extras(clouds=given["clouds"], boundaries=given["boundaries"]),
            executor=executor if cluster else None,  # None also reads ahead
            progress=advance,
        )


def _print_notes(result: Result) -> None:
    """Print the terms of a non-commercial model, and notes about the size and unit of files."""
    from idisc.evaluate.tables import describe_hint, describe_sources

    if result.model and result.model.non_commercial:
        for title, values in describe_sources(result).items():
            texts = "; ".join(f"{name}: {text}" for name, text in values.items())
            tables.paragraph(one_line(f"{title}. {texts}."))
    if resized := result.about.get("resized"):
        tables.note(f"predictions of another size, by their aspect: {resized}")
    if result.unit_hint:
        tables.note(describe_hint(result.unit_hint))


def _write_reports(results: Sequence[Result], out: Path) -> None:
    """Write a report for each result, in a folder of its own if there are several."""
    from idisc.evaluate import report

    for result in results:
        name = re.sub(r"[^\w.-]+", "-", result.protocol.name)
        place = out if len(results) == 1 else out / name
        report.write(result, place)
        click.echo(f"report: {place / report.HTML}")


def _write_submission(predictor: Predictor, images: Path, out: Path) -> None:
    """Predict the pictures of KITTI's benchmark into a new folder, with the zip to upload."""
    from idisc.evaluate import kitti_benchmark

    with progress.bar("predicting") as advance:
        count = kitti_benchmark.write_submission(predictor, images, out, advance)
    if count != kitti_benchmark.PICTURES:
        tables.note(
            f"{images}: {pluralize(count, 'picture')}; the benchmark has {kitti_benchmark.PICTURES}"
        )
    click.echo(f"submission: {out / kitti_benchmark.ARCHIVE}, {pluralize(count, 'picture')}")


def _print_result(result: Result) -> None:
    from idisc.evaluate import tables as texts

    columns, rows = texts.compare_with_paper(result)
    show_metrics(result, columns, rows)
    for name in dict.fromkeys([*texts.headline(result), *result.totals]):
        interval = [texts.format_value(name, end) for end in result.intervals.get(name, ())]
        ends = f"[{', '.join(interval)}]" if interval else ""
        value = texts.format_value(name, result.totals[name], unit=True)
        click.echo(f"  {name:<16}{value:>12}  {ends}")
    if result.calibration:
        tables.paragraph(texts.describe_calibration(result.calibration))
    if ratio := texts.describe_ratio(result):
        tables.paragraph(ratio)
    tables.paragraph(
        f"{texts.describe_protocol(result)} 95 % intervals by bootstrap over pictures."
    )


def show_metrics(result: Result, columns: Sequence[str], rows: Sequence[TableRow]) -> None:
    """Print a table of metrics; dataset, pictures and protocol are those of the result."""
    from idisc.evaluate.tables import describe_pictures, format_value

    tables.show(
        f"{result.spec.title}, {describe_pictures(result)}; protocol {result.protocol.name}",
        ["", *columns],
        [
            [row.name, *(format_value(name, row.numbers.get(name)) for name in columns)]
            for row in rows
        ],
        {row.name: row.note for row in rows},
    )
