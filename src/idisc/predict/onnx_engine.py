"""The engine that runs an exported file with onnxruntime, without torch.

The graph maps the input `image` uint8 (B, H, W, 3) to `depth` (B, H, W) in metres or `normals`
(B, H, W, 3). An optional input `size` int64 (2,) is the size of the output; an optional second
output `spread` (B, H, W) is the standard deviation over the levels, in metres.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import files
from idisc.errors import CheckpointError, InputError, first_line
from idisc.sizes import Size, resize_map, size_text
from idisc.tasks import TASKS
from idisc.zoo.cards import ModelCard

_AGAIN = "get it again, or export it again"


class OnnxEngine:
    """An exported file; see `engine.Engine`. `threads`: 0 is one for each core of the CPU."""

    def __init__(
        self,
        path: Path,
        device: str = "cpu",
        *,
        threads: int = 0,
        card: ModelCard | None = None,
    ) -> None:
        import onnxruntime  # heavy: only when this engine is chosen

        if not path.is_file():
            raise CheckpointError(path, "no such file")
        if not path.stat().st_size:
            raise CheckpointError(path, "empty", _AGAIN)
        providers = _providers(device, onnxruntime.get_available_providers())
        try:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4  # errors are exceptions, not lines on stderr
            options.intra_op_num_threads = threads
            # Planning the reuse of buffers took most of the start-up time and saves nothing for
            # dynamic sizes; the arena reuses freed memory anyway.
            options.enable_mem_reuse = False
            # Opened by name: bytes would be copied, which takes half a second for 150 MB.
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=providers, enable_fallback=0
            )  # no fallback to the CPU, which would print, and hide that there is no GPU
            texts = dict(self._session.get_modelmeta().custom_metadata_map)
        except Exception as error:  # onnxruntime has a dozen exceptions for a damaged file
            raise CheckpointError(
                path, f"not readable as ONNX ({_reason(error)})", _AGAIN
            ) from None
        inputs = {item.name: item.type for item in self._session.get_inputs()}
        shapes = {item.name: item.shape for item in self._session.get_inputs()}
        outputs = [item.name for item in self._session.get_outputs()]
        known = inputs.get("image") == "tensor(uint8)" and len(shapes["image"]) == 4
        if not known or not outputs or outputs[0] not in TASKS:
            raise CheckpointError(
                path, "not an export of ours (image bytes to metres)", "`idisc export` makes one"
            )
        # The file name of a shipped model says less than its card.
        self.name, self.sha256 = card.name if card else path.name, files.sha256(path)
        self.card = card
        self.task = TASKS[outputs[0]]
        self._sized = "size" in inputs
        self._outputs = outputs
        self.origin: Mapping[str, Any] = {**texts, **(card.origin if card else {})}
        batch, height, width = shapes["image"][:3]
        self._one_by_one = batch == 1
        dynamic = not (isinstance(height, int) and isinstance(width, int))
        self.fixed_size: Size | None = None if dynamic else (height, width)

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """Map RGB (B, H, W, 3) to depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        return self._run(images, size, self._outputs[:1])[0]

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Return the same, and the standard deviation (B, H, W) in metres, if the graph has it."""
        wanted = [self._outputs[0], *(name for name in self._outputs if name == "spread")]
        maps, *spread = self._run(images, size, wanted)
        return maps, spread[0] if spread else None

    def _run(
        self, images: NDArray[np.uint8], size: Size | None, names: list[str]
    ) -> list[NDArray[np.float32]]:
        """Return the named outputs of the graph, at `size`."""
        size = size or (images.shape[1], images.shape[2])
        if self._one_by_one and len(images) > 1:
            each = [self._run(images[i : i + 1], size, names) for i in range(len(images))]
            return [np.concatenate(maps) for maps in zip(*each, strict=True)]
        seen = images.shape[1], images.shape[2]
        if self.fixed_size not in (None, seen):
            raise CheckpointError(
                self.name,
                (
                    f"is for pictures of {size_text(self.fixed_size)} alone, not of"
                    f" {size_text(seen)}"
                ),
                "export the checkpoint again for any size",
            )
        feeds: dict[str, NDArray[np.generic]] = {"image": np.ascontiguousarray(images)}
        if self._sized:
            feeds["size"] = np.array(size, dtype=np.int64)
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(names, feeds)
        except Exception as error:  # a file for one size, or from another program
            raise CheckpointError(
                self.name, f"does not run on {size_text(seen)} ({first_line(error)})"
            ) from None
        self._check(outputs, len(images))
        return [
            maps if maps.shape[1:3] == size else np.stack([resize_map(each, size) for each in maps])
            for maps in outputs
        ]

    def _check(self, outputs: list[NDArray[np.float32]], count: int) -> None:
        """Check the outputs: those of a damaged graph may be anything."""
        axes = [3 if self.task.components == 1 else 4, *(3 for _ in outputs[1:])]
        for maps, wanted in zip(outputs, axes, strict=True):
            fits = isinstance(maps, np.ndarray) and maps.dtype == np.float32
            if not fits or maps.ndim != wanted or len(maps) != count or not maps.size:
                raise CheckpointError(self.name, "its answer is no map of floats", _AGAIN)


def _reason(error: Exception) -> str:
    """Return the error of onnxruntime without its prefix and path."""
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : ", "", str(error))
    return first_line(ValueError(re.sub(r"^\w+ : Load model from .* failed:", "", text)))


def _providers(device: str, available: Sequence[str]) -> list[Any]:
    """Return the execution providers of a device; InputError if it is not available."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", device)
    if not match:
        raise InputError(f"--device {device}", "an .onnx file runs on cpu, cuda, cuda:1 ...")
    if device == "cpu":
        return ["CPUExecutionProvider"]
    if "CUDAExecutionProvider" not in available:
        raise InputError(
            f"--device {device}",
            "this onnxruntime has no CUDA",
            "pip install onnxruntime-gpu instead of onnxruntime, or leave out --device",
        )
    return [("CUDAExecutionProvider", {"device_id": int(match[1] or 0)}), "CPUExecutionProvider"]
