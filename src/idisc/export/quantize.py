"""Smaller numbers: weights kept in fp16, products in fp16, and int8 with calibration pictures.

The last two touch nothing but the products with weights (convolutions and linear layers), which
are nearly all of the file and of the time. What is delicate stays in fp32: norms, softmax, position
encoding, where deformable attention looks and what it reads, the exponential and the last resize.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.errors import InputError
from idisc.export.onnx import nodes, quietly
from idisc.export.parity import Images
from idisc.settings import FilePrecision
from idisc.sizes import Size, resize_smooth

PRODUCTS = ("Conv", "Gemm", "MatMul")
HALF, HALF_MAX = "_half", 65504.0  # ending of a name, and the largest number, in fp16
LEAST = 1024  # numbers of a tensor that are worth a node
HEAD_CHANNELS = 4  # at most: log depth has 1; a normal and its concentration, 3 + 1


class Numbers(NamedTuple):
    """What a file says of its numbers."""

    precision: str  # of the arithmetic
    storage: str  # of the weights


NUMBERS: dict[FilePrecision, Numbers] = {
    "fp32": Numbers("fp32", "fp32"),
    "fp16-weights": Numbers("fp32", "fp16"),
    "fp16": Numbers("fp16", "fp16"),
    "int8": Numbers("int8", "int8"),
}


def store_half(model: Any) -> Any:
    """An onnx.ModelProto whose weights lie in the file as fp16; a runtime widens them at its start.

    It computes in fp32, as a CPU likes it.
    """
    from onnx import TensorProto, helper

    half = _copy(model)
    part = half.graph
    widened: list[Any] = []
    for tensor in part.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < LEAST:
            continue
        name = tensor.name
        tensor.CopyFrom(_halved(tensor))
        widened.append(helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT))
    rest = list(part.node)
    del part.node[:]
    part.node.extend([*widened, *rest])
    return half


def to_half(model: Any) -> Any:
    """An onnx.ModelProto with the products of weights in fp16; bytes in, float32 metres out."""
    from onnx import TensorProto, helper

    half = _copy(model)
    part = half.graph
    weights = {
        tensor.name: tensor for tensor in part.initializer if tensor.data_type == TensorProto.FLOAT
    }
    made: dict[str, str] = {}
    rewritten: list[Any] = []

    def as_half(name: str) -> str:
        if name in made or not name:
            return made.get(name, "")
        made[name] = name + HALF
        if name in weights:
            part.initializer.append(_halved(weights[name]))
        else:
            rewritten.append(helper.make_node("Cast", [name], [made[name]], to=TensorProto.FLOAT16))
        return made[name]

    for node in list(part.node):
        if _is_product(node, weights):
            inputs = [as_half(name) for name in node.input]
            result = node.output[0]
            node.input[:] = inputs
            node.output[0] = f"{result}_product"
            back = helper.make_node("Cast", [node.output[0]], [result], to=TensorProto.FLOAT)
            rewritten += [node, back]
        else:
            rewritten.append(node)
    del part.node[:]
    part.node.extend(rewritten)
    _drop_unused(part)
    return half


def to_int8(model: Any, images: Images, size: Size) -> Any:
    """An onnx.ModelProto with the products of weights in int8, per channel, as QDQ.

    Ranges of what flows between are those of the calibration pictures, resized to `size`.
    """
    import onnx
    from onnxruntime import quantization

    if not images:
        raise InputError("int8: calibration pictures are needed; give a folder with --pictures")
    weights = {tensor.name for tensor in model.graph.initializer}
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    chosen = [node.name for node in model.graph.node if _is_product(node, weights)]
    with tempfile.TemporaryDirectory() as folder, quietly("root"):  # it advises on preparing
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(model, before)
        quantization.quantize_static(
            before,
            after,
            _Reader(images, size),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=list(PRODUCTS),
            nodes_to_quantize=[name for name in chosen if not _delicate(model, name)],
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
        )
        quantized = onnx.load(after)
    del quantized.graph.value_info[:]
    return quantized


def _copy(model: Any) -> Any:
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _halved(tensor: Any) -> Any:
    """A weight in fp16, under another name; what is beyond its range ends at it."""
    from onnx import numpy_helper

    value = numpy_helper.to_array(tensor).clip(-HALF_MAX, HALF_MAX)
    return numpy_helper.from_array(value.astype(np.float16), tensor.name + HALF)


class _Reader:
    """Calibration pictures as onnxruntime asks for them."""

    def __init__(self, images: Images, size: Size) -> None:
        self._images, self._size = iter(images), size

    def get_next(self) -> dict[str, NDArray[np.generic]] | None:
        image = next(self._images, None)
        if image is None:
            return None
        return {"image": resize_smooth(image, self._size)[None], "size": np.array(self._size)}


def _is_product(node: Any, weights: Any) -> bool:
    return node.op_type in PRODUCTS and any(name in weights for name in node.input[:2])


def _delicate(model: Any, name: str) -> bool:
    """Whether a product ends in few numbers, one of which decides: the heads' log depth."""
    node = next(item for item in model.graph.node if item.name == name)
    for tensor in model.graph.initializer:
        if tensor.name in node.input[:2] and min(tensor.dims[:2], default=0) <= HEAD_CHANNELS:
            # A convolution with few channels is the stem, or one of each channel by itself.
            return node.op_type != "Conv"
    return False


def _drop_unused(part: Any) -> None:
    used = {name for node in nodes(part) for name in node.input}
    kept = [tensor for tensor in part.initializer if tensor.name in used]
    del part.initializer[:]
    part.initializer.extend(kept)
