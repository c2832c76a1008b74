"""`idisc convert`: convert a published checkpoint, and list the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from idisc import files
from idisc.ancestry import UNKNOWN
from idisc.cli import options, progress, tables
from idisc.cli.models import describe_file
from idisc.configs import recipes
from idisc.errors import require
from idisc.zoo import published

if TYPE_CHECKING:
    from idisc.model.convert import Converted


@click.command(name="convert")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--out", type=click.Path(path_type=Path), help="New folder for the checkpoint.")
@click.option("--list", "listing", is_flag=True, help="List the published checkpoints and stop.")
@options.changes
def command(file: Path | None, out: Path | None, listing: bool, changes: tuple[str, ...]) -> None:
    """Convert a published checkpoint FILE to the format of this package.

    The network is recognised from the shapes in the file. What the shapes do not determine is taken
    from the published configurations and can be changed: --set afp.iterations=3, afp.heads,
    isd.heads, activation, and decoder.heads with decoder.points.
    """
    if listing:
        for entry in published.PUBLISHED.values():
            tables.show_fields(describe_file(entry))
            click.echo()
        return
    if file is None or out is None:
        raise click.UsageError("FILE and --out are needed (or --list)")
    files.check_new_folder(out)
    require("torch", "safetensors", extra="train")
    from idisc.model.checkpoint import save_checkpoint  # heavy: only when this command runs
    from idisc.model.convert import convert
    from idisc.predict.model_info import ancestry_of

    with progress.elapsed(f"converting {file.name}"):
        converted = convert(file, changes)
        origin = {"file": file.name, "sha256": files.sha256(file)}
        ancestry = ancestry_of(origin, file.name)
        save_checkpoint(out, converted.model, converted.state, {**origin, **ancestry.to_json()})
    licence = "; ".join(ancestry.licence) or UNKNOWN
    about = _describe_network(file, converted)
    tables.show_fields([*about, ("licence", licence), ("written", str(out))])


def _describe_network(file: Path, converted: Converted) -> list[tuple[str, str]]:
    model = converted.model
    decoder, afp = model.decoder, model.afp
    parameters = sum(
        value.numel()
        for name, value in converted.state.items()
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))
    )
    discretization = [
        ("AFP", f"{afp.idrs} IDRs of {afp.width}, {afp.iterations} iterations"),
        ("ISD", f"{model.isd.layers} layers at {model.resolutions} resolutions"),
    ]
    if model.discretization != "isd":
        discretization = [("AFP, ISD", "none")]
    assumed = (
        f"{afp.iterations} AFP iterations, {afp.heads} AFP and {model.isd.heads} ISD heads,"
        f" {model.activation}, {decoder.heads} MSDA heads"
    )
    recipes_that_fit = [name for name, recipe in recipes.RECIPES.items() if recipe.model == model]
    return [
        ("read", f"{file.name}, {converted.tensors} tensors, {parameters / 1e6:.3f} M parameters"),
        ("encoder", model.encoder),
        (
            "decoder",
            f"MSDA, {decoder.layers} layers, {decoder.heads} heads x {decoder.points} points,"
            f" width {decoder.width}"
            if decoder.msda
            else f"plain FPN, width {decoder.width}",
        ),
        *discretization,
        ("output", model.task),
        ("dropped", f"{len(converted.dropped)} tensors that take no part"),
        ("fits", ", ".join(recipes_that_fit) or "no published recipe"),
        ("taken as", f"{assumed}: no shape tells, --set changes them"),
    ]
