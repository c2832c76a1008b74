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
from idisc.images import Size
from idisc.model.network import IDisc
from idisc.predict.engine import USUAL_SIZE, Engine, ModelFacts, open_model
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.settings import FilePrecision
from idisc.zoo import cards

Format = Literal["onnx", "pt2", "openvino"]
SUFFIX: dict[Format, str] = {"onnx": ".onnx", "pt2": ".pt2", "openvino": ".xml"}
MEASURED, CALIBRATED = 4, 16  # pictures of the user's, at most
RENDERED = 2  # pictures if there are none


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be exported, and how."""

    model: str | Path  # a checkpoint folder, or the name of a model that ships with its own
    out: Path  # a file
    format: Format = "onnx"
    precision: FilePrecision = "fp32"
    size: Size | None = None  # of the pictures; None: any
    pictures: Path | None = None  # a folder, to measure and to calibrate on

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
        if self.pictures:
            parity.paths_of(self.pictures)


def make(request: Request) -> Parity:
    """Write the file; CheckFailed, and no file, if it does not do what the network does."""
    request.check()
    source = open_model(request.model, part=cards.CHECKPOINT)
    if not isinstance(source, TorchEngine):
        raise InputError(f"{source.name}: exported already; name the checkpoint it was made from")
    usual = request.size or ModelFacts.of(source).training_size or USUAL_SIZE
    # A program has one size and gives results of that size alone.
    sizes = parity.two_sizes(usual)[: 1 if request.format == "pt2" else 2]
    images, origin = _pictures(request, usual, MEASURED, RENDERED)
    texts = {**onnx.facts(source), **quantize.NUMBERS[request.precision]._asdict()}
    made = (
        program.trace(source.network, usual)
        if request.format == "pt2"
        else _model(source.network, request, usual)
    )
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / request.out.name
        _write(made, draft, request.format, texts)
        measured = parity.measure(
            _opened(draft, request.format),
            source,
            images,
            sizes,
            precision=request.precision,
            pictures_from=origin,
        )
        measured.check(request.out.name)
        _write(made, draft, request.format, {**texts, "parity": measured.text()})
        for part in sorted(Path(folder).iterdir()):  # OpenVINO writes two
            with files.atomic(request.out.with_suffix(part.suffix)) as place:
                place.write_bytes(part.read_bytes())
    return measured


def _model(network: IDisc, request: Request, usual: Size) -> Any:
    model = onnx.build(network, request.size, by_block=request.format != "openvino")
    if request.precision == "fp16-weights":
        model = quantize.store_half(model)
    if request.precision == "fp16":
        model = quantize.to_half(model)
    if request.precision == "int8":
        images, _ = _pictures(request, usual, CALIBRATED, CALIBRATED // 2)
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


def _pictures(request: Request, size: Size, given: int, rendered: int) -> tuple[parity.Images, str]:
    if request.pictures:
        return parity.pictures_of(request.pictures, given), str(request.pictures.resolve().name)
    return parity.built_in(rendered, size), parity.BUILT_IN
