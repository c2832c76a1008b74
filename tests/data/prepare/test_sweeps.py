"""DDAD and Argoverse: sweeps projected into the right image, keyframes, and faults."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import road
from tests.fakes.indoor import real_samples
from tests.fakes.refusals import refused
from tests.fakes.road import depth_of, names_of, records

from idisc.data.prepare import argoverse, ddad
from idisc.data.prepare.frames import Absent
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.sweeps import SweepOptions
from idisc.errors import DataError, InputError

ALL = SweepOptions(train_metres=0.0, test_metres=0.0)
FRONT = replace(ALL, cameras=("camera_01",))
AHEAD = road.WALL - road.DDAD_FORWARD  # of the wall from the front camera, if the car stood
DRIVEN = road.DDAD_SPEED * road.DDAD_LATE_S  # between sweep and image


class TestDdad:
    @pytest.fixture
    def raw(self, tmp_path):
        return road.ddad(tmp_path / "ddad", samples=1)

    def test_val_is_the_test_and_each_camera_sees_its_own_wall(self, raw, tmp_path):
        summary = prepare("ddad", raw, tmp_path / "out", ALL)
        assert summary.counts == {"train": 2 * 4, "test": 4}
        assert summary.faults == []
        first = records(tmp_path / "out")[0]
        assert first.image == f"rgb/000150/CAMERA_01/{road.DDAD_FIRST}.png"
        middle = {}
        for record in records(tmp_path / "out")[:4]:
            columns = depth_of(tmp_path / "out", record)[:, 940:980]
            middle[record.sensor] = np.median(columns[columns > 0])
        slanted = road.WALL / np.cos(np.radians(30.0))  # 60 degrees to the side
        assert middle == {
            "CAMERA_01": pytest.approx(AHEAD - DRIVEN, abs=0.01),
            "CAMERA_05": pytest.approx(slanted, rel=0.03),
            "CAMERA_06": pytest.approx(slanted, rel=0.03),
            "CAMERA_09": pytest.approx(road.WALL + DRIVEN, abs=0.01),
        }

    @pytest.mark.parametrize(
        ("options", "expected", "rounded"),
        [
            (replace(FRONT, motion=False), AHEAD, round),  # as if the car stood
            (replace(FRONT, surface="last"), AHEAD - DRIVEN, int),  # as published
        ],
    )
    def test_a_point_is_in_the_pixel_where_the_front_camera_sees_it(
        self, raw, tmp_path, options, expected, rounded
    ):
        prepare("ddad", raw, tmp_path / "out", options)
        # The wall's point (20, 0.5, -2.5), seen from (1.8, 0, 1.5).
        column, row = rounded(960 - 1000 * 0.5 / expected), rounded(600 + 1010 * 4.0 / expected)
        depth = depth_of(tmp_path / "out")
        assert depth[row, column] == pytest.approx(expected, abs=1 / 256)

    def test_frames_are_kept_every_two_metres_and_depth_ends_at_255(self, tmp_path):
        raw = road.ddad(tmp_path / "ddad", samples=4)  # at 0, 1.5, 3 and 4.5 m
        for path in raw.rglob("*.npz"):
            np.savez(path, data=np.array([[300.0, 0.0, 1.5, 1.0]]))
        prepare("ddad", raw, tmp_path / "out", SweepOptions(cameras=("CAMERA_01",)))
        kept = [int(Path(r.image).stem) - road.DDAD_FIRST for r in records(tmp_path / "out")]
        assert kept == [0, 0, 2_000_000, 0, 2_000_000]  # test; two of training, each from its start
        assert depth_of(tmp_path / "out").max() == 255.0

    def test_the_dataset_file_may_have_another_name_or_be_one_folder_down(self, tmp_path):
        raw = road.ddad(tmp_path / "raw" / "ddad_train_val", samples=1)
        assert len(ddad.PREPARATION.scenes(raw.parent, ALL, None)) == 3
        (raw / "ddad.json").rename(raw / "scene_dataset_v1.0.json")
        road.write(raw / "another.json", [1, 2])
        assert len(ddad.PREPARATION.scenes(raw, ALL, None)) == 3

    def test_every_unusable_file_of_a_sample_is_a_fault(self, raw, tmp_path):
        shutil.rmtree(raw / "000001")
        name = f"{road.DDAD_FIRST}.png"
        sweep = raw / "000000" / "point_cloud" / "LIDAR" / name.replace("png", "npz")
        gone, cut = (raw / "000000" / "rgb" / f"CAMERA_0{n}" / name for n in (1, 5))
        small = raw / "000150" / "rgb" / "CAMERA_01" / name
        sweep.write_bytes(sweep.read_bytes()[:100])
        gone.unlink()
        cut.write_bytes(cut.read_bytes()[:300])
        small.write_bytes(road.flat((608, 968), "png"))
        options = replace(ALL, cameras=("CAMERA_01", "CAMERA_05"))
        faults = prepare("ddad", raw, tmp_path / "out", options).faults
        scene = raw / "000001" / "scene_beef.json"
        assert {fault.subject for fault in faults} == {
            str(path) for path in (gone, sweep, cut, scene, small)
        }

    @pytest.mark.parametrize(
        ("name", "keys"),
        [
            ("scene_beef.json", ("data", 1, "datum", "image", "pose")),
            ("scene_beef.json", ("data", 0)),
            ("calibration/c0ffee.json", ("extrinsics", 1)),
        ],
    )
    def test_a_missing_key_is_a_fault_of_its_file(self, raw, tmp_path, name, keys):
        path = raw / "000001" / name
        content = inner = json.loads(path.read_text())
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        road.write(path, content)
        summary = prepare("ddad", raw, tmp_path / "out", FRONT)
        assert [fault.subject for fault in summary.faults] == [str(path)]
        assert summary.counts == {"train": 1, "test": 1}

    @pytest.mark.parametrize(
        "listed",
        [[3], "x", {"filenames": [None]}, {"filenames": ["000000/a.json", "000000/b.json"]}],
    )
    def test_a_dataset_file_of_another_form_is_named(self, tmp_path, listed):
        path = road.write(tmp_path / "raw/ddad.json", {"scene_splits": {"0": listed}})
        with refused(InputError, path):
            prepare("ddad", path.parent, tmp_path / "out", FRONT)

    def test_a_camera_that_the_car_does_not_have_is_left_out(self, raw, tmp_path):
        choices = replace(FRONT, cameras=("CAMERA_01", "CAMERA_07"))
        summary = prepare("ddad", raw, tmp_path / "left_out", choices)
        assert summary.faults == []
        assert Absent("000150", "CAMERA_07") in summary.absent
        assert {record.sensor for record in records(tmp_path / "left_out")} == {"CAMERA_01"}
        with refused(DataError, tmp_path / "out" / "missing.txt"):
            prepare("ddad", raw, tmp_path / "out", replace(FRONT, cameras=("CAMERA_07",)))
        assert "CAMERA_07" in (tmp_path / "out" / "missing.txt").read_text()

    def test_every_camera_of_the_real_scenes_gets_its_depth(self, tmp_path):
        six = tuple(f"CAMERA_0{number}" for number in (1, 5, 6, 7, 8, 9))
        choices = replace(ALL, cameras=six, pictures="link")
        summary = prepare("ddad", real_samples("dgp_scenes"), tmp_path / "out", choices)
        assert (summary.counts, summary.faults) == ({"train": 3, "test": 12}, [])
        assert [each.scene for each in summary.absent] == ["scene_01"] * 3  # it has three of six
        for record in records(tmp_path / "out"):
            depth = depth_of(tmp_path / "out", record)
            found = depth[depth > 0]
            least, most = (4500, 6000) if record.sensor == "CAMERA_01" else (9000, 13000)
            assert least < found.size < most, record.image
            assert 2.0 < found.min() < found.max() < 240.0
            rows = np.nonzero(depth)[0]
            assert np.percentile(rows, 5) > 300, record.image  # next to nothing in the sky


class TestArgoverse:
    FRONT = argoverse.Options(cameras=("ring_front_center",))
    AHEAD = road.WALL - road.ARGOVERSE_FORWARD
    DRIVEN = road.ARGOVERSE_SPEED * road.ARGOVERSE_LATE_NS / 1e9
    FIRST = road.ARGOVERSE_FIRST_NS

    @pytest.fixture
    def raw(self, tmp_path):
        return road.argoverse(tmp_path / "argoverse-tracking", sweeps=3)  # at 0, 1 and 2 m

    @staticmethod
    def seen(out, point, distance, bend=1.0):
        """The depth of the pixel that shows a point of the wall, (left, down) of the camera."""
        x, y = (1400 * bend * place / distance for place in point)
        return float(depth_of(out)[round(600 + y), round(960 - x)])

    def test_frames_are_named_by_sweeps_and_the_car_drives_on_until_the_image(self, raw, tmp_path):
        out, expected = tmp_path / "out", self.AHEAD - self.DRIVEN
        summary = prepare("argoverse", raw, out, replace(self.FRONT, pictures="link"))
        assert summary.counts == {"train": 2, "test": 1}  # every 2 m, every 50 m
        assert summary.faults == []
        images = [record.image for record in records(out)]
        names = ("log-b/ring_front_center/0", "log-a/ring_front_center/0")
        assert images == [f"rgb/{name}.jpg" for name in (*names, "log-a/ring_front_center/2")]
        nearest = f"ring_front_center_{self.FIRST + road.ARGOVERSE_LATE_NS}.jpg"
        assert (out / images[0]).resolve().name == nearest
        assert self.seen(out, (0.5, 3.9), expected) == pytest.approx(expected, abs=1 / 256)

    @pytest.mark.parametrize("known", [True, False])
    def test_without_motion_or_without_a_pose_the_car_stands(self, raw, tmp_path, known):
        if not known:
            for path in raw.rglob(f"city_SE3_egovehicle_*{road.ARGOVERSE_LATE_NS}.json"):
                path.unlink()
        prepare("argoverse", raw, tmp_path / "out", replace(self.FRONT, motion=not known))
        found = self.seen(tmp_path / "out", (0.5, 3.9), self.AHEAD)
        assert found == pytest.approx(self.AHEAD, abs=1 / 256)

    def test_the_distortion_of_the_calibration_is_an_option(self, raw, tmp_path):
        options = replace(self.FRONT, motion=False, distortion=True)
        prepare("argoverse", raw, tmp_path / "out", options)
        r2 = (10.0**2 + 3.9**2) / self.AHEAD**2  # of the wall's point (20, 10, -2.5)
        k1, k2, k3 = road.ARGOVERSE_LENS
        bend = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
        found = self.seen(tmp_path / "out", (10.0, 3.9), self.AHEAD, bend)
        assert found == pytest.approx(self.AHEAD, abs=1 / 256)
        assert 1400 * 10 / self.AHEAD * (1 - bend) > 30  # pixels apart

    @pytest.mark.parametrize(
        ("place", "train", "test"), [("", 1, 1), ("..", 1, 1), ("val", 0, 1), ("train1", 1, 0)]
    )
    def test_the_folder_may_be_the_tree_its_parent_or_one_split(self, raw, place, train, test):
        scenes = argoverse.PREPARATION.scenes((raw / place).resolve(), self.FRONT, None)
        splits = [scene.split for scene in scenes]
        assert (splits.count("train"), splits.count("test")) == (train, test)

    def test_a_repaired_run_leaves_no_frame_of_the_earlier_keyframes(self, raw, tmp_path):
        def names_in(folder):
            return sorted(path.name for path in (tmp_path / folder / "rgb/log-a").rglob("*.jpg"))

        pose = raw / "train1/log-a/poses" / f"city_SE3_egovehicle_{self.FIRST}.json"
        content = pose.read_bytes()
        pose.unlink()  # so the drive begins at the second sweep
        assert names_of(prepare("argoverse", raw, tmp_path / "out", self.FRONT)) == [pose.name]
        assert names_in("out") == ["1.jpg"]
        pose.write_bytes(content)
        prepare("argoverse", raw, tmp_path / "out", self.FRONT)
        assert names_in("out") == ["0.jpg", "2.jpg"]

    def test_unusable_files_are_faults_and_the_others_are_prepared(self, raw, tmp_path):
        log = raw / "train1" / "log-a"
        sweep = log / "lidar" / f"PC_{self.FIRST}.ply"
        sweep.write_bytes(sweep.read_bytes()[:5000])
        shutil.rmtree(log / "ring_side_left")
        stamp = self.FIRST + 100_000_000 + road.ARGOVERSE_LATE_NS
        picture = log / "ring_front_center" / f"ring_front_center_{stamp}.jpg"
        picture.write_bytes(picture.read_bytes()[:700])
        cameras = ("ring_front_center", "ring_side_left")
        options = argoverse.Options(train_metres=0.0, test_metres=0.0, cameras=cameras)
        summary = prepare("argoverse", raw, tmp_path / "out", options)
        assert summary.counts == {"train": 1, "test": 6}
        assert names_of(summary) == [
            *(f"PC_{self.FIRST}.ply", "ring_side_left"),  # the camera of the damaged sweep, too
            *(picture.name, "ring_side_left", "ring_side_left"),
        ]

    def test_the_real_sweep_is_a_street_in_every_real_camera(self, tmp_path):
        shared = real_samples("argoverse")
        (sweep,) = (shared / "tracking").rglob("PC_*.ply")
        log = tmp_path / "raw" / "val" / sweep.parents[1].name
        road.argoverse_log(log, 1, tuple(road.ARGOVERSE_CAMERAS), sweep.read_bytes())
        calibration = log / "vehicle_calibration_info.json"
        shutil.copyfile(shared / "tracking" / calibration.name, calibration)
        out, options = tmp_path / "out", argoverse.Options(motion=False)
        summary = prepare("argoverse", tmp_path / "raw", out, options)
        assert (summary.counts, summary.faults) == ({"train": 0, "test": 7}, [])
        found = {}
        for record in records(out):
            depth = depth_of(out, record)
            found[record.sensor] = np.count_nonzero(depth)
            assert 3000 < found[record.sensor] < 20000, record.sensor
            assert 1.0 < depth[depth > 0].min() < depth.max() < 220.0
            # The road is below: near points are low in the image, far points high.
            rows, columns = np.nonzero(depth)
            low, high = depth[rows, columns][rows > 900], depth[rows, columns][rows < 600]
            assert np.median(low) < np.median(high), record.sensor
        assert found["ring_front_center"] == pytest.approx(14_700, abs=200)  # counted independently
