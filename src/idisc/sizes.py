"""Sizes of pictures, and the ways from one to another: three resizes that are not the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Size = tuple[int, int]
"""(height, width) in pixels."""


def size_text(size: Size) -> str:
    """As one writes it on the command line: 480x640."""
    return f"{size[0]}x{size[1]}"


def resize_bilinear(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Bilinear between the four nearest pixels, without smoothing, centres at half pixels.

    What most training code of the field does to its pictures. Pillow's own `resize` smooths when
    it reduces, its `transform` rounds down (half a grey level darker), and a network that was
    trained on neither would see another picture.
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
    """Bilinear over all pixels that a new pixel covers: how photos of any size are reduced."""
    if image.shape[:2] == size:
        return image
    picture = Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(picture)


def resize_map(values: NDArray[np.float32], size: Size) -> NDArray[np.float32]:
    """Bilinear resize of a map (H, W) or (H, W, C) whose corner pixels stay at the corners.

    The last step of the network, and what the released predictions, stored at a quarter of the
    size, were made for.
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
    """Of each of `count` new pixels along an axis: the two old ones, and the second one's share."""
    place = np.clip((np.arange(count) + 0.5) * length / count - 0.5, 0, length - 1)
    first = place.astype(np.intp)
    return first, np.minimum(first + 1, length - 1), (place - first).astype(np.float32)
