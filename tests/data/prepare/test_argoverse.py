"""Argoverse's logs: the nearest picture, the car's motion, keyframes, lists and faults."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import road
from tests.fakes.indoor import real_samples
from tests.fakes.road import depth_of, names_of, records

from idisc.data.prepare import argoverse
from idisc.data.prepare.runner import prepare

FRONT = argoverse.Options(cameras=("ring_front_center",))
EVERY = replace(FRONT, train_metres=0.0, test_metres=0.0)
AHEAD = road.WALL - road.ARGOVERSE_FORWARD  # of the wall from the front camera, if the car stood
DRIVEN = road.ARGOVERSE_SPEED * road.ARGOVERSE_LATE_NS / 1e9  # between sweep and picture
FIRST = road.ARGOVERSE_FIRST_NS


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return road.argoverse(tmp_path / "argoverse-tracking", sweeps=3)  # at 0, 1 and 2 m


# --- geometry


def test_the_car_drives_on_between_sweep_and_picture(raw: Path, tmp_path: Path) -> None:
    prepare("argoverse", raw, tmp_path / "out", FRONT)
    depth = depth_of(tmp_path / "out")
    expected = AHEAD - DRIVEN
    # The wall's point (20, 0.5, -2.5), seen from (1.6, 0, 1.4).
    column, row = round(960 - 1400 * 0.5 / expected), round(600 + 1400 * 3.9 / expected)
    assert depth[row, column] == pytest.approx(expected, abs=1 / 256)


@pytest.mark.parametrize("known", [True, False])
def test_without_motion_or_without_a_pose_the_car_stands(
    raw: Path, tmp_path: Path, known: bool
) -> None:
    if not known:
        for path in raw.rglob(f"city_SE3_egovehicle_*{road.ARGOVERSE_LATE_NS}.json"):
            path.unlink()
    prepare("argoverse", raw, tmp_path / "out", replace(FRONT, motion=not known))
    depth = depth_of(tmp_path / "out")
    column, row = round(960 - 1400 * 0.5 / AHEAD), round(600 + 1400 * 3.9 / AHEAD)
    assert depth[row, column] == pytest.approx(AHEAD, abs=1 / 256)


def test_pictures_count_as_undistorted_unless_asked(raw: Path, tmp_path: Path) -> None:
    still = replace(FRONT, motion=False)
    prepare("argoverse", raw, tmp_path / "plain", still)
    prepare("argoverse", raw, tmp_path / "bent", replace(still, distortion=True))
    x, y = -10.0 / AHEAD, 3.9 / AHEAD  # the wall's point (20, 10, -2.5)
    r2 = x * x + y * y
    k1, k2, k3 = road.ARGOVERSE_LENS
    factor = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
    for name, bend in (("plain", 1.0), ("bent", factor)):
        depth = depth_of(tmp_path / name)
        column, row = round(960 + 1400 * bend * x), round(600 + 1400 * bend * y)
        assert depth[row, column] == pytest.approx(AHEAD, abs=1 / 256), name
    assert 1400 * abs(x) * (1 - factor) > 30  # pixels apart


# --- what is prepared


def test_val_is_the_test_and_a_frame_is_named_by_its_sweep(raw: Path, tmp_path: Path) -> None:
    summary = prepare("argoverse", raw, tmp_path / "out", FRONT)
    assert summary.counts == {"train": 2, "test": 1}  # every 2 m, every 50 m
    assert summary.faults == []
    images = [record.image for record in records(tmp_path / "out")]
    assert images == [
        "rgb/log-b/ring_front_center/0.jpg",
        "rgb/log-a/ring_front_center/0.jpg",
        "rgb/log-a/ring_front_center/2.jpg",
    ]


def test_the_picture_nearest_in_time_is_taken(raw: Path, tmp_path: Path) -> None:
    prepare("argoverse", raw, tmp_path / "out", replace(FRONT, pictures="link"))
    picture = (tmp_path / "out" / records(tmp_path / "out")[0].image).resolve()
    assert picture.name == f"ring_front_center_{FIRST + road.ARGOVERSE_LATE_NS}.jpg"


@pytest.mark.parametrize(("place", "train", "test"), [("", 1, 1), ("val", 0, 1), ("train1", 1, 0)])
def test_the_folder_may_be_the_tree_its_parent_or_one_split(
    raw: Path, place: str, train: int, test: int
) -> None:
    for root in (raw / place, *([raw.parent] if not place else [])):
        splits = [scene.split for scene in argoverse.PREPARATION.scenes(root, EVERY, None)]
        assert (splits.count("train"), splits.count("test")) == (train, test)


# --- faults


def test_a_mended_run_leaves_no_frame_of_the_earlier_keyframes(raw: Path, tmp_path: Path) -> None:
    def files_of(name: str) -> dict[str, bytes]:
        return {
            path.relative_to(tmp_path / name).as_posix(): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file()
        }

    pose = raw / "train1/log-a/poses" / f"city_SE3_egovehicle_{FIRST}.json"
    content = pose.read_bytes()
    pose.unlink()  # so the drive begins at the second sweep
    assert prepare("argoverse", raw, tmp_path / "out", FRONT).faults
    assert "rgb/log-a/ring_front_center/1.jpg" in files_of("out")
    pose.write_bytes(content)
    prepare("argoverse", raw, tmp_path / "out", FRONT)
    prepare("argoverse", raw, tmp_path / "clean", FRONT)
    assert "rgb/log-a/ring_front_center/1.jpg" not in files_of("out")
    assert files_of("out") == files_of("clean")


def test_dead_files_are_faults_and_the_others_go_on(raw: Path, tmp_path: Path) -> None:
    log = raw / "train1" / "log-a"
    sweep = log / "lidar" / f"PC_{FIRST}.ply"
    sweep.write_bytes(sweep.read_bytes()[:5000])
    shutil.rmtree(log / "ring_side_left")
    stamp = FIRST + 100_000_000 + road.ARGOVERSE_LATE_NS
    picture = log / "ring_front_center" / f"ring_front_center_{stamp}.jpg"
    picture.write_bytes(picture.read_bytes()[:700])
    cameras = ("ring_front_center", "ring_side_left")
    summary = prepare("argoverse", raw, tmp_path / "out", replace(EVERY, cameras=cameras))
    assert summary.counts == {"train": 1, "test": 6}
    assert names_of(summary) == [
        *(f"PC_{FIRST}.ply", "ring_side_left"),  # the camera of the damaged sweep, too
        *(picture.name, "ring_side_left", "ring_side_left"),
    ]


# --- the real sweep through the real cameras


def test_the_real_sweep_is_a_street_in_every_real_camera(tmp_path: Path) -> None:
    shared = real_samples("argoverse")
    (sweep,) = (shared / "tracking").rglob("PC_*.ply")
    log = tmp_path / "raw" / "val" / sweep.parents[1].name
    road.argoverse_log(log, 1, tuple(road.ARGOVERSE_CAMERAS), sweep.read_bytes())
    calibration = log / "vehicle_calibration_info.json"
    shutil.copyfile(shared / "tracking" / calibration.name, calibration)
    choices = argoverse.Options(motion=False)
    summary = prepare("argoverse", tmp_path / "raw", tmp_path / "out", choices)
    assert summary.counts == {"train": 0, "test": 7}
    assert summary.faults == []
    found = {}
    for record in records(tmp_path / "out"):
        depth = depth_of(tmp_path / "out", record)
        found[record.sensor] = np.count_nonzero(depth)
        assert 3000 < found[record.sensor] < 20000, record.sensor
        assert depth[depth > 0].min() > 1.0
        assert depth.max() < 220.0
        # The road is below: near points are low in the picture, far points high.
        rows, columns = np.nonzero(depth)
        low, high = depth[rows, columns][rows > 900], depth[rows, columns][rows < 600]
        assert np.median(low) < np.median(high), record.sensor
    assert found["ring_front_center"] == pytest.approx(14_700, abs=200)  # counted independently
