"""How a stored frame enters the network: the crop and the resize of each dataset.

A framing takes a frame as it is on disk. The picture comes back in the size the network sees, the
target in the size it is scored in; the two differ on purpose for Argoverse and DDAD. The camera
follows the picture, and `Place` records where the target's crop is in the full frame, for
protocols that count from there.
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
from idisc.sizes import Size, describe_size, resize_bilinear, resize_smooth, size_text


class Place(NamedTuple):
    """The position of a crop of the target in the target's full frame."""

    top: int
    left: int
    full: Size


@dataclass(frozen=True)
class Framed:
    """Picture, target and camera of one sample."""

    image: NDArray[np.uint8]  # (H, W, 3)
    target: FloatArray  # (Hg, Wg) depth or (Hg, Wg, 3) normals
    camera: Camera | None  # of the picture
    place: Place


Framing = Callable[[Framed], Framed]
SizeRule = Callable[[Size], Size]
"""The size at which a network sees a picture of some size."""


def as_stored(image: NDArray[np.uint8], target: FloatArray, camera: Camera | None) -> Framed:
    """Return a frame as it is on disk."""
    return Framed(image, target, camera, Place(0, 0, _size(target)))


def whole(frame: Framed) -> Framed:
    """Return the frame unchanged."""
    return frame


def resized(frame: Framed, *, size: Size) -> Framed:
    """Return the picture at `size`, the target as it is."""
    camera = frame.camera and frame.camera.resized(size)
    return replace(frame, image=resize_bilinear(frame.image, size), camera=camera)


def at_size(frame: Framed, *, first: Framing, size: Size | SizeRule) -> Framed:
    """Apply another framing, then resize the picture to a size, or to that of a rule."""
    framed = first(frame)
    goal = size(_size(framed.image)) if callable(size) else size
    camera = framed.camera and framed.camera.resized(goal)
    return replace(framed, image=resize_smooth(framed.image, goal), camera=camera)


def top_left(frame: Framed) -> Framed:
    """NYU: the first 480 rows and 640 columns, which is all of a well-formed file."""
    return _cut(frame, (480, 640), lambda _: (0, 0))


def picture_top_left(frame: Framed) -> Framed:
    """NYU normals: the picture is cut to 480x640, the normals are not."""
    return replace(top_left(frame), target=frame.target, place=frame.place)


def bottom_middle(frame: Framed) -> Framed:
    """KITTI: the lowest 352 rows and the middle 1216 columns, of picture and target separately."""
    rows, columns = 352, 1216
    return _cut(frame, (rows, columns), lambda size: (size[0] - rows, (size[1] - columns) // 2))


def covering(frame: Framed) -> Framed:
    """SUN-RGBD: both are resized so that they cover 480x640, then cropped to its middle."""
    rows, columns = 480, 640
    aspect = frame.image.shape[1] / frame.image.shape[0]
    size = (int(columns / aspect), columns) if aspect < 4 / 3 else (rows, int(rows * aspect))
    size = max(size[0], rows), max(size[1], columns)  # 640 / (640 / 480) may end below 480
    corner = (size[0] - rows) // 2, (size[1] - columns) // 2
    return _cut(_both_resized(frame, size), (rows, columns), lambda _: corner)


def reduced(frame: Framed) -> Framed:
    """DIODE: picture and target from 768x1024 to 480x640."""
    return _both_resized(frame, (480, 640))


def road_window(frame: Framed, *, top: int, left: int) -> Framed:
    """Argoverse, DDAD: 870x1920 without sky and bonnet; the picture then by 1/1.5 to 580x1280."""
    return resized(_cut(frame, (870, 1920), lambda _: (top, left)), size=(580, 1280))


argoverse = partial(road_window, top=180, left=0)
ddad = partial(road_window, top=180, left=8)
ddad_paper = partial(road_window, top=210, left=8)  # the text's 210 px; the code has 180


def resize_nearest(target: FloatArray, size: Size) -> FloatArray:
    """Resize to the nearest pixel, rounded down: index floor(i * scale), as in OpenCV."""
    height, width = target.shape[:2]
    rows = np.minimum(np.arange(size[0]) * height // size[0], height - 1)
    columns = np.minimum(np.arange(size[1]) * width // size[1], width - 1)
    return np.ascontiguousarray(target[rows[:, None], columns])


def _both_resized(frame: Framed, size: Size) -> Framed:
    framed = resized(frame, size=size)
    return as_stored(framed.image, resize_nearest(frame.target, size), framed.camera)


def _cut(frame: Framed, size: Size, corner: Callable[[Size], tuple[int, int]]) -> Framed:
    """Cut picture and target, each at the corner (top, left) for its own size."""
    (top, left), (down, right) = corner(_size(frame.image)), corner(_size(frame.target))
    _check_size(frame.image, (max(top, 0) + size[0], max(left, 0) + size[1]))
    _check_size(frame.target, (max(down, 0) + size[0], max(right, 0) + size[1]))
    return Framed(
        frame.image[top : top + size[0], left : left + size[1]],
        frame.target[down : down + size[0], right : right + size[1]],
        frame.camera and frame.camera.cropped(top, left, size),
        Place(down, right, _size(frame.target)),
    )


def _size(array: NDArray[np.generic]) -> Size:
    return array.shape[0], array.shape[1]


def _check_size(array: NDArray[np.generic], least: Size) -> None:
    found = _size(array)
    if found[0] < least[0] or found[1] < least[1]:
        reason = f"{describe_size(found)} pixels"
        raise InputError("", reason, f"frames of this dataset have {size_text(least)}")
