"""Pictures as upright RGB bytes, or one line that says what is wrong with the file.

`read_photo` takes whatever a user calls a picture: a path, bytes, an open file, a Pillow picture,
an array, a tensor. What had to be changed on the way (16 bits to 8, transparency, frames left out)
is noted, and what EXIF says of the camera is kept. Formats whose readers run other programs (EPS,
WMF) are no pictures here.
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

MOST_SEEN = 2048 * 4096  # pixels of a picture in a network, which takes a kilobyte or more for each
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP", "TIFF", "AVIF", "JPEG2000", "QOI")
_REDUCED, _FLOATS = "16-bit reduced to 8", "floats reduced to 8 bits"
_IN_RGB = {  # mode of Pillow -> what is said of its way to RGB
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
    """A picture that is larger than was asked for, or than anybody needs."""


@dataclass(frozen=True)
class Photo:
    """A picture as it is looked at, and what is known of how it was taken."""

    image: NDArray[np.uint8]  # (H, W, 3) RGB, upright
    name: str  # of the file, without its folder
    lens: Lens = field(default_factory=Lens)  # what EXIF says of the camera
    notes: tuple[str, ...] = ()  # what was changed or left out, for people
    named: bool = True  # False: by what it was given as, for want of a name

    @property
    def size(self) -> Size:
        """(height, width)."""
        return self.image.shape[0], self.image.shape[1]


class BinaryFile(Protocol):
    """An open file."""

    def read(self) -> bytes:
        """All of it."""


class Tensor(Protocol):
    """A tensor of torch, which need not be installed."""

    def detach(self) -> Any:
        """Without its history."""


PhotoSource: TypeAlias = (
    str | os.PathLike[str] | bytes | bytearray | BinaryFile | Image.Image | NDArray[Any] | Tensor
)


def read_photo(
    source: PhotoSource | Photo, name: str = "", most_pixels: int | None = None
) -> Photo:
    """A picture from a path, bytes, an open file, a Pillow picture, an array or a tensor.

    Arrays are RGB, (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), tensors also (3, H, W): bytes, 16
    bits, or floats from 0 to 1. `name` is what the picture is called in errors and results. Bytes
    of a picture with more than `most_pixels` are a TooManyPixels, before anything is decoded.
    """
    if isinstance(source, Photo):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _from_path(Path(source), name)
    if isinstance(source, (bytes, bytearray)):
        photo = _from_bytes(source, name or "bytes", most_pixels)
    elif isinstance(source, Image.Image):
        name = name or Path(str(getattr(source, "filename", ""))).name
        label = name or "picture"
        with _decoding(label), _naming(label):
            photo = _photo(source, label)
    elif hasattr(source, "read"):
        name = name or Path(str(getattr(source, "name", ""))).name
        photo = _from_file(cast(BinaryFile, source), name or "file")
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
            (
                "a path, bytes, an open file, a Pillow picture, an array or a tensor is"
                " needed (several: predict_many)"
            ),
        )
    return replace(photo, named=bool(name))


@contextmanager
def open_picture(path: Path) -> Iterator[Image.Image]:
    """The decoded picture of a file; a missing, broken or foreign file is an InputError."""
    with _opened(path) as picture:
        picture.load()
        yield picture


def read_image(path: Path) -> NDArray[np.uint8]:
    """RGB (H, W, 3), turned as its EXIF orientation says."""
    return read_photo(path).image


def picture_size(path: Path) -> Size:
    """(height, width) as the picture is shown, from the header alone; pixels are not decoded."""
    with _opened(path) as picture:
        exif = picture.getexif() if "exif" in picture.info else {}  # PNG would decode to look
        lies = exif.get(ExifTags.Base.Orientation, 1) >= 5  # by a quarter turn
        return (picture.width, picture.height) if lies else (picture.height, picture.width)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """A file whose header is read; whatever goes wrong until it is closed names the file."""
    if path.is_dir():
        raise InputError(path, "a folder", "a picture is needed")
    if not path.is_file():
        what = "not a file with a picture in it" if path.exists() else "no such file"
        raise InputError(f"{path}: {what}")
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})") from None
    with stream, _encoded(stream, str(path)) as picture:
        yield picture


@contextmanager
def _encoded(stream: IO[bytes], label: str) -> Iterator[Image.Image]:
    """The same for the bytes of a picture, wherever they come from; `label` names it in errors."""
    head = stream.read(32)
    stream.seek(0)
    if not head:
        raise InputError(label, "empty", "get it again")
    formats = (*_reader_of_heif(label), *FORMATS) if _is_heif(head) else FORMATS
    with _decoding(label), Image.open(stream, formats=formats) as picture:
        yield picture


def _from_path(path: Path, name: str) -> Photo:
    with _opened(path) as picture, _naming(str(path)):
        return _photo(picture, name or path.name)


def _from_file(file: BinaryFile, name: str) -> Photo:
    data = file.read()
    if not isinstance(data, bytes):
        raise InputError(name, "opened as text", "open it as bytes, with mode 'rb'")
    return _from_bytes(data, name)


def _from_bytes(data: bytes | bytearray, name: str, most_pixels: int | None = None) -> Photo:
    with _encoded(io.BytesIO(data), name) as picture, _naming(name):
        millions = picture.width * picture.height / 1e6
        if most_pixels is not None and millions * 1e6 > most_pixels:
            limit = f"at most {most_pixels / 1e6:g} here"
            raise TooManyPixels(f"{millions:.3g} million pixels, {limit}; reduce it first")
        return _photo(picture, name)


def _too_many_pixels() -> str:
    limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)  # from where on Pillow refuses, not only warns
    return f"more than {limit // 10**6} million pixels; reduce it first"


@contextmanager
def _decoding(label: str) -> Iterator[None]:
    """Whatever Pillow raises while it reads foreign bytes becomes one line that names them.

    Its warnings are silenced: of 90 megapixels, which are welcome here (179 are not), and of odd
    tags. In threads the silence may outlast the block, and hides nothing else of ours.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise  # says already what it is
    except UnidentifiedImageError:
        raise InputError(label, "not a picture (or its first bytes are damaged)") from None
    except Image.DecompressionBombError:
        raise TooManyPixels(f"{label}: {_too_many_pixels()}") from None
    except MemoryError:
        raise InputError(label, "too large for the memory of this machine") from None
    except Exception as error:  # decoders of damaged files end in whatever they stumble over
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(label, f"damaged or cut short ({reason})", "get it again") from None


@contextmanager
def _naming(label: str) -> Iterator[None]:
    """Errors that know what is wrong, and not with which picture, get its name."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{label}: {error}") from None


def _is_heif(head: bytes) -> bool:
    return head[4:8] == b"ftyp" and head[8:12] in _HEIF and b"avi" not in head


def _reader_of_heif(label: str) -> tuple[str]:
    try:
        require("pillow_heif", extra="heif")
    except MissingExtra as error:
        raise MissingExtra(f"{label}: {error}") from None
    importlib.import_module("pillow_heif").register_heif_opener()
    return ("HEIF",)


def _photo(picture: Image.Image, name: str) -> Photo:
    """An opened picture, decoded, in RGB and upright."""
    notes: list[str] = []
    # 16-bit colour is reduced by the decoder itself, so the mode does not tell
    sixteen = any(";16" in str(tile[3]) for tile in getattr(picture, "tile", ()))
    if getattr(picture, "is_animated", False) and picture.format != "MPO":  # MPO: a phone's extras
        notes.append("several pages" if picture.format == "TIFF" else "animated")
        notes[-1] += ", first one taken" if picture.format == "TIFF" else ", first frame taken"
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
    """A decoded picture of any mode in RGB, and what was changed."""
    if picture.mode in ("I", "F") or picture.mode.startswith("I;16"):
        grey, notes = _as_bytes(np.asarray(picture))
        said = _FLOATS if picture.mode == "F" else _IN_RGB["L"]
        return Image.fromarray(grey).convert("RGB"), notes or [said]
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
    """Lens, orientation and complaints."""
    tag = ExifTags.Base
    try:
        exif = picture.getexif()
        found = dict(exif.get_ifd(ExifTags.IFD.Exif))
        orientation = exif.get(tag.Orientation, 1)
    except Exception as error:  # blocks of EXIF are damaged in as many ways as they are written
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
    """A number of EXIF; 0 and 0/0 mean unknown."""
    try:
        number = float(cast(Any, value))
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _from_array(array: NDArray[Any], name: str, *, channels_first: bool) -> Photo:
    with _naming(name):
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
    """(H, W, C) of an array (H, W), (H, W, C) or (C, H, W)."""
    if array.ndim == 2:
        array = array[..., None]
    channels = (1, 3, 4)
    if array.ndim != 3 or 0 in array.shape or not {array.shape[0], array.shape[2]} & {*channels}:
        more = "; give several as a list" if array.ndim == 4 else ""
        raise InputError(f"shape {array.shape}; (H, W, 3) is needed{more}")
    if array.shape[2] not in channels or (channels_first and array.shape[0] in channels):
        return array.transpose(1, 2, 0)
    return array


def _as_bytes(values: NDArray[Any]) -> tuple[NDArray[np.uint8], list[str]]:
    """Numbers of any type as bytes, and what that changed."""
    if values.dtype == np.uint8:
        return values, []
    if values.dtype == np.bool_:
        return values * np.uint8(255), []
    if values.dtype.kind not in "iuf":
        raise InputError(f"numbers of type {values.dtype}; bytes are needed")
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind == "f":
        if low >= -0.1 and high <= 1.1:  # resized ones overshoot a little
            return (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8), []
        if low >= 0 and high <= 255:
            return (values + 0.5).astype(np.uint8), ["floats up to 255 taken as bytes"]
        raise InputError(f"floats from {low:g} to {high:g}; from 0 to 1 is needed")
    if low < 0 or high > 65535:
        raise InputError(f"whole numbers from {low:g} to {high:g}; from 0 to 255 is needed")
    if values.dtype.itemsize == 2 or high > 255:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8), [_REDUCED]
    return values.astype(np.uint8), []
