"""DDAD, in the Dataset Governance Policy (DGP) format, read straight from its JSON.

    ddad.json                                  scene_splits: "0" train, "1" val (here: test)
    000150/scene_<sha1>.json                   samples, and the sensors' files and poses
    000150/calibration/<sha1>.json             intrinsics; extrinsics, sensor -> vehicle
    000150/point_cloud/LIDAR/<stamp>.npz       000150/rgb/CAMERA_01/<stamp>.png

A pose is sensor -> world at the time of the sensor, so poses contain the motion of the car between
sweep and image, unlike extrinsics. Images are rectified. Annotations are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from idisc.data.prepare.sweeps import Mount, Rig, SweepOptions, sweep_frame
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
    """One scene for each scene file that the dataset file names."""
    index = _dataset_file(raw)
    if index is None:
        return []
    found = _indexed(index)
    if lines is None:
        return list(found.values())
    sources = {name: scene.source for name, scene in found.items()}
    return frames.by_scene(lines, raw, lambda line: _parts(line)[0], sources)


def _dataset_file(raw: Path) -> Path | None:
    for root in (raw, raw / "ddad_train_val"):
        named = root / "ddad.json"
        for path in [named] if named.is_file() else sorted(root.glob("*.json")):
            content = files.read_json(path)
            if isinstance(content, dict) and "scene_splits" in content:
                return path
    return None


def _indexed(index: Path) -> dict[str, frames.Scene]:
    """Return the scenes of a dataset file by the names of their folders."""
    content = files.read_json(index)
    with frames.parsing(index):
        splits = content["scene_splits"]
        sources = [
            (split, index.parent / name)
            for key, split in SPLITS.items()
            for name in splits.get(key, {"filenames": ()})["filenames"]
        ]
    found: dict[str, frames.Scene] = {}
    for split, source in sources:
        folder = source.parent.name
        if folder in found:
            raise InputError(index, f"two scenes in the folder '{folder}'")
        found[folder] = frames.Scene(name=folder, split=split, source=source)
    return found


def _parts(line: ListLine) -> tuple[str, str, str]:
    """Scene, camera and stamp of a listed image."""
    parts = line.image.split("/")
    if len(parts) != 4 or parts[1] != "rgb":
        raise InputError(
            line.image, "not an image of DDAD", "a list names <scene>/rgb/<CAMERA>/<stamp>.png"
        )
    return parts[0], parts[2].upper(), Path(parts[3]).stem


def _frames(scene: frames.Scene, options: SweepOptions) -> frames.Frames:
    """Yield the frames of one scene: of its keyframes, or of the listed images."""
    samples = _read_scene(scene.source)
    rigs = {path: _read_calibration(path) for path in sorted({s.calibration for s in samples})}
    sensors = {sensor for sample in samples for sensor in sample.data}
    if samples and scene.lines is None:
        for camera in _cameras(options):
            if camera not in sensors:
                yield frames.Absent(scene.name, camera)
    for sample, cameras in _chosen(scene, samples, options):
        yield from _sample_frames(scene, sample, cameras, rigs[sample.calibration], options)
    there = {(datum.sensor, datum.path.stem) for s in samples for datum in s.data.values()}
    for line in scene.lines or ():
        if _parts(line)[1:] not in there:
            yield InputError(line.image, f"{scene.source.name} does not list this image")


class _Datum(NamedTuple):
    """What one sensor recorded."""

    sensor: str  # in upper case: DGP compares without
    path: Path
    pose: Transform  # sensor -> world
    size: Size | None  # of a picture
    columns: tuple[int, ...]  # of a sweep: where x, y and z stand


class _Sample(NamedTuple):
    """What all sensors recorded at about the same time."""

    stamp: str
    position: Points  # (3,) of its first datum's sensor, as the released code takes it
    calibration: Path
    data: dict[str, _Datum]  # by sensor

    @property
    def time_s(self) -> float:
        return float(np.datetime64(self.stamp.removesuffix("Z"), "us").astype(np.int64)) / 1e6


_Choice = tuple[_Sample, Sequence[str]]


def _cameras(options: SweepOptions) -> tuple[str, ...]:
    return tuple(name.upper() for name in options.cameras) or CAMERAS


def _chosen(
    scene: frames.Scene, samples: Sequence[_Sample], options: SweepOptions
) -> Iterator[_Choice]:
    """Samples to take and the cameras of each."""
    if scene.lines is not None:
        wanted = {_parts(line)[1:] for line in scene.lines}
        for sample in samples:
            there = sample.data.values()
            yield sample, [d.sensor for d in there if (d.sensor, d.path.stem) in wanted]
        return
    sensors = {sensor for sample in samples for sensor in sample.data}
    cameras = [name for name in _cameras(options) if name in sensors]
    # Keyframes are chosen within a scene, so that they do not depend on other scenes or workers.
    with frames.parsing(scene.source):
        times_s = [sample.time_s for sample in samples]
    positions = [sample.position for sample in samples]
    kept = options.keep(positions, times_s, scene.split, ELAPSED_S)
    yield from ((samples[number], cameras) for number in kept)


def _sample_frames(
    scene: frames.Scene, sample: _Sample, cameras: Sequence[str], rig: Rig, options: SweepOptions
) -> frames.Frames:
    raster = lidar.DDAD_PUBLISHED if options.surface == "last" else lidar.Raster()
    read = cache(lambda: _read_sweep(sample, scene))  # once for all cameras

    def build(name: str) -> frames.Frame:
        picture = _of(sample, name, scene)

        def to_camera() -> Transform:
            if options.motion:
                return lidar.compose(lidar.inverse(picture.pose), _of(sample, LIDAR, scene).pose)
            camera, sensor = rig.mount(name), rig.mount(LIDAR)
            return lidar.compose(lidar.inverse(camera.extrinsics), sensor.extrinsics)

        label, camera = f"{scene.name}/{name}/{picture.path.stem}", partial(_camera, picture, rig)
        return sweep_frame(label, picture.path, camera, read, to_camera, raster)

    yield from frames.frame_by_frame(build, cameras)


def _read_sweep(sample: _Sample, scene: frames.Scene) -> Points:
    sweep = _of(sample, LIDAR, scene)
    return lidar.read_npz(sweep.path, sweep.columns)


def _of(sample: _Sample, sensor: str, scene: frames.Scene) -> _Datum:
    if sensor not in sample.data:
        there = ", ".join(sorted(sample.data))
        raise InputError(scene.source, f"no {sensor} at {sample.stamp}", f"available: {there}")
    return sample.data[sensor]


def _camera(picture: _Datum, rig: Rig, size: Size) -> Camera:
    if size != picture.size:
        raise InputError(picture.path, f"{size} pixels", f"its scene file says {picture.size}")
    return rig.camera(picture.sensor, size)


def _read_scene(path: Path) -> list[_Sample]:
    content, folder = files.read_json(path), path.parent
    with frames.parsing(path):
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
    return lidar.rigid_transform(
        [turn[key] for key in ("qw", "qx", "qy", "qz")], [way[key] for key in "xyz"]
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
