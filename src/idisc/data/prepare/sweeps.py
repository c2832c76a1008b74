"""Depth from LiDAR sweeps, as DDAD and Argoverse have it: options, keyframes, projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.lidar import Distortion, Points, Raster, Transform
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import (
    Frame,
    Frames,
    Pictures,
    Scene,
    Surface,
    frame_by_frame,
    parsing,
)
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


class Sample(NamedTuple):
    """A sweep and the images that belong to it."""

    time_s: float
    position: Callable[[], Points]  # (3,) of the car
    images: Mapping[str, str]  # names of its frames by camera
    build: Callable[[str], Frame]  # the frame of a camera


def drive_frames(
    scene: Scene,
    samples: Sequence[Sample],
    options: SweepOptions,
    cameras: Sequence[str],
    elapsed_s: float,
    parse_line: Callable[[ListLine], tuple[str, str, str]],
) -> Frames:
    """Yield the frames of a drive: those of its keyframes, or those that its lines name.

    `elapsed_s` is the time between keyframes in the released code; `parse_line` returns the scene,
    the camera and the name of a listed image.
    """
    if scene.lines is not None:
        wanted = {parse_line(line)[1:]: line for line in scene.lines}
        for sample in samples:
            listed = [image for image in sample.images.items() if wanted.pop(image, None)]
            yield from frame_by_frame(sample.build, [camera for camera, _ in listed])
        for line in wanted.values():
            yield InputError(line.image, f"{scene.source.name} does not contain this image")
        return
    # Keyframes are chosen within a drive, so that they do not depend on other drives or workers.
    located: list[Sample] = []
    positions: list[Points] = []
    for sample in samples:
        try:
            positions.append(sample.position())
            located.append(sample)
        except InputError as error:
            yield error
    metres = options.train_metres if scene.split == "train" else options.test_metres
    limit_s = elapsed_s if options.keyframes == "elapsed" else None
    for index in lidar.keyframes(positions, [sample.time_s for sample in located], metres, limit_s):
        yield from frame_by_frame(located[index].build, cameras)


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
        ahead = lidar.transform_points(points, to_camera())
        return np.minimum(lidar.project(ahead, pinhole, raster, distortion), FARTHEST)

    sensor = name.split("/")[-2]
    return Frame(
        name=name, image=image, camera=camera, target=sweep, convert=project, sensor=sensor
    )
