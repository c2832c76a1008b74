"""`idisc compare`: two networks side by side, as pictures and as numbers on a dataset."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc.cli import options, progress, tables
from idisc.cli.batch import Failures
from idisc.cli.evaluate import show_metrics
from idisc.errors import IdiscWarning, one_line

if TYPE_CHECKING:
    from idisc.evaluate.run import Result
    from idisc.predict.predictor import Predictor
    from idisc.prediction import Prediction
    from idisc.visualize import Picture

SUFFIX = "_compare.png"


@click.command(name="compare")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option(
    "-o", "--out", type=options.PATH, default=Path(), help="Output folder [current folder]"
)
@click.option("--data", type=options.FOLDER, help="Score both networks on this dataset.")
@click.option(
    "--dataset", metavar="NAME", help="Dataset name, as in `idisc evaluate` [from the manifest]"
)
@options.split
@click.option(
    "--protocol",
    type=options.name_in("idisc.evaluate.protocols", "PROTOCOLS", "protocol"),
    metavar="NAME",
    help="Evaluation protocol [paper, or affine if one network is relative]",
)
@click.option(
    "--convention-a", metavar="NAME", help="Convention of A, as in `idisc predict --convention`."
)
@click.option("--convention-b", metavar="NAME", help="Convention of B.")
@options.device
def command(
    first: str,
    second: str,
    pictures: tuple[str, ...],
    out: Path,
    data: Path | None,
    **given: Any,
) -> None:
    """Compare two networks, each a checkpoint folder, an .onnx file or a name from `idisc models`.

    For each PICTURE, NAME_compare.png shows the photo and both depth maps in the same colours.
    With --data, a table lists the metrics of both under the same protocol.
    """
    from idisc.predict.predictor import load

    if not pictures and data is None:
        raise click.UsageError("name pictures, or a dataset with --data")
    pair = (
        load(first, given["device"], convention=given["convention_a"]),
        load(second, given["device"], convention=given["convention_b"]),
    )
    tables.note_models(*(predictor.model for predictor in pair))
    if pictures:
        _draw_all(pair, pictures, out)
    if data is not None:
        _score(pair, data, given["dataset"], given["split"], given["protocol"])


def _draw_all(pair: tuple[Predictor, Predictor], pictures: tuple[str, ...], out: Path) -> None:
    from idisc import files
    from idisc.formats.png import png_bytes
    from idisc.images import read_photo
    from idisc.predict import inputs
    from idisc.provenance_text import record

    found = inputs.find(pictures)
    failures, lines = Failures(found.problems), []
    files.check_writable(out)
    with progress.bar("comparing") as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", IdiscWarning)  # `idisc predict` reports them
        for done, item in enumerate(found.inputs, start=1):
            with failures.recording(item.label):
                photo = read_photo(item.source(), item.path.name if item.path else item.label)
                predictions = pair[0].predict(photo), pair[1].predict(photo)
                path = out / f"{item.name}{SUFFIX}"
                about = dict(zip("ab", map(record, predictions), strict=True))
                with files.atomic(path) as draft:
                    draft.write_bytes(png_bytes(draw(*predictions), about))
                lines.append(f"{item.label}: {_describe_ratio(*predictions)} -> {path}")
            advance(done, len(found.inputs))
    for line in lines:
        click.echo(one_line(line))
    failures.finish(len(lines) + len(failures.errors))


def draw(first: Prediction, second: Prediction) -> Picture:
    """Draw a photo and two depth maps of it, with one range of colours if both are metric."""
    from idisc import visualize
    from idisc.prediction import colour_limits
    from idisc.provenance_text import describe_depth

    shared_limits = None
    panels, captions = [first.image], [visualize.drawable_text(first.provenance.picture)]
    if first.unit == second.unit == "metre":
        shared_limits = colour_limits("metre", first.depth_values, second.depth_values)
        captions[0] += f"; colours: {describe_depth(*shared_limits, 'metre')}"
    for prediction in (first, second):
        limits = colour_limits(prediction.unit, prediction.depth_values)
        panels.append(visualize.depth_picture(prediction.depth_values, *(shared_limits or limits)))
        name = visualize.drawable_text(prediction.provenance.model.name)
        captions.append(f"{name}: {describe_depth(*limits, prediction.unit)}")
    return visualize.side_by_side(panels, captions, height=min(first.size[0], 720))


def _describe_ratio(first: Prediction, second: Prediction) -> str:
    """Return how far the two agree, as a sentence."""
    import numpy as np

    names = f"{first.provenance.model.name}, {second.provenance.model.name}"
    if {first.unit, second.unit} != {"metre"}:
        return f"{names}: relative depth has no metres to compare"
    ratio = np.median(first.metres / second.metres)
    return f"{names}: the first is {ratio:.3g} times the second (median)"


def _score(
    pair: tuple[Predictor, Predictor],
    data: Path,
    dataset: str | None,
    split: str,
    protocol_name: str | None,
) -> None:
    """Print a table of the metrics that both networks have."""
    from idisc.data.dataset import open_dataset
    from idisc.evaluate.protocols import PROTOCOLS
    from idisc.evaluate.run import evaluate
    from idisc.evaluate.tables import TableRow, describe_protocol

    relative = any(predictor.model.unit == "relative" for predictor in pair)
    protocol = PROTOCOLS[protocol_name or ("affine" if relative else "paper")]
    results: dict[str, Result] = {}
    for letter, predictor in zip("AB", pair, strict=True):
        opened = open_dataset(data, dataset, split, task=predictor.engine.task)
        with progress.bar(f"evaluating {letter}") as advance:
            (result,) = evaluate(opened, predictor, [protocol], progress=advance)
        results[f"{letter}: {predictor.model.name}"] = result
    first, second = (result.totals for result in results.values())
    columns = [name for name in first if name in second]
    rows = [TableRow(name, "", result.totals) for name, result in results.items()]
    show_metrics(result, columns, rows)
    tables.paragraph(describe_protocol(result))
