"""`idisc explain`: figures of the internal representations of a network, and their usage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idisc.cli import options, tables
from idisc.cli.explain_dataset import explain_dataset, fit_size, thin_out
from idisc.cli.explain_photos import ExplanationRun, FigureFolder, Selection
from idisc.errors import InputError, require

if TYPE_CHECKING:
    from idisc.predict.predictor import Predictor

_NUMBERS = r"\s*\d+(\s*,\s*\d+)*\s*"  # of IDRs


@click.command(name="explain")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option("-o", "--out", type=options.PATH, required=True, help="Folder for the results.")
@click.option(
    "--weights",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Checkpoint folder or name from `idisc models` [the default model]; with --data, repeat it"
    " to add networks to the panels; the report is about the first.",
)
@click.option("--idrs", metavar="3,7,12", help="IDRs to show [those with large, different maps]")
@click.option("--level", "levels", type=int, multiple=True, help="Level; 0 is the coarsest [all]")
@click.option(
    "--mute",
    "mutes",
    multiple=True,
    metavar="LEVEL:IDR,...",
    help="IDRs of a level to mute; repeat it for other levels: --mute 0:3,7 --mute 2:5.",
)
@click.option(
    "--format",
    "suffix",
    type=click.Choice(["png", "pdf"]),
    default="png",
    show_default=True,
    help="File format of the figures; the text of PDF files can be searched.",
)
@click.option("--data", type=options.FOLDER, help="Explain a dataset instead of pictures.")
@click.option(
    "--dataset", metavar="NAME", help="Name of the dataset, or name:paper [from the manifest]"
)
@options.split
@click.option("--limit", type=click.IntRange(min=1), help="Number of pictures, evenly spaced [all]")
@click.option("--size", type=options.NetworkSize(), help="Size of the picture in the network.")
@options.device
def command(pictures: tuple[str, ...], **given: Any) -> None:
    """Show the IDRs and the levels of a network, and its predictions without some of them.

    A PICTURE is a file, a folder, a pattern, or - for stdin. For each one, figures show the maps of
    all IDRs at every level, the partition, the similarity of the maps, the prediction of each
    level, and the prediction with single IDRs muted. A grid compares the same IDRs over all
    pictures, and a JSON file contains the numbers. With --data, a report (HTML and JSON) describes
    how the first network uses its IDRs over a dataset, and panels show picture, ground truth,
    prediction and error of all networks for evenly spaced and for the worst pictures.
    """
    if bool(pictures) == (given["data"] is not None):
        raise click.UsageError("name pictures, or a dataset with --data")
    if pictures:
        _explain_pictures(pictures, given)
    else:
        _explain_data(given)


def _explain_pictures(pictures: Sequence[str], given: Mapping[str, Any]) -> None:
    from idisc.predict import inputs

    models, size = given["models"], given["size"]
    split = None if given["split"] == "test" else given["split"]
    options.refuse("--data", dataset=given["dataset"], split=split, limit=given["limit"])
    if len(models) > 1:
        raise click.UsageError("several --weights are for --data; pictures take one")
    levels = tuple(sorted(set(given["levels"])))
    selection = Selection(_parse_idrs(given["idrs"]), levels, _parse_mutes(given["mutes"]))
    found = inputs.find(pictures)
    predictor = open_predictor(models[0] if models else None, given["device"])
    selection.check(predictor)
    _note_models({predictor.model.name: predictor}, size)
    folder = FigureFolder(given["out"], given["suffix"], predictor)
    ExplanationRun(folder, selection, size).explain_all(found.inputs, found.problems)


def _explain_data(given: Mapping[str, Any]) -> None:
    from idisc.data.dataset import open_dataset

    size, device = given["size"], given["device"]
    for_pictures = {"idrs": given["idrs"], "level": given["levels"], "mute": given["mutes"]}
    options.refuse("pictures, not for --data", **for_pictures)
    # Before the networks, which take longer to open, so that its errors are reported at once.
    dataset = open_dataset(given["data"], given["dataset"], given["split"], size=size)
    networks = name_networks(given["models"])
    predictors = {name: open_predictor(model, device) for name, model in networks.items()}
    _note_models(predictors, size)
    first, *_ = predictors.values()
    dataset = thin_out(fit_size(dataset, [*predictors.values()]), given["limit"])
    explain_dataset(dataset, predictors, FigureFolder(given["out"], given["suffix"], first))


def open_predictor(model: str | None, device: str) -> Predictor:
    """Open a network as a torch module; of a model that ships, its checkpoint."""
    require("torch", "matplotlib", extra="train")
    from idisc.predict.open import network_of, open_model
    from idisc.predict.predictor import Predictor

    engine = open_model(model, device, part="checkpoint")
    network_of(engine)  # raises an error if the model is an exported file
    return Predictor(engine)


def name_networks(models: Sequence[str]) -> dict[str, str | None]:
    """Return networks by the names for figures: their folders, with as much as is unique."""
    if not models:
        return {"default": None}
    for parts in (1, 2):
        names = [
            "/".join(Path(model).resolve().parts[-parts:]) if Path(model).is_dir() else model
            for model in models
        ]
        # "best" and "last" are in every run; the folder of the run says more.
        if len(set(names)) == len(models) and not {"best", "last"}.intersection(names):
            return dict(zip(names, models, strict=True))
    return {model: model for model in models}


def _note_models(predictors: Mapping[str, Predictor], size: tuple[int, int] | None) -> None:
    """Print notes about the networks, also if the requested size is far from that in training."""
    from idisc.predict.reliability import check_network_size
    from idisc.provenance_text import describe_warning

    tables.note_models(*(predictor.model for predictor in predictors.values()))
    for name, predictor in predictors.items():
        if size and (warning := check_network_size(size, predictor.model.training_size)):
            tables.note(f"{name}: {describe_warning(warning)}")


def _parse_idrs(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    if not re.fullmatch(_NUMBERS, text):
        raise InputError(f"--idrs {text}", "not a list of IDRs", "write it as 3,7,12")
    return _numbers(text)


def _parse_mutes(texts: Sequence[str]) -> dict[int, set[int]]:
    mutes: dict[int, set[int]] = {}
    for text in texts:
        level, _, idrs = text.partition(":")
        if not re.fullmatch(r"\s*\d+\s*", level) or not re.fullmatch(_NUMBERS, idrs):
            raise InputError(f"--mute {text}", "not understood", "write LEVEL:IDR, as 0:3 or 2:3,7")
        mutes.setdefault(int(level), set()).update(_numbers(idrs))
    return mutes


def _numbers(text: str) -> tuple[int, ...]:
    """Return each number of 3,7,12 once, in the order given."""
    return tuple(dict.fromkeys(int(number) for number in text.split(",")))
