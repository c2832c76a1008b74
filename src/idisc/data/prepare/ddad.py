"""DDAD, in the Dataset Governance Policy (DGP) format, read straight from its JSON.

    ddad.json                                  scene_splits: "0" train, "1" val (here: test)
    000150/scene_<sha1>.json                   samples, and the sensors' files and poses
    000150/calibration/<sha1>.json             intrinsics; extrinsics, sensor -> vehicle
    000150/point_cloud/LIDAR/<stamp>.npz       000150/rgb/CAMERA_01/<stamp>.png

A pose is sensor -> world at the sensor's own time, so poses know how the car moved between sweep
and picture, and extrinsics do not. Pictures are rectified: no lens. Annotations are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from idisc import files
from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.lidar import Points, Transform
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

NEEDS = "ddad.json (or another dataset file of DGP) and the folders of its scenes"
CAMERAS = ("CAMERA_01", "CAMERA_05", "CAMERA_06", "CAMERA_09")  # those of the published lists
OTHERS = ("CAMERA_07", "CAMERA_08")  # to be had by name
LIDAR = "LIDAR"
SPLITS = {"0": "train", "1": "test"}  # DGP's numbers; results are reported on its val
# The released code also keeps a frame after this time. Seconds of the stamps, which in DDAD run ten
# times too fast: it recorded at 10 Hz, in 2019, and the stamps are 1 s apart and of the year 2464.
ELAPSED_S = 20.0
FARTHEST = 255.0  # metres; the released code cuts here, below what 16 bits of 1/256 m hold


def scenes(raw: Path, _choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """One for each scene file that the dataset file names."""
    index = _dataset_file(raw)
    if index is None:
        return []
    found = _indexed(index)
    if lines is None:
        return list(found.values())
    return [
        # A scene that is not there keeps the place where it ought to be, and is a fault later.
        replace(
            scene,
            source=found[scene.name].source if scene.name in found else raw / scene.name,
        )
        for scene in by_scene(lines, raw, lambda line: _parts(line)[0])
    ]


def _dataset_file(raw: Path) -> Path | None:
    for root in (raw, raw / "ddad_train_val"):
        named = root / "ddad.json"
        for path in [named] if named.is_file() else sorted(root.glob("*.json")):
            content = files.read_json(path)
            if isinstance(content, dict) and "scene_splits" in content:
                return path
    return None


def _indexed(index: Path) -> dict[str, Scene]:
    """The scenes of a dataset file, by the names of their folders."""
    found: dict[str, Scene] = {}
    with understood(index):
        splits = files.read_json(index)["scene_splits"]
        for split, name in [(SPLITS[key], name) for key in SPLITS for name in _names(splits, key)]:
            source = index.parent / name
            folder = source.parent.name
            if folder in found:
                raise InputError(f"{index}: two scenes in the folder '{folder}'")
            found[folder] = Scene(name=folder, split=split, source=source)
    return found


def _names(splits: Any, key: str) -> list[str]:
    return list(splits[key]["filenames"]) if key in splits else []


def _parts(line: ListLine) -> tuple[str, str, str]:
    """Scene, camera and stamp of a listed picture."""
    parts = line.image.split("/")
    if len(parts) != 4 or parts[1] != "rgb":
        raise InputError(f"{line.image}: not of DDAD; a list has <scene>/rgb/<CAMERA>/<stamp>.png")
    return parts[0], parts[2].upper(), Path(parts[3]).stem


def frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame | Fault]:
    """The frames of one scene: of its keyframes, or of the listed pictures."""
    samples = _read_scene(scene.source)
    rigs = {path: _read_calibration(path) for path in sorted({s.calibration for s in samples})}
    for sample, cameras in _chosen(scene, samples, choices):
        yield from _sample_frames(scene, sample, cameras, rigs[sample.calibration], choices)
    there = {(datum.sensor, datum.path.stem) for s in samples for datum in s.data.values()}
    for line in scene.wanted or ():
        if _parts(line)[1:] not in there:
            yield Fault(line.image, f"no picture that {scene.source.name} knows of")


@dataclass(frozen=True)
class _Datum:
    """What one sensor recorded."""

    sensor: str  # in upper case: DGP compares without
    path: Path
    pose: Transform  # sensor -> world
    size: Size | None  # of a picture
    columns: tuple[int, ...]  # of a sweep: where x, y and z stand


@dataclass(frozen=True)
class _Sample:
    """What all sensors recorded at about the same time."""

    stamp: str
    position: Points  # (3,) of its first datum's sensor, as the released code takes it
    calibration: Path
    data: dict[str, _Datum]  # by sensor

    @property
    def time_s(self) -> float:
        return float(np.datetime64(self.stamp.removesuffix("Z"), "us").astype(np.int64)) / 1e6


@dataclass(frozen=True)
class _Mount:
    """The calibration of one sensor."""

    intrinsics: tuple[float, float, float, float]  # fx, fy, cx, cy; zeros of a LiDAR
    extrinsics: Transform  # sensor -> vehicle


_Rig = dict[str, _Mount]
_Choice = tuple[_Sample, Sequence[str]]


def _chosen(scene: Scene, samples: Sequence[_Sample], choices: PrepareConfig) -> Iterator[_Choice]:
    """Samples to take and the cameras of each."""
    if scene.wanted is not None:
        wanted = {_parts(line)[1:] for line in scene.wanted}
        for sample in samples:
            yield (
                sample,
                [d.sensor for d in sample.data.values() if (d.sensor, d.path.stem) in wanted],
            )
        return
    cameras = tuple(name.upper() for name in choices.cameras) or CAMERAS
    # Scene by scene: between two drives there is no way to measure, and what a scene keeps must not
    # hang on which scene, or which worker, came before it.
    with understood(scene.source):
        times = [sample.time_s for sample in samples]
    kept = lidar.keyframes(
        [sample.position for sample in samples],
        times,
        choices.keyframe_metres(scene.split),
        ELAPSED_S if choices.keyframes == "elapsed" else None,
    )
    yield from ((samples[number], cameras) for number in kept)


def _sample_frames(
    scene: Scene, sample: _Sample, cameras: Sequence[str], rig: _Rig, choices: PrepareConfig
) -> Iterator[Frame | Fault]:
    if not cameras:
        return
    try:
        sweep = _of(sample, LIDAR, scene)
        points = lidar.read_npz(sweep.path, sweep.columns)
    except InputError as error:
        readings = (partial(_see, sample, name, rig, scene) for name in cameras)
        yield from all_faults(error, readings)
        return

    def build(name: str) -> Frame:
        picture = _of(sample, name, scene)
        camera = _camera(picture, rig, sample)
        if choices.motion:
            way = lidar.compose(lidar.inverse(picture.pose), sweep.pose)
        else:
            mounts = _mount(rig, name, sample), _mount(rig, LIDAR, sample)
            way = lidar.compose(lidar.inverse(mounts[0].extrinsics), mounts[1].extrinsics)
        raster = lidar.DDAD_PUBLISHED if choices.surface == "last" else lidar.Raster()
        return Frame(
            name=f"{scene.name}/{name}/{picture.path.stem}",
            image=picture.path,
            target=np.minimum(lidar.project(lidar.moved(points, way), camera, raster), FARTHEST),
            camera=camera,
            sensor=name,
        )

    yield from frame_by_frame(build, cameras)


def _see(sample: _Sample, camera: str, rig: _Rig, scene: Scene) -> None:
    """Look at a picture that no depth can be made for: it may be at fault as well."""
    picture = _of(sample, camera, scene)
    _camera(picture, rig, sample)
    decode_picture(picture.path)


def _of(sample: _Sample, sensor: str, scene: Scene) -> _Datum:
    if sensor not in sample.data:
        there = ", ".join(sorted(sample.data))
        raise InputError(f"{scene.source}: no {sensor} at {sample.stamp}; there are {there}")
    return sample.data[sensor]


def _mount(rig: _Rig, sensor: str, sample: _Sample) -> _Mount:
    if sensor not in rig:
        raise InputError(f"{sample.calibration}: no calibration of {sensor}")
    return rig[sensor]


def _camera(picture: _Datum, rig: _Rig, sample: _Sample) -> Camera:
    fx, fy, cx, cy = _mount(rig, picture.sensor, sample).intrinsics
    size = picture_size(picture.path)
    if size != picture.size:
        raise InputError(f"{picture.path}: {size} pixels; its scene file says {picture.size}")
    with understood(sample.calibration):
        return Camera(fx=fx, fy=fy, cx=cx, cy=cy, size=size, origin="calibration")


def _read_scene(path: Path) -> list[_Sample]:
    content, folder = files.read_json(path), path.parent
    with understood(path):
        data = {entry["key"]: _datum(entry, folder) for entry in content["data"]}
        return [_sample(entry, data, folder) for entry in content["samples"]]


def _sample(entry: Any, data: dict[str, _Datum], folder: Path) -> _Sample:
    members = [data[key] for key in entry["datum_keys"]]
    return _Sample(
        stamp=str(entry["id"]["timestamp"]),
        position=members[0].pose[:3, 3],
        calibration=folder / "calibration" / f"{entry['calibration_key']}.json",
        data={datum.sensor: datum for datum in members},
    )


def _datum(entry: Any, folder: Path) -> _Datum:
    (content,) = entry["datum"].values()  # {"image": ...} or {"point_cloud": ...}
    formats = [str(name).upper() for name in content.get("point_format", ())]
    return _Datum(
        sensor=str(entry["id"]["name"]).upper(),
        path=folder / content["filename"],
        pose=_transform(content["pose"]),
        size=(content["height"], content["width"]) if "height" in content else None,
        columns=tuple(formats.index(axis) for axis in "XYZ") if formats else (0, 1, 2),
    )


def _transform(pose: Any) -> Transform:
    turn, way = pose["rotation"], pose["translation"]
    return lidar.rigid([turn[key] for key in ("qw", "qx", "qy", "qz")], [way[key] for key in "xyz"])


def _read_calibration(path: Path) -> _Rig:
    content = files.read_json(path)
    with understood(path):
        rows = zip(content["names"], content["intrinsics"], content["extrinsics"], strict=True)
        return {
            str(name).upper(): _Mount(
                (float(k["fx"]), float(k["fy"]), float(k["cx"]), float(k["cy"])), _transform(pose)
            )
            for name, k, pose in rows
        }
