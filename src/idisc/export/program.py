"""Other forms of the same graph: a torch.export program, and OpenVINO's pair of files.

A program (.pt2) runs in torch without this package, on pictures of one size: `image` uint8
(1, H, W, 3) -> depth (1, H, W) in metres, or normals (1, H, W, 3); what it says of itself stands in
its archive. OpenVINO's files are made from the ONNX graph, for any size, and say the same there.
The engines here are for measuring; prediction is for ONNX files and checkpoints.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idisc import files
from idisc.errors import CheckpointError, first_line, require
from idisc.model.network import IDisc, rgb_of
from idisc.settings import Task
from idisc.sizes import Size, resize_map

FACTS = "idisc.json"  # the entry of a program's archive that says what it is


class Pictures(nn.Module):
    """Bytes (1, H, W, 3) -> depth (1, H, W), or normals (1, H, W, 3), at the picture's size."""

    def __init__(self, network: IDisc) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        prediction = self.network(rgb_of(image)).prediction
        maps = prediction.permute(0, 2, 3, 1)
        return maps[..., 0] if self.network.config.task == "depth" else maps


def trace(network: IDisc, size: Size) -> Any:
    """The network as a torch.export program for pictures of one size."""
    with torch.no_grad():
        return torch.export.export(
            Pictures(network).eval(),
            (torch.zeros(1, *size, 3, dtype=torch.uint8),),
            strict=False,
        )


def save_program(program: Any, path: Path, texts: Mapping[str, str]) -> None:
    """Write a program and what it says of itself, whole or not at all."""
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={FACTS: json.dumps(dict(texts))})
    with files.atomic(path) as draft:
        draft.write_bytes(content.getvalue())


class ProgramEngine:
    """A .pt2 file; see `predict.engine.Engine`."""

    def __init__(self, path: Path) -> None:
        program, known = _load(path)
        inputs = program.graph_signature.user_inputs
        image = next(node for node in program.graph.nodes if node.name in inputs)
        height, width = image.meta["val"].shape[1:3]
        self._module = program.module()
        self.name, self.sha256 = path.name, files.sha256(path)
        self.origin: Mapping[str, Any] = known
        self.fixed_size: Size | None = (int(height), int(width))
        self.task: Task = _task(known)

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        with torch.no_grad():
            maps = [self._module(torch.tensor(image[None]))[0].numpy() for image in images]
        wanted = size or (images.shape[1], images.shape[2])
        return np.stack([m if m.shape[:2] == wanted else resize_map(m, wanted) for m in maps])

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The same; a program has no spread."""
        return self(images, size), None


def export_openvino(model: Any, path: Path) -> None:
    """Write an onnx.ModelProto as OpenVINO's pair of files, `path` and beside it the weights."""
    require("openvino", extra="openvino")
    import openvino

    converted = openvino.convert_model(io.BytesIO(model.SerializeToString()))
    texts = {item.key: item.value for item in model.metadata_props}
    converted.set_rt_info(json.dumps(texts), "idisc")
    openvino.save_model(converted, path, compress_to_fp16=False)


class OpenVinoEngine:
    """An .xml file of OpenVINO on the CPU; see `predict.engine.Engine`."""

    def __init__(self, path: Path, *, threads: int = 0) -> None:
        require("openvino", extra="openvino")
        import openvino

        try:
            limits = {"INFERENCE_NUM_THREADS": threads} if threads else {}
            self._model = openvino.Core().compile_model(path, "CPU", limits)
        except Exception as error:  # a RuntimeError of its own, of many lines
            reason = str(error).strip().rpartition("\n")[2]
            raise CheckpointError(f"{path}: not readable by OpenVINO ({reason})") from None
        known = openvino.Core().read_model(path).get_rt_info("idisc")
        self.origin: Mapping[str, Any] = json.loads(known.astype(str))
        self.name, self.sha256 = path.name, files.sha256(path)
        self.task: Task = _task(self.origin)
        height, width = list(self._model.input("image").partial_shape)[1:3]
        dynamic = height.is_dynamic or width.is_dynamic
        self.fixed_size = None if dynamic else (height.get_length(), width.get_length())

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        wanted = np.array(size or images.shape[1:3], dtype=np.int64)
        maps = [self._model({"image": i[None], "size": wanted})[self.task][0] for i in images]
        return np.stack(maps)

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The same; the spread is in the file, and not asked for."""
        return self(images, size), None


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    """A program and what it says of itself; CheckpointError if the file is damaged."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    extra = {FACTS: ""}
    try:
        program = torch.export.load(io.BytesIO(path.read_bytes()), extra_files=extra)
        return program, dict(json.loads(extra[FACTS]))
    except Exception as error:  # torch has a dozen classes for a damaged archive
        raise CheckpointError(f"{path}: not a program of ours ({first_line(error)})") from None


def _task(known: Mapping[str, Any]) -> Task:
    return "normals" if json.loads(known["model"])["task"] == "normals" else "depth"
