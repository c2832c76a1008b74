"""The engine that runs a checkpoint folder with torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from idisc import files
from idisc.errors import InputError
from idisc.images import Size
from idisc.model.checkpoint import WEIGHTS, load_network


class TorchEngine:
    """A checkpoint folder on one device; see `engine.Engine`."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.name = folder.name
        self.network = load_network(folder).requires_grad_(False)
        try:
            self.network.to(device)
        except (RuntimeError, AssertionError) as error:  # torch has no such device
            raise InputError(f"--device {device}: {str(error).splitlines()[0]}") from None
        self.device = device
        self.sha256 = files.sha256(folder / WEIGHTS)
        self.task: Literal["depth", "normals"] = self.network.config.task

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        bytes_ = torch.from_numpy(np.ascontiguousarray(images)).to(self.device)
        rgb = bytes_.permute(0, 3, 1, 2).float() / 255  # (B, 3, H, W)
        with torch.inference_mode():
            prediction = self.network(rgb, size=size).prediction  # (B, 1 or 3, H, W)
        maps: NDArray[np.float32] = prediction.permute(0, 2, 3, 1).float().cpu().numpy()
        return maps[..., 0] if self.task == "depth" else maps
