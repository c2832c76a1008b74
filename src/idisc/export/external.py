"""Graphs with weights in fp16, stored in the graph or in the safetensors files of a checkpoint.

ONNX can keep a tensor outside of the graph, at an offset of any file in the same folder, and a
safetensors file is a header followed by plain tensors. A checkpoint and its export can therefore
share their bytes, and so can several models with one encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from idisc.export.onnx import replace_nodes

MIN_VALUES = 1024  # smaller tensors stay in the graph, in fp32
HALF_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Span:
    """The location of a tensor: bytes of a file in the folder of the graph."""

    file: str
    offset: int
    length: int


def store_half(model: Any, paths: Sequence[Path] = ()) -> int:
    """Store the weights of an onnx.ModelProto in fp16, in place; it still computes in fp32.

    `paths` are safetensors files. A tensor whose values one of them holds in fp16 becomes a
    reference to it, also if it is transposed there, as exporters store the weights of linear
    layers. All others are stored in the graph. The graph converts the weights to fp32, which
    runtimes do once, when they load it. Returns the number of values stored in the graph.
    """
    from onnx import TensorProto, helper, numpy_helper

    known = {content: span for path in paths for content, span in _tensors(path)}
    graph, conversions, stored = model.graph, [], 0
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < MIN_VALUES:
            continue
        name, half = tensor.name, f"{tensor.name}_half"
        values = numpy_helper.to_array(tensor).clip(-HALF_MAX, HALF_MAX).astype(np.float16)
        if span := known.get(values.tobytes()):
            tensor.CopyFrom(_reference(half, values.shape, span))
        elif values.ndim == 2 and (span := known.get(values.T.tobytes())):
            tensor.CopyFrom(_reference(f"{half}_transposed", values.T.shape, span))
            conversions.append(helper.make_node("Transpose", [tensor.name], [half], perm=[1, 0]))
        else:
            stored += values.size
            tensor.CopyFrom(numpy_helper.from_array(values, half))
        conversions.append(helper.make_node("Cast", [half], [name], to=TensorProto.FLOAT))
    replace_nodes(graph, [*conversions, *graph.node])
    return stored


def _tensors(path: Path) -> Iterator[tuple[bytes, Span]]:
    """Content and location of the fp16 tensors of a safetensors file that are large enough."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__" or entry["dtype"] != "F16":
            continue
        begin, end = (start + offset for offset in entry["data_offsets"])
        if end - begin >= 2 * MIN_VALUES:
            yield data[begin:end], Span(path.name, begin, end - begin)


def _reference(name: str, shape: Sequence[int], span: Span) -> Any:
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", span.file), ("offset", span.offset), ("length", span.length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
