"""The whole of an export: trace, reduce, measure against the network, and only then publish."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from idisc import files
from idisc.errors import InputError
from idisc.export import onnx, parity, program, quantize
from idisc.export.parity import Parity
from idisc.model.network import IDisc
from idisc.predict.engine import USUAL_SIZE, Engine, ModelFacts, open_model
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.settings import FilePrecision
from idisc.sizes import Size

Format = Literal["onnx", "pt2", "openvino"]
SUFFIX: dict[Format, str] = {"onnx": ".onnx", "pt2": ".pt2", "openvino": ".xml"}
MEASURED, CALIBRATED = 4, 16  # pictures, at most


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be exported, and how."""

    model: str | Path  # a checkpoint folder, or the name of a model that ships with its own
    out: Path  # a file
    format: Format = "onnx"
    precision: FilePrecision = "fp32"
    size: Size | None = None  # of the pictures; None: any
    pictures: Path = parity.EXAMPLES  # a folder, to measure and to calibrate on

    def __post_init__(self) -> None:
        if self.out.suffix != SUFFIX[self.format]:
            raise InputError(f"{self.out}: a file for {self.format} ends in {SUFFIX[self.format]}")
        if self.format == "pt2" and self.size is None:
            raise InputError("--format pt2: a program is for one size; give --size 480x640")
        if self.format != "onnx" and self.precision != "fp32":
            raise InputError(f"--precision {self.precision}: for --format onnx only")

    def check(self) -> None:
        """What can be known to fail before a minute is spent on the trace."""
        files.check_writable(self.out)
        self.shares()

    def open(self) -> TorchEngine:
        """The network to export."""
        source = open_model(self.model, part="checkpoint")
        if not isinstance(source, TorchEngine):
            raise InputError(
                f"{source.name}: exported already; name the checkpoint it was made from"
            )
        return source

    def shares(self) -> tuple[list[Path], list[Path]]:
        """Pictures to calibrate on, and others to measure on: those it has seen flatter a file."""
        paths = parity.paths_of(self.pictures)
        if self.precision != "int8":
            return [], paths
        if len(paths) < 2:
            raise InputError(
                f"{self.pictures}: one picture; int8 needs one to calibrate on, and another to"
                " measure on"
            )
        return paths[::2], paths[1::2]


def make(request: Request, source: TorchEngine | None = None) -> Parity:
    """Write the file; CheckFailed, and no file, if it does not do what the network does.

    `source` is the network of the request, where that is open already.
    """
    request.check()
    source = source or request.open()
    usual = request.size or ModelFacts.of(source).training_size or USUAL_SIZE
    # A program has one size and gives results of that size alone.
    sizes = parity.two_sizes(usual)[: 1 if request.format == "pt2" else 2]
    calibrating, measuring = request.shares()
    texts = {**onnx.facts(source), **quantize.NUMBERS[request.precision]._asdict()}
    if request.format == "pt2":
        made = program.trace(source.network, usual)
    else:
        images = parity.read_some(calibrating, CALIBRATED)
        made = _model(source.network, request, images, usual)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / request.out.name
        _write(made, draft, request.format, texts)
        measured = parity.measure(
            _opened(draft, request.format),
            source,
            parity.read_some(measuring, MEASURED),
            sizes,
            precision=request.precision,
            pictures_from=request.pictures.resolve().name,
        )
        measured.check(request.out.name)
        _write(made, draft, request.format, {**texts, "parity": measured.text()})
        for part in sorted(Path(folder).iterdir()):  # OpenVINO writes two
            with files.atomic(request.out.with_suffix(part.suffix)) as place:
                place.write_bytes(part.read_bytes())
    return measured


def _model(network: IDisc, request: Request, images: parity.Images, usual: Size) -> Any:
    model = onnx.build(network, request.size, by_block=request.format != "openvino")
    if request.precision == "fp16-weights":
        model = quantize.store_half(model)
    if request.precision == "fp16":
        model = quantize.to_half(model)
    if request.precision == "int8":
        model = quantize.to_int8(model, images, usual)
    return model


def _write(made: Any, path: Path, kind: Format, texts: Mapping[str, str]) -> None:
    if kind == "pt2":
        program.save_program(made, path, texts)
        return
    onnx.describe(made, texts)
    if kind == "openvino":
        program.export_openvino(made, path)
    else:
        onnx.save(made, path)


def _opened(path: Path, kind: Format) -> Engine:
    if kind == "pt2":
        return program.ProgramEngine(path)
    return program.OpenVinoEngine(path) if kind == "openvino" else OnnxEngine(path)
