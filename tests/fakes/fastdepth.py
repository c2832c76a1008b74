"""FastDepth with random weights, as its file has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from idisc.model.fastdepth import SKIPS, FastDepth


def network(seed: int = 0) -> FastDepth:
    """Statistics that are positive, as half of the weights: something arrives at the end."""
    generator = torch.Generator().manual_seed(seed)
    made = FastDepth()
    for name, value in made.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=generator) * 0.4 + 0.1)
        if name.endswith("weight") and value.ndim == 4:
            value.sub_(0.28)
    made.last[1].weight.fill_(5.0)
    made.last[1].bias.fill_(2.5)
    return made


def graph_of(made: FastDepth) -> Any:
    """As the file has it: numbered names; Conv, BatchNormalization, Clip, Relu, Resize, Add."""
    draft = _Draft()
    x = draft.layers(made.encoder.stem, "0")
    pairs = []
    for pair in made.encoder.pairs:
        x = draft.layers(pair, x)
        pairs.append(x)
    for index, layer in enumerate(made.decoder):
        x = draft.doubled(draft.layers(layer, x))
        if index in SKIPS:
            x = draft.node("Add", [x, pairs[SKIPS[index] - 1]])
    last = draft.layers(made.last, x)
    ends = [
        helper.make_tensor_value_info("0", TensorProto.FLOAT, [1, 3, "height", "width"]),
        helper.make_tensor_value_info(last, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(draft.nodes, "fastdepth", ends[:1], ends[1:], draft.tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def save(path: Path, seed: int = 0) -> Path:
    """The file of such a network."""
    onnx.save(graph_of(network(seed)), path)
    return path


class _Draft:
    """Nodes and tensors, numbered as they come."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.count = 0

    def node(self, kind: str, inputs: list[str], **settings: Any) -> str:
        result = self._number()
        self.nodes.append(helper.make_node(kind, inputs, [result], **settings))
        return result

    def layers(self, part: nn.Module, x: str) -> str:
        """The convolutions, batch norms and activations of a part, one after the other."""
        for module in part.modules():
            if isinstance(module, nn.Conv2d):
                x = self.node(
                    "Conv",
                    [x, self._stored(module.weight.data)],
                    strides=module.stride,
                    pads=[module.padding[0]] * 4,
                    group=module.groups,
                )
            elif isinstance(module, nn.BatchNorm2d):
                values = [v for name, v in module.state_dict().items() if "num" not in name]
                x = self.node("BatchNormalization", [x, *map(self._stored, values)])
            elif isinstance(module, nn.ReLU6):
                bounds = [self._stored(torch.tensor(bound)) for bound in (0.0, 6.0)]
                x = self.node("Clip", [x, *bounds])
            elif isinstance(module, nn.ReLU):
                x = self.node("Relu", [x])
        return x

    def doubled(self, x: str) -> str:
        scales = self._stored(torch.tensor([1.0, 1.0, 2.0, 2.0]))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        return self.node("Resize", [x, "", scales], nearest_mode="floor", **how)

    def _number(self) -> str:
        self.count += 1
        return str(self.count)

    def _stored(self, value: Tensor) -> str:
        name = self._number()
        self.tensors.append(numpy_helper.from_array(value.numpy(), name))
        return name
