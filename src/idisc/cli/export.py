"""`idisc export`: a checkpoint as one file for other runtimes, measured against itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from idisc.cli import options, tables
from idisc.errors import counted, require
from idisc.settings import FilePrecision
from idisc.sizes import size_text

if TYPE_CHECKING:
    from idisc.export.parity import Parity


class SizeOrAny(options.NetworkSize):
    """HEIGHTxWIDTH in pixels, or the word dynamic."""

    name = "HxW|dynamic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value == "dynamic":
            return None
        if not re.match(r"\d", value):
            self.fail(f"'{value}' is not a size; write 480x640, or dynamic for any", param, ctx)
        return super().convert(value, param, ctx)


@click.command(name="export")
@click.argument("checkpoint")
@click.option(
    "-o",
    "--out",
    type=options.PATH,
    help="File to write [beside the checkpoint; of a model that ships, here]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["onnx", "pt2", "openvino"]),
    default="onnx",
    show_default=True,
)
@click.option(
    "--precision",
    type=click.Choice(get_args(FilePrecision)),
    default="fp32",
    show_default=True,
    help="fp16-weights: a small file that computes in fp32.",
)
@click.option(
    "--size", type=SizeOrAny(), default="dynamic", show_default=True, help="Of the pictures."
)
@click.option(
    "--pictures", type=options.FOLDER, help="Measure and calibrate on these [example photos]"
)
def command(
    checkpoint: str,
    out: Path | None,
    kind: Any,
    precision: Any,
    size: tuple[int, int] | None,
    pictures: Path | None,
) -> None:
    """Turn CHECKPOINT, a folder or a model that ships, into one file from RGB bytes to metres.

    The file is compared with the network on pictures at two sizes. What they differ by is written
    into it; out of tolerance (fp32: 1 mm) there is no file, and the exit code is 3.
    """
    require("torch", "timm", "safetensors", "onnx", "onnxscript", extra="train")
    if kind == "openvino":
        require("openvino", extra="openvino")
    from idisc.export.make import SUFFIX, Request, make  # heavy: only when this command runs
    from idisc.export.parity import EXAMPLES
    from idisc.predict.engine import card_of

    card = card_of(checkpoint)
    beside = Path(checkpoint).resolve() if card is None else Path.cwd() / card.name
    reduced = "" if precision == "fp32" else f"-{precision}"
    path = out or beside.with_name(f"{beside.name}{reduced}{SUFFIX[kind]}")
    request = Request(
        model=checkpoint,
        out=path,
        format=kind,
        precision=precision,
        size=size,
        pictures=pictures or EXAMPLES,
    )
    request.check()
    source = request.open()
    tables.note("tracing, then measuring; this takes a minute or two ...")
    for label, text in _lines(path, size, make(request, source)):
        click.echo(f"{label:<10}{text}")


def _lines(path: Path, size: tuple[int, int] | None, parity: Parity) -> list[tuple[str, str]]:
    shape = f"pictures of {size_text(size)}" if size else "pictures of any size"
    return [
        ("file", f"{path}, {path.stat().st_size / 1e6:.1f} MB"),
        ("takes", shape),
        ("precision", parity.precision),
        ("parity", parity.in_words()),
        (
            "on",
            f"{counted(parity.pictures, 'picture')} ({parity.pictures_from}) at"
            f" {' and '.join(parity.sizes)}",
        ),
    ]
