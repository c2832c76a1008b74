"""The engine that runs a checkpoint folder with torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from idisc import files
from idisc.errors import InputError
from idisc.images import Size
from idisc.model.checkpoint import CONFIG, WEIGHTS, load_network
from idisc.model.network import IDisc, Output


class TorchEngine:
    """A network on the device it is on; see `engine.Engine`."""

    fixed_size: Size | None = None

    def __init__(
        self,
        network: IDisc,
        name: str,
        sha256: str = "",
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        self.network, self.name, self.sha256 = network, name, sha256
        self.task: Literal["depth", "normals"] = network.config.task
        self.origin: Mapping[str, Any] = origin or {}

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> TorchEngine:
        """The engine of a checkpoint folder."""
        network = load_network(folder).requires_grad_(False)
        try:
            network.to(device)
        except (RuntimeError, AssertionError) as error:  # torch has no such device
            raise InputError(f"--device {device}: {str(error).splitlines()[0]}") from None
        origin = files.read_json(folder / CONFIG).get("origin")
        return cls(
            network,
            folder.resolve().name,
            files.sha256(folder / WEIGHTS),
            origin if isinstance(origin, dict) else {},
        )

    def __call__(self, images: NDArray[np.uint8], size: Size | None = None) -> NDArray[np.float32]:
        """RGB (B, H, W, 3) -> depth (B, H, W) in metres, or normals (B, H, W, 3)."""
        return self._as_maps(self._run(images, size))

    def with_spread(
        self, images: NDArray[np.uint8], size: Size | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The same, and how far the resolutions disagree, (B, H, W) in metres; None for normals."""
        output = self._run(images, size)
        if self.task == "normals" or len(output.levels) < 2:
            return self._as_maps(output), None
        spread = disagreement(output.levels, size or images.shape[1:3])
        return self._as_maps(output), spread[:, 0].float().cpu().numpy()

    def _run(self, images: NDArray[np.uint8], size: Size | None) -> Output:
        bytes_ = torch.tensor(images, device=self.network.mean.device)
        rgb = bytes_.permute(0, 3, 1, 2).float() / 255  # (B, 3, H, W)
        with torch.inference_mode():
            output: Output = self.network(rgb, size=size)
        return output

    def _as_maps(self, output: Output) -> NDArray[np.float32]:
        prediction = output.prediction.permute(0, 2, 3, 1)  # (B, H, W, 1 or 3)
        maps: NDArray[np.float32] = prediction.float().cpu().numpy()
        return maps[..., 0] if self.task == "depth" else maps


def disagreement(levels: tuple[Tensor, ...], size: tuple[int, ...]) -> Tensor:
    """Log depth of each resolution, (B, 1, H_l, W_l) -> their deviation in metres (B, 1, H, W).

    Taken where the network fuses them, at the finest resolution, and resized as depth is.
    """
    fine = tuple(levels[-1].shape[2:])
    depths = torch.stack([_resized(level.exp(), fine) for level in levels])
    return _resized(depths.std(0, correction=0), size)


def _resized(maps: Tensor, size: tuple[int, ...]) -> Tensor:
    return F.interpolate(maps, size=size, mode="bilinear", align_corners=True)
