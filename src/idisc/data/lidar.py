"""Project LiDAR sweeps to sparse depth maps: transforms, distortion, rasterization, files.

A transform is a (4, 4) float64 matrix that moves points from one frame to another; camera axes are
x right, y down, z forward, and depth is z. The maps are as sparse as the sweep: nothing is filled
in, and a hidden point is removed only if a nearer point falls into the same pixel.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from idisc.camera import Camera
from idisc.errors import InputError

Points = NDArray[np.float64]
"""(N, 3) in metres."""
Transform = NDArray[np.float64]
"""(4, 4): moves points from one frame to another."""


def rigid_transform(rotation: ArrayLike, translation: ArrayLike) -> Transform:
    """Make a transform from a quaternion (w, x, y, z) or a matrix (3, 3), and a translation (3,).

    The quaternion is normalized first, because files round it.
    """
    stated = np.asarray(rotation, dtype=np.float64)
    transform = np.eye(4)
    transform[:3, :3] = stated if stated.shape == (3, 3) else _matrix(stated)
    transform[:3, 3] = np.asarray(translation, dtype=np.float64)
    if not np.isfinite(transform).all():
        raise ValueError(f"translation {translation!r}: three finite numbers are needed")
    return transform


def _matrix(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    length = math.hypot(*quaternion) if quaternion.shape == (4,) else 0.0
    if not 0 < length < float("inf"):
        raise ValueError(f"rotation {quaternion.tolist()}: a quaternion w x y z is needed")
    w, x, y, z = quaternion / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def inverse(transform: Transform) -> Transform:
    """Return the inverse of a rigid transform; more precise than a general inverse."""
    back = np.eye(4)
    back[:3, :3] = transform[:3, :3].T
    back[:3, 3] = -transform[:3, :3].T @ transform[:3, 3]
    return back


def compose(*transforms: Transform) -> Transform:
    """Return the product of transforms; the last one is applied first."""
    return functools.reduce(np.matmul, transforms)


def transform_points(points: ArrayLike, transform: Transform) -> Points:
    """Transform points (N, 3); returns (N, 3) float64."""
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        result: Points = np.asarray(points, np.float64) @ transform[:3, :3].T + transform[:3, 3]
    return result


class Distortion(NamedTuple):
    """Radial distortion: (x, y) at z = 1 is multiplied by 1 + k1 r2 + k2 r4 + k3 r6."""

    k1: float
    k2: float
    k3: float

    def distort(self, rays: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distort rays (N, 2) at z = 1; NaN where they have no image.

        The polynomial is valid near the axis only. Farther out, it decreases again and would map
        points at the side of the car into the image.
        """
        square = np.sum(rays * rays, axis=1, keepdims=True)  # r2 (N, 1)
        factor = 1 + square * (self.k1 + square * (self.k2 + square * self.k3))
        # The distorted radius grows until d/dr r (1 + k1 r2 + k2 r4 + k3 r6) = 0.
        roots = np.roots([7 * self.k3, 5 * self.k2, 3 * self.k1, 1.0])
        limit = roots[np.isreal(roots) & (roots.real > 0)].real.min(initial=np.inf)
        return np.where(square < limit, rays * factor, np.nan)


@dataclass(frozen=True, kw_only=True)
class Raster:
    """How points become pixels; the default is correct, the others are as published."""

    # Which point of a pixel is kept: the nearest, or the last one of the sweep.
    surface: Literal["nearest", "last"] = "nearest"
    # centre: the pixel whose centre, at whole numbers, is nearest; the image ends half a pixel
    # beyond the outer centres. even: the same with ties to the even pixel, and 0 <= x < W - 1
    # checked before. truncated: the fraction is cut off, half a pixel up and left of the point.
    rounding: Literal["centre", "even", "truncated"] = "centre"

    def pixels(
        self, places: NDArray[np.float64], size: tuple[int, int]
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Places (N, 2) as x, y -> pixels (M, 2) of those inside the image, and which (N,)."""
        limits = np.array([size[1], size[0]])
        if self.rounding == "even":
            whole = np.rint(places)
            within = (places >= 0) & (places < limits - 1)
        else:
            whole = np.trunc(places) if self.rounding == "truncated" else np.floor(places + 0.5)
            within = (whole >= 0) & (whole < limits)  # False for NaN
        inside = np.asarray(within.all(axis=1))
        return whole[inside].astype(np.intp), inside


ARGOVERSE_PUBLISHED = Raster(surface="last", rounding="even")
DDAD_PUBLISHED = Raster(surface="last", rounding="truncated")


def project(
    points: Points,
    camera: Camera,
    raster: Raster | None = None,
    distortion: Distortion | None = None,
) -> NDArray[np.float32]:
    """Project points (N, 3) in camera axes to depth (H, W) in metres, 0 without a point."""
    raster = raster or Raster()
    points = points[points[:, 2] > 0]  # in front; False for NaN
    with np.errstate(over="ignore", invalid="ignore"):  # points almost in the plane of the camera
        rays = points[:, :2] / points[:, 2:]  # (N, 2) at z = 1
        rays = distortion.distort(rays) if distortion else rays
        places = rays * (camera.fx, camera.fy) + (camera.cx, camera.cy)
        pixels, inside = raster.pixels(places, camera.size)
    depth, x, y = points[inside, 2], pixels[:, 0], pixels[:, 1]
    if raster.surface == "last":
        depth_map = np.zeros(camera.size, dtype=np.float32)
        depth_map[y, x] = depth  # numpy writes in order, so the last one stays
        return depth_map
    depth_map = np.full(camera.size, np.inf, dtype=np.float32)
    np.minimum.at(depth_map, (y, x), _float32_below(depth))
    depth_map[np.isinf(depth_map)] = 0
    return depth_map


def _float32_below(depth: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round down, as storing does: 1354.99999 / 256 must not be stored as 1355 / 256."""
    nearest = depth.astype(np.float32)
    return np.where(nearest > depth, np.nextafter(nearest, np.float32(0)), nearest)


def keyframes(
    positions: ArrayLike, times_s: Sequence[float], metres: float, elapsed_s: float | None = None
) -> list[int]:
    """Return indices of the kept positions (N, 3) of a drive: the first, then one every `metres`.

    The distance is the straight line from the last kept one. With `elapsed_s`, one is also kept
    after so many seconds, as in the released code, which keeps images of a car that waits.
    """
    places = np.asarray(positions, dtype=np.float64)
    kept: list[int] = []
    for index, (place, time_s) in enumerate(zip(places, times_s, strict=True)):
        is_far = not kept or np.linalg.norm(place - places[kept[-1]]) >= metres
        if is_far or (elapsed_s is not None and time_s - times_s[kept[-1]] >= elapsed_s):
            kept.append(index)
    return kept


def read_velodyne(path: Path) -> Points:
    """Read KITTI's .bin, float32 x y z reflectance: (N, 3) in the axes of the sensor."""
    content = _bytes(path)
    if not content or len(content) % 16:
        reason = f"{len(content)} bytes, 16 for each point expected"
        raise InputError(path, reason, "the file is truncated")
    return _float64(np.frombuffer(content, dtype="<f4").reshape(-1, 4)[:, :3])


_C_NAMES = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double")
_SIZED_NAMES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
_CODES = ("i1", "u1", "<i2", "<u2", "<i4", "<u4", "<f4", "<f8")
_PLY_TYPES = dict(zip((*_C_NAMES, *_SIZED_NAMES), 2 * _CODES, strict=True))


def read_ply(path: Path) -> Points:
    """Read x, y, z of a binary little-endian PLY whose vertices come first: (N, 3)."""
    content = _bytes(path)
    header, mark, body = content.partition(b"end_header\n")
    lines = [line.split() for line in header.decode("ascii", "replace").splitlines()]
    if not mark or lines[0] != ["ply"]:
        raise InputError(path, "no PLY header", "the file is damaged or of another format")
    if ["format", "binary_little_endian", "1.0"] not in lines:
        raise InputError(path, "not a binary little-endian PLY")
    count, row = _ply_vertices(path, lines)
    if len(body) < count * row.itemsize:
        complete = len(body) // max(row.itemsize, 1)
        raise InputError(path, f"{complete} points, {count} expected", "the file is truncated")
    vertices = np.frombuffer(body, dtype=row, count=count)
    return np.stack([_float64(vertices[axis]) for axis in "xyz"], axis=1)


def _ply_vertices(path: Path, lines: list[list[str]]) -> tuple[int, np.dtype[np.void]]:
    """Return the number of vertices and the layout of one, from the words of the header lines."""
    elements = [number for number, line in enumerate(lines) if line[:1] == ["element"]]
    first = lines[elements[0]] if elements else []
    if len(first) != 3 or first[1] != "vertex" or not first[2].isdigit():
        raise InputError(path, "the first element is not vertex", "a sweep of points is needed")
    end = elements[1] if len(elements) > 1 else len(lines)
    fields = [line[1:] for line in lines[elements[0] : end] if line[:1] == ["property"]]
    for field in fields:
        if len(field) != 2 or field[0] not in _PLY_TYPES:
            raise InputError(path, f"property '{' '.join(field)}' is not a property of a point")
    if missing := {"x", "y", "z"} - {name for _, name in fields}:
        raise InputError(path, f"no property {', '.join(sorted(missing))} in its header")
    return int(first[2]), np.dtype([(name, _PLY_TYPES[kind]) for kind, name in fields])


def read_npz(path: Path, columns: Sequence[int] = (0, 1, 2)) -> Points:
    """Read the array `data` of a DGP sweep; `columns` are those of x, y and z: (N, 3)."""
    content = io.BytesIO(_bytes(path))
    try:
        with np.load(content, allow_pickle=False) as stored:
            data = stored["data"]
    except Exception as error:  # a damaged file raises a dozen types
        raise InputError(path, f"not readable as a sweep ({error})") from None
    if data.ndim != 2 or data.shape[1] <= max(columns) or data.dtype.kind not in "fiu":
        raise InputError(path, f"shape {data.shape} of {data.dtype}", "rows of x y z expected")
    return np.asarray(data[:, list(columns)], dtype=np.float64)


def _float64(values: NDArray[np.generic]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # bits of a damaged file may be a signalling NaN
        return values.astype(np.float64)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(path, "no such file") from None
    except OSError as error:
        raise InputError(path, f"not readable ({error.strerror})") from None
