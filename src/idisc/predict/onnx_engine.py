"""The engine that runs an exported file with onnxruntime; no torch anywhere.

The graph goes from bytes to metres: input `image` uint8 (B, H, W, 3), output `depth` (B, H, W) or
`normals` (B, H, W, 3); an input `size` int64 (2,) is the size of the output where a graph has it,
and a second output `spread` (B, H, W) says how far the resolutions disagree, in metres.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from idisc import files
from idisc.errors import CheckpointError
from idisc.images import Size, resize_map


class OnnxEngine:
    """An exported file on the CPU; see `engine.Engine`."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # heavy: only when this engine is chosen

        if not path.is_file():
            raise CheckpointError(f"{path}: no such file")
        try:
            quiet = onnxruntime.SessionOptions()
            quiet.log_severity_level = 3  # errors; its warnings are for those who made the file
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), quiet, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a dozen classes for a damaged file
            raise CheckpointError(
                f"{path}: not readable as ONNX ({str(error).splitlines()[0]})"
            ) from None
        inputs = {item.name: item.type for item in self._session.get_inputs()}
        shapes = {item.name: item.shape for item in self._session.get_inputs()}
        outputs = [item.name for item in self._session.get_outputs()]
        if inputs.get("image") != "tensor(uint8)" or outputs[0] not in ("depth", "normals"):
            raise CheckpointError(
                f"{path}: not an export of ours (image bytes to metres); let the program that it"
                " belongs to write its predictions, and pass them with --predictions"
            )
        self.name, self.sha256 = path.name, files.sha256(path)
        self.task: Literal["depth", "normals"] = "depth" if outputs[0] == "depth" else "normals"
        self._sized = "size" in inputs
        self._outputs = outputs
        self.origin: Mapping[str, Any] = dict(self._session.get_modelmeta().custom_metadata_map)
        height, width = shapes["image"][1:3]
        dynamic = not (isinstance(height, int) and isinstance(width, int))
        self.fixed_size: Size | None = None if dynamic else (height, width)

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        return self._run(images, size, self._outputs[:1])[0]

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The same, and the graph's `spread` (B, H, W) in metres, if it has one."""
        wanted = [self._outputs[0], *(name for name in self._outputs if name == "spread")]
        maps, *spread = self._run(images, size, wanted)
        return maps, spread[0] if spread else None

    def _run(
        self, images: NDArray[np.uint8], size: Size | None, names: list[str]
    ) -> list[NDArray[np.float32]]:
        """Those outputs of the graph, at `size`."""
        size = size or (images.shape[1], images.shape[2])
        feeds: dict[str, NDArray[np.generic]] = {"image": np.ascontiguousarray(images)}
        if self._sized:
            feeds["size"] = np.array(size, dtype=np.int64)
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(names, feeds)
        except Exception as error:  # a file exported for one size, or one that is not ours
            height, width = images.shape[1:3]
            raise CheckpointError(
                f"{self.name}: does not run on {height}x{width} ({str(error).splitlines()[0]})"
            ) from None
        return [
            maps if maps.shape[1:3] == size else np.stack([resize_map(each, size) for each in maps])
            for maps in outputs
        ]
