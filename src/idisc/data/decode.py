"""Stored ground truth -> metres and unit vectors: one value for each way of storing it.

A depth map is float32 metres with 0 where nothing was measured; a normal map is float32 unit
vectors with (0, 0, 0) there. What a file holds is a fact of its dataset; a file that holds
something else is an error that names it, never a guess.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files
from idisc.errors import InputError
from idisc.images import open_picture

FloatArray = NDArray[np.float32]
ARRAYS = (".npy", ".npz")
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I")  # "I": what older readers make of a 16-bit PNG


@dataclass(frozen=True, kw_only=True)
class DepthMap:
    """16-bit picture (or NPY, NPZ of numbers) whose values are depth in a fixed unit, 0 = none."""

    kind: Literal["depth"] = "depth"
    metres_per_unit: float  # of one step of the stored integer; 1/1000 millimetres, 1/256 KITTI
    rotated_bits: int = 0  # SUN-RGBD stores each 16-bit value rotated left by three bits

    def __post_init__(self) -> None:
        if not 0 < self.metres_per_unit < float("inf"):
            raise InputError(f"depth scale {self.metres_per_unit}: more than 0 is needed")

    def read(self, path: Path) -> FloatArray:
        """Depth (H, W) in metres."""
        stored = _read_array(path) if path.suffix in ARRAYS else _read_integers(path)
        if self.rotated_bits:
            bits = stored.astype(np.uint16)
            stored = (bits >> self.rotated_bits) | (bits << (16 - self.rotated_bits))
        depth = stored.astype(np.float32) * np.float32(self.metres_per_unit)
        if 1 / self.metres_per_unit == round(1 / self.metres_per_unit):
            # As the field's loaders do it: the quotient is the nearest float, the product is not.
            depth = stored.astype(np.float32) / np.float32(round(1 / self.metres_per_unit))
        return np.ascontiguousarray(depth, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class NormalMap:
    """8-bit RGB picture of unit normals, n = (v - middle) / scale; `empty` marks no surface."""

    kind: Literal["normals"] = "normals"
    middle: float = 127.5
    scale: float = 127.5
    empty: int = 0  # all three channels: black in NYU's files, grey (128) in Taskonomy's

    def read(self, path: Path) -> FloatArray:
        """Normals (H, W, 3), (0, 0, 0) where there is none; lengths as stored, about one."""
        with open_picture(path) as picture:
            if picture.mode not in ("RGB", "RGBA"):
                raise InputError(f"{path}: mode {picture.mode}; 8-bit RGB normals are needed")
            stored = np.asarray(picture)[..., :3]
        normals = (stored.astype(np.float32) - np.float32(self.middle)) / np.float32(self.scale)
        normals[(stored == self.empty).all(axis=-1)] = 0
        return normals


Target = DepthMap | NormalMap


def write_depth(path: Path, depth: NDArray[np.floating], metres_per_unit: float) -> None:
    """Depth (H, W) in metres as a 16-bit PNG, rounded down as the published preparation does."""
    units = np.asarray(depth, dtype=np.float64) / metres_per_unit
    stored = np.clip(units, 0, 65535).astype(np.uint16)
    buffer = io.BytesIO()
    Image.fromarray(stored).save(buffer, format="PNG")
    with files.atomic(path) as draft:
        draft.write_bytes(buffer.getvalue())


def _read_integers(path: Path) -> NDArray[np.int32]:
    with open_picture(path) as picture:
        if picture.mode not in _SIXTEEN_BITS:
            what = "8-bit" if picture.mode in ("L", "P", "RGB", "RGBA", "1") else picture.mode
            raise InputError(
                f"{path}: {what}, 16-bit expected; depth in 8 bits has lost its metres,"
                " save it again as 16-bit PNG"
            )
        return np.asarray(picture).astype(np.int32)


def _read_array(path: Path) -> NDArray[np.generic]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                loaded = loaded["depth" if "depth" in loaded.files else loaded.files[0]]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # numpy and zipfile raise a dozen kinds for a damaged file
        raise InputError(f"{path}: not readable as a numpy array ({error})") from None
    array: NDArray[np.generic] = np.squeeze(loaded)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(f"{path}: shape {loaded.shape} of {loaded.dtype}; (H, W) numbers expected")
    return array
