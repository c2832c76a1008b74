"""What every preparation speaks of: its choices, a scene to work on, a frame that comes out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.manifest import ListLine
from idisc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """The choices of a preparation; a dataset uses those that concern it."""

    # When a frame is kept: after the way below (paper), or also after a time (code).
    keyframes: Literal["distance", "elapsed"] = "distance"
    train_metres: float = 2.0  # way between two kept frames of a drive
    test_metres: float = 50.0
    # Which of the points in one pixel: the nearest, or the last one written (code).
    surface: Literal["nearest", "last"] = "nearest"
    distortion: bool = True  # lens distortion, where the calibration has it; the code ignores it
    motion: bool = True  # the car's own way between sweep and picture, where poses are known
    cameras: tuple[str, ...] = ()  # of a car with several; none: those of the paper
    depth: Literal["annotated", "sweep"] = "annotated"  # KITTI: given maps, or one projected sweep
    pictures: Literal["copy", "link"] = "copy"  # link: raw pictures stay where they are

    def __post_init__(self) -> None:
        for name in ("train_metres", "test_metres"):
            if getattr(self, name) < 0:
                raise InputError(f"{name}: {getattr(self, name)}; 0 or more is needed")

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
    target: Path | NDArray[np.float32]  # the same; or depth in metres (H, W), 0 = none
    camera: Camera | None  # of the picture
    sensor: str = ""


@dataclass(frozen=True)
class Fault:
    """A raw file that is missing or unreadable; the work goes on without it."""

    path: str
    reason: str
