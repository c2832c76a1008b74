"""The labelled set of NYU: the official MATLAB files, and packed copies of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from tests.fakes import indoor

from idisc.data import manifest
from idisc.data.catalog import NYU_LABELLED
from idisc.data.dataset import open_dataset
from idisc.data.prepare.frames import PrepareConfig
from idisc.data.prepare.runner import prepare
from idisc.errors import DataError, InputError, MissingExtra

MATRICES = "nyu_depth_v2_labeled.mat"
Official = tuple[indoor.Labelled, manifest.Manifest]


def prepared(raw: Path, choices: PrepareConfig | None = None) -> manifest.Manifest:
    out = raw.with_name("out")
    assert prepare("nyu_labelled", raw, out, choices or PrepareConfig()).faults == []
    return manifest.read(out)


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Official:
    """The official file, prepared once for all tests that only look at the result."""
    raw = tmp_path_factory.mktemp("official") / "raw"
    return indoor.nyu_matrices(raw), prepared(raw)


class TestOfficialFile:
    def test_splits_count_from_one_and_frames_from_zero(self, official: Official) -> None:
        _, result = official
        assert [record.image for record in result.of("test")] == ["rgb/0000.png", "rgb/0001.png"]
        assert [Path(record.image).stem for record in result.of("train")] == [
            "0002",
            "0003",
            "0004",
        ]

    def test_pictures_and_depths_stand_upright(self, official: Official) -> None:
        truth, result = official
        for index in range(5):
            image = indoor.load(result.root / f"rgb/{index:04d}.png")
            depth = indoor.load(result.root / f"depth/{index:04d}.png")
            np.testing.assert_array_equal(image, truth.images[index])
            np.testing.assert_array_equal(
                depth, np.rint(truth.depths[index].astype(np.float64) * 1000)
            )

    def test_depth_is_stored_to_the_nearest_millimetre(self, official: Official) -> None:
        assert indoor.load(official[1].root / "depth/0000.png")[100, 200] == 1235  # of 1.2346 m

    def test_rooms_are_the_scenes(self, official: Official) -> None:
        truth, result = official
        assert {Path(record.image).stem: record.scene for record in result.records} == {
            f"{index:04d}": room for index, room in enumerate(truth.rooms)
        }

    def test_raw_depth_keeps_its_holes(self, tmp_path: Path) -> None:
        truth = indoor.nyu_matrices(tmp_path / "raw")
        result = prepared(tmp_path / "raw", PrepareConfig(nyu_depth="raw"))
        depth = indoor.load(tmp_path / "out/depth/0003.png")
        np.testing.assert_array_equal(depth > 0, truth.raw_depths[3] > 0)
        valid = result.of("train")[1].valid
        assert valid == pytest.approx((truth.raw_depths[3] > 0).mean(), abs=1e-6)

    def test_a_file_without_rooms_is_cut_into_hundreds(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw", rooms=False)
        records = prepared(tmp_path / "raw").records
        assert {record.scene for record in records} == {"test_000", "train_000"}

    def test_without_the_split_the_error_says_where_it_is(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw", splits=False)
        with pytest.raises(InputError, match=r"splits\.mat: no such file; .* http.*splits\.mat"):
            prepared(tmp_path / "raw")

    def test_a_damaged_split_is_named(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw")
        (tmp_path / "raw/splits.mat").write_bytes(b"not a MATLAB file at all" * 20)
        with pytest.raises(InputError, match=r"splits\.mat: not readable as a MATLAB file"):
            prepared(tmp_path / "raw")

    def test_a_file_cut_short_is_named(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw")
        indoor.truncate(tmp_path / "raw" / MATRICES)
        with pytest.raises(InputError, match=f"{MATRICES}: damaged or cut short .*; get it again"):
            prepared(tmp_path / "raw")

    def test_frames_beyond_the_end_are_faults(self, tmp_path: Path) -> None:
        raw = tmp_path / "raw"
        truth = indoor.nyu_matrices(raw, rooms=False)
        with h5py.File(raw / MATRICES, "r+") as file:
            del file["depths"]
            file["depths"] = truth.depths[:4].transpose(0, 2, 1)
        summary = prepare("nyu_labelled", raw, tmp_path / "out", PrepareConfig())
        assert summary.counts == {"train": 2, "test": 2}
        assert summary.faults[0].path == str(raw / MATRICES)
        assert summary.faults[0].reason.startswith("`depths` 4 not readable")

    def test_an_array_that_is_missing_is_named(self, tmp_path: Path) -> None:
        raw = tmp_path / "raw"
        indoor.nyu_matrices(raw)
        with h5py.File(raw / MATRICES, "r+") as file:
            del file["rawDepths"]
        with pytest.raises(DataError, match=r"no frame could be prepared; .*missing\.txt"):
            prepared(raw, PrepareConfig(nyu_depth="raw"))
        assert "no `rawDepths` in it" in (tmp_path / "out/missing.txt").read_text()

    def test_rooms_of_another_form_are_an_error(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw", rooms=False)
        with h5py.File(tmp_path / "raw" / MATRICES, "r+") as file:
            file["scenes"] = np.arange(5)
        with pytest.raises(InputError, match=f"{MATRICES}: not what its format says"):
            prepared(tmp_path / "raw")

    @pytest.mark.parametrize("package", ["scipy", "h5py"])
    def test_a_missing_package_is_named_with_its_extra(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
    ) -> None:
        indoor.nyu_matrices(tmp_path / "raw")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtra, match=rf"{package} is not installed; .*idisc\[data\]"):
            prepared(tmp_path / "raw")

    def test_lists_do_not_go_with_it(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw")
        listing = tmp_path / "train.txt"
        listing.write_text("rgb/0000.png depth/0000.png 518\n")
        with pytest.raises(InputError, match=r"its split is in splits\.mat; leave the lists out"):
            prepare(
                "nyu_labelled", tmp_path / "raw", tmp_path / "out", PrepareConfig(), lists=[listing]
            )


class TestPackedFolder:
    def test_its_lists_are_the_split_and_its_runs_the_scenes(self, tmp_path: Path) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        records = prepared(tmp_path / "raw").records
        assert [(r.image, r.split, r.scene) for r in records] == [
            ("rgb/0000.jpg", "test", "run_0000"),
            ("rgb/0001.jpg", "test", "run_0000"),
            ("rgb/0002.jpg", "train", "run_0001"),
            ("rgb/0003.jpg", "train", "run_0001"),
            ("rgb/0004.jpg", "train", "run_0002"),
        ]

    @pytest.mark.parametrize(("number", "step"), [(0, 0.005), (2, 0.008)])
    def test_the_code_is_logarithmic_and_finer_at_full_size(
        self, tmp_path: Path, number: int, step: float
    ) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        prepared(tmp_path / "raw")
        stored = indoor.load(tmp_path / f"out/depth/{number:04d}.png")
        code = indoor.packed_code(stored.shape).astype(np.float64)
        expected = np.rint(1000 * np.where(code > 0, 0.5 * np.exp(step * code), 0))
        assert np.abs(stored - expected).max() <= 1  # metres in between are float32
        assert (stored != expected).mean() < 0.001
        np.testing.assert_array_equal(stored == 0, code == 0)

    def test_intrinsics_follow_the_size_of_the_copy(self, tmp_path: Path) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        result = prepared(tmp_path / "raw")
        full, reduced = result.of("test")[0], result.of("train")[0]
        assert full.intrinsics is not None
        assert reduced.intrinsics is not None
        assert (full.size, reduced.size) == ((480, 640), (360, 480))
        assert full.intrinsics[0] == 518.85790117
        assert reduced.intrinsics[0] == pytest.approx(389.143, abs=1e-3)
        assert reduced.intrinsics[3] == pytest.approx((253.73616633 + 0.5) * 0.75 - 0.5)

    def test_a_sample_has_the_picture_at_full_size_and_depth_as_stored(
        self, tmp_path: Path
    ) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        prepared(tmp_path / "raw")
        sample = open_dataset(tmp_path / "out", "nyu_labelled", "train")[0]
        assert (sample.image.shape, sample.target.shape) == ((480, 640, 3), (240, 320))
        assert sample.camera is not None
        assert sample.camera.fx == pytest.approx(518.85790117)
        assert sample.camera.cx == pytest.approx(325.58244941)

    def test_an_index_gives_scene_and_camera_of_each_picture(self, tmp_path: Path) -> None:
        indoor.packed_extra(tmp_path / "raw")
        first, second = prepared(tmp_path / "raw").of("train")
        assert (first.scene, second.scene) == ("basement_0001a", "ist_um")
        assert first.intrinsics == (259.4, 259.7, 162.5, 126.6)
        assert second.intrinsics == (1259.4, 259.7, 162.5, 126.6)

    def test_an_index_without_a_camera_is_an_error(self, tmp_path: Path) -> None:
        indoor.packed_extra(tmp_path / "raw")
        (tmp_path / "raw/index.json").write_text(json.dumps({"00000": {"scene": "a"}}))
        with pytest.raises(InputError, match=r"index\.json: no 'fx' in it"):
            prepared(tmp_path / "raw")

    def test_raw_depth_is_not_to_be_had(self, tmp_path: Path) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        with pytest.raises(InputError, match="only that one has raw depth"):
            prepared(tmp_path / "raw", PrepareConfig(nyu_depth="raw"))

    def test_another_picture_in_place_of_the_code_is_a_fault(self, tmp_path: Path) -> None:
        indoor.nyu_packed(tmp_path / "raw")
        indoor.save(tmp_path / "raw/depth/0003.webp", indoor.picture(3, (240, 320)))
        indoor.truncate(tmp_path / "raw/depth/0002.webp")
        summary = prepare("nyu_labelled", tmp_path / "raw", tmp_path / "out", PrepareConfig())
        assert summary.counts == {"train": 1, "test": 2}
        assert [Path(fault.path).name for fault in summary.faults] == ["0002.webp", "0003.webp"]
        assert summary.faults[1].reason.endswith("not a packed depth map")


def test_an_empty_folder_is_an_error_that_names_the_file_it_needs(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(DataError, match=f"nothing of nyu_labelled in it; {MATRICES}"):
        prepare("nyu_labelled", tmp_path / "raw", tmp_path / "out", PrepareConfig())


def test_real_packed_frames_agree_with_their_decoder(tmp_path: Path) -> None:
    raw = indoor.shared("nyu_labelled")
    for name, step in (("0000", 0.005), ("0002", 0.008)):
        path = raw / "depth" / f"{name}.webp"
        with Image.open(path) as picture:
            code = np.asarray(picture.convert("RGB")).astype(int)
        code = code[..., 0] * 256 + code[..., 1]
        expected = np.where(code > 0, 0.5 * np.exp(step * code), 0).astype(np.float32)
        depth = NYU_LABELLED.target.read(path)
        np.testing.assert_array_equal(depth, expected)
        assert depth[depth > 0].min() >= 0.7
        assert depth.max() <= 10.0


def test_real_packed_frames_are_prepared_by_list(tmp_path: Path) -> None:
    raw = indoor.shared("nyu_labelled")
    lists = [tmp_path / "train.txt", tmp_path / "test.txt"]
    for path in lists:
        head = (raw / path.name).read_text().splitlines()[:2]
        path.write_text("\n".join(head))
    summary = prepare("nyu_labelled", raw, tmp_path / "out", PrepareConfig(), lists=lists)
    assert (summary.counts, summary.faults) == ({"train": 2, "test": 2}, [])
    assert summary.valid["test"] == pytest.approx(0.955, abs=0.001)  # 4.5 % are the white frame
