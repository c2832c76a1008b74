"""KITTI's drives: annotated depth byte for byte, projected sweeps, and the test drives of Eigen."""

import shutil

import numpy as np
import pytest
from tests.fakes import road
from tests.fakes.indoor import real_samples
from tests.fakes.refusals import refused
from tests.fakes.road import depth_of, records

from idisc.data.dataset import open_dataset
from idisc.data.decode import DepthMap
from idisc.data.prepare import kitti
from idisc.data.prepare.runner import prepare
from idisc.errors import DataError

TRAIN, TEST = "2011_09_26_drive_0001_sync", "2011_09_26_drive_0002_sync"
SWEEP = kitti.Options(depth="sweep")


@pytest.fixture
def raw(tmp_path):
    return road.kitti(tmp_path / "kitti", tmp_path / "kitti")


def test_the_drives_of_eigen_are_the_test_and_annotated_depth_is_copied(raw, tmp_path):
    out = tmp_path / "out"
    summary = prepare("kitti", raw, out)
    assert (summary.counts, summary.faults) == ({"train": 2, "test": 2}, [])
    scenes = {(record.split, record.scene) for record in records(out)}
    assert scenes == {("train", TRAIN), ("test", TEST)}
    assert len(kitti.EIGEN_TEST) == 28
    record = records(out)[0]
    assert record.image == f"rgb/2011_09_26/{TEST}/image_02/0000000000.png"
    assert (out / record.target).read_bytes() == road.annotated()
    assert (out / record.image).read_bytes() == road.flat(road.KITTI_SIZE, "png")
    assert record.valid == pytest.approx(175 / 375 / 2, abs=1e-6)


def test_a_wall_is_projected_at_its_distance(raw, tmp_path):
    prepare("kitti", raw, tmp_path / "out", SWEEP)
    depth = depth_of(tmp_path / "out")
    middle = depth[:, 400:800]  # of the wall ahead; the other walls are at the sides
    assert set(np.unique(middle)) == {0.0, int(road.KITTI_WALL * 256) / 256}
    # The wall's point (20, 0.5, 0) is at (-0.5 + 0.06, -0.08, 19.733) in the axes of camera 2.
    column = round(600 - 700 * 0.44 / road.KITTI_WALL)
    row = round(180 - 700 * 0.08 / road.KITTI_WALL)
    assert depth[row, column] > 0


def test_the_nearest_or_the_last_of_two_points_in_a_pixel_is_kept(raw, tmp_path):
    # One behind the other, as seen from the camera.
    sweep = np.array([[10, 0.06, -0.08, 0], [20, 0.06, -0.08, 0]], np.float32)
    shutil.rmtree(raw / "2011_09_26" / TEST)
    for path in (raw / "2011_09_26" / TRAIN / "velodyne_points" / "data").glob("*.bin"):
        path.write_bytes(sweep.tobytes())
    for surface, expected in (("nearest", 10 - 0.267), ("last", 20 - 0.267)):
        options = kitti.Options(depth="sweep", surface=surface)
        prepare("kitti", raw, tmp_path / surface, options)
        assert depth_of(tmp_path / surface)[180, 600] == pytest.approx(expected, abs=1 / 256)


@pytest.mark.parametrize(
    ("pictures", "depth"), [("raw", "depth_annotated"), ("", "data_depth_annotated"), ("raw", "")]
)
def test_both_downloads_may_have_their_own_folder(tmp_path, pictures, depth):
    raw = tmp_path / "kitti"
    road.kitti(raw / pictures, raw / depth, frames=1)
    (raw / depth / "val").mkdir()
    (raw / depth / "train" / TEST).rename(raw / depth / "val" / TEST)  # the two are merged
    assert prepare("kitti", raw, tmp_path / "out").counts == {"train": 1, "test": 1}


def test_drives_without_annotated_depth_are_an_error(raw, tmp_path):
    shutil.rmtree(raw / "train")
    with refused(DataError, raw, "2 drives", "--set depth=sweep"):
        prepare("kitti", raw, tmp_path / "out")


def test_pictures_kept_as_jpeg_are_found(raw, tmp_path):
    for path in raw.rglob("image_02/data/*.png"):
        path.unlink()
        path.with_suffix(".jpg").write_bytes(road.flat(road.KITTI_SIZE, "jpg"))
    listing = road.write(tmp_path / "list.txt", road.kitti_line(TRAIN, 0))
    prepare("kitti", raw, tmp_path / "out", lists=[listing])
    assert records(tmp_path / "out")[0].image.endswith("0000000000.jpg")


@pytest.mark.parametrize("broken", ["P_rect_02: 1 2 3", "P_rect_02: a b c", "P_rect_03: 1"])
def test_a_calibration_without_its_numbers_is_named(raw, tmp_path, broken):
    path = raw / "2011_09_26" / "calib_cam_to_cam.txt"
    kept = [line for line in path.read_text().splitlines() if "P_rect" not in line]
    path.write_text("\n".join([*kept, broken]))
    with pytest.raises(DataError):
        prepare("kitti", raw, tmp_path / "out")
    assert (tmp_path / "out" / "missing.txt").read_text().count("calib_cam_to_cam.txt") == 1


@pytest.mark.parametrize("options", [kitti.Options(), SWEEP])
def test_every_unusable_file_of_a_frame_is_a_fault(raw, tmp_path, options):
    drive = raw / "2011_09_26" / TRAIN
    gone, other = (drive / "image_02" / "data" / f"000000000{n}.png" for n in range(2))
    annotated = raw / "train" / TRAIN / "proj_depth" / "groundtruth" / "image_02"
    sweep = drive / "velodyne_points" / "data" / "0000000000.bin"
    cut = sweep if options is SWEEP else annotated / "0000000000.png"
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:199])
    other.write_bytes(road.flat((370, 1224), "png"))  # not the size of the calibration
    faults = prepare("kitti", raw, tmp_path / "out", options).faults
    assert [fault.subject for fault in faults] == [str(gone), str(cut), str(other)]


def test_the_real_sweep_gives_the_published_map_bit_for_bit(tmp_path):
    shared = real_samples("kitti")
    prepare("kitti", shared, tmp_path / "out", SWEEP)
    golden = DepthMap(metres_per_unit=1 / 256).read(shared / "lidar" / "0000000000.png")
    assert np.count_nonzero(golden) == 16293
    assert np.array_equal(depth_of(tmp_path / "out"), golden)


def test_the_real_list_prepares_the_real_frames(tmp_path):
    shared = real_samples("kitti")
    summary = prepare("kitti", shared, tmp_path / "out", lists=[shared / "split.txt"])
    assert summary.counts == {"train": 0, "test": 3}
    assert 0.18 < summary.valid["test"] < 0.21
    sample = open_dataset(tmp_path / "out", "kitti", "test")[0]
    assert sample.camera.fx == pytest.approx(721.5377)
    assert sample.target.shape == (352, 1216)
