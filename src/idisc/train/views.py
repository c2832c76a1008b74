"""Views of pictures through one canonical camera, to train one network on many cameras.

A network infers distance from the size of things in pixels, which depends on the focal length.
Therefore depth is expressed for one focal length: a picture with twice that focal length shows
everything twice as large, and its depth is halved for training. Prediction undoes this with the
camera of the photo. A view is a rotated window of the picture at the size of the network; zooming
in is the same as another camera.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from idisc.configs.schema import DataConfig
from idisc.data.dataset import Sample
from idisc.data.framing import Place
from idisc.errors import DataError
from idisc.sizes import Size
from idisc.train.augment import Generator, rotate_vectors, transform_map

WHOLE_PICTURE_SHARE = 0.3  # share of the views that show the whole picture, as prediction does


@dataclass(frozen=True)
class Window:
    """A window of a picture, in shares of its sides."""

    zoom: float = 1.0  # 1: as large as the aspect ratio of the view allows
    across: float = 0.5  # the centre
    down: float = 0.5
    angle_deg: float = 0.0


def draw_window(sample: Sample, data: DataConfig, generator: Generator) -> Window:
    """Draw a window by `augment.zoom` and `augment.rotation_deg`; some are the whole picture."""
    if generator.random() < WHOLE_PICTURE_SHARE:
        return Window()
    zoom = (1 + data.augment.zoom) ** generator.random()
    scale = _pixels_per_pixel(sample, (data.size[0], data.size[1]), zoom)
    shares = [scale * new / old for new, old in zip(data.size, sample.image.shape, strict=False)]
    down, across = (0.5 + (1 - share) * generator.uniform(-0.5, 0.5) for share in shares)
    angle_deg = data.augment.rotation_deg * generator.uniform(-1, 1)
    return Window(zoom, across, down, angle_deg)


def view(sample: Sample, size: Size, canonical_focal: float, window: Window) -> Sample:
    """Cut a window out of a stored sample and resize it; depth is that of the canonical camera.

    Picture and target may differ in size. DataError if the picture has no camera.
    """
    if sample.camera is None:
        raise DataError(
            sample.record.image,
            "no camera is known, which data.canonical_focal needs",
            "add fx, fy, cx, cy to the table of pairs, or pass --set data.canonical_focal=0",
        )
    scale = _pixels_per_pixel(sample, size, window.zoom)
    focal_px = math.sqrt(sample.camera.fx * sample.camera.fy) / scale
    camera = sample.camera.from_focal(focal_px, size, sample.camera.origin)
    target = transform_map(
        sample.target, _inverse(sample, window, scale, size, sample.target), size
    )
    valid = transform_map(
        sample.valid.astype(np.uint8), _inverse(sample, window, scale, size, sample.valid), size
    )
    if sample.task.metric:
        target = target * np.float32(canonical_focal / camera.relative_focal)
    if sample.task.directions:
        target = rotate_vectors(target, window.angle_deg)
    return replace(
        sample,
        image=_image(sample, window, scale, size),
        target=target,
        valid=valid > 0,
        camera=camera,
        place=Place(0, 0, size),
    )


def _pixels_per_pixel(sample: Sample, size: Size, zoom: float) -> float:
    """Return the pixels of the stored picture per pixel of the view, along each side."""
    height, width = sample.image.shape[:2]
    return min(height / size[0], width / size[1]) / zoom


def _image(sample: Sample, window: Window, scale: float, size: Size) -> np.ndarray:
    picture = Image.fromarray(sample.image)
    if scale > 1:  # an affine transform reads single pixels, which causes aliasing
        reduced = (max(1, round(picture.width / scale)), max(1, round(picture.height / scale)))
        picture = picture.resize(reduced, Image.Resampling.BILINEAR)
    inverse = _inverse(sample, window, scale, size, np.asarray(picture))
    window_pixels = picture.transform(  # bicubic of Pillow would be off by half a pixel
        (size[1], size[0]), Image.Transform.AFFINE, inverse, Image.Resampling.BILINEAR
    )
    return np.asarray(window_pixels)


def _inverse(
    sample: Sample, window: Window, scale: float, size: Size, stored: np.ndarray
) -> tuple[float, ...]:
    """Return the coefficients of Pillow from pixels of the view to those of a stored map."""
    height, width = stored.shape[:2]
    across, down = width / sample.image.shape[1], height / sample.image.shape[0]
    angle = math.radians(window.angle_deg)
    cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
    a, b, d, e = cosine * across, sine * across, -sine * down, cosine * down
    x, y = size[1] / 2, size[0] / 2
    return (a, b, window.across * width - a * x - b * y, d, e, window.down * height - d * x - e * y)
