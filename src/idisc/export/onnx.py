"""ONNX graphs from RGB bytes to metres, for images of any size or of one size.

    image  uint8 (1, H, W, 3)      depth      float32 (1, h, w) in metres, or normals (1, h, w, 3)
    size   int64 (2,): h, w        level_std  float32 (1, h, w): metres between the resolutions
                                   scene      float32 (1, C): the class token of a ViT encoder

The metadata of a file holds everything that `idisc.load` needs; see `metadata`. The graph has no
GridSample, which several runtimes run slowly or wrongly: deformable attention is Gather with
explicit bilinear weights, see `sampling.py`.
"""

from __future__ import annotations

import json
import logging
import operator
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import idisc
from idisc import checksums, configs, files
from idisc.errors import CheckpointError
from idisc.export import tracing
from idisc.export.sampling import DOMAIN, sample_function
from idisc.model.network import IDisc
from idisc.predict.onnx_engine import LEVEL_STD
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size
from idisc.tasks import TASKS

OPSET = 20  # the first with Gelu
MAX_BYTES = 2**31 - 2**20  # protocol buffers end at 2 GiB; some room for the metadata
FORBIDDEN = ("GridSample",)


def build(network: IDisc, size: Size | None = None, *, keep_weights: bool = False) -> Any:
    """Return the network as an onnx.ModelProto without metadata.

    It takes images of `size`, or of any size if that is None. With `keep_weights`, batch norms are
    not folded into the convolutions, so that the graph can share their weights with a checkpoint;
    onnxruntime folds them when it loads the file.
    """
    from onnx import inliner
    from onnxscript import optimizer

    strides = () if size else tracing.STRIDES
    with quietly("torch.onnx", "torch.export", "onnxscript"):
        program: Any = torch.onnx.export(
            tracing.trace(network, size),
            opset_version=OPSET,
            custom_translation_table=_translations(),
            input_names=["image", "output_size", *map(_size_input, strides)],
            output_names=tracing.output_names(network),
            optimize=False,
            verbose=False,
        )
        optimizer.fold_constants(program.model)
        optimizer.remove_unused_nodes(program.model)
        model = program.model_proto
    if network.config.decoder.msda:
        model.functions.append(sample_function(network, OPSET))
        model.opset_import.add(domain=DOMAIN, version=1)
        model = inliner.inline_local_functions(model)
    _compute_size_inputs(model, strides)
    _name_axes(model, size)  # the traced shapes contradict the graph without its size inputs
    model = _simplify(model, fuse_norms=not keep_weights)
    _name_axes(model, size)  # onnxruntime adds shapes of its own
    _remove_source_locations(model)
    check_operators(model, network.config.encoder)
    return model


def metadata(source: TorchEngine) -> dict[str, str]:
    """Return the metadata of every export of a network.

    The fields of its origin are at the top level (domain, depth_range, training_size,
    training_fov_deg, data, licence ...); lists are JSON.
    """
    origin = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in source.origin.items()
        if value is not None
    }
    return {
        **origin,
        "format": configs.FORMAT,
        "model": json.dumps(configs.to_json(source.network.config)),
        "weights": source.name,
        "weights_sha256": source.sha256,
    }


def add_metadata(model: Any, values: Mapping[str, str]) -> None:
    """Add values to the metadata of an onnx.ModelProto; existing names are replaced."""
    from onnx import helper

    known = {item.key: item.value for item in model.metadata_props}
    del model.metadata_props[:]
    helper.set_model_props(model, {**known, **values})


def save(model: Any, path: Path) -> None:
    """Write an onnx.ModelProto atomically, with checksums of it and of the files it refers to."""
    if model.ByteSize() > MAX_BYTES:
        raise CheckpointError(
            path, f"{model.ByteSize() / 1e9:.1f} GB, more than one ONNX file can hold"
        )
    kept = [item for item in model.metadata_props if item.key != checksums.KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    names = {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    stated = {name: checksums.crc32(path.parent / name) for name in sorted(names)}
    add_metadata(model, {checksums.EXTERNAL: json.dumps(stated)})
    with files.atomic(path) as draft:
        draft.write_bytes(checksums.sealed(model.SerializeToString()))


def check_operators(model: Any, name: str) -> None:
    """Raise CheckpointError if an operator is not standard or known to fail in some runtimes.

    `name` is the subject of the message: a file, or the encoder of the graph.
    """
    for node in nodes(model.graph):
        if node.op_type in FORBIDDEN or node.domain not in ("", "ai.onnx"):
            raise CheckpointError(
                name,
                f"the graph contains {node.op_type}, which some runtimes compute wrongly",
                "nothing is written, choose another encoder",
            )


def nodes(graph: Any) -> Iterator[Any]:
    """Yield every node of a graph and of the graphs inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def replace_nodes(graph: Any, new: list[Any]) -> None:
    """Replace the nodes of a graph."""
    del graph.node[:]
    graph.node.extend(new)


@contextmanager
def quietly(*loggers: str) -> Iterator[None]:
    """Silence warnings and these loggers: exporters report their internals; errors are raised."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in loggers}
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _size_input(stride: int) -> str:
    return f"size_{stride}"


def _translations() -> dict[Any, Any]:
    """Operations whose ONNX form differs from torch's translation, or that torch does not know."""
    from onnx import defs
    from onnxscript import opset20, values

    parameter, types = defs.OpSchema.FormalParameter, {"F": "tensor(float)", "I": "tensor(int64)"}
    inputs = {"value": "F", "sizes": "I", "locations": "F", "weights": "F"}
    schema = defs.OpSchema(
        "Sample",
        DOMAIN,
        1,
        inputs=[parameter(name, kind) for name, kind in inputs.items()],
        outputs=[parameter("result", "F")],
        type_constraints=[(kind, [text], "") for kind, text in types.items()],
    )
    call = values.Op(values.Opset(DOMAIN, 1), "Sample", schema)

    def sized_like(maps: Any, reference: Any, axis: int, factor: int) -> Any:  # noqa: ARG001
        return opset20.Identity(maps)

    def sample(value: Any, sizes: Any, locations: Any, weights: Any) -> Any:
        return call(value, sizes, locations, weights)

    def floor_divide(number: Any, divisor: Any) -> Any:
        """As in Python; torch's translation rounds towards zero."""
        remainder = opset20.Mod(number, divisor)
        return opset20.Div(opset20.Sub(number, remainder), divisor)

    return {
        operator.floordiv: floor_divide,
        torch.ops.idisc.sized_like.default: sized_like,
        torch.ops.idisc.sample.default: sample,
    }


def _compute_size_inputs(model: Any, strides: tuple[int, ...]) -> None:
    """Replace the size inputs by nodes that compute them from the image and the new input `size`.

    A map of stride s has (side + s - 1) // s pixels along a side of the image.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    image = next(item for item in graph.input if item.name == "image")
    del graph.input[:]
    graph.input.extend([image, helper.make_tensor_value_info("size", TensorProto.INT64, [2])])
    empty = helper.make_tensor("empty", TensorProto.BOOL, [1], [False])
    made = [helper.make_node("ConstantOfShape", ["size"], ["output_size"], value=empty)]
    if strides:
        made.append(helper.make_node("Shape", ["image"], ["image_sides"], start=1, end=3))
    for stride in strides:
        name = _size_input(stride)
        for part, number in (("stride", stride), ("rounding", stride - 1)):
            graph.initializer.append(numpy_helper.from_array(np.array([number]), f"{name}_{part}"))
        made += [
            helper.make_node("Add", ["image_sides", f"{name}_rounding"], [f"{name}_sum"]),
            helper.make_node("Div", [f"{name}_sum", f"{name}_stride"], [f"{name}_shape"]),
            helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], value=empty),
        ]
    replace_nodes(graph, [*made, *graph.node])


def _simplify(model: Any, *, fuse_norms: bool) -> Any:
    """Return the same graph with a third of the nodes: computed constants, fused batch norms.

    Only onnxruntime's basic optimizations, which leave standard operators for any runtime.
    """
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simple.onnx"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=[] if fuse_norms else ["ConvBNFusion"],
        )
        simple = onnx.load(path)
    del simple.opset_import[:]
    simple.opset_import.add(domain="", version=OPSET)
    simple.producer_name = "idisc"
    simple.producer_version = idisc.__version__
    return simple


def _name_axes(model: Any, size: Size | None) -> None:
    """Name the axes of varying length, and remove stale shapes inside the graph."""
    from onnx import helper

    del model.graph.value_info[:]
    height, width = size or ("height", "width")
    axes: dict[str, list[int | str]] = {
        "image": [1, height, width, 3],
        LEVEL_STD: [1, "size_0", "size_1"],
    }
    for task in TASKS.values():
        components = [task.components] if task.components > 1 else []
        axes[task.name] = [1, "size_0", "size_1", *components]
    for value in (*model.graph.input, *model.graph.output):
        if value.name in axes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, axes[value.name]))


def _remove_source_locations(model: Any) -> None:
    """Remove the exporter's records of our source files, which name local folders."""
    graph = model.graph
    items = (*nodes(graph), *graph.initializer, *graph.input, *graph.output)
    for item in (model, graph, *items):
        del item.metadata_props[:]
        item.doc_string = ""
