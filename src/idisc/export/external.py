"""Graphs that refer to the tensors of a safetensors file instead of holding a copy of their own.

ONNX can keep a tensor outside of the graph, at an offset of any file in the same folder, and a
safetensors file is a header followed by plain tensors. So a checkpoint and its export can share
their bytes, and so can several models with one encoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LEAST = 1024  # values of a tensor; smaller ones stay in the graph
_STORED = "_stored"


@dataclass(frozen=True)
class Span:
    """Where a tensor lies: bytes of a file in the folder of the graph."""

    file: str
    offset: int
    length: int


def share_tensors(model: Any, paths: Sequence[Path]) -> int:
    """Replace initializers of an onnx.ModelProto by references to equal tensors, in place.

    `paths` are safetensors files in fp16; a tensor is found by its values, also transposed, which
    is how exporters store the weights of linear layers. What is found nowhere is stored in the
    graph, in fp16. Everything is widened to fp32 by the graph itself, which runtimes do once, when
    they load it. Returns how many values the graph still holds itself.
    """
    from onnx import TensorProto, helper, numpy_helper

    known = {content: span for path in paths for content, span in _tensors(path)}
    graph, widened, own = model.graph, [], 0
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < LEAST:
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor).astype(np.float16)
        stored = name + _STORED
        if span := known.get(values.tobytes()):
            tensor.CopyFrom(_external(stored, values.shape, span))
        elif values.ndim == 2 and (span := known.get(values.T.tobytes())):
            tensor.CopyFrom(_external(f"{stored}_transposed", values.T.shape, span))
            widened.append(helper.make_node("Transpose", [tensor.name], [stored], perm=[1, 0]))
        else:
            own += values.size
            tensor.CopyFrom(numpy_helper.from_array(values, stored))
        widened.append(helper.make_node("Cast", [stored], [name], to=TensorProto.FLOAT))
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*widened, *rest])
    return own


def _tensors(path: Path) -> Iterable[tuple[bytes, Span]]:
    """Content and place of every fp16 tensor of a safetensors file that is worth a reference."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__" or entry["dtype"] != "F16":
            continue
        begin, end = (start + offset for offset in entry["data_offsets"])
        if end - begin >= 2 * LEAST:
            yield data[begin:end], Span(path.name, begin, end - begin)


def _external(name: str, shape: Sequence[int], span: Span) -> Any:
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", span.file), ("offset", span.offset), ("length", span.length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
