"""Graphs with weights in fp16, stored in the graph or in the safetensors files of a checkpoint.

ONNX can keep a tensor outside of the graph, at an offset of any file in the same folder, and a
safetensors file is a header followed by plain tensors. A checkpoint and its export can therefore
share their bytes, and so can several models with one encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.export.onnx import replace_nodes

MIN_VALUES = 1024  # smaller tensors stay in the graph, in fp32
HALF_MAX = float(np.finfo(np.float16).max)
# By number of axes: permutations from the layout of a graph to that of a checkpoint, and back.
_CHANNELS_LAST = {2: ((1, 0), (1, 0)), 4: ((0, 2, 3, 1), (0, 3, 1, 2))}


def store_half(model: Any, paths: Sequence[Path] = ()) -> int:
    """Store the weights of an onnx.ModelProto in fp16, in place; it still computes in fp32.

    `paths` are safetensors files. A tensor whose values one of them holds in fp16 becomes a
    reference to it, also if it is transposed there, as exporters store the weights of linear
    layers and the map of a position embedding. All others are stored in the graph. The graph
    converts the weights to fp32, which runtimes do once, when they load it. Returns the number of
    values stored in the graph.
    """
    from onnx import TensorProto, helper, numpy_helper

    contents = {path.name: path.read_bytes() for path in paths}
    graph, conversions, count = model.graph, [], 0
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) < MIN_VALUES:
            continue
        name, half = tensor.name, f"{tensor.name}_half"
        values = numpy_helper.to_array(tensor).clip(-HALF_MAX, HALF_MAX).astype(np.float16)
        forward, inverse = _CHANNELS_LAST.get(values.ndim, (None, None))
        if reference := _reference(half, values, contents):
            tensor.CopyFrom(reference)
        elif forward and (
            reference := _reference(f"{half}_transposed", values.transpose(forward), contents)
        ):
            tensor.CopyFrom(reference)
            conversions.append(helper.make_node("Transpose", [tensor.name], [half], perm=inverse))
        else:
            count += values.size
            tensor.CopyFrom(numpy_helper.from_array(values, half))
        conversions.append(helper.make_node("Cast", [half], [name], to=TensorProto.FLOAT))
    replace_nodes(graph, [*conversions, *graph.node])
    return count


def _reference(name: str, values: NDArray[np.float16], contents: Mapping[str, bytes]) -> Any:
    """Return a tensor that refers to these values in one of the files; None if no file has them.

    They may be a part of a stored tensor.
    """
    from onnx import TensorProto

    wanted = values.tobytes()
    for file, content in contents.items():
        offset = content.find(wanted)
        if offset >= 0:
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=values.shape)
            tensor.data_location = TensorProto.EXTERNAL
            location = {"location": file, "offset": offset, "length": len(wanted)}
            for key, value in location.items():
                tensor.external_data.add(key=key, value=str(value))
            return tensor
    return None
