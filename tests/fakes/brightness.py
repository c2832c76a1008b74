"""An engine that reads metres off the picture, and pictures to show it."""

import io

import numpy as np
from PIL import ExifTags, Image

from idisc.predict.engine import Output
from idisc.sizes import resize_map
from idisc.tasks import DEPTH

FACTS = {
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

    def __init__(self, origin=None, spread=0.1):
        self.origin = FACTS if origin is None else origin
        self.spread = spread
        self.task = DEPTH
        self.calls = []

    def run(self, images, size=None):
        self.calls.append((images.shape, size))
        height, width = size or (images.shape[1], images.shape[2])
        if not self.task.metric:
            raw = np.stack([resize_map(each / np.float32(255), (height, width)) for each in images])
            return Output(raw)
        red = 1 + images[..., 0].astype(np.float32) / 100
        depth = np.stack([resize_map(each, (height, width)) for each in red])
        return Output(depth, None if self.spread is None else np.full_like(depth, self.spread))


def picture(height=48, width=64, shade=100):
    """One grey: 2 m, unless another shade is asked for."""
    return np.full((height, width, 3), shade, np.uint8)


def ramp(height=48, width=64):
    """Lighter from left to right: 1 m to 3 m."""
    shades = np.linspace(0, 200, width).astype(np.uint8)
    return np.broadcast_to(shades[None, :, None], (height, width, 3)).copy()


def jpeg(focal_35mm):
    """A file whose EXIF has a focal length."""
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.FocalLengthIn35mmFilm] = focal_35mm
    stream = io.BytesIO()
    Image.fromarray(picture()).save(stream, format="JPEG", exif=exif)
    return stream.getvalue()
