"""Argoverse 1.1, 3D tracking: logs of a car with seven ring cameras and a LiDAR.

    argoverse-tracking/(train1..train4|val)/<log>/vehicle_calibration_info.json
        lidar/PC_<ns>.ply        points in the frame of the car (x forward, y left, z up)
        poses/city_SE3_egovehicle_<ns>.json
        ring_front_center/ring_front_center_<ns>.jpg, and six more

Cameras run at 30 Hz and the LiDAR at 10 Hz: each sweep goes with the picture nearest in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from idisc import files
from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.lidar import Distortion, Points, Transform
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import (
    Fault,
    Frame,
    PrepareConfig,
    Scene,
    all_faults,
    by_scene,
    decode_picture,
    frame_by_frame,
    understood,
)
from idisc.errors import InputError
from idisc.images import picture_size
from idisc.sizes import Size

NEEDS = "train1..train4 and val of tracking v1.1, each with the folders of its logs"
CAMERAS = (
    *("ring_front_center", "ring_front_left", "ring_front_right", "ring_rear_left"),
    *("ring_rear_right", "ring_side_left", "ring_side_right"),
)  # all seven, as in the published lists; the paper speaks of six
STEREO = (
    *("stereo_front_left", "stereo_front_right"),
    *("stereo_front_left_rect", "stereo_front_right_rect"),
)  # to be had by name
SPLITS = {**{f"train{part}": "train" for part in (1, 2, 3, 4)}, "val": "test"}
CALIBRATION = "vehicle_calibration_info.json"
ELAPSED_S = 30.0  # the released code also keeps a frame after this time
FARTHEST = 255.0  # metres; the released code cuts here, below what 16 bits of 1/256 m hold
APART_NS = 50_000_000  # half a sweep; no picture nearer than that means that it is missing


def scenes(raw: Path, _choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """One for each log of train1 to train4 and val."""
    found = {
        log.name: Scene(name=log.name, split=split, source=log)
        for folder, split in _split_folders(raw)
        for log in sorted(folder.iterdir())
        if (log / "lidar").is_dir() or (log / CALIBRATION).is_file()
    }
    if lines is None:
        return list(found.values())
    return [
        # A log that is not there keeps the place where it ought to be, and is a fault later.
        replace(
            scene,
            source=found[scene.name].source if scene.name in found else raw / scene.name,
        )
        for scene in by_scene(lines, raw, lambda line: _parts(line)[0])
    ]


def _split_folders(raw: Path) -> list[tuple[Path, str]]:
    """The folders of logs and their splits, below `raw`, or `raw` itself."""
    for root in (raw, raw / "argoverse-tracking"):
        folders = [(root / name, split) for name, split in SPLITS.items() if (root / name).is_dir()]
        if folders:
            return folders
    return [(raw, SPLITS.get(raw.resolve().name, "train"))]


def _parts(line: ListLine) -> tuple[str, str, int]:
    """Log, camera and number of the sweep of a listed picture."""
    parts = line.image.split("/")
    number = Path(parts[-1]).stem
    if len(parts) < 3 or not number.isdecimal():
        raise InputError(f"{line.image}: not of Argoverse; a list has rgb/<log>/<camera>/N.png")
    return parts[-3], parts[-2].lower(), int(number)


@dataclass(frozen=True)
class _Mount:
    """The calibration of one camera."""

    intrinsics: tuple[float, float, float, float]  # fx, fy, cx, cy
    distortion: Distortion
    extrinsics: Transform  # camera -> vehicle


@dataclass(frozen=True)
class _Log:
    """One drive: the stamps of its files, in nanoseconds, in order."""

    folder: Path
    mounts: dict[str, _Mount]
    sweeps: list[int]
    pictures: dict[str, list[int]]  # by camera

    def sweep(self, stamp: int) -> Path:
        return self.folder / "lidar" / f"PC_{stamp}.ply"

    def picture(self, camera: str, stamp: int) -> Path:
        return self.folder / camera / f"{camera}_{stamp}.jpg"

    def pose(self, stamp: int) -> Path:
        return self.folder / "poses" / f"city_SE3_egovehicle_{stamp}.json"


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The frames of one log: of its keyframes, or of the listed sweeps."""
    log = _read_log(scene.source)
    if scene.wanted is not None:
        cameras_of: dict[int, list[str]] = {}
        for line in scene.wanted:
            _, camera, number = _parts(line)
            if number < len(log.sweeps):
                cameras_of.setdefault(number, []).append(camera)
            else:
                yield Fault(line.image, f"its log has {len(log.sweeps)} sweeps, counted from 0")
    else:
        places, faults = _places(log)
        yield from faults
        cameras = [name.lower() for name in choices.cameras] or list(CAMERAS)
        cameras_of = dict.fromkeys(_kept(log, places, scene.split, choices), cameras)
    for number, cameras in cameras_of.items():
        yield from _sweep_frames(scene, log, number, cameras, choices)


def _places(log: _Log) -> tuple[dict[int, Points], list[Fault]]:
    """Where the car was at each sweep, by number; a sweep without a pose is a fault."""
    places, faults = {}, []
    for number, stamp in enumerate(log.sweeps):
        try:
            places[number] = _read_pose(log.pose(stamp))[:3, 3]
        except InputError as error:
            faults.append(Fault.of(error))
    return places, faults


def _kept(log: _Log, places: dict[int, Points], split: str, choices: PrepareConfig) -> list[int]:
    numbers = list(places)
    kept = lidar.keyframes(
        list(places.values()),
        [(log.sweeps[number] - log.sweeps[0]) / 1e9 for number in numbers],
        choices.keyframe_metres(split),
        ELAPSED_S if choices.keyframes == "elapsed" else None,
    )
    return [numbers[index] for index in kept]


def _sweep_frames(
    scene: Scene, log: _Log, number: int, cameras: Sequence[str], choices: PrepareConfig
) -> Iterator[Frame | Fault]:
    stamp = log.sweeps[number]
    try:
        points = lidar.read_ply(log.sweep(stamp))
        pose = _read_pose(log.pose(stamp)) if choices.motion else None  # car -> city at the sweep
    except InputError as error:
        own = [partial(_read_pose, log.pose(stamp))] if choices.motion else []
        yield from all_faults(error, [*own, *(partial(_see, log, c, stamp) for c in cameras)])
        return

    def build(name: str) -> Frame:
        mount, picture_stamp = _mount(log, name), _nearest(log, name, stamp)
        picture = log.picture(name, picture_stamp)
        size = picture_size(picture)  # which the calibration does not say
        with understood(log.folder / CALIBRATION):
            camera = _camera(mount, size)
        way = lidar.inverse(mount.extrinsics)
        later = log.pose(picture_stamp)
        if pose is not None and later.is_file():
            way = lidar.compose(way, lidar.inverse(_read_pose(later)), pose)
        depth = lidar.project(
            lidar.moved(points, way),
            camera,
            lidar.ARGOVERSE_PUBLISHED if choices.surface == "last" else lidar.Raster(),
            mount.distortion if choices.distortion else None,
        )
        return Frame(
            name=f"{scene.name}/{name}/{number}",
            image=picture,
            target=np.minimum(depth, FARTHEST),
            camera=camera,
            sensor=name,
        )

    yield from frame_by_frame(build, cameras)


def _see(log: _Log, camera: str, stamp: int) -> None:
    """Look at a picture that no depth can be made for: it may be at fault as well."""
    _mount(log, camera)
    decode_picture(log.picture(camera, _nearest(log, camera, stamp)))


def _mount(log: _Log, camera: str) -> _Mount:
    if camera not in log.mounts:
        raise InputError(f"{log.folder / CALIBRATION}: no camera '{camera}' in it")
    return log.mounts[camera]


def _nearest(log: _Log, camera: str, stamp: int) -> int:
    """The picture nearest in time to a sweep."""
    stamps = log.pictures.get(camera, [])
    nearest = min(stamps, key=lambda other: abs(other - stamp), default=None)
    if nearest is None or abs(nearest - stamp) > APART_NS:
        raise InputError(f"{log.folder / camera}: no picture within 50 ms of the sweep {stamp}")
    return nearest


def _camera(mount: _Mount, size: Size) -> Camera:
    fx, fy, cx, cy = mount.intrinsics
    return Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=size, origin="calibration")


def _read_log(folder: Path) -> _Log:
    mounts = _read_calibration(folder / CALIBRATION)
    sweeps = _stamps(folder / "lidar", "PC_*.ply")
    if not sweeps:
        raise InputError(f"{folder / 'lidar'}: no sweep PC_<ns>.ply in it")
    pictures = {camera: _stamps(folder / camera, f"{camera}_*.jpg") for camera in mounts}
    return _Log(folder, mounts, sweeps, pictures)


def _stamps(folder: Path, pattern: str) -> list[int]:
    names = (path.stem.rpartition("_")[2] for path in folder.glob(pattern))
    return sorted(int(name) for name in names if name.isdecimal())


def _read_calibration(path: Path) -> dict[str, _Mount]:
    content = files.read_json(path)
    with understood(path):
        rows = {row["key"]: row["value"] for row in content["camera_data_"]}
        mounts = {}
        for key, value in rows.items():
            place = value["vehicle_SE3_camera_"]
            k1, k2, k3 = value["distortion_coefficients_"]
            mounts[str(key).removeprefix("image_raw_")] = _Mount(
                intrinsics=(
                    float(value["focal_length_x_px_"]),
                    float(value["focal_length_y_px_"]),
                    float(value["focal_center_x_px_"]),
                    float(value["focal_center_y_px_"]),
                ),
                distortion=Distortion(float(k1), float(k2), float(k3)),
                extrinsics=lidar.rigid(place["rotation"]["coefficients"], place["translation"]),
            )
    return mounts


def _read_pose(path: Path) -> Transform:
    content = files.read_json(path)
    with understood(path):
        return lidar.rigid(content["rotation"], content["translation"])
