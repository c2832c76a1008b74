"""Depth from LiDAR sweeps, as DDAD and Argoverse have it: options, keyframes, projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.lidar import Distortion, Points, Raster, Transform
from idisc.data.prepare.frames import Frame, Pictures, Surface, parsing
from idisc.errors import InputError
from idisc.sizes import Size

FARTHEST = 255.0  # metres; the released code cuts here, below what 16 bits of 1/256 m hold


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """The options of datasets with LiDAR sweeps and several cameras."""

    # A frame is kept after the distance below (paper), or also after a time (released code).
    keyframes: Literal["distance", "elapsed"] = "distance"
    train_metres: float = 2.0  # distance between two kept frames of a drive
    test_metres: float = 50.0
    surface: Surface = "nearest"
    motion: bool = True  # use the car's motion between sweep and image, where poses are known
    cameras: tuple[str, ...] = ()  # none: those of the paper
    pictures: Pictures = "copy"

    def __post_init__(self) -> None:
        for name in ("train_metres", "test_metres"):
            if getattr(self, name) < 0:
                raise InputError(name, f"{getattr(self, name)}", "0 or more is needed")

    def keep(
        self, positions: Sequence[Points], times_s: Sequence[float], split: str, elapsed_s: float
    ) -> list[int]:
        """Return indices of the kept frames of a drive, by position (3,) and time."""
        metres = self.train_metres if split == "train" else self.test_metres
        limit_s = elapsed_s if self.keyframes == "elapsed" else None
        return lidar.keyframes(positions, times_s, metres, limit_s)


class Mount(NamedTuple):
    """The calibration of one sensor of a car."""

    intrinsics: tuple[float, float, float, float]  # fx, fy, cx, cy
    extrinsics: Transform  # sensor -> vehicle
    distortion: Distortion | None = None


class Rig(NamedTuple):
    """The calibration of a car."""

    path: Path  # the file
    mounts: dict[str, Mount]  # by sensor

    def mount(self, sensor: str) -> Mount:
        """Return the calibration of one sensor."""
        if sensor not in self.mounts:
            raise InputError(self.path, f"contains no {sensor}")
        return self.mounts[sensor]

    def camera(self, sensor: str, size: Size) -> Camera:
        """Return the camera of images (height, width)."""
        fx, fy, cx, cy = self.mount(sensor).intrinsics
        with parsing(self.path):
            return Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=size, origin="calibration")


def sweep_frame(
    name: str,
    image: Path,
    camera: Callable[[Size], Camera],
    sweep: Callable[[], Points],
    to_camera: Callable[[], Transform],
    raster: Raster,
    distortion: Distortion | None = None,
) -> Frame:
    """Return the frame `scene/sensor/number` of an image and a sweep (N, 3) in its own axes."""

    def project(points: Points, pinhole: Camera) -> NDArray[np.float32]:
        depth = lidar.project(
            lidar.transform_points(points, to_camera()), pinhole, raster, distortion
        )
        return np.minimum(depth, FARTHEST)

    sensor = name.split("/")[-2]
    return Frame(
        name=name, image=image, camera=camera, target=sweep, convert=project, sensor=sensor
    )
