"""`idisc export`: write a checkpoint as one ONNX file, compared with its network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from idisc.cli import options, progress, tables
from idisc.configs.schema import FilePrecision
from idisc.errors import pluralize, require
from idisc.sizes import describe_size


class SizeOrDynamic(options.NetworkSize):
    """HEIGHTxWIDTH in pixels, or the word dynamic."""

    name = "HxW|dynamic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "dynamic" else super().convert(value, param, ctx)


@click.command(name="export")
@click.argument("checkpoint")
@click.option(
    "-o",
    "--out",
    type=options.PATH,
    help="Output file [next to the checkpoint; for shipped models, in this folder]",
)
@click.option(
    "--precision",
    type=click.Choice(get_args(FilePrecision)),
    default="fp32",
    show_default=True,
    help="Precision; fp16-weights stores fp16 and computes in fp32.",
)
@click.option(
    "--size",
    type=SizeOrDynamic(),
    default="dynamic",
    show_default=True,
    help="Size of the images, or dynamic for any size.",
)
@click.option(
    "--pictures",
    type=options.FOLDER,
    help="Images for the comparison and for calibration [example photos]",
)
def command(
    checkpoint: str,
    out: Path | None,
    precision: FilePrecision,
    size: tuple[int, int] | None,
    pictures: Path | None,
) -> None:
    """Export CHECKPOINT, a folder or a shipped model, to an ONNX file from RGB bytes to metres.

    The file is compared with the network on images at two sizes, and the differences are written
    into it. If they are out of tolerance (fp32: 1 mm), no file is written and the exit code is 3.
    """
    require("torch", "timm", "safetensors", "onnx", "onnxscript", extra="train")
    from idisc.export.parity import EXAMPLES  # heavy: only when this command runs
    from idisc.export.run import ExportOptions, export_network, open_source
    from idisc.predict.model_info import read_model_info
    from idisc.predict.open import find_card
    from idisc.provenance_text import describe_licence

    card = find_card(checkpoint)
    beside = Path(checkpoint).resolve() if card is None else Path.cwd() / card.name
    suffix = ".onnx" if precision == "fp32" else f"-{precision}.onnx"
    path = out or beside.with_name(beside.name + suffix)
    export_options = ExportOptions(
        out=path, precision=precision, size=size, pictures=pictures or EXAMPLES
    )
    source = open_source(checkpoint)
    with progress.elapsed("tracing and comparing"):
        parity = export_network(source, export_options)
    count = pluralize(parity.pictures, "picture")
    fields = {
        "file": f"{path}, {path.stat().st_size / 1e6:.1f} MB",
        "takes": f"pictures of {describe_size(size)}" if size else "pictures of any size",
        "precision": parity.precision,
        "parity": parity.describe(),
        "licence": describe_licence(read_model_info(source)),
        "on": f"{count} ({parity.pictures_from}) at {' and '.join(parity.sizes)}",
    }
    tables.show_fields(fields.items())
