"""The engine that runs an exported file with onnxruntime; no torch anywhere.

The graph goes from bytes to metres: input `image` uint8 (B, H, W, 3), output `depth` (B, H, W) or
`normals` (B, H, W, 3); an input `size` int64 (2,) is the size of the output where a graph has it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a dozen classes for a damaged file
            raise CheckpointError(
                f"{path}: not readable as ONNX ({str(error).splitlines()[0]})"
            ) from None
        inputs = {item.name: item.type for item in self._session.get_inputs()}
        outputs = [item.name for item in self._session.get_outputs()]
        if inputs.get("image") != "tensor(uint8)" or outputs[0] not in ("depth", "normals"):
            raise CheckpointError(
                f"{path}: not an export of ours (image bytes to metres); let the program that it"
                " belongs to write its predictions, and pass them with --predictions"
            )
        self.name, self.sha256 = path.name, files.sha256(path)
        self.task: Literal["depth", "normals"] = "depth" if outputs[0] == "depth" else "normals"
        self._sized = "size" in inputs

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        size = size or (images.shape[1], images.shape[2])
        feeds: dict[str, NDArray[np.generic]] = {"image": np.ascontiguousarray(images)}
        if self._sized:
            feeds["size"] = np.array(size, dtype=np.int64)
        maps: NDArray[np.float32] = self._session.run(None, feeds)[0]
        if maps.shape[1:3] != size:
            maps = np.stack([resize_map(each, size) for each in maps])
        return maps
