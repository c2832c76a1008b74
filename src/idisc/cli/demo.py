"""`idisc demo`: the example photos, predicted and shown as a gallery in the browser."""

from __future__ import annotations

import webbrowser
from importlib import resources
from pathlib import Path

import click

from idisc.cli import options

SAVED = "png,png16,ply,html"


@click.command(name="demo")
@click.option(
    "-o", "--out", type=options.PATH, default=Path("idisc_demo"), help="Output folder [idisc_demo]"
)
@click.option("--open/--no-open", "shown", default=True, help="Open the gallery in a browser [yes]")
@click.pass_context
def command(ctx: click.Context, out: Path, shown: bool) -> None:
    """Predict the example photos, rooms and a street, and show them as a gallery."""
    from idisc.cli import predict
    from idisc.formats.gallery import NAME

    examples = resources.files("idisc").joinpath("assets", "examples")
    with resources.as_file(examples) as folder:
        arguments = [str(folder), "-o", str(out), "--weights", "auto", "--save", SAVED, "--gallery"]
        with predict.command.make_context("predict", arguments, parent=ctx) as inner:
            predict.command.invoke(inner)
    page = (out / NAME).resolve()
    if not shown or not webbrowser.open(page.as_uri()):
        click.echo(f"Open {page} in a browser.")
