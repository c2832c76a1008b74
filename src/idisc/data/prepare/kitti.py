"""KITTI: raw drives with the annotated depth of the depth benchmark, or with their sweeps.

    <date>/calib_cam_to_cam.txt, calib_velo_to_cam.txt
    <date>/<drive>_sync/image_02/data/N.png, velodyne_points/data/N.bin        (raw data)
    (train|val)/<drive>_sync/proj_depth/groundtruth/image_02/N.png             (annotated depth)

The two may be in the folder itself or below raw/ and (data_)depth_annotated/. The folders train and
val of the annotated depth, a split of the benchmark and not of Eigen et al., are merged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.catalog import KITTI_UNITS
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames
from idisc.data.prepare.sweeps import sweep_frame
from idisc.errors import DataError, InputError
from idisc.sizes import Size, size_text

CAMERAS = ("image_00", "image_01", "image_02", "image_03")  # the first two are grey
EIGEN_TEST = frozenset(  # the drives of the 697 test images of Eigen et al. (NeurIPS 2014)
    f"{date}_drive_{number}_sync"
    for date, numbers in {
        "2011_09_26": "0002 0009 0013 0020 0023 0027 0029 0036 0046 0048 0052 0056 0059 0064 0084"
        " 0086 0093 0096 0101 0106 0117",
        "2011_09_28": "0002",
        "2011_09_29": "0071",
        "2011_09_30": "0016 0018 0027",
        "2011_10_03": "0027 0047",
    }.items()
    for number in numbers.split()
)
_LINE = re.compile(r"\d{4}_\d\d_\d\d/(\d{4}_\d\d_\d\d_\w+)/(image_0[0-3])/data/([^/]+)$")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of KITTI."""

    depth: Literal["annotated", "sweep"] = "annotated"  # given maps, or one projected sweep
    surface: frames.Surface = "nearest"
    cameras: tuple[str, ...] = ()  # none: image_02, as in the paper
    pictures: frames.Pictures = "copy"


def _scenes(raw: Path, options: Options, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return a scene for each drive; without a list, the drives of Eigen's images are the test."""
    roots = [raw, raw / "raw"]
    if lines is not None:
        drives = {name: _drive(roots, name) for name in {_parse_line(line)[0] for line in lines}}
        return frames.by_scene(lines, raw, lambda line: _parse_line(line)[0], drives)
    found = {d.name: d for root in roots for d in sorted(root.glob("????_??_??/*_sync"))}
    swept = options.depth == "sweep"
    kept = {name: drive for name, drive in found.items() if swept or _annotated_folder(drive)}
    if found and not kept:
        raise DataError(
            raw,
            f"{len(found)} drives, but no annotated depth (train/<drive>/proj_depth)",
            "put it there, or use the sweeps: --set depth=sweep",
        )
    return [
        frames.Scene(name=name, split="test" if name in EIGEN_TEST else "train", source=drive)
        for name, drive in kept.items()
    ]


def _parse_line(line: ListLine) -> tuple[str, str, str]:
    """Return the drive, the camera and the file name of a listed image."""
    parts = _LINE.search(line.image)
    if not parts:
        raise InputError(
            line.image, "not an image of KITTI", "a list names <date>/<drive>/image_02/data/N.png"
        )
    return parts[1], parts[2], parts[3]


def _drive(roots: Sequence[Path], name: str) -> Path:
    """Return the folder of a drive, whose name begins with its date, or where it should be."""
    folders = [root / name[:10] / name for root in roots]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def _frames(scene: frames.Scene, options: Options) -> frames.Frames:
    """Yield the frames of one drive, with the depth that `options.depth` asks for."""
    date, files = scene.source.parent, list(_files(scene, options))
    sensors = sorted({sensor for sensor, _, _ in files})
    calibrations = {sensor: _read_calibration(date, sensor) for sensor in sensors}
    for sensor, image, target in files:
        name = f"{date.name}/{scene.name}/{sensor}/{image.stem}"
        yield _frame(name, image, target, calibrations[sensor], options)


def _frame(
    name: str,
    image: Path,
    target: Path,
    calibration: tuple[Camera, lidar.Transform],
    options: Options,
) -> frames.Frame:
    pinhole, from_velodyne = calibration

    def camera(size: Size) -> Camera:
        if size != pinhole.size:
            expected = size_text(pinhole.size)
            raise InputError(image, f"{size_text(size)}, but its calibration is for {expected}")
        return pinhole

    def sweep() -> lidar.Points:
        points = lidar.read_velodyne(target)
        return points[points[:, 0] > 0]  # in front of the sensor

    if options.depth == "sweep":
        raster = lidar.Raster(surface=options.surface)
        return sweep_frame(name, image, camera, sweep, lambda: from_velodyne, raster)
    sensor = image.parents[1].name
    return frames.Frame(name=name, image=image, camera=camera, target=target, sensor=sensor)


def _files(scene: frames.Scene, options: Options) -> Iterator[tuple[str, Path, Path]]:
    """Yield sensor, image, and the depth map or the sweep to make it from."""
    drive, sweeps = scene.source, scene.source / "velodyne_points" / "data"
    if scene.lines is not None:
        for line in scene.lines:
            _, camera, name = _parse_line(line)
            annotated = [root / line.target for root in _depth_roots(drive)]
            target = next((path for path in annotated if path.is_file()), annotated[0])
            if options.depth == "sweep":
                target = sweeps / Path(name).with_suffix(".bin")
            yield camera, _picture(drive / camera / "data" / name), target
        return
    folder = _annotated_folder(drive)
    for camera in options.cameras or ("image_02",):
        targets = (folder / camera).glob("*.png") if folder else ()
        for target in sorted(sweeps.glob("*.bin") if options.depth == "sweep" else targets):
            yield camera, _picture(drive / camera / "data" / f"{target.stem}.png"), target


def _picture(path: Path) -> Path:
    """Return the image or its JPEG, which copies of KITTI often have, at a fifth of the size."""
    jpeg = path.with_suffix(".jpg")
    return jpeg if jpeg.is_file() and not path.is_file() else path


def _depth_roots(drive: Path) -> Iterator[Path]:
    """Yield the places of annotated depth: next to the dates, one folder up, or in the drive."""
    dates = drive.parents[1]
    for root in (dates, dates.parent):
        for folder in (root, root / "depth_annotated", root / "data_depth_annotated"):
            yield from (folder / "train", folder / "val", folder)
    yield drive.parent


def _annotated_folder(drive: Path) -> Path | None:
    folders = (root / drive.name / "proj_depth" / "groundtruth" for root in _depth_roots(drive))
    return next((folder for folder in folders if folder.is_dir()), None)


def _read_calibration(date: Path, sensor: str) -> tuple[Camera, lidar.Transform]:
    """Return the camera and the transform LiDAR -> camera: pixel ~ P_rect R_rect_00 [R|T] X.

    P_rect is K [I | t]; t is applied to the points, so that only K is left for the camera.
    """
    number = sensor.removeprefix("image_")
    cameras, velodyne = date / "calib_cam_to_cam.txt", date / "calib_velo_to_cam.txt"
    table, mount = _read_table(cameras), _read_table(velodyne)
    projection = _values(cameras, table, f"P_rect_{number}", 3, 4)
    width, height = _values(cameras, table, f"S_rect_{number}", 2)
    rectify = _values(cameras, table, "R_rect_00", 3, 3)
    turn, shift = _values(velodyne, mount, "R", 3, 3), _values(velodyne, mount, "T", 3)
    with frames.parsing(cameras):
        pinhole = Camera.from_matrix(projection, (int(height), int(width)), "calibration")
        offset = np.linalg.solve(projection[:, :3], projection[:, 3])  # t
        rectified = lidar.compose(
            lidar.rigid_transform(np.eye(3), offset), lidar.rigid_transform(rectify, np.zeros(3))
        )
    with frames.parsing(velodyne):
        return pinhole, lidar.compose(rectified, lidar.rigid_transform(turn, shift))


def _read_table(path: Path) -> dict[str, list[str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise InputError(
            path, "no such file", "it comes with KITTI's calibration archives"
        ) from None
    except ValueError:
        raise InputError(path, "not a text file", "download it again") from None
    return {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}


def _values(path: Path, table: dict[str, list[str]], key: str, *shape: int) -> NDArray[np.float64]:
    with frames.parsing(path):
        return np.array(table[key], dtype=np.float64).reshape(shape)


PREPARATION = frames.Preparation(
    options=Options,
    scenes=_scenes,
    frames=_frames,
    stored=KITTI_UNITS,
    needs="<date>/<drive>_sync/image_02/data and train|val/<drive>_sync/proj_depth",
    cameras=CAMERAS,
)
