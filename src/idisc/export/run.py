"""The whole export of a checkpoint: build the graph, reduce it, compare it with the network, save.

The file appears only if it passes the comparison.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idisc import files
from idisc.configs.schema import FilePrecision
from idisc.errors import InputError
from idisc.export import external, onnx, parity, quantize
from idisc.predict.model_info import DEFAULT_SIZE, read_model_info
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.open import open_model
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size

MAX_MEASURED, MAX_CALIBRATED = 4, 16  # pictures
STORED_PRECISION: dict[FilePrecision, tuple[str, str]] = {  # of the arithmetic and of the weights
    "fp32": ("fp32", "fp32"),
    "fp16-weights": ("fp32", "fp16"),
    "fp16": ("fp16", "fp16"),
    "int8": ("int8", "int8"),
}


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What to write; everything that can fail is checked before the trace, which takes minutes."""

    out: Path  # an .onnx file
    precision: FilePrecision = "fp32"
    size: Size | None = None  # of the images; None: any
    pictures: Path = parity.EXAMPLES  # a folder of images for the comparison and for calibration

    def __post_init__(self) -> None:
        if self.out.suffix != ".onnx":
            raise InputError(self.out, "the name of an exported file ends in .onnx")
        files.check_writable(self.out)
        count = len(parity.list_pictures(self.pictures))
        if self.precision == "int8" and count < 2:
            raise InputError(
                self.pictures,
                "one picture",
                "int8 needs one for calibration and another for the comparison",
            )


def open_source(model: str | Path) -> TorchEngine:
    """Open a checkpoint folder, or the checkpoint of a shipped model by its name."""
    source = open_model(model, part="checkpoint")
    if not isinstance(source, TorchEngine):
        raise InputError(source.name, "is exported already", "pass the checkpoint it was made from")
    return source


def export_network(source: TorchEngine, options: ExportOptions) -> parity.Parity:
    """Write the file; CheckFailed, and no file, if it does not predict what the network does."""
    usual = options.size or read_model_info(source).training_size or DEFAULT_SIZE
    calibration = comparison = parity.list_pictures(options.pictures)
    if options.precision == "int8":  # compared on other pictures than those of the calibration
        calibration, comparison = comparison[::2], comparison[1::2]
    model = _reduce(onnx.build(source.network, options.size), options.precision, calibration, usual)
    arithmetic, storage = STORED_PRECISION[options.precision]
    onnx.add_metadata(model, {**onnx.metadata(source), "precision": arithmetic, "storage": storage})
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / options.out.name
        onnx.save(model, draft)
        measured = parity.measure(
            OnnxEngine(draft),
            source,
            parity.read_evenly(comparison, MAX_MEASURED),
            parity.two_sizes(usual),
            precision=options.precision,
            pictures_from=options.pictures.resolve().name,
        )
    measured.check(options.out.name)
    onnx.add_metadata(model, {"parity": measured.to_json()})
    onnx.save(model, options.out)
    return measured


def _reduce(model: Any, precision: FilePrecision, calibration: list[Path], usual: Size) -> Any:
    if precision == "fp16-weights":
        external.store_half(model)
    if precision == "fp16":
        quantize.to_half(model)
    if precision == "int8":
        images = parity.read_evenly(calibration, MAX_CALIBRATED)
        model = quantize.to_int8(model, images, usual)
    return model
