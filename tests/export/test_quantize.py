"""fp16 and int8: smaller files, and how much they lose."""

import numpy as np
import pytest
from onnx import TensorProto
from tests.fakes import exported

from idisc.export import external, parity, quantize
from idisc.export import onnx as onnx_export
from idisc.predict.onnx_engine import OnnxEngine

SIZE = (64, 96)

pytestmark = pytest.mark.slow  # a trace takes half a minute


def differences(model, folder, precision):
    onnx_export.save(model, folder / "reduced.onnx")
    engine = OnnxEngine(folder / "reduced.onnx")
    assert engine.origin["weights_sha256"] == exported.source().sha256  # metadata is kept
    photos, sizes = exported.photos(1), parity.two_sizes(SIZE)
    return parity.measure(engine, exported.source(), photos, sizes, precision=precision)


def weight_bytes(model):
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


@pytest.mark.parametrize(
    ("precision", "convert"), [("fp16-weights", external.store_half), ("fp16", quantize.to_half)]
)
def test_half_precision_halves_the_weights_and_loses_millimetres(precision, convert, tmp_path):
    model = exported.model()
    convert(model)
    found = differences(model, tmp_path, precision)
    found.check("reduced.onnx")
    assert 0 < found.largest < 0.05
    assert weight_bytes(model) < 0.6 * weight_bytes(exported.model())
    narrowed = {
        node.op_type
        for node in model.graph.node
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT16
    }
    assert bool(narrowed) == (precision == "fp16")  # fp16-weights computes in fp32


def test_int8_is_calibrated_on_pictures(tmp_path):
    model = quantize.to_int8(exported.model(), exported.photos(3), SIZE)
    onnx_export.check_operators(model, "reduced.onnx")
    found = differences(model, tmp_path, "int8")
    assert np.isfinite(found.largest)
    assert 1e-3 < found.mean < 1.0  # with random weights; trained ones lose less
    assert TensorProto.INT8 in {tensor.data_type for tensor in model.graph.initializer}
    assert weight_bytes(model) < 0.6 * weight_bytes(exported.model())
