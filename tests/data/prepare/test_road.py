"""What the preparations of KITTI, Argoverse and DDAD have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import road
from tests.fakes.refusals import refused

from idisc.data.prepare import PREPARATIONS
from idisc.data.prepare.runner import prepare
from idisc.errors import InputError

DRIVES = ("2011_09_26_drive_0001_sync", "2011_09_28_drive_0001_sync")
CALIBRATIONS = {
    "kitti": "2011_09_28/calib_cam_to_cam.txt",
    "argoverse": "train1/log-a/vehicle_calibration_info.json",
    "ddad": "000001/calibration/c0ffee.json",
}


def make_raw(dataset: str, raw: Path) -> Path:
    if dataset == "kitti":
        return road.kitti(raw, raw, DRIVES, frames=1)
    return road.argoverse(raw, sweeps=1) if dataset == "argoverse" else road.ddad(raw, samples=1)


@pytest.mark.parametrize("dataset", CALIBRATIONS)
def test_a_list_of_another_dataset_is_refused(dataset: str, tmp_path: Path) -> None:
    raw = make_raw(dataset, tmp_path / "raw")
    listing = road.write(tmp_path / "list.txt", "a/first.png b.png")
    with refused(InputError, "a/first.png"):
        prepare(dataset, raw, tmp_path / "out", lists=[listing])


@pytest.mark.parametrize("dataset", CALIBRATIONS)
def test_an_unknown_camera_is_refused_before_anything_is_written(
    dataset: str, tmp_path: Path
) -> None:
    raw = make_raw(dataset, tmp_path / "raw")
    with refused(InputError, f"--set cameras: camera of {dataset} 'front'"):
        prepare(dataset, raw, tmp_path / "out", PREPARATIONS[dataset].options(cameras=("front",)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dataset", CALIBRATIONS)
def test_a_missing_calibration_is_one_fault_and_other_scenes_are_prepared(
    dataset: str, tmp_path: Path
) -> None:
    raw = make_raw(dataset, tmp_path / "raw")
    path = raw / CALIBRATIONS[dataset]
    path.unlink()
    summary = prepare(dataset, raw, tmp_path / "out")
    assert sum(summary.counts.values()) > 0
    assert [fault.subject for fault in summary.faults if "ring" not in fault.subject] == [str(path)]
