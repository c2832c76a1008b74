"""The engine that runs a checkpoint folder with torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idisc import files
from idisc.configs.schema import Precision
from idisc.errors import InputError
from idisc.model import devices
from idisc.model.checkpoint import WEIGHTS, is_verified, load_network, read_origin
from idisc.model.heads import resized
from idisc.model.linear import prefer_onednn
from idisc.model.network import IDisc, rgb_of
from idisc.model.tokens import size_of
from idisc.predict.conventions import Convention
from idisc.predict.engine import Images, Output
from idisc.sizes import Size
from idisc.zoo.cards import ModelCard


class TorchEngine:
    """A network on its device; see `engine.Engine`."""

    fixed_size: Size | None = None
    convention: Convention | None = None

    def __init__(
        self,
        network: IDisc,
        name: str,
        sha256: str = "",
        origin: Mapping[str, Any] | None = None,
        precision: Precision = "fp32",
        *,
        verified: bool = False,
    ) -> None:
        self.verified = verified
        prefer_onednn(network)
        self.network, self.name, self.sha256 = network, name, sha256
        self.precision = precision
        self.task = network.config.output
        self.origin: Mapping[str, Any] = {**(origin or {}), "precision": precision}

    @classmethod
    def load(
        cls,
        path: Path,
        device: str = "cpu",
        precision: Precision = "fp32",
        card: ModelCard | None = None,
    ) -> TorchEngine:
        """Load a checkpoint folder, or the config of a shipped model with its card."""
        if precision == "fp16" and device == "cpu":
            raise InputError("--precision fp16", "needs a GPU", "bf16 and fp32 run on a CPU")
        network = load_network(path).requires_grad_(False).to(devices.usable(device))
        if card:
            weights = [path.parent / name for name in card.weights]
            name, origin, verified = card.name, card.origin, True  # `cards.locate` has checked it
        else:
            weights, name, origin = [path / WEIGHTS], path.resolve().name, read_origin(path)
            verified = is_verified(path)
        sha256 = files.sha256(*weights)
        return cls(network, name, sha256, origin, precision, verified=verified)

    def run(self, images: Images, size: Size | None = None) -> Output:
        rgb = rgb_of(torch.tensor(images, device=self.network.mean.device))  # (B, 3, H, W)
        dtype = devices.DTYPES[self.precision]
        reduced = torch.autocast(rgb.device.type, dtype, enabled=dtype is not torch.float32)
        with torch.inference_mode(), reduced:
            extracted = self.network.adapt(self.network.extract(rgb))
            output = self.network(rgb, size=size, extracted=extracted)
        level_std = scene = None
        if self.task.metric and len(output.levels) > 1:
            levels = tuple(level.float() for level in output.levels)
            std = disagreement(levels, size or (images.shape[1], images.shape[2]))
            level_std = _as_array(std[:, 0])
        if (token := self.network.scene_of(extracted)) is not None:
            scene = _as_array(token)
        maps = _as_array(output.prediction.permute(0, 2, 3, 1))  # (B, H, W, C)
        return Output(maps[..., 0] if self.task.components == 1 else maps, level_std, scene)


def _as_array(values: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.float().cpu().numpy()
    return array


def disagreement(levels: tuple[Tensor, ...], size: Size) -> Tensor:
    """Return the standard deviation (B, 1, H, W) in metres of log depths (B, 1, H_l, W_l).

    Only their mean is trained, so one level may be too far everywhere and another too near: the
    mean offset of each level over the picture is left out. The deviation is computed where the
    network fuses the levels, at the finest resolution, and resized as depth is.
    """
    fine = size_of(levels[-1])
    logs = torch.stack([resized(level.exp(), fine).log() for level in levels])  # (L, B, 1, h, w)
    answer = logs.exp().mean(0).log()
    variance = (logs - logs.mean((-2, -1), keepdim=True)).var(0, correction=0)
    return resized(variance.sqrt() * answer.exp(), size)
