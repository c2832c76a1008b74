"""DDAD, in the Dataset Governance Policy (DGP) format, read straight from its JSON.

    ddad.json                                  scene_splits: "0" train, "1" val (here: test)
    000150/scene_<sha1>.json                   samples, and the sensors' files and poses
    000150/calibration/<sha1>.json             intrinsics; extrinsics, sensor -> vehicle
    000150/point_cloud/LIDAR/<stamp>.npz       000150/rgb/CAMERA_01/<stamp>.png

A pose is sensor -> world at the time of the sensor, so poses contain the motion of the car between
sweep and image, unlike extrinsics. Images are rectified. Annotations are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idisc import files
from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.catalog import KITTI_UNITS
from idisc.data.lidar import Points, Transform
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
from idisc.sizes import Size

CAMERAS = ("CAMERA_01", "CAMERA_05", "CAMERA_06", "CAMERA_09")  # those of the published lists
OTHERS = ("CAMERA_07", "CAMERA_08")  # can be chosen
LIDAR = "LIDAR"
SPLITS = {"0": "train", "1": "test"}  # DGP's numbers; results are reported on its val
# The released code also keeps a frame after this time, in seconds of the stamps. Those of DDAD run
# ten times too fast: it recorded at 10 Hz in 2019, but its stamps are 1 s apart and in 2464.
ELAPSED_S = 20.0


def _scenes(raw: Path, _: SweepOptions, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return a scene for each scene file that the dataset file names."""
    index = _dataset_file(raw)
    return [] if index is None else frames.select_scenes(_indexed(index), raw, lines, _parse_line)


def _dataset_file(raw: Path) -> Path | None:
    for root in (raw, raw / "ddad_train_val"):
        named = root / "ddad.json"
        for path in [named] if named.is_file() else sorted(root.glob("*.json")):
            content = files.read_json(path)
            if isinstance(content, dict) and "scene_splits" in content:
                return path
    return None


def _indexed(index: Path) -> list[frames.Scene]:
    """Return the scenes of a dataset file, named by their folders."""
    content = files.read_json(index)
    with frames.parsing(index):
        found = [
            frames.Scene(name=source.parent.name, split=split, source=source)
            for key, split in SPLITS.items()
            for name in content["scene_splits"].get(key, {"filenames": ()})["filenames"]
            if (source := index.parent / name)
        ]
    names = [scene.name for scene in found]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InputError(index, f"two scenes in the folder '{min(repeated)}'")
    return found


def _parse_line(line: ListLine) -> tuple[str, str, str]:
    """Return the scene, the camera and the stamp of a listed image."""
    parts = line.image.split("/")
    if len(parts) != 4 or parts[1] != "rgb":
        raise InputError(
            line.image, "not an image of DDAD", "a list names <scene>/rgb/<CAMERA>/<stamp>.png"
        )
    return parts[0], parts[2].upper(), Path(parts[3]).stem


def _frames(scene: frames.Scene, options: SweepOptions) -> frames.Frames:
    """Yield the frames of one scene: of its keyframes, or of the listed images."""
    entries = _read_scene(scene.source)
    rigs = {path: _read_calibration(path) for path in sorted({e.calibration for e in entries})}
    samples = [_sample(scene, entry, rigs[entry.calibration], options) for entry in entries]
    sensors = {sensor for entry in entries for sensor in entry.data}
    cameras = [name.upper() for name in options.cameras] or list(CAMERAS)
    for camera in cameras:
        if samples and scene.lines is None and camera not in sensors:
            yield frames.Absent(scene.name, camera)
    present = [camera for camera in cameras if camera in sensors]
    yield from drive_frames(scene, samples, options, present, ELAPSED_S, _parse_line)


class _Datum(NamedTuple):
    """A recording of one sensor."""

    sensor: str  # in upper case: DGP compares without
    path: Path
    pose: Transform  # sensor -> world
    size: Size | None  # of a picture
    columns: tuple[int, ...]  # of x, y and z in a sweep


class _Entry(NamedTuple):
    """The recordings of all sensors at about the same time."""

    stamp: str
    time_s: float
    calibration: Path
    data: dict[str, _Datum]  # by sensor


def _sample(scene: frames.Scene, entry: _Entry, rig: Rig, options: SweepOptions) -> Sample:
    raster = lidar.DDAD_PUBLISHED if options.surface == "last" else lidar.Raster()

    @cache  # once for all cameras
    def read() -> Points:
        sweep = _recording(entry, LIDAR, scene)
        return lidar.read_npz(sweep.path, sweep.columns)

    def build(name: str) -> frames.Frame:
        picture = _recording(entry, name, scene)

        def to_camera() -> Transform:
            if options.motion:
                return lidar.compose(
                    lidar.inverse(picture.pose), _recording(entry, LIDAR, scene).pose
                )
            camera, sensor = rig.mount(name), rig.mount(LIDAR)
            return lidar.compose(lidar.inverse(camera.extrinsics), sensor.extrinsics)

        label, camera = f"{scene.name}/{name}/{picture.path.stem}", partial(_camera, picture, rig)
        return sweep_frame(label, picture.path, camera, read, to_camera, raster)

    # The position is that of the first sensor, as the released code takes it.
    position = next(iter(entry.data.values())).pose[:3, 3]
    images = {name: datum.path.stem for name, datum in entry.data.items()}
    return Sample(entry.time_s, lambda: position, images, build)


def _recording(entry: _Entry, sensor: str, scene: frames.Scene) -> _Datum:
    if sensor not in entry.data:
        available = ", ".join(sorted(entry.data))
        raise InputError(scene.source, f"no {sensor} at {entry.stamp}", f"available: {available}")
    return entry.data[sensor]


def _camera(picture: _Datum, rig: Rig, size: Size) -> Camera:
    if size != picture.size:
        raise InputError(picture.path, f"{size} pixels", f"its scene file says {picture.size}")
    return rig.camera(picture.sensor, size)


def _read_scene(path: Path) -> list[_Entry]:
    content, folder = files.read_json(path), path.parent
    with frames.parsing(path):
        data = {row["key"]: _datum(row, folder) for row in content["data"]}
        return [_entry(row, data, folder) for row in content["samples"]]


def _entry(row: Any, data: dict[str, _Datum], folder: Path) -> _Entry:
    stamp = str(row["id"]["timestamp"])
    time = np.datetime64(stamp.removesuffix("Z"), "us")
    members = [data[key] for key in row["datum_keys"]]
    if not members:
        raise ValueError(f"no data at {stamp}")
    return _Entry(
        stamp=stamp,
        time_s=float(time.astype(np.int64)) / 1e6,
        calibration=folder / "calibration" / f"{row['calibration_key']}.json",
        data={datum.sensor: datum for datum in members},
    )


def _datum(row: Any, folder: Path) -> _Datum:
    (content,) = row["datum"].values()  # {"image": ...} or {"point_cloud": ...}
    formats = [str(name).upper() for name in content.get("point_format", ())]
    return _Datum(
        sensor=str(row["id"]["name"]).upper(),
        path=folder / content["filename"],
        pose=_transform(content["pose"]),
        size=(content["height"], content["width"]) if "height" in content else None,
        columns=tuple(formats.index(axis) for axis in "XYZ") if formats else (0, 1, 2),
    )


def _transform(pose: Any) -> Transform:
    rotation, translation = pose["rotation"], pose["translation"]
    return lidar.rigid_transform(
        [rotation[key] for key in ("qw", "qx", "qy", "qz")], [translation[key] for key in "xyz"]
    )


def _read_calibration(path: Path) -> Rig:
    content = files.read_json(path)
    with frames.parsing(path):
        rows = zip(content["names"], content["intrinsics"], content["extrinsics"], strict=True)
        mounts = {
            str(name).upper(): Mount(
                (float(k["fx"]), float(k["fy"]), float(k["cx"]), float(k["cy"])), _transform(pose)
            )
            for name, k, pose in rows
        }
    return Rig(path, mounts)


PREPARATION = frames.Preparation(
    options=SweepOptions,
    scenes=_scenes,
    frames=_frames,
    stored=KITTI_UNITS,
    needs="ddad.json (or another dataset file of DGP) and the folders of its scenes",
    cameras=(*CAMERAS, *OTHERS),
)
