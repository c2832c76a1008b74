"""Decode stored ground truth to metres and unit vectors, and encode it.

A depth map is float32 metres with 0 where nothing was measured; a normal map is float32 unit
vectors with (0, 0, 0) there. The dataset states how its files are stored (`DepthMap`,
`NormalMap`); a file in another form is an error.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files
from idisc.errors import InputError
from idisc.images import open_picture

FloatArray = NDArray[np.float32]
StoredDepth = NDArray[np.float32] | NDArray[np.uint16]
"""Depth (H, W), 0 = none: float32 in metres, or uint16 in the unit of the stored file."""
ARRAYS = (".npy", ".npz")
MAX_UINT16 = 65535
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I")  # "I": how some readers open a 16-bit PNG


@dataclass(frozen=True, kw_only=True)
class DepthMap:
    """A 16-bit image (or numbers in NPY or NPZ) of depth in a fixed unit; 0 is no value."""

    kind: str = "depth"
    metres_per_unit: float  # per step of the stored integer: 1/1000 (millimetres), 1/256 (KITTI)
    rotated_bits: int = 0  # SUN-RGBD stores each 16-bit value rotated left by three bits

    def __post_init__(self) -> None:
        if not 0 < self.metres_per_unit < float("inf"):
            raise InputError(f"depth scale {self.metres_per_unit}", "more than 0 is needed")

    def read(self, path: Path) -> FloatArray:
        """Read depth (H, W) in metres."""
        array = path.suffix.lower() in ARRAYS
        stored: NDArray[np.generic] = read_array(path) if array else _read_integers(path)
        if self.rotated_bits:
            bits = stored.astype(np.uint16)
            stored = (bits >> self.rotated_bits) | (bits << (16 - self.rotated_bits))
        depth, units_per_metre = stored.astype(np.float32), 1 / self.metres_per_unit
        if units_per_metre.is_integer():
            # The quotient is the nearest float, as in the published loaders; the product is not.
            depth /= np.float32(units_per_metre)
        else:
            depth *= np.float32(self.metres_per_unit)
        return np.ascontiguousarray(depth)


@dataclass(frozen=True, kw_only=True)
class NormalMap:
    """An 8-bit RGB image of unit normals, n = (v - middle) / scale; `empty` marks no surface."""

    kind: str = "normals"
    middle: float = 127.5
    scale: float = 127.5
    empty: int = 0  # all three channels: black in NYU's files, grey (128) in Taskonomy's

    def read(self, path: Path) -> FloatArray:
        """Read normals (H, W, 3), (0, 0, 0) where there is none; their length is about one."""
        with open_picture(path) as picture:
            if picture.mode not in ("RGB", "RGBA"):
                raise InputError(path, f"mode {picture.mode}", "8-bit RGB normals are needed")
            stored = np.asarray(picture)[..., :3]
        normals = (stored.astype(np.float32) - np.float32(self.middle)) / np.float32(self.scale)
        normals[(stored == self.empty).all(axis=-1)] = 0
        return normals


class Target(Protocol):
    """How the ground truth of a task is stored."""

    @property
    def kind(self) -> str:
        """The name of the task."""
        ...

    def read(self, path: Path) -> FloatArray:
        """Read a map (H, W) or (H, W, C), 0 where there is no value."""
        ...


TARGETS: dict[str, type[Target]] = {"depth": DepthMap, "normals": NormalMap}


def write_depth(path: Path, depth: StoredDepth, metres_per_unit: float) -> None:
    """Write depth (H, W) as a 16-bit PNG.

    Metres are rounded down, as in the published preparation of LiDAR and DIODE; uint16 is written
    unchanged, for callers that round differently.
    """
    units = depth.astype(np.float64)
    if depth.dtype != np.uint16:
        units = np.where(np.isfinite(units), units, 0) / metres_per_unit  # NaN: no value
    write_png(path, np.clip(units, 0, MAX_UINT16).astype(np.uint16))


def write_normals(path: Path, normals: FloatArray, stored: NormalMap) -> None:
    """Write unit normals (H, W, 3) as an 8-bit RGB PNG; (0, 0, 0) becomes `stored.empty`."""
    values = np.rint(np.clip(normals * stored.scale + stored.middle, 0, 255)).astype(np.uint8)
    values[(normals == 0).all(axis=-1)] = stored.empty
    write_png(path, values)


def write_png(path: Path, values: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Write (H, W) of 8 or 16 bits, or (H, W, 3) of 8 bits, as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, format="PNG")
    with files.atomic(path) as draft:
        draft.write_bytes(buffer.getvalue())


def _read_integers(path: Path) -> NDArray[np.int32]:
    with open_picture(path) as picture:
        if picture.mode not in _SIXTEEN_BITS:
            depth = "8-bit" if picture.mode in ("L", "P", "RGB", "RGBA", "1") else picture.mode
            raise InputError(
                path,
                f"{depth}, 16-bit expected",
                "8 bits cannot hold metres; save it as 16-bit PNG",
            )
        return np.asarray(picture).astype(np.int32)


def read_array(path: Path) -> NDArray[np.generic]:
    """Read the numbers (H, W) of an NPY or NPZ file; axes of length one are dropped."""
    try:
        with path.open("rb") as file:  # numpy leaves a damaged archive open
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.lib.npyio.NpzFile):
                loaded = loaded["depth" if "depth" in loaded.files else loaded.files[0]]
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except (EOFError, IndexError):  # an empty file, an archive without arrays
        raise InputError(path, "contains no array", "write it again") from None
    except Exception as error:  # a damaged file raises a dozen types
        raise InputError(path, f"not readable as a numpy array ({error})") from None
    array: NDArray[np.generic] = loaded if loaded.ndim == 2 else np.squeeze(loaded)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiu":
        raise InputError(path, f"shape {loaded.shape} of {loaded.dtype}", "(H, W) numbers expected")
    return array
