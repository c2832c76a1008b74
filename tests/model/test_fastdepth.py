"""FastDepth's encoder is filled from a graph, layer by layer, and computes what the graph does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from idisc.errors import CheckpointError
from idisc.model.backbones import find_backbone, load_encoder_weights
from idisc.model.fastdepth import FastDepthEncoder


def graph_of(encoder: FastDepthEncoder) -> Any:
    """The encoder as the authors' file has it: numbered names, Conv, BatchNormalization, Clip."""
    nodes, tensors, last, count = [], [], "0", 0

    def number() -> str:
        nonlocal count
        count += 1
        return str(count)

    def stored(value: torch.Tensor) -> str:
        name = number()
        tensors.append(numpy_helper.from_array(value.numpy(), name))
        return name

    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            names, operator = [stored(module.weight.data)], "Conv"
            settings: dict[str, Any] = {
                "strides": module.stride,
                "pads": [module.padding[0]] * 4,
                "group": module.groups,
            }
        elif isinstance(module, nn.BatchNorm2d):
            names = [
                stored(value) for key, value in module.state_dict().items() if "num" not in key
            ]
            operator, settings = "BatchNormalization", {}
        elif isinstance(module, nn.ReLU6):
            names = [stored(torch.tensor(0.0)), stored(torch.tensor(6.0))]
            operator, settings = "Clip", {}
        else:
            continue
        result = number()
        nodes.append(helper.make_node(operator, [last, *names], [result], **settings))
        last = result
    ends = [
        helper.make_tensor_value_info("0", TensorProto.FLOAT, [1, 3, 64, 96]),
        helper.make_tensor_value_info(last, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "fastdepth", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def random_encoder() -> FastDepthEncoder:
    encoder = FastDepthEncoder()
    for value in encoder.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape) * 0.4 + 0.1)
    return encoder.eval()


def test_the_encoder_computes_what_its_file_computes(tmp_path: Path) -> None:
    path = tmp_path / "fastdepth.onnx"
    onnx.save(graph_of(random_encoder()), path)
    encoder = find_backbone("fastdepth").build().eval()
    load_encoder_weights(encoder, "fastdepth", path)
    rgb = torch.rand(1, 3, 64, 96)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"0": rgb.numpy()})[0]
    with torch.no_grad():
        np.testing.assert_allclose(encoder(rgb)[-1].numpy(), expected, rtol=1e-4, atol=1e-4)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fastdepth.onnx"
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: no such file; encoder fastdepth"):
        FastDepthEncoder().read(path)
    path.write_bytes(b"not a graph")
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: not readable as ONNX"):
        FastDepthEncoder().read(path)
    model = graph_of(random_encoder())
    del model.graph.node[20:]
    onnx.save(model, path)
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: missing pairs"):
        FastDepthEncoder().read(path)
