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
from idisc.model.network import IDisc


class TorchEngine:
    """A network on the device it is on; see `engine.Engine`."""

    def __init__(self, network: IDisc, name: str, sha256: str = "") -> None:
        self.network, self.name, self.sha256 = network, name, sha256
        self.task: Literal["depth", "normals"] = network.config.task

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> TorchEngine:
        """The engine of a checkpoint folder."""
        network = load_network(folder).requires_grad_(False)
        try:
            network.to(device)
        except (RuntimeError, AssertionError) as error:  # torch has no such device
            raise InputError(f"--device {device}: {str(error).splitlines()[0]}") from None
        return cls(network, folder.name, files.sha256(folder / WEIGHTS))

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        bytes_ = torch.tensor(images, device=self.network.mean.device)
        rgb = bytes_.permute(0, 3, 1, 2).float() / 255  # (B, 3, H, W)
        with torch.inference_mode():
            prediction = self.network(rgb, size=size).prediction  # (B, 1 or 3, H, W)
        maps: NDArray[np.float32] = prediction.permute(0, 2, 3, 1).float().cpu().numpy()
        return maps[..., 0] if self.task == "depth" else maps
