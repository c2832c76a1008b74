"""A picture from disk as upright RGB bytes, or one line that says what is wrong with the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from idisc.errors import InputError

Size = tuple[int, int]
"""(height, width) in pixels."""


@contextmanager
def open_picture(path: Path) -> Iterator[Image.Image]:
    """The decoded picture of a file; a missing, broken or foreign file is an InputError."""
    try:
        with Image.open(path) as picture:
            picture.load()
            yield picture
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: a folder; a picture is needed") from None
    except UnidentifiedImageError:
        raise InputError(f"{path}: not a picture (or its first bytes are damaged)") from None
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: {error}") from None
    except (OSError, SyntaxError, ValueError) as error:  # how Pillow's decoders complain
        raise InputError(f"{path}: damaged or cut short ({error}); get it again") from None


def read_image(path: Path) -> NDArray[np.uint8]:
    """RGB (H, W, 3), turned as its EXIF orientation says."""
    with open_picture(path) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def picture_size(path: Path) -> Size:
    """(height, width) from the header alone; pixels are not decoded."""
    try:
        with Image.open(path) as picture:
            return picture.height, picture.width
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path}: not readable as a picture ({error})") from None


def resize_bilinear(image: NDArray[np.uint8], size: Size) -> NDArray[np.uint8]:
    """Bilinear between the four nearest pixels, without smoothing, centres at half pixels.

    What most training code of the field does to its pictures. Pillow's own `resize` smooths when
    it reduces, and a network that was trained without would see another picture.
    """
    if image.shape[:2] == size:
        return image
    (height, width), (rows, columns) = image.shape[:2], size
    picture = Image.fromarray(image).transform(
        (columns, rows),
        Image.Transform.AFFINE,
        (width / columns, 0.0, 0.0, 0.0, height / rows, 0.0),
        resample=Image.Resampling.BILINEAR,
    )
    return np.asarray(picture)
