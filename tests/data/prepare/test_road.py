"""What the preparations of KITTI, Argoverse and DDAD have in common."""

from typing import Any, NamedTuple

import pytest
from tests.fakes import road
from tests.fakes.refusals import refused

from idisc.data.dataset import open_dataset
from idisc.data.prepare import PREPARATIONS, argoverse, ddad
from idisc.data.prepare.runner import prepare
from idisc.errors import InputError

DRIVES = ("2011_09_26_drive_0001_sync", "2011_09_28_drive_0001_sync")
FIRST = road.DDAD_FIRST


class Case(NamedTuple):
    """A raw folder with two scenes of the same length or more, and what is known of it."""

    calibration: str
    line: str  # of a published list
    image: str  # that it names, as prepared
    one_camera: dict[str, Any]  # options
    camera: tuple[float, float, float]  # fx, cx, cy in the network
    absent: tuple[str, ...]  # lines of images that do not exist
    faults: tuple[str, ...]  # names of the files they miss


CASES = {
    "kitti": Case(
        "2011_09_28/calib_cam_to_cam.txt",
        road.kitti_line(DRIVES[0], 1),
        f"2011_09_26/{DRIVES[0]}/image_02/0000000001.png",
        {},
        (700, 600 - 13, 180 - 23),
        (road.kitti_line(DRIVES[0], 7), road.kitti_line("2011_09_26_drive_0005_sync", 1)),
        ("0000000007.png", "0000000001.png"),
    ),
    "argoverse": Case(
        "train1/log-a/vehicle_calibration_info.json",
        "rgb/log-b/ring_side_left/1.png depth/log-b/ring_side_left/1.png",
        "log-b/ring_side_left/1.jpg",
        {"cameras": ("ring_front_center",)},
        (1400 / 1.5, 960.5 / 1.5 - 0.5, (600 - 180 + 0.5) / 1.5 - 0.5),
        (
            "rgb/log-a/ring_front_center/3.png x",
            "rgb/log-a/ring_top/0.png x",
            "rgb/log-c/ring_front_center/0.png x",
        ),
        ("3.png", "0.png", argoverse.CALIBRATION),
    ),
    "ddad": Case(
        "000001/calibration/c0ffee.json",
        f"000150/rgb/CAMERA_05/{FIRST + 1_000_000}.png 000150/depth/CAMERA_05/x.png",
        f"000150/CAMERA_05/{FIRST + 1_000_000}.png",
        {"cameras": ("camera_01",)},
        (1000 / 1.5, (960 - 8 + 0.5) / 1.5 - 0.5, (600 - 180 + 0.5) / 1.5 - 0.5),
        ("000150/rgb/CAMERA_01/77.png x", "000199/rgb/CAMERA_01/1.png x"),
        ("77.png", "000199"),
    ),
}


def make_raw(dataset, raw):
    if dataset == "kitti":
        return road.kitti(raw, raw, DRIVES, frames=2)
    return road.argoverse(raw, sweeps=2) if dataset == "argoverse" else road.ddad(raw, samples=2)


@pytest.fixture(params=CASES)
def dataset(request):
    return str(request.param)


def test_lists_and_cameras_of_other_datasets_are_refused(dataset, tmp_path):
    raw = make_raw(dataset, tmp_path / "raw")
    listing = road.write(tmp_path / "list.txt", "a/first.png b.png")
    with refused(InputError, "a/first.png"):
        prepare(dataset, raw, tmp_path / "out", lists=[listing])
    with refused(InputError, f"--set cameras: camera of {dataset} 'front'"):
        prepare(dataset, raw, tmp_path / "out", PREPARATIONS[dataset].options(cameras=("front",)))
    assert not (tmp_path / "out").exists()


def test_exactly_the_lines_of_a_list_are_prepared_and_missing_ones_are_faults(dataset, tmp_path):
    case, raw = CASES[dataset], make_raw(dataset, tmp_path / "raw")
    listing = road.write(tmp_path / "a_train.txt", "\n".join([case.line, *case.absent]))
    summary = prepare(dataset, raw, tmp_path / "out", lists=[listing])
    assert set(road.names_of(summary)) == set(case.faults)
    assert [(record.split, record.image) for record in road.records(tmp_path / "out")] == [
        ("train", f"rgb/{case.image}")
    ]


def test_a_sample_has_the_camera_of_the_calibration(dataset, tmp_path):
    raw = make_raw(dataset, tmp_path / "raw")
    prepare(
        dataset, raw, tmp_path / "out", PREPARATIONS[dataset].options(**CASES[dataset].one_camera)
    )
    sample = open_dataset(tmp_path / "out", dataset, "train")[0]
    assert sample.camera.size == sample.image.shape[:2]
    found = sample.camera.fx, sample.camera.cx, sample.camera.cy
    assert found == pytest.approx(CASES[dataset].camera)


@pytest.mark.parametrize("module", [argoverse, ddad])
def test_by_the_rule_of_the_code_a_time_is_enough(module, tmp_path, monkeypatch):
    dataset = module.__name__.rpartition(".")[2]
    raw, scenes = make_raw(dataset, tmp_path / "raw"), 3 if dataset == "ddad" else 2
    options = module.PREPARATION.options(
        **CASES[dataset].one_camera, keyframes="elapsed", train_metres=50.0
    )
    assert sum(prepare(dataset, raw, tmp_path / "a", options).counts.values()) == scenes
    monkeypatch.setattr(module, "ELAPSED_S", 0.09)
    assert sum(prepare(dataset, raw, tmp_path / "b", options).counts.values()) == 2 * scenes


def test_a_missing_calibration_is_one_fault_and_other_scenes_are_prepared(dataset, tmp_path):
    raw = make_raw(dataset, tmp_path / "raw")
    path = raw / CASES[dataset].calibration
    path.unlink()
    summary = prepare(dataset, raw, tmp_path / "out")
    assert sum(summary.counts.values()) > 0
    assert [fault.subject for fault in summary.faults if "ring" not in fault.subject] == [str(path)]
