"""An engine that reads metres off the picture, and pictures to show it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from idisc.predict.engine import RawOutput
from idisc.sizes import resize_map
from idisc.tasks import DEPTH, Task

FACTS: dict[str, Any] = {
    "domain": "indoor",
    "depth_range": [0.01, 10],
    "training_size": [48, 64],
    "training_fov_deg": 60.0,
    "data": "rooms",
    "licence": "CC0",
}


class Brightness:
    """An engine that takes the red byte for depth, metres = 1 + red / 100, and keeps its calls."""

    name, sha256, verified = "brightness", "0123456789abcdef", True
    fixed_size: tuple[int, int] | None = None
    convention = None

    def __init__(self, origin: Mapping[str, Any] | None = None, spread: float | None = 0.1) -> None:
        self.origin: Mapping[str, Any] = FACTS if origin is None else origin
        self.spread = spread
        self.task: Task = DEPTH
        self.calls: list[tuple[tuple[int, ...], tuple[int, int] | None]] = []

    def run(self, images: NDArray[np.uint8], size: tuple[int, int] | None = None) -> RawOutput:
        self.calls.append((images.shape, size))
        height, width = size or (images.shape[1], images.shape[2])
        if not self.task.metric:
            raw = np.stack([resize_map(each / np.float32(255), (height, width)) for each in images])
            return RawOutput(raw)
        red = 1 + images[..., 0].astype(np.float32) / 100
        depth = np.stack([resize_map(each, (height, width)) for each in red])
        return RawOutput(depth, None if self.spread is None else np.full_like(depth, self.spread))


def picture(height: int = 48, width: int = 64, shade: int = 100) -> NDArray[np.uint8]:
    """One grey: 2 m, unless another shade is asked for."""
    return np.full((height, width, 3), shade, np.uint8)


def ramp(height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Lighter from left to right: 1 m to 3 m."""
    shades = np.linspace(0, 200, width).astype(np.uint8)
    return np.broadcast_to(shades[None, :, None], (height, width, 3)).copy()


def jpeg(focal_35mm: int) -> bytes:
    """A file whose EXIF has a focal length."""
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.FocalLengthIn35mmFilm] = focal_35mm
    stream = io.BytesIO()
    Image.fromarray(picture()).save(stream, format="JPEG", exif=exif)
    return stream.getvalue()
