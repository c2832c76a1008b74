"""Augmentation: random changes of colours and geometry, the same for picture, target and camera.

A random flip is followed by k of the operations below, drawn without replacement by their weights,
as in the released code: k is 1, 2, 3 or 4 with probabilities 0.3, 0.4, 0.2, 0.1. torchvision
changes the colours of 8-bit pictures; an affine transform of Pillow changes the geometry, bicubic
for the picture and nearest for the target. Pixels from outside are black and not valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torchvision.transforms.v2 import functional as F

from idisc.camera import Camera
from idisc.configs.schema import AugmentConfig
from idisc.data.dataset import Sample
from idisc.sizes import Size

Generator = np.random.Generator
Operation = Callable[[Sample, AugmentConfig, Generator], Sample]
_BLUR_PX = (0.2, 2.0)  # radius, our choice: from invisible to out of focus at 240x320
_COUNT_CHANCES = (0.3, 0.4, 0.2, 0.1)  # probabilities of 1, 2, 3, 4 operations


def augment(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    """Augment a sample; the same generator gives the same result."""
    if generator.random() < config.flip:
        sample = flip(sample, config)
    known, weights = zip(*operations(config), strict=True)
    chances = np.array(weights) / sum(weights)
    count = min(1 + generator.choice(4, p=_COUNT_CHANCES), int((chances > 0).sum()))
    for index in generator.choice(len(known), size=count, replace=False, p=chances):
        sample = known[index](sample, config, generator)
    return sample


def flip(sample: Sample, config: AugmentConfig) -> Sample:
    """Mirror a sample left to right; the x of directions changes its sign."""
    target = sample.target[:, ::-1].copy()
    if sample.task.directions and config.flip_normals:
        target[..., 0] *= -1
    return replace(
        sample,
        image=np.ascontiguousarray(sample.image[:, ::-1]),
        target=target,
        valid=np.ascontiguousarray(sample.valid[:, ::-1]),
        camera=sample.camera and sample.camera.flipped(),
    )


def operations(config: AugmentConfig) -> list[tuple[Operation, float]]:
    """Return all operations with their weights; the first one changes nothing."""
    return [
        (lambda sample, *_: sample, 1.0),
        (_by_factor(F.adjust_brightness), 1.0),
        (_by_factor(F.adjust_contrast), config.contrast_weight),
        (_by_factor(F.adjust_saturation), 1.0),
        (_gamma, 1.0),
        (_hue, 1.0),
        (_blur, config.blur_weight),
        (_translate, config.translation_weight),
        (zoom_in, config.geometry_weight),
        (_rotate, config.geometry_weight),
    ]


def _change_colours(sample: Sample, change: Callable[[Any], Any]) -> Sample:
    return replace(sample, image=np.asarray(change(Image.fromarray(sample.image))))


def _by_factor(adjust: Callable[[Any, float], Any]) -> Operation:
    """Return an operation that multiplies a property of the colours by a random power of ten."""

    def operation(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
        factor = float(10 ** generator.uniform(-config.colour, config.colour))
        return _change_colours(sample, lambda picture: adjust(picture, factor))

    return operation


def _gamma(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    gamma = generator.uniform(1 - config.gamma, 1 + config.gamma)
    return _change_colours(sample, lambda picture: F.adjust_gamma(picture, gamma))


def _hue(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    shift = generator.uniform(-min(config.colour, 0.5), min(config.colour, 0.5))
    return _change_colours(sample, lambda picture: F.adjust_hue(picture, shift))


def _blur(sample: Sample, _config: AugmentConfig, generator: Generator) -> Sample:
    radius = generator.uniform(*_BLUR_PX)
    return _change_colours(sample, lambda picture: picture.filter(ImageFilter.GaussianBlur(radius)))


def _translate(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    across, down = generator.uniform(-config.translation, config.translation, size=2)
    return move(sample, across=float(across), down=float(down))


def zoom_in(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    """Zoom about the centre; `zoom_depth` decides whether depth is divided."""
    zoom = generator.uniform(1, 1 + config.zoom)
    sample = move(sample, zoom=zoom)
    if config.zoom_depth == "divided" and sample.task.metric:
        sample = replace(sample, target=sample.target / np.float32(zoom))
    return sample


def _rotate(sample: Sample, config: AugmentConfig, generator: Generator) -> Sample:
    angle_deg = generator.uniform(-config.rotation_deg, config.rotation_deg)
    return move(sample, angle_deg=angle_deg)


def move(
    sample: Sample,
    *,
    angle_deg: float = 0.0,
    zoom: float = 1.0,
    across: float = 0.0,
    down: float = 0.0,
) -> Sample:
    """Rotate and zoom about the centre, then shift by shares of width and height.

    Picture and target may differ in size; each moves about its own centre by the same share.
    """
    cosine, sine = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))

    def inverse(size: Size) -> tuple[float, ...]:
        """Return the coefficients of Pillow from pixels of the output to those of the input."""
        c, s = cosine / zoom, sine / zoom
        x, y = size[1] / 2, size[0] / 2
        tx, ty = int(size[1] * across), int(size[0] * down)
        return (
            *(c, s, x - c * (x + tx) - s * (y + ty)),
            *(-s, c, y + s * (x + tx) - c * (y + ty)),
        )

    target_size = sample.valid.shape[0], sample.valid.shape[1]
    target = transform_map(sample.target, inverse(target_size), target_size)
    if sample.task.directions:
        target = rotate_vectors(target, angle_deg)
    picture = Image.fromarray(sample.image)
    size = (picture.height, picture.width)
    return replace(
        sample,
        image=np.asarray(
            picture.transform(
                picture.size, Image.Transform.AFFINE, inverse(size), Image.Resampling.BICUBIC
            )
        ),
        target=target,
        valid=transform_map(sample.valid.astype(np.uint8), inverse(target_size), target_size) > 0,
        camera=sample.camera
        and _move_camera(sample.camera, (cosine * zoom, sine * zoom), (across, down)),
    )


def rotate_vectors(directions: NDArray[Any], angle_deg: float) -> NDArray[Any]:
    """Rotate vectors (H, W, 3) by the angle by which their picture is rotated."""
    cosine, sine = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    x, y = directions[..., 0], directions[..., 1]
    return np.stack((cosine * x - sine * y, sine * x + cosine * y, directions[..., 2]), axis=-1)


def transform_map(
    values: NDArray[Any], coefficients: tuple[float, ...], size: Size
) -> NDArray[Any]:
    """Apply an affine transform to a map (H, W) or (H, W, C): nearest pixels, 0 from outside."""
    if values.ndim == 3:
        return np.stack(
            [transform_map(values[..., c], coefficients, size) for c in range(values.shape[2])],
            axis=-1,
        )
    picture = Image.fromarray(np.ascontiguousarray(values))
    moved_picture = picture.transform(
        (size[1], size[0]), Image.Transform.AFFINE, coefficients, Image.Resampling.NEAREST
    )
    return np.array(moved_picture)


def _move_camera(camera: Camera, turn: tuple[float, float], shift: tuple[float, float]) -> Camera:
    """Move the principal point with the picture and multiply the focal length by the zoom."""
    height, width = camera.size
    x, y = camera.cx - (width - 1) / 2, camera.cy - (height - 1) / 2
    c, s = turn
    zoom = math.hypot(c, s)
    return replace(
        camera,
        fx=camera.fx * zoom,
        fy=camera.fy * zoom,
        cx=c * x - s * y + (width - 1) / 2 + int(width * shift[0]),
        cy=s * x + c * y + (height - 1) / 2 + int(height * shift[1]),
    )
