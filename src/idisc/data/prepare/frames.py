"""What every preparation speaks of: its choices, a scene to work on, a frame that comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.catalog import DatasetSpec
from idisc.data.decode import FloatArray, StoredDepth
from idisc.data.manifest import ListLine
from idisc.errors import InputError
from idisc.images import open_picture
from idisc.outputs.depicted import MOST_STEPS
from idisc.sizes import Size

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """The choices of a preparation; a dataset uses those that concern it."""

    # When a frame is kept: after the way below (paper), or also after a time (code).
    keyframes: Literal["distance", "elapsed"] = "distance"
    train_metres: float = 2.0  # way between two kept frames of a drive
    test_metres: float = 50.0
    # Which of the points in one pixel: the nearest, or the last one written (code).
    surface: Literal["nearest", "last"] = "nearest"
    # Bend by the lens of the calibration. Off: Argoverse's pictures come undistorted, and its
    # coefficients are for the curious (its authors, argoverse-api#81); the code has none either.
    distortion: bool = False
    motion: bool = True  # the car's own way between sweep and picture, where poses are known
    cameras: tuple[str, ...] = ()  # of a car with several; none: those of the paper
    depth: Literal["annotated", "sweep"] = "annotated"  # KITTI: given maps, or one projected sweep
    # NYU, labelled: holes filled by colorization (as the field scores), or left as holes.
    nyu_depth: Literal["filled", "raw"] = "filled"
    diode_part: Literal["indoors", "outdoor", "both"] = "indoors"  # the paper has indoors
    pictures: Literal["copy", "link"] = "copy"  # link: raw pictures stay where they are
    # Synthetic: how many pictures, of which size, which share of them streets and not rooms.
    count: int = 600
    size: tuple[int, ...] = (240, 320)
    streets: float = 0.0
    seed: int = 13  # another one gives other rooms

    def __post_init__(self) -> None:
        for name in ("train_metres", "test_metres"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}: {getattr(self, name)}; 0 or more is needed")
        if self.count < 2:
            raise InputError(f"count: {self.count}; 2 are needed, one to train and one to test")
        if len(self.size) != 2 or min(self.size) < 32:
            raise InputError(f"size: {self.size}; height and width of 32 or more are needed")
        if not 0 <= self.streets <= 1 or self.seed < 0:
            raise InputError(
                f"streets: {self.streets}, seed: {self.seed};"
                " a share from 0 to 1 and a number from 0 on are needed"
            )

    def keyframe_metres(self, split: str) -> float:
        """Distance between kept frames of a split."""
        return self.train_metres if split == "train" else self.test_metres


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A part of the raw dataset that is prepared in one go: a drive, a room, a scan."""

    name: str  # unique within the dataset
    split: str  # train or test
    source: Path  # its folder, or the file that describes it
    wanted: tuple[ListLine, ...] | None = None  # lines of a published list; None: the rule decides


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A picture and its ground truth."""

    name: str  # unique path without suffix: "000150/CAMERA_01/15616458249936530"
    image: Path | NDArray[np.uint8]  # a file to be taken as it is, or pixels (H, W, 3)
    # The same; depth in uint16 is written as it is, metres are rounded down; or normals (H, W, 3).
    target: Path | StoredDepth
    camera: Camera | None  # of the picture
    sensor: str = ""


@dataclass(frozen=True)
class Fault:
    """A raw file that is missing or unreadable; the work goes on without it."""

    path: str
    reason: str

    @classmethod
    def of(cls, error: InputError) -> Fault:
        """From `path: reason`, the way every InputError about a file begins."""
        path, _, reason = str(error).partition(": ")
        return cls(path, reason)


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """For taking apart what a file holds: a missing key or a wrong kind of value names the file."""
    try:
        yield
    except InputError as error:  # of a value made from the file's numbers: a camera
        message = str(error)
        named = message.startswith(str(path))
        raise InputError(message if named else f"{path}: {message}") from None
    except KeyError as error:
        raise InputError(f"{path}: no {error} in it; the file is of another format") from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"{path}: not what its format says ({error})") from None


Readings = Iterable[Callable[[], object]]
"""What reads a file each, and raises an InputError if it is missing or damaged."""


def frame_by_frame(
    build: Callable[[Item], Frame],
    items: Iterable[Item],
    readings: Callable[[Item], Readings] = lambda _: (),
) -> Iterator[Frame | Fault]:
    """A frame of each item; one that cannot be read is a fault, and the others go on.

    Of an item that cannot be read, `readings` finds the faults that the first one hides.
    """
    for item in items:
        try:
            yield build(item)
        except InputError as error:
            yield from all_faults(error, readings(item))


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


def decode_picture(path: Path) -> None:
    """Read a picture to its last byte, to see whether it is whole."""
    with open_picture(path):
        pass


def by_scene(
    lines: Iterable[ListLine], source: Path, scene_of: Callable[[ListLine], str]
) -> list[Scene]:
    """Lines, of a published list or found in a folder, as scenes of one split each."""
    groups: dict[tuple[str, str], list[ListLine]] = {}
    for line in lines:
        groups.setdefault((line.split, scene_of(line)), []).append(line)
    return [
        Scene(name=name, split=split, source=source, wanted=tuple(group))
        for (split, name), group in sorted(groups.items())
    ]


def stem_of(line: ListLine) -> str:
    """A frame's name: the path of its picture without suffix."""
    return PurePosixPath(line.image).with_suffix("").as_posix()


def stated_camera(spec: DatasetSpec, picture: str, size: Size) -> Camera | None:
    """What the catalog says of the camera of pictures that come without a calibration."""
    camera = spec.camera_of(picture)
    return camera if camera is None or camera.size == size else camera.resized(size)


def in_millimetres(depth: FloatArray) -> NDArray[np.uint16]:
    """Depth (H, W) in metres, to the nearest millimetre; up to 65.535 m."""
    return np.clip(np.rint(depth.astype(np.float64) * 1000), 0, MOST_STEPS).astype(np.uint16)
