"""Sizes of pictures, and three different resizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Size = tuple[int, int]
"""(height, width) in pixels."""


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


def resize_smooth(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Average all pixels that a new pixel covers: for reducing photos of any size."""
    if image.shape[:2] == size:
        return image
    picture = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(picture)


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


def _neighbours(
    length: int, count: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return, for `count` new pixels along an axis, two old ones and the share of the second."""
    place = np.clip((np.arange(count) + 0.5) * length / count - 0.5, 0, length - 1)
    first = place.astype(np.intp)
    return first, np.minimum(first + 1, length - 1), (place - first).astype(np.float32)
