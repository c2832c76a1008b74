"""Views of a picture through one canonical camera: how pictures of many cameras train one network.

What a network can see of distance is the size of things in pixels, which depends on the focal
length. So depth is expressed for one focal length: a picture with twice that focal length shows
everything twice as large, and its depth is halved before the network learns it. Prediction undoes
this with the camera of the photo. A view is a rotated window of the picture, at the network's size;
zooming in is the same as another camera and needs no treatment of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from idisc.data.dataset import Sample
from idisc.data.framing import Place
from idisc.errors import DataError
from idisc.settings import DataConfig
from idisc.sizes import Size
from idisc.train.augment import Generator, transformed

WHOLE = 0.3  # share of the views that show the whole picture, as prediction does


@dataclass(frozen=True)
class Window:
    """A window of a picture, in shares of its sides."""

    zoom: float = 1.0  # 1: as large as the shape of the view allows
    across: float = 0.5  # its middle
    down: float = 0.5
    angle_deg: float = 0.0


def draw_window(sample: Sample, data: DataConfig, generator: Generator) -> Window:
    """The whole picture or a random window, by `augment.zoom` and `augment.rotation_deg`."""
    if generator.random() < WHOLE:
        return Window()
    zoom = (1 + data.augment.zoom) ** generator.random()
    scale = _pixels_per_pixel(sample, (data.size[0], data.size[1]), zoom)
    shares = [scale * new / old for new, old in zip(data.size, sample.image.shape, strict=False)]
    down, across = (0.5 + (1 - share) * generator.uniform(-0.5, 0.5) for share in shares)
    angle_deg = data.augment.rotation_deg * generator.uniform(-1, 1)
    return Window(zoom, across, down, angle_deg)


def view(sample: Sample, size: Size, canonical_focal: float, window: Window) -> Sample:
    """A sample as stored -> the window of it at `size`, depth in the canonical camera.

    Picture and target may differ in size. DataError for a picture without a camera.
    """
    if sample.camera is None:
        raise DataError(
            sample.record.image,
            "no camera is known, which data.canonical_focal needs",
            "add fx, fy, cx, cy to the table of pairs",
        )
    scale = _pixels_per_pixel(sample, size, window.zoom)
    focal_px = math.sqrt(sample.camera.fx * sample.camera.fy) / scale
    camera = sample.camera.from_focal(focal_px, size, sample.camera.origin)
    target = transformed(sample.target, _inverse(sample, window, scale, size, sample.target), size)
    valid = transformed(
        sample.valid.astype(np.uint8), _inverse(sample, window, scale, size, sample.valid), size
    )
    if target.ndim == 2:
        target = target * np.float32(canonical_focal / camera.relative_focal)
    else:
        target = _turned(target, window.angle_deg)
    return replace(
        sample,
        image=_image(sample, window, scale, size),
        target=target,
        valid=valid > 0,
        camera=camera,
        place=Place(0, 0, size),
    )


def _pixels_per_pixel(sample: Sample, size: Size, zoom: float) -> float:
    """Pixels of the stored picture for one of the view, along each side."""
    height, width = sample.image.shape[:2]
    return min(height / size[0], width / size[1]) / zoom


def _image(sample: Sample, window: Window, scale: float, size: Size) -> np.ndarray:
    picture = Image.fromarray(sample.image)
    if scale > 1:  # an affine transform reads single pixels, which would alias
        reduced = (max(1, round(picture.width / scale)), max(1, round(picture.height / scale)))
        picture = picture.resize(reduced, Image.Resampling.BILINEAR)
    inverse = _inverse(sample, window, scale, size, np.asarray(picture))
    moved = picture.transform(  # not bicubic, which Pillow's transform rounds to half pixels
        (size[1], size[0]), Image.Transform.AFFINE, inverse, Image.Resampling.BILINEAR
    )
    return np.asarray(moved)


def _inverse(
    sample: Sample, window: Window, scale: float, size: Size, stored: np.ndarray
) -> tuple[float, ...]:
    """Pillow's coefficients: where in a map of the stored picture a pixel of the view lies."""
    height, width = stored.shape[:2]
    across, down = width / sample.image.shape[1], height / sample.image.shape[0]
    angle = math.radians(window.angle_deg)
    cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
    a, b, d, e = cosine * across, sine * across, -sine * down, cosine * down
    x, y = size[1] / 2, size[0] / 2
    return (a, b, window.across * width - a * x - b * y, d, e, window.down * height - d * x - e * y)


def _turned(normals: np.ndarray, angle_deg: float) -> np.ndarray:
    """Directions in the picture turn with it; `moved` of `augment` has the same sign."""
    cosine, sine = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    x, y = normals[..., 0], normals[..., 1]
    return np.stack((cosine * x - sine * y, sine * x + cosine * y, normals[..., 2]), axis=-1)
