"""ONNX: one graph from RGB bytes to metres, for pictures of any size or of one.

    image  uint8 (1, H, W, 3)      depth   float32 (1, h, w) in metres, or normals (1, h, w, 3)
    size   int64 (2,): h, w        spread  float32 (1, h, w): metres between the resolutions

The file says of itself, in its metadata, all that `idisc.load` needs: see `facts`. There is no
GridSample in it, which several runtimes run slowly or wrongly: deformable attention is Gather with
explicit bilinear weights, see `sampling.py`.
"""

from __future__ import annotations

import json
import logging
import operator
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import idisc
from idisc import config, files
from idisc.errors import CheckpointError, InputError, first_line
from idisc.export import graph
from idisc.export.sampling import DOMAIN, sample_function
from idisc.model.network import IDisc
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size

OPSET = 20  # the first with Gelu
LARGEST = 2**31 - 2**20  # bytes that one file of protocol buffers can hold, and some to spare
FORBIDDEN = ("GridSample",)


def build(network: IDisc, size: Size | None = None, *, by_block: bool = True) -> Any:
    """The network as an onnx.ModelProto without metadata, for pictures of one size or of any.

    `by_block` samples in a Scan, which saves memory, for runtimes that can.
    """
    from onnx import inliner

    lengths = [] if size else graph.lengths()
    names = ["image", "canvas", *(length.name for length in lengths)]
    inputs = graph.example(size, lengths)
    module = graph.BytesToMetres(network, dynamic=size is None)
    outputs: list[str] = [network.config.task]
    if network.config.task == "depth" and network.config.resolutions > 1:
        outputs.append("spread")
    with quietly("torch.onnx", "torch.export", "onnxscript"):
        program = torch.onnx.export(
            _traced(module, inputs),
            opset_version=OPSET,
            custom_translation_table=_translations(),
            input_names=names,
            output_names=outputs,
            optimize=False,
            verbose=False,
        )
        if program is None:
            raise CheckpointError("torch.onnx.export gave no program")
        model = _folded(program)
    if network.config.decoder.msda:
        model.functions.append(sample_function(network, OPSET, by_block=by_block))
        model.opset_import.add(domain=DOMAIN, version=1)
        model = inliner.inline_local_functions(model)
    _take_rulers_out(model, lengths)
    _split_without_sequences(model)
    _name_axes(model, size)  # shapes of the trace would contradict the graph without its rulers
    model = _simplified(model)
    _name_axes(model, size)  # onnxruntime writes down shapes of its own
    _forget_the_trace(model)
    check_operators(model, network.config.encoder)
    return model


def facts(source: TorchEngine) -> dict[str, str]:
    """The metadata that every export of a network carries, as texts.

    The fields of its origin stand at the top (domain, depth_range, training_size,
    training_fov_deg, data, licence ...), lists as JSON.
    """
    origin = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in source.origin.items()
        if value is not None
    }
    return {
        **origin,
        "format": config.FORMAT,
        "model": json.dumps(config.to_json(source.network.config)),
        "weights": source.name,
        "weights_sha256": source.sha256,
    }


def describe(model: Any, texts: Mapping[str, str]) -> None:
    """Put texts into the metadata of an onnx.ModelProto; a name that is there is replaced."""
    from onnx import helper

    known = {item.key: item.value for item in model.metadata_props}
    del model.metadata_props[:]
    helper.set_model_props(model, {**known, **texts})


def save(model: Any, path: Path) -> None:
    """Write an onnx.ModelProto, whole or not at all."""
    if model.ByteSize() > LARGEST:
        raise CheckpointError(f"{path}: {model.ByteSize() / 1e9:.1f} GB, more than a file can hold")
    with files.atomic(path) as draft:
        draft.write_bytes(model.SerializeToString())


def check_operators(model: Any, name: str) -> None:
    """CheckpointError if there is an operator that runtimes are known to get wrong, or ours.

    `name` is for people: a file, or the encoder that the graph is made of.
    """
    for node in nodes(model.graph):
        if node.op_type in FORBIDDEN or node.domain not in ("", "ai.onnx"):
            raise CheckpointError(
                f"{name}: its graph has {node.op_type}, which runtimes get wrong; nothing is"
                " written, choose another encoder"
            )


def nodes(part: Any) -> Iterator[Any]:
    """Every node of a graph and of the graphs within it."""
    for node in part.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def _traced(module: graph.BytesToMetres, inputs: tuple[torch.Tensor, ...]) -> Any:
    """Run once by torch.export; what varies is the canvas, and with rulers all of them."""
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    varying: dict[str, Any] = {"image": None, "canvas": axes}
    if module.dynamic:
        varying["image"] = {1: axes[0], 2: axes[1]}
        varying["rulers"] = tuple(axes for _ in inputs[2:])
    try:
        with torch.no_grad():
            return torch.export.export(
                module,
                inputs,
                dynamic_shapes=varying,
                strict=False,
                # Guesses about memory (is one of the sizes 1?) stay guesses, not conditions.
                prefer_deferred_runtime_asserts_over_guards=True,
            )
    except Exception as error:  # torch has many; all of them mean that the trace failed
        encoder = module.network.config.encoder
        raise InputError(
            f"torch.export cannot follow encoder {encoder} ({first_line(error)});"
            + (" --size with one size may work" if module.dynamic else " nothing is written")
        ) from error


def _translations() -> dict[Any, Any]:
    """How our two operations are written in ONNX: as nothing, and as a call of a function."""
    from onnx import defs
    from onnxscript import opset20, values

    parameter, floats, whole = defs.OpSchema.FormalParameter, "T", "I"
    schema = defs.OpSchema(
        "Sample",
        DOMAIN,
        1,
        inputs=[
            parameter("value", floats),
            parameter("sizes", whole),
            parameter("locations", floats),
            parameter("weights", floats),
        ],
        outputs=[parameter("read", floats)],
        type_constraints=[(floats, ["tensor(float)"], ""), (whole, ["tensor(int64)"], "")],
    )
    call = values.Op(values.Opset(DOMAIN, 1), "Sample", schema)

    def measured(maps: Any, ruler: Any, axis: int, times: int) -> Any:  # noqa: ARG001
        return opset20.Identity(maps)

    def sample(value: Any, sizes: Any, locations: Any, weights: Any) -> Any:
        return call(value, sizes, locations, weights)

    def floor_divide(number: Any, divisor: Any) -> Any:
        """As in Python: the translation that torch brings rounds towards zero."""
        rest = opset20.Mod(number, divisor)
        return opset20.Div(opset20.Sub(number, rest), divisor)

    def repeat_interleave(values: Any, repeats: Any, *_: Any) -> Any:
        """Of a row of numbers: torch's translation swaps axes where the count varies."""
        one, any_length = opset20.Constant(value_ints=[1]), opset20.Constant(value_ints=[-1])
        count = opset20.Reshape(repeats, any_length)
        column = opset20.Unsqueeze(values, one)
        return opset20.Reshape(
            opset20.Expand(column, opset20.Concat(one, count, axis=0)), any_length
        )

    return {
        operator.floordiv: floor_divide,
        torch.ops.aten.repeat_interleave.self_int: repeat_interleave,
        torch.ops.idisc.measured.default: measured,
        torch.ops.idisc.sample.default: sample,
    }


def _folded(program: Any) -> Any:
    """The program as an onnx.ModelProto in which whatever is constant has been computed."""
    from onnxscript import optimizer

    optimizer.fold_constants(program.model)
    optimizer.remove_unused_nodes(program.model)
    return program.model_proto


def _take_rulers_out(model: Any, lengths: Sequence[graph.Length]) -> None:
    """Make the rulers in the graph, from the picture's size and from the new input `size`."""
    from onnx import TensorProto, helper, numpy_helper

    part = model.graph
    image = next(item for item in part.input if item.name == "image")
    size = helper.make_tensor_value_info("size", TensorProto.INT64, [2])
    del part.input[:]
    part.input.extend([image, size])
    empty = helper.make_tensor("empty", TensorProto.BOOL, [1], [False])
    made = [helper.make_node("ConstantOfShape", ["size"], ["canvas"], value=empty)]
    if lengths:
        made.append(helper.make_node("Shape", ["image"], ["picture"], start=1, end=3))
        part.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    for length in lengths:
        ruler = length.name
        for name, numbers in ((f"{ruler}_more", length.more), (f"{ruler}_unit", length.unit)):
            part.initializer.append(numpy_helper.from_array(np.array(numbers), name))
        made += [
            helper.make_node("Add", ["picture", f"{ruler}_more"], [f"{ruler}_ends"]),
            helper.make_node("Div", [f"{ruler}_ends", f"{ruler}_unit"], [f"{ruler}_whole"]),
            helper.make_node("Max", [f"{ruler}_whole", "one"], [f"{ruler}_length"]),
            helper.make_node("ConstantOfShape", [f"{ruler}_length"], [ruler], value=empty),
        ]
    rest = list(part.node)
    del part.node[:]
    part.node.extend([*made, *rest])


def _split_without_sequences(model: Any) -> None:
    """Pieces of a sequence become outputs of Split: few runtimes have sequences."""
    from onnx import helper, numpy_helper

    part = model.graph
    constants = {tensor.name: tensor for tensor in part.initializer}
    for node in part.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = node.attribute[0].t
    kept, pieces = [], {}
    for node in part.node:
        if node.op_type == "SplitToSequence" and len(node.input) == 2:
            count = sum(node.output[0] in other.input for other in part.node)
            names = [f"{node.output[0]}_{index}" for index in range(count)]
            pieces[node.output[0]] = names
            axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
            kept.append(helper.make_node("Split", list(node.input), names, axis=axis))
        elif node.op_type == "SequenceAt" and node.input[0] in pieces:
            index = int(numpy_helper.to_array(constants[node.input[1]]))
            piece = pieces[node.input[0]][index]
            kept.append(helper.make_node("Identity", [piece], list(node.output)))
        else:
            kept.append(node)
    del part.node[:]
    part.node.extend(kept)


def _simplified(model: Any) -> Any:
    """The same in a third of the nodes: batch norms within convolutions, constants computed.

    Only what onnxruntime calls basic, which leaves a graph of standard operators for any runtime.
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
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        simple = onnx.load(path)
    del simple.opset_import[:]
    simple.opset_import.add(domain="", version=OPSET)
    simple.producer_name = "idisc"
    simple.producer_version = idisc.__version__
    return simple


def _name_axes(model: Any, size: Size | None) -> None:
    """Plain names for what varies, and no stale shapes between."""
    del model.graph.value_info[:]
    height, width = size or ("height", "width")
    axes: dict[str, list[int | str]] = {
        "image": [1, height, width, 3],
        "depth": [1, "size_0", "size_1"],
        "spread": [1, "size_0", "size_1"],
        "normals": [1, "size_0", "size_1", 3],
    }
    for value in (*model.graph.input, *model.graph.output):
        if value.name in axes:
            shape = value.type.tensor_type.shape
            shape.ClearField("dim")
            for length in axes[value.name]:
                if isinstance(length, int):
                    shape.dim.add(dim_value=length)
                else:
                    shape.dim.add(dim_param=length)


def _forget_the_trace(model: Any) -> None:
    """Take out what the exporter remembers of our source files: it names folders of a machine."""
    del model.metadata_props[:], model.graph.metadata_props[:]
    for item in (*nodes(model.graph), *model.graph.initializer, *model.graph.input):
        del item.metadata_props[:]
        item.doc_string = ""
    for output in model.graph.output:
        del output.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""


@contextmanager
def quietly(*loggers: str) -> Iterator[None]:
    """Exporters talk about their own insides; errors still come as exceptions."""
    loud = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in loud]
    try:
        for logger in loud:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loud, levels, strict=True):
            logger.setLevel(level)
