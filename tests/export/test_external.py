"""A graph that refers to the tensors of a checkpoint computes the same as one with a copy."""

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from safetensors.torch import save_file

from idisc.export.external import store_half

WIDTH = 40  # a matrix is large enough for a reference


def weights():
    """Linear layers as torch stores them, (out, in), a position embedding; exact in fp16."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"first": (WIDTH + 8, WIDTH), "second": (WIDTH + 8, WIDTH + 8), "bias": (WIDTH + 8,)}
    shapes["places"] = (1, 1 + 24, WIDTH + 8)
    return {n: torch.randn(shape, generator=generator).half() for n, shape in shapes.items()}


def graph():
    """(x @ first.T @ second + bias) @ own + places: transposed, as stored, unknown, a part."""
    known = {name: value.float().numpy() for name, value in weights().items()}
    own = np.eye(WIDTH + 8, dtype=np.float32)
    tensors = {"a": known["first"].T, "b": known["second"], "c": known["bias"], "d": own}
    rows = known["places"][:, 1:]  # without the class token
    tensors["e"] = rows.reshape(1, 6, 4, WIDTH + 8).transpose(0, 3, 1, 2)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["xa"]),
        helper.make_node("MatMul", ["xa", "b"], ["xab"]),
        helper.make_node("Add", ["xab", "c"], ["sum"]),
        helper.make_node("MatMul", ["sum", "d"], ["product"]),
        helper.make_node("GlobalAveragePool", ["e"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["row"]),
        helper.make_node("Add", ["product", "row"], ["y"]),
    ]
    kind = onnx.TensorProto.FLOAT
    made = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", kind, [None, WIDTH])],
        [helper.make_tensor_value_info("y", kind, [None, WIDTH + 8])],
        [numpy_helper.from_array(np.ascontiguousarray(v), name) for name, v in tensors.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_a_graph_refers_to_tensors_instead_of_holding_them(tmp_path):
    model, x = graph(), np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    state = weights()
    save_file(
        {name: state[name] for name in ("first", "bias", "places")},
        tmp_path / "encoder.safetensors",
    )
    save_file({"second": state["second"]}, tmp_path / "rest.safetensors")
    paths = [tmp_path / "encoder.safetensors", tmp_path / "rest.safetensors"]
    assert store_half(model, paths) == (WIDTH + 8) ** 2  # only the matrix that no file has
    held = [len(tensor.raw_data) for tensor in model.graph.initializer if tensor.raw_data]
    assert sorted(held) == [4 * (WIDTH + 8), 2 * (WIDTH + 8) ** 2]  # the bias, and d in fp16
    onnx.save(model, tmp_path / "layers.onnx")
    onnx.checker.check_model(str(tmp_path / "layers.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "layers.onnx"))
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
