"""DDAD in its own format: poses, keyframes, lists, faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes import road
from tests.fakes.indoor import real_samples
from tests.fakes.refusals import refused
from tests.fakes.road import depth_of, names_of, records

from idisc.data.prepare import ddad
from idisc.data.prepare.frames import Absent
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.sweeps import SweepOptions
from idisc.errors import DataError, InputError

ALL = SweepOptions(train_metres=0.0, test_metres=0.0)
FRONT = SweepOptions(train_metres=0.0, test_metres=0.0, cameras=("camera_01",))
AHEAD = road.WALL - road.DDAD_FORWARD  # of the wall from the front camera, if the car stood
DRIVEN = road.DDAD_SPEED * road.DDAD_LATE_S  # between sweep and picture


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return road.ddad(tmp_path / "ddad", samples=2)


# --- geometry


@pytest.mark.parametrize(
    ("options", "expected", "rounded"),
    [
        (FRONT, AHEAD - DRIVEN, round),
        (replace(FRONT, motion=False), AHEAD, round),  # as if the car stood
        (replace(FRONT, surface="last"), AHEAD - DRIVEN, int),  # as published
    ],
)
def test_a_wall_is_where_the_front_camera_sees_it(
    raw: Path,
    tmp_path: Path,
    options: SweepOptions,
    expected: float,
    rounded: Callable[[float], int],
) -> None:
    prepare("ddad", raw, tmp_path / "out", options)
    depth = depth_of(tmp_path / "out")
    # The wall's point (20, 0.5, -2.5), seen from (1.8, 0, 1.5).
    column, row = rounded(960 - 1000 * 0.5 / expected), rounded(600 + 1010 * 4.0 / expected)
    assert depth[row, column] == pytest.approx(expected, abs=1 / 256)


def test_each_camera_sees_its_own_wall(raw: Path, tmp_path: Path) -> None:
    prepare("ddad", raw, tmp_path / "out", replace(ALL, motion=False))
    middle = {}
    for record in records(tmp_path / "out"):
        columns = depth_of(tmp_path / "out", record)[:, 940:980]
        middle[record.sensor] = np.median(columns[columns > 0])
    assert middle["CAMERA_01"] == pytest.approx(AHEAD, abs=0.01)
    assert middle["CAMERA_09"] == pytest.approx(road.WALL, abs=0.01)
    slanted = road.WALL / np.cos(np.radians(30.0))  # 60 degrees to the side
    assert middle["CAMERA_05"] == pytest.approx(slanted, rel=0.03)
    assert middle["CAMERA_06"] == pytest.approx(slanted, rel=0.03)


def test_depth_ends_at_255_metres(raw: Path, tmp_path: Path) -> None:
    sweep = np.array([[300.0, 0.0, 1.5, 1.0]])
    for path in raw.rglob("*.npz"):
        np.savez(path, data=sweep)
    prepare("ddad", raw, tmp_path / "out", FRONT)
    depth = depth_of(tmp_path / "out")
    assert depth.max() == 255.0


# --- what is prepared


def test_val_is_the_test_and_cameras_are_those_of_the_lists(raw: Path, tmp_path: Path) -> None:
    summary = prepare("ddad", raw, tmp_path / "out", ALL)
    assert summary.counts == {"train": 2 * 2 * 4, "test": 2 * 4}
    assert summary.faults == []
    first = records(tmp_path / "out")[0]
    assert first.image == f"rgb/000150/CAMERA_01/{road.DDAD_FIRST}.png"
    assert {record.sensor for record in records(tmp_path / "out")} == set(ddad.CAMERAS)


def test_frames_are_kept_every_two_metres_of_a_scene(tmp_path: Path) -> None:
    raw = road.ddad(tmp_path / "ddad", samples=4)  # at 0, 1.5, 3 and 4.5 m
    prepare("ddad", raw, tmp_path / "out", SweepOptions(cameras=("CAMERA_01",)))
    kept = [int(Path(r.image).stem) - road.DDAD_FIRST for r in records(tmp_path / "out")]
    assert kept == [0, 0, 2_000_000, 0, 2_000_000]  # test; two of training, each from its start


def test_the_dataset_file_may_have_another_name_or_lie_deeper(tmp_path: Path) -> None:
    raw = road.ddad(tmp_path / "raw" / "ddad_train_val", samples=1)
    assert len(ddad.PREPARATION.scenes(raw.parent, ALL, None)) == 3
    (raw / "ddad.json").rename(raw / "scene_dataset_v1.0.json")
    road.write(raw / "another.json", [1, 2])
    assert len(ddad.PREPARATION.scenes(raw, ALL, None)) == 3


# --- faults


def test_a_dead_sweep_does_not_hide_the_dead_pictures_of_its_sample(
    raw: Path, tmp_path: Path
) -> None:
    folder = raw / "000000"
    sweep = folder / "point_cloud" / "LIDAR" / f"{road.DDAD_FIRST}.npz"
    gone, cut = (
        folder / "rgb" / camera / f"{road.DDAD_FIRST}.png" for camera in ("CAMERA_01", "CAMERA_05")
    )
    sweep.write_bytes(sweep.read_bytes()[:100])
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:300])
    summary = prepare("ddad", raw, tmp_path / "out", ALL)
    assert [fault.subject for fault in summary.faults] == [str(path) for path in (gone, sweep, cut)]


def change(path: Path, *keys: Any) -> None:
    """Take one key out of a JSON file."""
    content = json.loads(path.read_text())
    *way, last = keys
    inner = content
    for key in way:
        inner = inner[key]
    del inner[last]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("scene_beef.json", ("data", 1, "datum", "image", "pose")),
        ("scene_beef.json", ("data", 0)),
        ("calibration/c0ffee.json", ("extrinsics", 1)),
    ],
)
def test_a_missing_key_is_a_fault_of_its_file(
    raw: Path, tmp_path: Path, name: str, keys: tuple[Any, ...]
) -> None:
    change(raw / "000001" / name, *keys)
    summary = prepare("ddad", raw, tmp_path / "out", FRONT)
    assert [fault.subject for fault in summary.faults] == [str(raw / "000001" / name)]
    assert summary.counts == {"train": 2, "test": 2}


@pytest.mark.parametrize("listed", [[3], "x", {"filenames": [None]}])
def test_a_dataset_file_of_another_form_is_named(raw: Path, tmp_path: Path, listed: Any) -> None:
    road.write(raw / "ddad.json", {"scene_splits": {"0": listed}})
    with refused(InputError, raw / "ddad.json"):
        prepare("ddad", raw, tmp_path / "out", FRONT)


def test_two_scenes_of_one_folder_are_refused(raw: Path, tmp_path: Path) -> None:
    twice = {"filenames": ["000000/scene_beef.json", "000000/scene_beef.json"]}
    road.write(raw / "ddad.json", {"scene_splits": {"0": twice}})
    with refused(InputError, raw / "ddad.json", "000000"):
        prepare("ddad", raw, tmp_path / "out", FRONT)


def test_a_camera_that_this_car_has_not_is_left_out(raw: Path, tmp_path: Path) -> None:
    choices = replace(FRONT, cameras=("CAMERA_01", "CAMERA_07"))
    summary = prepare("ddad", raw, tmp_path / "left_out", choices)
    assert summary.faults == []
    assert Absent("000150", "CAMERA_07") in summary.absent
    assert {record.sensor for record in records(tmp_path / "left_out")} == {"CAMERA_01"}
    with refused(DataError, tmp_path / "out" / "missing.txt"):
        prepare("ddad", raw, tmp_path / "out", replace(FRONT, cameras=("CAMERA_07",)))
    assert "CAMERA_07" in (tmp_path / "out" / "missing.txt").read_text()


def test_a_picture_of_another_size_is_a_fault(raw: Path, tmp_path: Path) -> None:
    path = raw / "000150" / "rgb" / "CAMERA_01" / f"{road.DDAD_FIRST}.png"
    path.write_bytes(road.flat((608, 968), "png"))
    assert names_of(prepare("ddad", raw, tmp_path / "out", FRONT)) == [path.name]


# --- real scenes

SIX = tuple(f"CAMERA_0{number}" for number in (1, 5, 6, 7, 8, 9))


def test_every_camera_of_the_real_scenes_gets_its_depth(tmp_path: Path) -> None:
    shared = real_samples("dgp_scenes")
    choices = replace(ALL, cameras=SIX, pictures="link")
    summary = prepare("ddad", shared, tmp_path / "out", choices)
    assert summary.counts == {"train": 3, "test": 12}
    assert summary.faults == []
    assert {each.scene for each in summary.absent} == {"scene_01"}  # it has three of the six
    assert len(summary.absent) == 3
    for record in records(tmp_path / "out"):
        depth = depth_of(tmp_path / "out", record)
        found = depth[depth > 0]
        least, most = (4500, 6000) if record.sensor == "CAMERA_01" else (9000, 13000)
        assert least < found.size < most, record.image
        assert found.min() > 2.0
        assert found.max() < 240.0
        rows = np.nonzero(depth)[0]
        assert np.percentile(rows, 5) > 300, record.image  # next to nothing in the sky
