"""`idisc explain`: what the network sees in photos, and how its IDRs do over a dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idisc.cli import options, tables
from idisc.cli.explain_dataset import common_rule, explain_dataset, thin_out
from idisc.cli.explain_photos import Choice, FigureFolder, Mute, PhotoRun
from idisc.errors import InputError, require

if TYPE_CHECKING:
    from idisc.predict.predictor import Predictor

_NUMBERS = r"\s*\d+(\s*,\s*\d+)*\s*"  # of IDRs


@click.command(name="explain")
@click.argument("pictures", nargs=-1, metavar="[PICTURE]...")
@click.option("-o", "--out", type=options.PATH, required=True, help="Folder of the results.")
@click.option(
    "--weights",
    "models",
    metavar="MODEL",
    multiple=True,
    help="Checkpoint folder or name of `idisc models` [the default model]; with --data several for"
    " the panels, the first for the report.",
)
@click.option("--idrs", metavar="3,7,12", help="Which to show [the strongest that differ]")
@click.option("--level", "levels", type=int, multiple=True, help="0 is the coarsest [all]")
@click.option(
    "--mute",
    "mutes",
    multiple=True,
    metavar="LEVEL:IDR,...",
    help="Leave them out; again for another level, as --mute 0:3,7 --mute 2:5.",
)
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
    partition, the likeness of maps, the prediction by level and with single IDRs muted; for all
    together a grid of the same IDRs, and numbers as JSON. With --data, over a dataset: a report on
    the usage of IDRs (HTML and JSON) and the likeness of their maps, of the first network; and
    panels of picture, ground truth, prediction and error, several networks side by side, for
    typical and for the worst pictures.
    """
    from idisc.cli.datasets import named_in
    from idisc.data.dataset import open_dataset
    from idisc.predict import inputs

    if bool(pictures) == (data is not None):
        raise click.UsageError("name pictures, or a dataset with --data")
    if suffix == "pdf":
        require("matplotlib", extra="figures")
    if data is not None:
        options.refuse("pictures, not for --data", idrs=idrs, level=levels, mute=mutes)
        reopen = partial(open_dataset, data, dataset or named_in(data), split, None)
        opened = reopen(size)  # what is wrong with it is said before networks are loaded
        networks = name_networks(models)
        predictors = {name: open_predictor(model, device) for name, model in networks.items()}
        note_size(size, predictors)
        if size is None and (rule := common_rule(opened.spec.size, [*predictors.values()])):
            opened = reopen(rule)
        some = thin_out(opened, limit)
        explain_dataset(
            some, predictors, FigureFolder(out, suffix, next(iter(predictors.values())))
        )
        return
    options.refuse("--data", dataset=dataset, split=split != "test", limit=limit)
    if len(models) > 1:
        raise click.UsageError("several --weights are for --data; pictures take one")
    choice = Choice(_chosen(idrs), tuple(sorted(set(levels))), _mutes(mutes))
    found = inputs.find(pictures)
    predictor = open_predictor(models[0] if models else None, device)
    choice.check(predictor)
    note_size(size, {predictor.facts.name: predictor})
    PhotoRun(FigureFolder(out, suffix, predictor), choice, size).run(found.inputs, found.problems)


def open_predictor(model: str | None, device: str) -> Predictor:
    """A network with its insides; of a model that ships, its checkpoint."""
    from idisc.predict.engine import network_of, open_model
    from idisc.predict.predictor import Predictor

    engine = open_model(model, device, part="checkpoint")
    network_of(engine)  # says what is wrong with it
    return Predictor(engine)


def name_networks(models: Sequence[str]) -> dict[str, str | None]:
    """Networks by what they are called in a figure: their folders, with as much as tells them."""
    if not models:
        return {"default": None}
    for parts in (1, 2):
        names = [
            "/".join(Path(model).resolve().parts[-parts:]) if Path(model).is_dir() else model
            for model in models
        ]
        if len(set(names)) == len(models) and not {"best", "last"}.intersection(names):
            return dict(zip(names, models, strict=True))  # a run's folder tells more than these
    return {model: model for model in models}


def note_size(size: tuple[int, int] | None, predictors: Mapping[str, Predictor]) -> None:
    """Say of a size that was asked for, if it is far from that of training."""
    from idisc.predict import doubts

    for name, predictor in predictors.items():
        if size and (doubt := doubts.of_size(size, predictor.facts.training_size)):
            tables.note(f"{name}: {doubt}")


def _chosen(text: str | None) -> tuple[int, ...]:
    """3,7,12 as numbers, each once, in the order given."""
    if text is None:
        return ()
    if not re.fullmatch(_NUMBERS, text):
        raise InputError(f"--idrs {text}: write numbers of IDRs as 3,7,12")
    return _numbers(text)


def _mutes(texts: Sequence[str]) -> tuple[Mute, ...]:
    """Each LEVEL:IDR,IDR ... taken apart."""
    found = []
    for text in texts:
        level, _, idrs = text.partition(":")
        if not re.fullmatch(r"\s*\d+\s*", level) or not re.fullmatch(_NUMBERS, idrs):
            raise InputError(f"--mute {text}: write it as LEVEL:IDR, such as 0:3 or 2:3,7")
        found.append(Mute(text, int(level), _numbers(idrs)))
    return tuple(found)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in text.split(",")))
