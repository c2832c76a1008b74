"""Sizes of pictures: at which a network sees them, and how pictures and maps are resized.

`Sizing` is the only rule for the size of a picture in a network. Networks differ in how pictures
were resized for them in training, so the resizes of pictures have names (`RESIZES`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc.errors import InputError

Size = tuple[int, int]
"""(height, width) in pixels."""
BAR = (124, 116, 104)  # colour of bars beside a picture, the mean of ImageNet
STRIDE = 32  # of the coarsest map of every encoder of `model`


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """The rule for the size at which a network sees a picture."""

    # area: as many pixels as `size`, with the aspect ratio of the picture. least: with the aspect
    # ratio of the picture, which is scaled as little as possible until one side is that of `size`.
    # stretch: `size`, whatever the aspect ratio. own: the picture's own size.
    kind: Literal["area", "least", "stretch", "own"]
    size: tuple[int, ...] = ()  # (height, width); `own` needs none
    multiple: int = 1  # of both sides; `own` rounds down to it

    def __post_init__(self) -> None:
        if self.kind != "own" and (len(self.size) != 2 or min(self.size) < 1):
            raise InputError("sizing.size", f"{self.size} is not (height, width)")
        if self.multiple < 1:
            raise InputError("sizing.multiple", f"{self.multiple} is less than 1")

    def network_size(self, picture: Size) -> Size:
        """Return the size at which the network sees a picture of this size."""
        if self.kind == "area":
            return fit_aspect((self.size[0], self.size[1]), picture, self.multiple)
        if self.kind == "stretch":
            return self.size[0], self.size[1]
        if self.kind == "own":
            steps = [side // self.multiple for side in picture]
        else:
            scales = [goal / side for goal, side in zip(self.size, picture, strict=True)]
            scale = scales[1] if abs(1 - scales[1]) < abs(1 - scales[0]) else scales[0]
            steps = [round(scale * side / self.multiple) for side in picture]
        height, width = (max(1, step) * self.multiple for step in steps)
        return height, width


def fit_aspect(trained: Size, picture: Size, multiple: int = STRIDE) -> Size:
    """Return a size with the pixels of `trained` and the aspect ratio of the picture.

    Sides are multiples of `multiple`, unless the aspect ratios are the same.
    """
    pixels, aspect = trained[0] * trained[1], picture[0] / picture[1]
    height, width = math.sqrt(pixels * aspect), math.sqrt(pixels / aspect)
    if (round(height), round(width)) == trained:
        return trained
    # The shorter side of a panorama cannot shrink below one step, so the longer one is limited.
    steps = [min(side, pixels / multiple) / multiple for side in (height, width)]
    rows, columns = ({max(1, math.floor(step)), max(1, math.ceil(step))} for step in steps)

    def misfit(size: Size) -> float:
        """Weight the aspect ratio more than the number of pixels, as depth depends on it."""
        squeezed, more = size[0] / size[1] / aspect, size[0] * size[1] / pixels
        return abs(math.log(squeezed)) + abs(math.log(more)) / 4

    return min(
        ((multiple * row, multiple * column) for row in rows for column in columns), key=misfit
    )


class Border(NamedTuple):
    """Pixels that are added around a picture before a network sees it."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    def around(self, size: Size) -> Size:
        """Return the size with the border."""
        return size[0] + self.top + self.bottom, size[1] + self.left + self.right

    def inside(self, size: Size) -> tuple[slice, slice]:
        """Return where a picture of `size` lies in the one with the border."""
        return slice(self.top, self.top + size[0]), slice(self.left, self.left + size[1])

    def pad(self, images: NDArray[np.uint8], *, mirrored: bool) -> NDArray[np.uint8]:
        """Add the border to pictures (B, H, W, 3): mirrored pixels, or bars in `BAR`."""
        if not any(self):
            return images
        if mirrored:
            widths = ((0, 0), (self.top, self.bottom), (self.left, self.right), (0, 0))
            return np.pad(images, widths, mode="reflect")
        size = images.shape[1], images.shape[2]
        rows, columns = self.inside(size)
        padded = np.full((len(images), *self.around(size), 3), BAR, np.uint8)
        padded[:, rows, columns] = images
        return padded


def size_text(size: Size) -> str:
    """Return a size as on the command line: 480x640."""
    return f"{size[0]}x{size[1]}"


def describe_size(size: Size) -> str:
    """Return a size for people, who may expect the width first."""
    return f"{size_text(size)} (height x width)"


def resize_bilinear(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Interpolate between the four nearest pixels, without smoothing, centres at half pixels.

    Most training code of the field resizes pictures this way. Pillow's own `resize` smooths when it
    reduces, and its `transform` rounds down (half a grey level darker), so a network trained with
    this resize would see a different picture.
    """
    if image.shape[:2] == size:
        return image
    channels = image.shape[2]
    top, bottom, down = _neighbours(image.shape[0], size[0])
    left, right, across = _neighbours(image.shape[1], size[1])
    first, second = (
        (columns[:, None] * channels + np.arange(channels)).ravel() for columns in (left, right)
    )
    lines = image.reshape(len(image), -1)  # (H, 3 W): columns are fetched from long rows, fast
    rows = lines[top].astype(np.float32)
    rows += (lines[bottom] - rows) * down[:, None]
    resized = rows[:, first]
    resized += (rows[:, second] - resized) * np.repeat(across, channels)
    return (resized + np.float32(0.5)).astype(np.uint8).reshape(*size, channels)


def resize_smooth(
    image: NDArray[np.uint8],
    size: Size,
    method: Image.Resampling = Image.Resampling.BILINEAR,
) -> NDArray[np.uint8]:
    """Average all pixels that a new pixel covers: for reducing photos of any size.

    With the method BICUBIC, edges stay sharper.
    """
    if image.shape[:2] == size:
        return image
    return np.asarray(Image.fromarray(image).resize((size[1], size[0]), method))


def _unrounded_bilinear(image: NDArray[np.uint8], size: Size) -> NDArray[np.float32]:
    channels = [interpolate_map(each.astype(np.float32), size) for each in np.moveaxis(image, 2, 0)]
    return np.stack(channels, axis=-1)


def _unrounded_corners(image: NDArray[np.uint8], size: Size) -> NDArray[np.float32]:
    return resize_map(image.astype(np.float32), size)


Resize = Literal["smooth", "bicubic", "bilinear", "corners"]
RESIZES: dict[Resize, Callable[[NDArray[np.uint8], Size], NDArray[Any]]] = {
    "smooth": resize_smooth,
    "bicubic": partial(resize_smooth, method=Image.Resampling.BICUBIC),
    "bilinear": _unrounded_bilinear,
    "corners": _unrounded_corners,
}
"""Pictures (H, W, 3) as uint8, or as float32 from 0 to 255 where networks saw no rounded ones."""


def resize_map(values: NDArray[np.float32], size: Size) -> NDArray[np.float32]:
    """Resize a map (H, W) or (H, W, C) bilinearly; corner pixels stay at the corners.

    This is the last step of the network, and the resize for which the released predictions, stored
    at a quarter of the size, were made.
    """
    rows, columns = (
        np.linspace(0, length - 1, count, dtype=np.float64)
        for length, count in zip(values.shape[:2], size, strict=True)
    )
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    bottom = np.minimum(top + 1, values.shape[0] - 1)
    right = np.minimum(left + 1, values.shape[1] - 1)
    extra = (1,) * (values.ndim - 2)
    down = (rows - top).astype(np.float32).reshape(-1, 1, *extra)
    across = (columns - left).astype(np.float32).reshape(1, -1, *extra)
    upper = values[top][:, left] * (1 - across) + values[top][:, right] * across
    lower = values[bottom][:, left] * (1 - across) + values[bottom][:, right] * across
    resized: NDArray[np.float32] = upper * (1 - down) + lower * down
    return resized


def interpolate_map(
    values: NDArray[np.float32], size: Size, *, cubic: bool = False
) -> NDArray[np.float32]:
    """Resize a map (H, W) without smoothing, centres at half pixels, linearly or by cubics.

    The cubic kernel is that of the field's usual post-processing (a = -0.75).
    """
    if values.shape == size:
        return values
    taps = _cubic_taps if cubic else _linear_taps
    across = _weighted(np.ascontiguousarray(values.T), *taps(values.shape[1], size[1]))
    return _weighted(np.ascontiguousarray(across.T), *taps(values.shape[0], size[0]))


Taps = tuple[NDArray[np.intp], NDArray[np.float32]]
"""Old places (T, n) of n new pixels along an axis, and their weights (T, n)."""


def _weighted(
    values: NDArray[np.float32], places: NDArray[np.intp], weights: NDArray[np.float32]
) -> NDArray[np.float32]:
    resized: NDArray[np.float32] = values[places[0]] * weights[0][:, None]
    for place, weight in zip(places[1:], weights[1:], strict=True):
        resized += values[place] * weight[:, None]
    return resized


def _linear_taps(length: int, count: int) -> Taps:
    first, second, share = _neighbours(length, count)
    return np.stack([first, second]), np.stack([1 - share, share])


def _cubic_taps(length: int, count: int) -> Taps:
    place = (np.arange(count) + 0.5) * length / count - 0.5
    first = np.floor(place).astype(np.intp)
    steps = np.arange(-1, 3)[:, None]  # (4, 1)
    apart = np.abs(place - first - steps)  # (4, n)
    a = -0.75
    near = ((a + 2) * apart - (a + 3)) * apart**2 + 1
    far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
    weights = np.where(apart <= 1, near, far).astype(np.float32)
    return np.clip(first + steps, 0, length - 1), weights


def _neighbours(
    length: int, count: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return, for `count` new pixels along an axis, two old ones and the share of the second."""
    place = np.clip((np.arange(count) + 0.5) * length / count - 0.5, 0, length - 1)
    first = place.astype(np.intp)
    return first, np.minimum(first + 1, length - 1), (place - first).astype(np.float32)
