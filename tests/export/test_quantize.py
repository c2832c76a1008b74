"""fp16 and int8: smaller files, and how much they lose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fakes import exported

from idisc.errors import InputError
from idisc.export import onnx as onnx_export
from idisc.export import parity, quantize
from idisc.model.states import read_onnx
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine

SIZE = (64, 96)


@pytest.fixture(scope="module")
def network() -> TorchEngine:
    return TorchEngine.load(exported.checkpoint())


def test_half_precision_halves_the_weights_and_loses_millimetres(
    network: TorchEngine, tmp_path: Path
) -> None:
    model = read_onnx(exported.any_size())
    half = quantize.to_half(model)
    onnx_export.save(half, tmp_path / "half.onnx")
    found = parity.measure(
        OnnxEngine(tmp_path / "half.onnx"),
        network,
        exported.photos(1),
        parity.two_sizes(SIZE),
        precision="fp16",
    )
    found.check("half.onnx")
    assert 0 < found.largest < 0.05
    assert _weights(half) < 0.6 * _weights(model)
    assert _weights(model) == _weights(read_onnx(exported.any_size()))  # a copy


def test_weights_stored_in_half_precision_are_computed_with_in_single(
    network: TorchEngine, tmp_path: Path
) -> None:
    model = read_onnx(exported.any_size())
    stored = quantize.store_half(model)
    onnx_export.save(stored, tmp_path / "stored.onnx")
    found = parity.measure(
        OnnxEngine(tmp_path / "stored.onnx"),
        network,
        exported.photos(1),
        parity.two_sizes(SIZE),
        precision="fp16-weights",
    )
    found.check("stored.onnx")
    assert 0 < found.largest < 0.05
    assert _weights(stored) < 0.6 * _weights(model)
    casts = [node for node in stored.graph.node if node.op_type == "Cast"]
    assert sum(node.input[0].endswith("_half") for node in casts) > 20
    assert not any(node.output[0].endswith("_half") for node in casts)  # nothing is narrowed


def test_what_is_delicate_stays_in_single_precision() -> None:
    half = quantize.to_half(read_onnx(exported.any_size()))
    made = {node.output[0]: node for node in half.graph.node}
    for node in half.graph.node:
        if node.op_type in ("Softmax", "LayerNormalization", "Exp", "Scan", "Resize", "Floor"):
            for name in node.input:
                assert not name.endswith(("_half", "_product")), node.op_type
    assert sum(node.op_type in quantize.PRODUCTS for node in made.values()) > 20


def test_int8_is_calibrated_on_pictures_and_its_loss_is_known(
    network: TorchEngine, tmp_path: Path
) -> None:
    model = read_onnx(exported.any_size())
    small = quantize.to_int8(model, exported.photos(3), SIZE)
    onnx_export.check_operators(small, "small.onnx")
    onnx_export.save(small, tmp_path / "small.onnx")
    engine = OnnxEngine(tmp_path / "small.onnx")
    assert engine.origin["weights_sha256"] == exported.source().sha256  # metadata survives
    found = parity.measure(
        engine, network, exported.photos(2), parity.two_sizes(SIZE), precision="int8"
    )
    assert np.isfinite(found.largest)
    assert 1e-3 < found.mean < 1.0  # of random weights; trained ones lose less
    kinds = {tensor.data_type for tensor in small.graph.initializer}
    assert 3 in kinds  # int8
    assert _weights(small) < 0.6 * _weights(model)


def test_int8_without_pictures_is_refused() -> None:
    with pytest.raises(InputError, match="calibration pictures are needed"):
        quantize.to_int8(read_onnx(exported.any_size()), [], SIZE)


def _weights(model: object) -> int:
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)  # type: ignore[attr-defined]
