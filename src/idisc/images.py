"""Reads pictures as upright RGB bytes.

`read_photo` accepts a path, bytes, an open file, a Pillow picture, an array or a tensor. It notes
what it changes (16 bits to 8, transparency, dropped frames) and keeps the camera data of EXIF.
Formats whose readers run other programs (EPS, WMF) are not supported.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from idisc.camera import Lens
from idisc.errors import InputError, MissingExtra, require
from idisc.sizes import Size

MAX_NETWORK_PIXELS = 2048 * 4096  # a network needs a kilobyte or more per pixel
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF", "JPEG2000", "QOI")
_REDUCED, _FLOATS = "16-bit reduced to 8", "floats reduced to 8 bits"
_IN_RGB = {  # mode of Pillow -> note about its conversion to RGB
    **dict.fromkeys(("1", "L"), "grey turned into RGB"),
    "P": "palette turned into RGB",
    "CMYK": "CMYK turned into RGB without its profile",
}
_HEIF = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")  # brands, from byte 8 on
_TURNS = {  # EXIF orientation -> what makes the picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # EXIF FocalPlaneResolutionUnit


class TooManyPixels(InputError):
    """A picture has more pixels than the caller or this package accepts."""


@dataclass(frozen=True)
class Photo:
    """An upright picture and what is known about its camera."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB, upright
    name: str  # of the file, without its folder
    lens: Lens = field(default_factory=Lens)  # the camera data of EXIF
    notes: tuple[str, ...] = ()  # what was changed or left out, as text
    named: bool = True  # False: `name` is the kind of the source, as it has no name

    @property
    def size(self) -> Size:
        """(height, width)."""
        return self.image.shape[0], self.image.shape[1]


class Tensor(Protocol):
    """A tensor of torch; torch need not be installed."""

    def detach(self) -> Any:
        """Return the tensor without its gradient history."""


PhotoSource: TypeAlias = (
    str | os.PathLike[str] | bytes | bytearray | IO[bytes] | Image.Image | NDArray[Any] | Tensor
)


def read_photo(source: PhotoSource | Photo, name: str = "", max_pixels: int | None = None) -> Photo:
    """Read a picture from a path, bytes, an open file, a Pillow picture, an array or a tensor.

    Arrays are RGB, (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), tensors also (3, H, W): bytes, 16
    bits, or floats from 0 to 1. `name` is the name of the picture in errors and results. Bytes of a
    picture with more than `max_pixels` raise TooManyPixels before anything is decoded.
    """
    if isinstance(source, Photo):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        with _opened(path) as picture, _named_errors(str(path)):
            return _decode(picture, name or path.name)
    if isinstance(source, (bytes, bytearray)):
        photo = _from_bytes(source, name or "bytes", max_pixels)
    elif isinstance(source, Image.Image):
        name = name or Path(str(getattr(source, "filename", ""))).name
        label = name or "picture"
        with _decoding_errors(label), _named_errors(label):
            photo = _decode(source, label)
    elif hasattr(source, "read"):
        name = name or Path(str(getattr(source, "name", ""))).name
        data = cast(IO[bytes], source).read()
        if not isinstance(data, bytes):
            raise InputError(name or "file", "opened as text", "open it as bytes, with mode 'rb'")
        photo = _from_bytes(data, name or "file")
    elif isinstance(source, np.ndarray):
        photo = _from_array(source, name or "array", channels_first=False)
    elif hasattr(source, "detach"):
        tensor = source.detach().cpu()
        floating = "float" in str(tensor.dtype)  # numpy has no bfloat16
        array = (tensor.float() if floating else tensor).numpy()
        photo = _from_array(array, name or "tensor", channels_first=True)
    else:
        raise InputError(
            name or type(source).__name__,
            "not a picture",
            "pass a path, bytes, an open file, a Pillow picture, an array or a tensor, and several"
            " of them to predict_many",
        )
    return replace(photo, named=bool(name))


@contextmanager
def open_picture(path: Path) -> Iterator[Image.Image]:
    """Open and decode a picture; InputError if the file is missing, damaged or not a picture."""
    with _opened(path) as picture:
        picture.load()
        yield picture


def read_image(path: Path) -> NDArray[np.uint8]:
    """Return RGB (H, W, 3), upright according to EXIF."""
    return read_photo(path).image


def picture_size(path: Path) -> Size:
    """Return the (height, width) of the upright picture from its header, without decoding it."""
    with _opened(path) as picture:
        exif = picture.getexif() if "exif" in picture.info else {}  # PNG would decode to look
        sideways = exif.get(ExifTags.Base.Orientation, 1) >= 5
        return (picture.width, picture.height) if sideways else (picture.height, picture.width)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open a file and read its header; all errors within the block name the file."""
    if path.is_dir():
        raise InputError(path, "a folder", "a picture is needed")
    if not path.is_file():
        raise InputError(path, "not a regular file" if path.exists() else "no such file")
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})") from None
    with stream, _encoded(stream, str(path)) as picture:
        yield picture


@contextmanager
def _encoded(stream: IO[bytes], label: str) -> Iterator[Image.Image]:
    """Open a stream of bytes and read its header; `label` names it in errors."""
    head = stream.read(32)
    stream.seek(0)
    if not head:
        raise InputError(label, "empty", "get it again")
    formats = (*_reader_of_heif(label), *FORMATS) if _is_heif(head) else FORMATS
    with _decoding_errors(label), Image.open(stream, formats=formats) as picture:
        yield picture


def _from_bytes(data: bytes | bytearray, name: str, max_pixels: int | None = None) -> Photo:
    with _encoded(io.BytesIO(data), name) as picture, _named_errors(name):
        millions = picture.width * picture.height / 1e6
        if max_pixels is not None and millions * 1e6 > max_pixels:
            limit = f"at most {max_pixels / 1e6:g} here"
            raise TooManyPixels("", f"{millions:.3g} million pixels, {limit}", "reduce it first")
        return _decode(picture, name)


@contextmanager
def _decoding_errors(label: str) -> Iterator[None]:
    """Turn all exceptions of Pillow into an InputError whose subject is `label`.

    Its warnings are silenced: those about 90 megapixels, which are accepted here (179 are not), and
    those about unusual tags. With threads the silence may last longer than the block, but it hides
    no warning of this package.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(label, "not a picture, or its first bytes are damaged") from None
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # above it Pillow refuses and does not only warn
        reason = f"more than {limit // 10**6} million pixels"
        raise TooManyPixels(label, reason, "reduce it first") from None
    except MemoryError:
        raise InputError(label, "too large for the memory of this machine") from None
    except Exception as error:  # decoders raise many types for damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(label, f"damaged or cut short ({reason})", "get it again") from None


@contextmanager
def _named_errors(label: str) -> Iterator[None]:
    """Add the name of the picture to errors that do not know it."""
    try:
        yield
    except InputError as error:
        raise error.within(label) from None


def _is_heif(head: bytes) -> bool:
    return head[4:8] == b"ftyp" and head[8:12] in _HEIF and b"avi" not in head


def _reader_of_heif(label: str) -> tuple[str]:
    try:
        require("pillow_heif", extra="heif")
    except MissingExtra as error:
        raise error.within(label) from None
    importlib.import_module("pillow_heif").register_heif_opener()
    return ("HEIF",)


def _decode(picture: Image.Image, name: str) -> Photo:
    """Decode an opened picture, convert it to RGB and make it upright."""
    notes: list[str] = []
    # The decoder itself reduces 16-bit colour, so the mode does not show it.
    sixteen = any(";16" in str(tile[3]) for tile in getattr(picture, "tile", ()))
    if getattr(picture, "is_animated", False) and picture.format != "MPO":  # MPO: a phone's extras
        tiff = picture.format == "TIFF"
        notes.append("several pages, first one taken" if tiff else "animated, first frame taken")
    picture.load()
    lens, orientation, faults = _exif(picture)
    rgb, changes = _in_rgb(picture)
    if sixteen and _REDUCED not in changes:
        changes.append(_REDUCED)
    if orientation in _TURNS:
        rgb = rgb.transpose(_TURNS[orientation])
        changes.append("turned as EXIF says")
    return Photo(np.asarray(rgb), name, lens, (*notes, *changes, *faults))


def _in_rgb(picture: Image.Image) -> tuple[Image.Image, list[str]]:
    """Convert a decoded picture of any mode to RGB; return it with notes about the changes."""
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        grey, notes = _as_bytes(np.asarray(picture))
        note = _FLOATS if picture.mode == "F" else _IN_RGB["L"]
        return Image.fromarray(grey).convert("RGB"), notes or [note]
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        alpha = layered.getchannel("A")
        if alpha.getextrema() == (255, 255):
            return layered.convert("RGB"), []
        white = Image.new("RGB", picture.size, "white")
        white.paste(layered, mask=alpha)
        return white, ["transparency laid on white"]
    return picture.convert("RGB"), [_IN_RGB[picture.mode]] if picture.mode in _IN_RGB else []


def _exif(picture: Image.Image) -> tuple[Lens, int, list[str]]:
    """Return lens, orientation and notes about unreadable data."""
    tag = ExifTags.Base
    try:
        exif = picture.getexif()
        found = dict(exif.get_ifd(ExifTags.IFD.Exif))
        orientation = exif.get(tag.Orientation, 1)
    except Exception as error:  # damaged EXIF raises many types
        return Lens(), 1, [f"EXIF unreadable ({type(error).__name__})"]
    across, down = (_positive(found.get(key)) for key in (tag.ExifImageWidth, tag.ExifImageHeight))
    pitch = _positive(found.get(tag.FocalPlaneXResolution))
    unit_mm = _MM_PER_UNIT.get(found.get(tag.FocalPlaneResolutionUnit, 2))
    lens = Lens(
        focal_35mm=_positive(found.get(tag.FocalLengthIn35mmFilm)),
        focal_mm=_positive(found.get(tag.FocalLength)),
        pixels_per_mm=pitch / unit_mm if pitch and unit_mm else None,
        taken_size=(math.ceil(down), math.ceil(across)) if across and down else None,
    )
    return lens, orientation if isinstance(orientation, int) else 1, []


def _positive(value: object) -> float | None:
    """Return a number of EXIF; None for 0 and 0/0, which mean unknown."""
    try:
        number = float(cast(Any, value))
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _from_array(array: NDArray[Any], name: str, *, channels_first: bool) -> Photo:
    with _named_errors(name):
        image, notes = _as_bytes(_channels_last(array, channels_first))
    if image.shape[2] == 4:
        alpha = image[..., 3:].astype(np.uint16)
        if alpha.min() < 255:
            notes.append("transparency laid on white")
        mixed = image[..., :3] * alpha + 255 * (255 - alpha)  # at most 255^2
        image = ((mixed + 127) // 255).astype(np.uint8)
    elif image.shape[2] == 1:
        image = image.repeat(3, axis=2)
    return Photo(np.ascontiguousarray(image), name, notes=tuple(notes))


def _channels_last(array: NDArray[Any], channels_first: bool) -> NDArray[Any]:
    """Return an array (H, W), (H, W, C) or (C, H, W) as (H, W, C)."""
    if array.ndim == 2:
        array = array[..., None]
    channels = (1, 3, 4)
    if array.ndim != 3 or 0 in array.shape or not {array.shape[0], array.shape[2]} & {*channels}:
        more = "; pass several as a list" if array.ndim == 4 else ""
        raise InputError("", f"its shape is {array.shape}", f"(H, W, 3) is needed{more}")
    if array.shape[2] not in channels or (channels_first and array.shape[0] in channels):
        return array.transpose(1, 2, 0)
    return array


def _as_bytes(values: NDArray[Any]) -> tuple[NDArray[np.uint8], list[str]]:
    """Convert numbers of any type to bytes; return them with notes about the changes."""
    if values.dtype == np.uint8:
        return values, []
    if values.dtype == np.bool_:
        return values * np.uint8(255), []
    if values.dtype.kind not in "iuf":
        raise InputError("", f"its numbers are of type {values.dtype}", "bytes are needed")
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind == "f":
        if low >= -0.1 and high <= 1.1:  # resizing overshoots a little
            return (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8), []
        if low >= 0 and high <= 255:
            return (values + 0.5).astype(np.uint8), ["floats up to 255 taken as bytes"]
        raise InputError("", f"floats from {low:g} to {high:g}", "from 0 to 1 is needed")
    if low < 0 or high > 65535:
        raise InputError("", f"integers from {low:g} to {high:g}", "from 0 to 255 is needed")
    if values.dtype.itemsize == 2 or high > 255:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8), [_REDUCED]
    return values.astype(np.uint8), []
