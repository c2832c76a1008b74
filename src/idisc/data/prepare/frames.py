"""The values that every preparation uses: options, scenes and frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.decode import MAX_UINT16, DepthMap, FloatArray, NormalMap, StoredDepth
from idisc.data.manifest import ListLine
from idisc.errors import InputError
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
    """How an image and its ground truth are read; the runner reports every file that is wrong."""

    name: str  # unique path without suffix: "000150/CAMERA_01/15616458249936530"
    image: Path | NDArray[np.uint8]  # a file to copy, or pixels (H, W, 3)
    target: Path | Callable[[], Any]  # a file to copy, or a function that reads one
    # The calibration, for an image of this size; None: the camera that the catalog states, if any.
    camera: Callable[[Size], Camera | None] = lambda _: None
    # Converts the values read, with the camera, to those stored: depth in uint16 is written
    # unchanged, metres are rounded down; or normals (H, W, 3).
    convert: Callable[[Any, Any], StoredDepth] = lambda values, _: values
    sensor: str = ""


@dataclass(frozen=True)
class Absent:
    """A sensor that a dataset usually has and a scene has not; nothing is wrong with its files."""

    scene: str
    sensor: str


Frames = Iterator[Frame | InputError | Absent]
"""An error names a raw file that is missing or unreadable; the preparation continues without it."""


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
    """Turn any error about the values of a file into an InputError that names the file.

    Do not open files inside: their errors already name them.
    """
    try:
        yield
    except InputError as error:  # a value made from the numbers of the file, such as a camera
        raise InputError(path, f"{error.subject}: {error.reason}", error.remedy) from None
    except KeyError as error:
        raise InputError(path, f"contains no {error}", "the file has another format") from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            path, f"does not match its format ({error})", "download it again"
        ) from None


def frame_by_frame(build: Callable[[Item], Frame], items: Iterable[Item]) -> Frames:
    """Yield the frame of each item, or the error that prevents it."""
    for item in items:
        try:
            yield build(item)
        except InputError as error:
            yield error


def line_by_line(build: Callable[[Path, ListLine], Frame]) -> Callable[[Scene, Any], Frames]:
    """`Preparation.frames` of a dataset in which every line of a scene is a frame."""
    return lambda scene, _: frame_by_frame(
        lambda line: build(scene.source, line), scene.lines or ()
    )


def by_scene(
    lines: Iterable[ListLine],
    source: Path,
    scene_of: Callable[[ListLine], str],
    known: Mapping[str, Path] | None = None,
) -> list[Scene]:
    """Group lines, of a published list or found in a folder, into scenes of one split each.

    `known` has the sources of scenes by name. A scene that is not in it keeps the place where it
    should be, and is reported as missing later.
    """
    groups: dict[tuple[str, str], list[ListLine]] = {}
    for line in lines:
        groups.setdefault((line.split, scene_of(line)), []).append(line)
    return [
        Scene(
            name=name,
            split=split,
            source=source if known is None else known.get(name, source / name),
            lines=tuple(group),
        )
        for (split, name), group in sorted(groups.items())
    ]


def select_scenes(
    found: Sequence[Scene],
    raw: Path,
    lines: Sequence[ListLine] | None,
    parse_line: Callable[[ListLine], tuple[str, str, str]],
) -> list[Scene]:
    """Return the scenes that were found below `raw`; or those of the lines, if there are any."""
    if lines is None:
        return list(found)
    return by_scene(lines, raw, lambda line: parse_line(line)[0], {s.name: s.source for s in found})


def in_millimetres(depth: FloatArray, _: Camera | None = None) -> NDArray[np.uint16]:
    """Round depth (H, W) in metres to the nearest millimetre; up to 65.535 m."""
    return np.clip(np.rint(depth.astype(np.float64) * 1000), 0, MAX_UINT16).astype(np.uint16)
