"""How a stored frame enters the network: the crop and the resize of each dataset.

A framing takes the picture, the target and the camera of the picture as they are on disk. The
picture comes back in the size the network sees, the target in the size it is scored in; the two
differ on purpose for Argoverse and DDAD. The camera follows the picture, and `Place` remembers
where the target's crop lies in the full frame, for protocols that count from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.decode import FloatArray
from idisc.errors import InputError
from idisc.sizes import Size, resize_bilinear, resize_smooth, size_text


class Place(NamedTuple):
    """Where a crop of the target lies in the target's full frame."""

    top: int
    left: int
    full: Size


@dataclass(frozen=True)
class Framed:
    """Picture, target and camera of one sample, framed."""

    image: NDArray[np.uint8]  # (H, W, 3)
    target: FloatArray  # (Hg, Wg) depth or (Hg, Wg, 3) normals
    camera: Camera | None  # of the picture
    place: Place


Framing = Callable[[NDArray[np.uint8], FloatArray, Camera | None], Framed]
SizeRule = Callable[[Size], Size]
"""The size at which a network sees a picture of some size."""


def as_stored(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """Nothing is cut or resized."""
    return Framed(image, target, camera, _whole(target))


def resized(
    image: NDArray[np.uint8], target: FloatArray, camera: Camera | None, *, size: Size
) -> Framed:
    """The picture at `size`, the target as it is."""
    return Framed(
        resize_bilinear(image, size), target, camera and camera.resized(size), _whole(target)
    )


def at_size(
    image: NDArray[np.uint8],
    target: FloatArray,
    camera: Camera | None,
    *,
    first: Framing,
    size: Size | SizeRule,
) -> Framed:
    """Another framing, whose picture is then brought to a size, or to the one that suits it."""
    framed = first(image, target, camera)
    seen = size(_size(framed.image)) if callable(size) else size
    return replace(
        framed,
        image=resize_smooth(framed.image, seen),
        camera=framed.camera and framed.camera.resized(seen),
    )


def top_left(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """NYU: the first 480 rows and 640 columns, which is all of a well-formed file."""
    return _cut(image, target, camera, size=(480, 640), corner=lambda _: (0, 0))


def picture_top_left(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """NYU normals: the picture is cut to 480x640, the normals are not."""
    cut = top_left(image, target, camera)
    return Framed(cut.image, target, cut.camera, _whole(target))


def bottom_middle(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """KITTI: the lowest 352 rows and the middle 1216 columns, of picture and target by itself."""
    rows, columns = 352, 1216

    def corner(size: Size) -> tuple[int, int]:
        return size[0] - rows, (size[1] - columns) // 2

    return _cut(image, target, camera, size=(rows, columns), corner=corner)


def covering(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """SUN-RGBD: resized until 480x640 is covered, then the middle of it."""
    rows, columns = 480, 640
    aspect = image.shape[1] / image.shape[0]
    size = (int(columns / aspect), columns) if aspect < 4 / 3 else (rows, int(rows * aspect))
    size = max(size[0], rows), max(size[1], columns)  # 640 / (640 / 480) may end below 480
    top, left = (size[0] - rows) // 2, (size[1] - columns) // 2
    larger = resized(image, resize_nearest(target, size), camera, size=size)
    return _cut(
        larger.image,
        larger.target,
        larger.camera,
        size=(rows, columns),
        corner=lambda _: (top, left),
    )


def reduced(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """DIODE: picture and target from 768x1024 to 480x640."""
    size = (480, 640)
    return resized(image, resize_nearest(target, size), camera, size=size)


def road_window(
    image: NDArray[np.uint8],
    target: FloatArray,
    camera: Camera | None,
    *,
    top: int,
    left: int,
) -> Framed:
    """Argoverse, DDAD: 870x1920 without sky and bonnet; the picture then by 1/1.5 to 580x1280."""
    cut = _cut(image, target, camera, size=(870, 1920), corner=lambda _: (top, left))
    return replace(resized(cut.image, cut.target, cut.camera, size=(580, 1280)), place=cut.place)


argoverse = partial(road_window, top=180, left=0)
ddad = partial(road_window, top=180, left=8)
ddad_paper = partial(road_window, top=210, left=8)  # the text's 210 px; the code has 180


def resize_nearest(target: FloatArray, size: Size) -> FloatArray:
    """Nearest by truncation, index floor(i * scale), as OpenCV does it."""
    height, width = target.shape[:2]
    rows = np.minimum(np.arange(size[0]) * height // size[0], height - 1)
    columns = np.minimum(np.arange(size[1]) * width // size[1], width - 1)
    return np.ascontiguousarray(target[rows[:, None], columns])


def _cut(
    image: NDArray[np.uint8],
    target: FloatArray,
    camera: Camera | None,
    *,
    size: Size,
    corner: Callable[[Size], tuple[int, int]],
) -> Framed:
    """Cut picture and target, each at the corner (top, left) for its own size."""
    (top, left), (down, right) = corner(_size(image)), corner(_size(target))
    _check_size(image, (max(top, 0) + size[0], max(left, 0) + size[1]))
    _check_size(target, (max(down, 0) + size[0], max(right, 0) + size[1]))
    return Framed(
        image[top : top + size[0], left : left + size[1]],
        target[down : down + size[0], right : right + size[1]],
        camera and camera.cropped(top, left, size),
        Place(down, right, _size(target)),
    )


def _size(array: NDArray[np.generic]) -> Size:
    return array.shape[0], array.shape[1]


def _whole(target: FloatArray) -> Place:
    return Place(0, 0, _size(target))


def _check_size(array: NDArray[np.generic], least: Size) -> None:
    found = _size(array)
    if found[0] < least[0] or found[1] < least[1]:
        reason = f"{size_text(found)} pixels"
        raise InputError("", reason, f"frames of this dataset have {size_text(least)}")
