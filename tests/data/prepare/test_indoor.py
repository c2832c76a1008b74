"""The indoor datasets, prepared from small raw folders in their real formats."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.catalog import NYU, NYU_LABELLED
from idisc.data.dataset import open_dataset
from idisc.data.decode import DepthMap, NormalMap
from idisc.data.prepare import PREPARATIONS
from idisc.data.prepare.runner import prepare
from idisc.errors import DataError, InputError

MATRICES = "nyu_depth_v2_labeled.mat"
NYU_SCENES = {"sync/kitchen_0001": 2, "sync/office_0002": 1, "official_splits/test/bathroom": 2}


def prepared(dataset, raw, out="out", lists=(), **options):
    """The manifest of a preparation without faults."""
    chosen = PREPARATIONS[dataset].options(**options)
    assert prepare(dataset, raw, raw.parent / out, chosen, lists=lists).faults == []
    return manifest.read(raw.parent / out)


def listed(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class TestNyu:
    def test_folders_called_test_are_the_test_split_and_bytes_are_kept(self, tmp_path):
        raw, out = tmp_path / "raw", tmp_path / "out"
        indoor.nyu(raw, NYU_SCENES)
        result = prepared("nyu", raw)
        assert {(record.scene, record.split) for record in result.records} == {
            ("kitchen_0001", "train"),
            ("office_0002", "train"),
            ("bathroom", "test"),
        }
        assert len(result.records) == 5
        record, scene = result.records_of("test")[1], raw / "official_splits/test/bathroom"
        assert record.image == "rgb/official_splits/test/bathroom/rgb_00001.jpg"
        assert (out / record.image).read_bytes() == (scene / "rgb_00001.jpg").read_bytes()
        assert (out / record.target).read_bytes() == (scene / "sync_depth_00001.png").read_bytes()

    def test_the_camera_is_that_of_the_catalog_at_the_size_of_the_image(self, tmp_path):
        indoor.nyu(tmp_path / "raw", {"a": 1}, indoor.VGA)
        indoor.nyu(tmp_path / "raw", {"b": 1}, (240, 320))
        full, half = prepared("nyu", tmp_path / "raw").records
        assert full.intrinsics == NYU.cameras[""][0]
        assert half.intrinsics[0] == pytest.approx(518.85790117 / 2)
        assert half.intrinsics[2] == pytest.approx((325.58244941 + 0.5) / 2 - 0.5)

    def test_the_manifest_does_not_depend_on_the_spelling_of_the_raw_folder(
        self, tmp_path, monkeypatch
    ):
        raw = tmp_path / "test"
        indoor.nyu(raw, {".": 2})
        monkeypatch.chdir(raw)
        spelled = {"whole": raw, "dot": Path(), "round": Path("../test")}
        hashes = {prepare("nyu", path, tmp_path / name).sha256 for name, path in spelled.items()}
        assert len(hashes) == 1
        assert manifest.read(tmp_path / "dot").records_of("test")[0].scene == "test"

    def test_lists_choose_their_lines_at_any_level_of_the_archive(self, tmp_path):
        indoor.nyu(tmp_path / "raw", NYU_SCENES)
        lists = [
            listed(
                tmp_path / "nyu_train.txt",
                "/kitchen_0001/rgb_00001.jpg /kitchen_0001/sync_depth_00001.png 518.8579",
            ),
            listed(
                tmp_path / "nyu_test.txt",
                "bathroom/rgb_00000.jpg bathroom/sync_depth_00000.png 518.8579",
            ),
        ]
        records = prepared("nyu", tmp_path / "raw", lists=lists).records
        assert [(record.split, record.image) for record in records] == [
            ("test", "rgb/bathroom/rgb_00000.jpg"),
            ("train", "rgb/kitchen_0001/rgb_00001.jpg"),
        ]

    def test_normals_are_split_by_folders_and_listed_in_the_third_field(self, tmp_path):
        raw, out = tmp_path / "raw", tmp_path / "out"
        indoor.nyu_normals(raw)
        result = prepared("nyu_normals", raw)
        assert result.target == NormalMap()
        assert (len(result.records_of("train")), len(result.records_of("test"))) == (3, 3)
        record, source = result.records_of("train")[2], raw / "train/norm/kitchen/7.png"
        assert record.image == "rgb/train/img/kitchen/7.png"
        assert (out / record.target).read_bytes() == source.read_bytes()
        assert record.valid == pytest.approx(23 / 24, abs=1e-6)  # the first of 24 rows is black
        first = prepared("nyu_normals", raw, "listed", [raw / "nyu_test.txt"]).records[0]
        pixels = indoor.load(tmp_path / "listed" / first.target)
        np.testing.assert_array_equal(pixels, indoor.normal_pixels(0))


class TestSunRgbd:
    @pytest.mark.parametrize("given", ["raw", "raw/SUNRGBD"])
    def test_prepared_depth_is_plain_millimetres(self, tmp_path, given):
        depths, out = indoor.sunrgbd(tmp_path / "raw"), tmp_path / "out"
        assert prepare("sunrgbd", tmp_path / given, out).faults == []
        result = manifest.read(out)
        assert result.target == DepthMap(metres_per_unit=1 / 1000)
        assert [(r.split, r.scene) for r in result.records] == [
            *(("test", "kv1/b3dodata"), ("test", "kv1/b3dodata"), ("test", "kv2/align_kv2"))
        ]
        for name, depth in depths.items():
            np.testing.assert_array_equal(indoor.load(out / f"depth/{name}.png"), depth)

    def test_intrinsics_are_those_of_the_folder_if_it_has_any(self, tmp_path):
        indoor.sunrgbd(tmp_path / "raw")
        (tmp_path / "raw/SUNRGBD/kv1/b3dodata/img_0064/intrinsics.txt").unlink()
        known, unknown, _ = prepared("sunrgbd", tmp_path / "raw").records
        assert known.intrinsics == (529.5, 529.5, 365.0, 265.0)
        assert (unknown.intrinsics, unknown.size) == (None, (24, 32))

    @pytest.mark.parametrize("text", ["529.5 0 365", "fx fy cx", "0 0 365 0 0 265 0 0 1"])
    def test_a_broken_calibration_is_a_fault(self, tmp_path, text):
        indoor.sunrgbd(tmp_path / "raw")
        path = tmp_path / "raw/SUNRGBD/kv1/b3dodata/img_0064/intrinsics.txt"
        path.write_text(text)
        summary = prepare("sunrgbd", tmp_path / "raw", tmp_path / "out")
        assert summary.counts["test"] == 2
        assert [fault.subject for fault in summary.faults] == [str(path)]

    def test_lists_begin_at_the_parent_folder(self, tmp_path):
        indoor.sunrgbd(tmp_path / "raw")
        folder = "SUNRGBD/kv1/b3dodata/img_0063"
        line = f"{folder}/image/img_0063.jpg {folder}/depth/img_0063_abs.png"
        listing = listed(tmp_path / "sunrgbd_val.txt", line)
        summary = prepare("sunrgbd", tmp_path / "raw/SUNRGBD", tmp_path / "out", lists=[listing])
        assert (summary.counts, summary.faults) == ({"train": 0, "test": 1}, [])

    def test_real_frames_are_metres_in_the_range_of_the_sensor(self, tmp_path):
        summary = prepare("sunrgbd", indoor.real_samples("sunrgbd"), tmp_path / "out")
        assert (summary.counts, summary.faults) == ({"train": 0, "test": 2}, [])
        result = manifest.read(tmp_path / "out")
        kinect1, kinect2 = result.records
        assert (kinect1.size, kinect2.size) == ((427, 561), (530, 730))
        assert kinect2.intrinsics == (529.5, 529.5, 365.0, 265.0)
        for record in result.records:
            depth = result.target.read(tmp_path / "out" / record.target)
            assert 0.6 < depth[depth > 0].min() < depth.max() < 9.9
            assert 1.9 < np.median(depth[depth > 0]) < 4.1


class TestDiode:
    STEM = "val/indoors/scene_00019/scan_00183/00019_00183_indoors"

    def test_depth_is_rounded_down_where_the_mask_allows_it(self, tmp_path):
        depths = indoor.diode(tmp_path / "raw")
        result = prepared("diode", tmp_path / "raw")
        assert [(record.split, record.scene) for record in result.records] == [
            ("test", "indoors/scene_00019/scan_00183"),
            ("test", "indoors/scene_00019/scan_00183"),
            ("train", "indoors/scene_00001/scan_00010"),
        ]
        for record in result.records:
            stored = indoor.load(tmp_path / "out" / record.target)
            truth = depths[record.image.removeprefix("rgb/").removesuffix(".png")]
            np.testing.assert_array_equal(stored, np.floor(256 * np.clip(truth, 0, 100)))
            assert stored[0, 0] == 25600  # 149 m, cut at 100
            assert stored[1, 0] == 0  # NaN under the mask

    @pytest.mark.parametrize(("part", "count"), [("outdoor", 1), ("both", 3)])
    def test_outdoor_scans_are_an_option(self, tmp_path, part, count):
        indoor.diode(tmp_path / "raw")
        assert len(prepared("diode", tmp_path / "raw", diode_part=part).records_of("test")) == count

    def test_published_lists_name_depth_files_that_do_not_exist_yet(self, tmp_path):
        indoor.diode(tmp_path / "raw")
        line = f"{self.STEM}_160_000.png {self.STEM}_160_000_depth.png"
        lists = [listed(tmp_path / "diode_indoor_val.txt", line)]
        [record] = prepared("diode", tmp_path / "raw", lists=lists).records
        assert record.image == f"rgb/{self.STEM}_160_000.png"

    def test_intrinsics_come_from_the_file_of_the_devkit_or_the_catalog(self, tmp_path):
        raw = tmp_path / "raw"
        indoor.diode(raw)
        path = raw / "intrinsics.txt"
        found = [prepared("diode", raw, "catalog")]
        path.write_text("They are:\n\t[fx, fy, cx, cy] = [800.0, 900, 512, 384]\nMore text.")
        found.append(prepared("diode", raw, "file"))
        focals = [(result.records[0].intrinsics or ())[0] for result in found]
        # An image of 24x32 for one of 768x1024.
        assert focals == pytest.approx([886.81 / 32, 800 / 32])
        path.write_text("fx = 886")
        with refused(DataError, tmp_path / "out/missing.txt", "1 fault"):
            prepare("diode", raw, tmp_path / "out")

    def test_arrays_of_different_sizes_are_a_fault(self, tmp_path):
        indoor.diode(tmp_path / "raw")
        mask = tmp_path / f"raw/{self.STEM}_150_000_depth_mask.npy"
        np.save(mask, np.ones((5, 5), dtype=np.float32))
        image = tmp_path / f"raw/{self.STEM}_160_000.png"
        indoor.save(image, indoor.picture(0, (12, 16)))
        faults = prepare("diode", tmp_path / "raw", tmp_path / "out").faults
        depth = mask.with_name(mask.name.replace("_mask", ""))
        assert [fault.subject for fault in faults] == [str(depth), str(image)]

    def test_a_real_view_keeps_its_depth_to_a_256th_of_a_metre(self, tmp_path):
        raw = indoor.real_samples("diode")
        summary = prepare("diode", raw, tmp_path / "out")
        assert summary.valid["test"] == pytest.approx(0.999, abs=0.001)
        result = manifest.read(tmp_path / "out")
        [record] = result.records
        assert record.intrinsics == (886.81, 927.06, 512.0, 384.0)
        depth = result.target.read(tmp_path / "out" / record.target)
        [path] = raw.rglob("*_depth.npy")
        truth, mask = np.load(path)[..., 0], np.load(path.with_name(f"{path.stem}_mask.npy")) > 0
        difference = truth[mask] - depth[mask]
        assert difference.min() >= 0
        assert difference.max() < 1 / 256
        assert (depth[~mask] == 0).all()


class TestNyuMatrices:
    def test_frames_splits_and_rooms_are_those_of_the_file(self, tmp_path):
        truth = indoor.nyu_matrices(tmp_path / "raw")
        result = prepared("nyu_labelled", tmp_path / "raw")
        assert {(Path(r.image).stem, r.split, r.scene) for r in result.records} == {
            (f"{index:04d}", "test" if index in truth.test else "train", room)
            for index, room in enumerate(truth.rooms)
        }
        for index in range(5):
            image = indoor.load(result.root / f"rgb/{index:04d}.png")
            depth = indoor.load(result.root / f"depth/{index:04d}.png")
            np.testing.assert_array_equal(image, truth.images[index])
            assert depth[100, 200] == 1235  # 1.2346 m to the nearest millimetre
            exact = np.rint(truth.depths[index].astype(np.float64) * 1000)
            np.testing.assert_array_equal(depth, exact)

    def test_raw_depth_keeps_its_holes_and_frames_without_rooms_are_split_into_hundreds(
        self, tmp_path
    ):
        truth = indoor.nyu_matrices(tmp_path / "raw", rooms=False)
        result = prepared("nyu_labelled", tmp_path / "raw", nyu_depth="raw")
        there = truth.raw_depths[3] > 0
        np.testing.assert_array_equal(indoor.load(tmp_path / "out/depth/0003.png") > 0, there)
        assert result.records_of("train")[1].valid == pytest.approx(there.mean(), abs=1e-6)
        assert {record.scene for record in result.records} == {"test_000", "train_000"}

    @pytest.mark.parametrize(
        "problem", ["no split", "damaged split", "cut short", "no rooms", "lists"]
    )
    def test_unusable_files_are_named(self, tmp_path, problem):
        raw, lists = tmp_path / "raw", list[Path]()
        indoor.nyu_matrices(raw, splits=problem != "no split", rooms=problem != "no rooms")
        if problem == "damaged split":
            (raw / "splits.mat").write_bytes(b"not a MATLAB file at all" * 20)
        elif problem == "cut short":
            indoor.truncate(raw / MATRICES)
        elif problem == "no rooms":
            with h5py.File(raw / MATRICES, "r+") as file:
                file["scenes"] = np.arange(5)  # of another form
        elif problem == "lists":  # its split is in the other file
            lists = [listed(tmp_path / "train.txt", "rgb/0000.png depth/0000.png 518")]
        with refused(InputError, raw / ("splits.mat" if "split" in problem else MATRICES)):
            prepare("nyu_labelled", raw, tmp_path / "out", lists=lists)

    def test_frames_beyond_the_end_and_missing_arrays_are_faults(self, tmp_path):
        raw = tmp_path / "raw"
        truth = indoor.nyu_matrices(raw, rooms=False)
        with h5py.File(raw / MATRICES, "r+") as file:
            del file["depths"], file["rawDepths"]
            file["depths"] = truth.depths[:4].transpose(0, 2, 1)
        summary = prepare("nyu_labelled", raw, tmp_path / "out")
        assert summary.counts == {"train": 2, "test": 2}
        assert summary.faults[0].subject == str(raw / MATRICES)
        with refused(DataError, tmp_path / "none/missing.txt"):
            prepared("nyu_labelled", raw, "none", nyu_depth="raw")
        assert "rawDepths" in (tmp_path / "none/missing.txt").read_text()


class TestNyuPlain:
    def test_lists_are_the_split_and_runs_the_scenes(self, tmp_path):
        indoor.nyu_plain(tmp_path / "raw")
        result = prepared("nyu_labelled", tmp_path / "raw")
        runs = ("run_0000", "run_0000", "run_0001", "run_0001", "run_0002")
        assert [(r.image, r.split, r.scene) for r in result.records] == [
            (f"rgb/{n:04d}.jpg", "test" if n < 2 else "train", run) for n, run in enumerate(runs)
        ]
        for record in result.records:
            stored, raw = (indoor.load(tmp_path / of / record.target) for of in ("out", "raw"))
            np.testing.assert_array_equal(stored, raw)
        reduced = result.records_of("train")[0]
        assert reduced.size == (360, 480)
        assert reduced.intrinsics[3] == pytest.approx((253.73616633 + 0.5) * 0.75 - 0.5)
        sample = open_dataset(tmp_path / "out", "nyu_labelled", "train")[0]
        assert (sample.image.shape, sample.target.shape) == ((480, 640, 3), (240, 320))
        assert (sample.camera.fx, sample.camera.cx) == pytest.approx((518.85790117, 325.58244941))
        with refused(InputError, tmp_path / "raw", MATRICES):
            prepared("nyu_labelled", tmp_path / "raw", nyu_depth="raw")

    @pytest.mark.parametrize("below", [False, True])
    def test_an_index_gives_scene_and_camera_of_each_image(self, tmp_path, below):
        raw = tmp_path / "raw"
        indoor.nyu_plain(raw)
        (raw / "scenes.json").unlink()
        camera = {"fx": 259.4, "fy": 259.7, "cx": 162.5, "cy": 126.6}
        index = {f"{number:04d}": {"scene": f"room{number}", **camera} for number in range(4)}
        (raw / "index.json").write_text(json.dumps({"pairs": index} if below else index))
        result = prepared("nyu_labelled", raw)
        assert [record.scene for record in result.records_of("train")] == [
            "room2",
            "room3",
            "train_000",
        ]
        assert result.records_of("test")[0].intrinsics == tuple(camera.values())
        (raw / "index.json").write_text(json.dumps({"0002": {"scene": "a"}}))
        faults = prepare("nyu_labelled", raw, tmp_path / "no_camera").faults
        assert [Path(fault.subject).name for fault in faults] == ["index.json"]

    def test_real_frames_are_prepared_by_list(self, tmp_path):
        packed = indoor.real_samples("nyu_labelled")
        heads = [(packed / f"{name}.txt").read_text().splitlines()[0] for name in ("train", "test")]
        raw = indoor.unpacked_nyu(tmp_path / "raw", heads)
        lines = (raw / "train.txt").read_text().splitlines()
        lists = [
            listed(tmp_path / f"{n}.txt", line)
            for n, line in zip(("train", "test"), lines, strict=True)
        ]
        summary = prepare("nyu_labelled", raw, tmp_path / "out", lists=lists)
        assert (summary.counts, summary.faults) == ({"train": 1, "test": 1}, [])
        assert summary.valid["test"] == pytest.approx(0.955, abs=0.001)  # 4.5 % are the white frame
        depth = NYU_LABELLED.target.read(tmp_path / "out/depth/0000.png")
        assert 0.7 <= depth[depth > 0].min() < depth.max() <= 10.0
