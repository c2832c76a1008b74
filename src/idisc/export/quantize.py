"""Products with weights in fp16, or in int8 with calibration images.

Both change only the products with weights (convolutions and linear layers), which are nearly all of
the file and of the time. Everything sensitive stays in fp32: norms, softmax, position encoding, the
locations and samples of deformable attention, the exponential and the last resize.

The converters of onnxconverter-common 1.16 and onnxruntime 1.31 cannot replace `to_half`: the first
takes more than nine minutes for a graph of 843 nodes, the second returns an invalid graph.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.export.external import HALF_MAX
from idisc.export.onnx import nodes, quietly, replace_nodes
from idisc.export.parity import Images
from idisc.sizes import Size, resize_smooth

PRODUCTS = ("Conv", "Gemm", "MatMul")
HEAD_CHANNELS = 4  # at most: log depth has 1; a normal and its concentration have 3 + 1


def to_half(model: Any) -> None:
    """Compute the products with weights of an onnx.ModelProto in fp16, in place."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    weights = {item.name: item for item in graph.initializer if item.data_type == TensorProto.FLOAT}
    halves = {"": ""}  # the names of values in fp16; an input that is left out has no name
    new: list[Any] = []

    def half(name: str) -> str:
        if name not in halves:
            halves[name] = f"{name}_half"
            if name in weights:
                value = numpy_helper.to_array(weights[name]).clip(-HALF_MAX, HALF_MAX)
                tensor = numpy_helper.from_array(value.astype(np.float16), halves[name])
                graph.initializer.append(tensor)
            else:
                cast = helper.make_node("Cast", [name], [halves[name]], to=TensorProto.FLOAT16)
                new.append(cast)
        return halves[name]

    for node in list(graph.node):
        if node.op_type in PRODUCTS and any(name in weights for name in node.input[:2]):
            result, node.input[:] = node.output[0], [half(name) for name in node.input]
            node.output[0] = f"{result}_product"
            cast = helper.make_node("Cast", [node.output[0]], [result], to=TensorProto.FLOAT)
            new += [node, cast]
        else:
            new.append(node)
    replace_nodes(graph, new)
    used = {name for node in nodes(graph) for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def to_int8(model: Any, images: Images, size: Size) -> Any:
    """Return an onnx.ModelProto with the products with weights in int8, per channel, as QDQ.

    The ranges of activations are those of the calibration images, resized to `size`.
    """
    import onnx
    from onnxruntime import quantization

    shapes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    chosen = [node.name for node in model.graph.node if _is_robust_product(node, shapes)]
    with tempfile.TemporaryDirectory() as folder, quietly("root"):  # advice on preprocessing
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(model, before)
        quantization.quantize_static(
            before,
            after,
            _CalibrationReader(images, size),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(PRODUCTS),
            nodes_to_quantize=chosen,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
        )
        quantized = onnx.load(after)
    del quantized.graph.value_info[:]
    return quantized


class _CalibrationReader:
    """Calibration images in the form that onnxruntime expects."""

    def __init__(self, images: Images, size: Size) -> None:
        self._images, self._size = iter(images), size

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        image = next(self._images, None)
        if image is None:
            return None
        return {"image": resize_smooth(image, self._size)[None], "size": np.array(self._size)}


def _is_robust_product(node: Any, shapes: Mapping[str, Any]) -> bool:
    """Return whether a node is a product with weights, except the linear layers of the heads.

    They have so few outputs that each decides alone. A convolution with few channels is the first
    layer of an encoder, or one that treats each channel separately.
    """
    weights = [shapes[name] for name in node.input[:2] if name in shapes]
    if node.op_type not in PRODUCTS or not weights:
        return False
    return node.op_type == "Conv" or min(weights[0][:2], default=0) > HEAD_CHANNELS
