"""The engine that runs an exported file with onnxruntime, without torch.

The graph maps the input `image` uint8 (B, H, W, 3) to `depth` (B, H, W) in metres or `normals`
(B, H, W, 3). An optional input `size` int64 (2,) is the size of the output. Optional outputs are
`level_std` (B, H, W), the standard deviation over the levels in metres, and `scene` (B, C), the
class token of the encoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import checksums, files
from idisc.errors import CheckpointError, InputError, first_line
from idisc.predict.engine import RawOutput
from idisc.sizes import Size, describe_size, resize_map, size_text
from idisc.tasks import TASKS
from idisc.zoo.cards import ModelCard

LEVEL_STD, SCENE = "level_std", "scene"  # names of the optional outputs
_AXES = {LEVEL_STD: 3, SCENE: 2}
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
        sealed = checksums.check_sealed(path)
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
        # `cards.locate` has checked the files of a card, also those that a graph refers to.
        self.verified = card is not None or (
            sealed and checksums.check_external(path.parent, texts.get(checksums.EXTERNAL))
        )
        inputs = {item.name: item.type for item in self._session.get_inputs()}
        shapes = {item.name: item.shape for item in self._session.get_inputs()}
        outputs = [item.name for item in self._session.get_outputs()]
        known = inputs.get("image") == "tensor(uint8)" and len(shapes["image"]) == 4
        if not known or not outputs or outputs[0] not in TASKS:
            raise CheckpointError(
                path, "not an export of ours (image bytes to metres)", "`idisc export` makes one"
            )
        # The file name of a shipped model says less than its card.
        self.name, self.card = card.name if card else path.name, card
        # The hashes of a card were verified when its file was located.
        stated = {file.path: file.sha256 for file in card.files} if card else {}
        self.sha256 = stated.get(path.name) or files.sha256(path)
        self.task = TASKS[outputs[0]]
        self._map_axes = 3 if self.task.components == 1 else 4
        self._sized = "size" in inputs
        self._outputs = outputs
        self.origin: Mapping[str, Any] = {**texts, **(card.origin if card else {})}
        batch, height, width = shapes["image"][:3]
        self._one_by_one = batch == 1
        dynamic = not (isinstance(height, int) and isinstance(width, int))
        self.fixed_size: Size | None = None if dynamic else (height, width)

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """Map RGB (B, H, W, 3) to depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        return self._run(images, size, self._outputs[:1])[self.task.name]

    def run(self, images: NDArray[np.uint8], size: Size | None = None) -> RawOutput:
        """Return the same maps, and the other outputs that the graph has."""
        wanted = [name for name in self._outputs if name in (self.task.name, LEVEL_STD, SCENE)]
        found = self._run(images, size, wanted)
        return RawOutput(found[self.task.name], found.get(LEVEL_STD), found.get(SCENE))

    def _run(
        self, images: NDArray[np.uint8], size: Size | None, names: list[str]
    ) -> dict[str, NDArray[np.float32]]:
        """Return the named outputs of the graph, maps at `size`."""
        size = size or (images.shape[1], images.shape[2])
        if self._one_by_one and len(images) > 1:
            each = [self._run(images[i : i + 1], size, names) for i in range(len(images))]
            return {name: np.concatenate([one[name] for one in each]) for name in names}
        seen = images.shape[1], images.shape[2]
        if self.fixed_size not in (None, seen):
            raise CheckpointError(
                self.name,
                (
                    f"is for pictures of {describe_size(self.fixed_size)} alone, not of"
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
                self.name, f"does not run on {describe_size(seen)} ({first_line(error)})"
            ) from None
        found = dict(zip(names, outputs, strict=True))
        for name, values in found.items():
            self._check(values, _AXES.get(name, self._map_axes), len(images))
            if name != SCENE and values.shape[1:3] != size:
                found[name] = np.stack([resize_map(each, size) for each in values])
        return found

    def _check(self, values: NDArray[np.float32], axes: int, count: int) -> None:
        """Check an output: those of a damaged graph may be anything."""
        fits = isinstance(values, np.ndarray) and values.dtype == np.float32
        if not fits or values.ndim != axes or len(values) != count or not values.size:
            raise CheckpointError(self.name, "the output of the graph is no map of floats", _AGAIN)


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
