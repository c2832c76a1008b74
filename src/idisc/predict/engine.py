"""Engines: pictures in, metres (or normals) out. Two of them, which differ in nothing but speed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.errors import CheckpointError, require
from idisc.images import Size


class Engine(Protocol):
    """A network ready to run."""

    name: str  # what it was loaded from, for people
    sha256: str  # of its weights
    task: Literal["depth", "normals"]

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3).

        `size` is that of the result, by default the picture's own.
        """
        ...


def open_engine(path: Path, device: str = "cpu") -> Engine:
    """The engine for a checkpoint folder or an exported .onnx file."""
    if path.suffix == ".onnx":
        from idisc.predict.onnx_engine import OnnxEngine

        return OnnxEngine(path)
    if not path.is_dir():
        what = "neither a checkpoint folder nor an .onnx file" if path.exists() else "not there"
        raise CheckpointError(f"{path}: {what}")
    require("torch", "timm", "safetensors", extra="train")
    from idisc.predict.torch_engine import TorchEngine

    return TorchEngine.load(path, device)
