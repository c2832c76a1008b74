"""The values that every preparation uses: options, scenes, frames and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.catalog import DatasetSpec
from idisc.data.decode import MAX_UINT16, DepthMap, FloatArray, NormalMap, StoredDepth
from idisc.data.manifest import ListLine
from idisc.errors import InputError
from idisc.images import open_picture
from idisc.sizes import Size

Item = TypeVar("Item")
Pictures = Literal["copy", "link"]
"""`link` makes symbolic links to the raw images instead of copies."""
Surface = Literal["nearest", "last"]
"""Which of several points in one pixel is kept; the released code keeps the last one written."""


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The options of a dataset without any of its own."""

    pictures: Pictures = "copy"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A part of the raw dataset that is prepared at once: a drive, a room, a scan."""

    name: str  # unique within the dataset
    split: str  # train or test
    source: Path  # its folder, or the file that describes it
    lines: tuple[ListLine, ...] | None = None  # the frames to take; None: the rule decides


@dataclass(frozen=True, kw_only=True)
class Frame:
    """An image and its ground truth."""

    name: str  # unique path without suffix: "000150/CAMERA_01/15616458249936530"
    image: Path | NDArray[np.uint8]  # a file to copy, or pixels (H, W, 3)
    # The same; depth in uint16 is written unchanged, metres are rounded down; or normals (H, W, 3).
    target: Path | StoredDepth
    camera: Camera | None  # of the image
    sensor: str = ""


@dataclass(frozen=True)
class Fault:
    """A raw file that is missing or unreadable; the preparation continues without it."""

    path: str
    reason: str

    @classmethod
    def of(cls, error: InputError) -> Fault:
        """From `path: reason`, as every InputError about a file begins."""
        path, _, reason = str(error).partition(": ")
        return cls(path, reason)


Frames = Iterator[Frame | Fault]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How one raw format becomes frames."""

    # Both take an instance of `options`; the lines are those of published lists, if any are given.
    scenes: Callable[[Path, Any, Sequence[ListLine] | None], list[Scene]]
    frames: Callable[[Scene, Any], Frames]
    stored: DepthMap | NormalMap  # how the prepared targets are stored
    needs: str  # what the raw folder has to contain
    options: type = PictureOptions
    cameras: tuple[str, ...] = ()  # allowed in options.cameras, in upper or lower case
    raw: bool = True  # False: it is rendered, and needs no raw folder


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Turn a missing key or a value of another type into an InputError that names the file."""
    try:
        yield
    except InputError as error:  # of a value made from the numbers of the file, such as a camera
        message = str(error)
        named = message.startswith(str(path))
        raise InputError(message if named else f"{path}: {message}") from None
    except KeyError as error:
        raise InputError(path, f"no {error} in it", "the file is of another format") from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(path, f"not what its format says ({error})") from None


Readings = Iterable[Callable[[], object]]
"""Functions that read one file each and raise an InputError if it is missing or damaged."""


def frame_by_frame(
    build: Callable[[Item], Frame],
    items: Iterable[Item],
    readings: Callable[[Item], Readings] = lambda _: (),
) -> Frames:
    """The frame of each item, or its faults.

    If an item cannot be read, `readings` finds the faults that the first one hides.
    """
    for item in items:
        try:
            yield build(item)
        except InputError as error:
            yield from all_faults(error, readings(item))


def pair_by_pair(
    build: Callable[[Path, ListLine], Frame],
    readings: Callable[[Path, ListLine], Readings] = lambda *_: (),
) -> Callable[[Scene, Any], Frames]:
    """`Preparation.frames` of a dataset in which every line of a scene is a frame."""
    return lambda scene, _: frame_by_frame(
        partial(build, scene.source), scene.lines or (), partial(readings, scene.source)
    )


def all_faults(first: InputError, readings: Readings) -> list[Fault]:
    """The fault that ended the reading of a frame, and those of its other files."""
    faults = [Fault.of(first)]
    for read in readings:
        try:
            read()
        except InputError as error:
            fault = Fault.of(error)
            if fault.path != faults[0].path:
                faults.append(fault)
    return faults


def check_image(path: Path) -> None:
    """Decode an image completely; an InputError says that it is damaged."""
    with open_picture(path):
        pass


def by_scene(
    lines: Iterable[ListLine],
    source: Path,
    scene_of: Callable[[ListLine], str],
    known: Mapping[str, Path] | None = None,
) -> list[Scene]:
    """Group lines, of a published list or found in a folder, into scenes of one split each.

    `known` has the sources of scenes by name. A scene that is not in it keeps the place where it
    should be, and becomes a fault later.
    """
    groups: dict[tuple[str, str], list[ListLine]] = {}
    for line in lines:
        groups.setdefault((line.split, scene_of(line)), []).append(line)
    scenes = [
        Scene(name=name, split=split, source=source, lines=tuple(group))
        for (split, name), group in sorted(groups.items())
    ]
    if known is None:
        return scenes
    return [replace(scene, source=known.get(scene.name, source / scene.name)) for scene in scenes]


def stem_of(line: ListLine) -> str:
    """The name of a frame: the path of its image without suffix."""
    return PurePosixPath(line.image).with_suffix("").as_posix()


def stated_camera(spec: DatasetSpec, image: str, size: Size) -> Camera | None:
    """The camera that the catalog states for images without a calibration."""
    camera = spec.camera_of(image)
    return camera if camera is None or camera.size == size else camera.resized(size)


def in_millimetres(depth: FloatArray) -> NDArray[np.uint16]:
    """Round depth (H, W) in metres to the nearest millimetre; up to 65.535 m."""
    return np.clip(np.rint(depth.astype(np.float64) * 1000), 0, MAX_UINT16).astype(np.uint16)
