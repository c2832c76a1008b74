"""Argoverse 1.1, 3D tracking: logs of a car with seven ring cameras and a LiDAR.

    argoverse-tracking/(train1..train4|val)/<log>/vehicle_calibration_info.json
        lidar/PC_<ns>.ply        points in the frame of the car (x forward, y left, z up)
        poses/city_SE3_egovehicle_<ns>.json
        ring_front_center/ring_front_center_<ns>.jpg, and six more

Cameras run at 30 Hz and the LiDAR at 10 Hz: each sweep is paired with the image nearest in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from idisc import files
from idisc.data import lidar
from idisc.data.catalog import KITTI_UNITS
from idisc.data.lidar import Distortion, Transform
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames
from idisc.data.prepare.sweeps import (
    Mount,
    Rig,
    Sample,
    SweepOptions,
    drive_frames,
    sweep_frame,
)
from idisc.errors import InputError

CAMERAS = (
    "ring_front_center",
    *(f"ring_{place}_{side}" for place in ("front", "rear", "side") for side in ("left", "right")),
)  # all seven, as in the published lists; the paper says six
STEREO = tuple(f"stereo_front_{name}" for name in ("left", "right", "left_rect", "right_rect"))
SPLITS = {**{f"train{part}": "train" for part in (1, 2, 3, 4)}, "val": "test"}
CALIBRATION = "vehicle_calibration_info.json"
ELAPSED_S = 30.0  # the released code also keeps a frame after this time
MAX_APART_NS = 50_000_000  # half a sweep; without an image this near, it is missing


@dataclass(frozen=True, kw_only=True)
class Options(SweepOptions):
    """The options of Argoverse."""

    # Apply the distortion of the calibration. Off: its images are undistorted already, and the
    # coefficients are informative (its authors, argoverse-api#81); the released code has none.
    distortion: bool = False


def _scenes(raw: Path, _: Options, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return a scene for each log of train1 to train4 and val."""
    found = [
        frames.Scene(name=log.name, split=split, source=log)
        for folder, split in _split_folders(raw)
        for log in sorted(folder.iterdir())
        if (log / "lidar").is_dir() or (log / CALIBRATION).is_file()
    ]
    return frames.select_scenes(found, raw, lines, _parse_line)


def _split_folders(raw: Path) -> list[tuple[Path, str]]:
    """Return the folders of logs and their splits, below `raw`, or `raw` itself."""
    for root in (raw, raw / "argoverse-tracking"):
        folders = [(root / name, split) for name, split in SPLITS.items() if (root / name).is_dir()]
        if folders:
            return folders
    return [(raw, SPLITS.get(raw.resolve().name, "train"))]


def _parse_line(line: ListLine) -> tuple[str, str, str]:
    """Return the log, the camera and the number of the sweep of a listed image."""
    parts = line.image.split("/")
    number = Path(parts[-1]).stem
    if len(parts) < 3 or not number.isdecimal():
        raise InputError(
            line.image, "not an image of Argoverse", "a list names rgb/<log>/<camera>/N.png"
        )
    return parts[-3], parts[-2].lower(), str(int(number))


class _Log(NamedTuple):
    """One drive: the time stamps of its files in nanoseconds, in order."""

    folder: Path
    rig: Rig
    sweeps: list[int]
    pictures: dict[str, list[int]]  # by camera

    def sweep(self, stamp: int) -> Path:
        return self.folder / "lidar" / f"PC_{stamp}.ply"

    def picture(self, camera: str, stamp: int) -> Path:
        return self.folder / camera / f"{camera}_{stamp}.jpg"

    def pose(self, stamp: int) -> Path:
        return self.folder / "poses" / f"city_SE3_egovehicle_{stamp}.json"


def _frames(scene: frames.Scene, options: Options) -> frames.Frames:
    """Yield the frames of one log: of its keyframes, or of the listed sweeps."""
    log = _read_log(scene.source)
    samples = [_sample(scene, log, number, options) for number in range(len(log.sweeps))]
    cameras = [name.lower() for name in options.cameras] or list(CAMERAS)
    yield from drive_frames(scene, samples, options, cameras, ELAPSED_S, _parse_line)


def _sample(scene: frames.Scene, log: _Log, number: int, options: Options) -> Sample:
    stamp = log.sweeps[number]
    raster = lidar.ARGOVERSE_PUBLISHED if options.surface == "last" else lidar.Raster()
    read = cache(partial(lidar.read_ply, log.sweep(stamp)))  # once for all cameras
    pose = cache(partial(_read_pose, log.pose(stamp)))  # car -> city at the sweep

    def build(name: str) -> frames.Frame:
        mount, image_stamp = log.rig.mount(name), _nearest(log, name, stamp)
        image_pose = log.pose(image_stamp)

        def to_camera() -> Transform:
            from_car = lidar.inverse(mount.extrinsics)
            if not options.motion or not image_pose.is_file():
                return from_car
            return lidar.compose(from_car, lidar.inverse(_read_pose(image_pose)), pose())

        return sweep_frame(
            f"{scene.name}/{name}/{number}",
            log.picture(name, image_stamp),
            partial(log.rig.camera, name),
            read,
            to_camera,
            raster,
            mount.distortion if options.distortion else None,
        )

    images = dict.fromkeys(log.rig.mounts, str(number))
    return Sample((stamp - log.sweeps[0]) / 1e9, lambda: pose()[:3, 3], images, build)


def _nearest(log: _Log, camera: str, stamp: int) -> int:
    """Return the stamp of the image nearest in time to a sweep."""
    stamps = log.pictures.get(camera, [])
    nearest = min(stamps, key=lambda other: abs(other - stamp), default=None)
    if nearest is None or abs(nearest - stamp) > MAX_APART_NS:
        raise InputError(log.folder / camera, f"no image within 50 ms of the sweep {stamp}")
    return nearest


def _read_log(folder: Path) -> _Log:
    rig = _read_calibration(folder / CALIBRATION)
    sweeps = _stamps(folder / "lidar", "PC_*.ply")
    if not sweeps:
        raise InputError(folder / "lidar", "contains no sweep PC_<ns>.ply")
    pictures = {camera: _stamps(folder / camera, f"{camera}_*.jpg") for camera in rig.mounts}
    return _Log(folder, rig, sweeps, pictures)


def _stamps(folder: Path, pattern: str) -> list[int]:
    names = (path.stem.rpartition("_")[2] for path in folder.glob(pattern))
    return sorted(int(name) for name in names if name.isdecimal())


def _read_calibration(path: Path) -> Rig:
    content = files.read_json(path)
    with frames.parsing(path):
        rows = [(str(row["key"]), row["value"]) for row in content["camera_data_"]]
        mounts = {key.removeprefix("image_raw_"): _read_mount(value) for key, value in rows}
    return Rig(path, mounts)


def _read_mount(value: Any) -> Mount:
    pose = value["vehicle_SE3_camera_"]
    keys = ("focal_length_x_px_", "focal_length_y_px_", "focal_center_x_px_", "focal_center_y_px_")
    fx, fy, cx, cy = (float(value[key]) for key in keys)
    k1, k2, k3 = (float(number) for number in value["distortion_coefficients_"])
    extrinsics = lidar.rigid_transform(pose["rotation"]["coefficients"], pose["translation"])
    return Mount((fx, fy, cx, cy), extrinsics, Distortion(k1, k2, k3))


def _read_pose(path: Path) -> Transform:
    content = files.read_json(path)
    with frames.parsing(path):
        return lidar.rigid_transform(content["rotation"], content["translation"])


PREPARATION = frames.Preparation(
    options=Options,
    scenes=_scenes,
    frames=_frames,
    stored=KITTI_UNITS,
    needs="train1..train4 and val of tracking v1.1, each with the folders of its logs",
    cameras=(*CAMERAS, *STEREO),
)
