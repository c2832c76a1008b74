"""Options that several commands share, and their types."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from idisc.configs import recipes, schema
from idisc.errors import lookup
from idisc.images import MAX_NETWORK_PIXELS

PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


def name_in(module: str, table: str, noun: str) -> Callable[[str], str]:
    """Return a type for the keys of a table, whose module is imported on demand."""

    def convert(value: str) -> str:
        lookup(getattr(importlib.import_module(module), table), value, noun)
        return value

    return convert


class PictureSize(click.ParamType[tuple[int, int]]):
    """HEIGHTxWIDTH in pixels."""

    name = "HxW"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """Keep the case of the name, which click would change."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", value)
        if not match:
            self.fail(f"'{value}' is not a size; write height and width as 480x640", param, ctx)
        return int(match[1]), int(match[2])


class NetworkSize(PictureSize):
    """The size of a picture in the network, which is limited by memory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        height, width = super().convert(value, param, ctx)
        if height * width > MAX_NETWORK_PIXELS:
            limit = f"{MAX_NETWORK_PIXELS / 1e6:.1f} million pixels"
            self.fail(f"'{value}' is more than {limit}; choose a smaller size", param, ctx)
        return height, width


RECIPES_TEXT = (
    f"Recipes: {', '.join(recipes.RECIPES)}. NAME:paper follows the text of the paper where the"
    " published code differs."
)

MODEL = (
    "Checkpoint folder, .onnx file (also of other depth models) or name from `idisc models` [the"
    " default model]"
)


model = click.option("--weights", "model", metavar="MODEL", help=MODEL)
"""The option --weights of commands that open one network of any kind."""

model_or_auto = click.option(
    "--weights",
    "model",
    metavar="MODEL",
    help=f"{MODEL}; auto: choose a model for each picture by its domain",
)
"""The option --weights of `idisc predict`, which can choose a model for each picture."""

convention = click.option(
    "--convention",
    type=name_in("idisc.predict.conventions", "CONVENTIONS", "convention"),
    metavar="NAME",
    help="How to run a third-party network, such as dpt [by the file; see docs/other_models.md]",
)
"""The option --convention of commands that open third-party networks."""

device = click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1 ...")
"""The option --device of commands that run a network."""

precision = click.option(
    "--precision",
    type=click.Choice(get_args(schema.Precision)),
    help="Arithmetic precision of a checkpoint [fp32]",
)
"""The option --precision of commands that take a checkpoint or an exported file."""

split = click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="test",
    show_default=True,
    help="Split of the dataset.",
)
"""The option --split of commands that go through a dataset."""

changes = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="A.B=VALUE",
    help="Change one field; can be repeated.",
)
"""The option --set, once for each field to change."""


def take(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove the named options from the given ones, and return them."""
    return {name: given.pop(name) for name in names}


def passed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the user has passed: those that are not None, False or empty."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != ()
    }


def refuse(kind: str, **values: Any) -> None:
    """Raise a UsageError for the first option passed, because all of them are for `kind` only.

    Names are those of the options, with "_" for "-".
    """
    for name in passed(values):
        raise click.UsageError(f"--{name.replace('_', '-')} is for {kind}; leave it out")
