"""The labelled set of NYU: the official MATLAB files, and a folder of extracted pairs."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.catalog import NYU_LABELLED
from idisc.data.dataset import open_dataset
from idisc.data.prepare.nyu_labelled import Options
from idisc.data.prepare.runner import prepare
from idisc.errors import DataError, InputError

MATRICES = "nyu_depth_v2_labeled.mat"
Official = tuple[indoor.Labelled, manifest.Manifest]


def prepared(raw: Path, options: Options | None = None) -> manifest.Manifest:
    out = raw.with_name("out")
    assert prepare("nyu_labelled", raw, out, options).faults == []
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

    def test_pictures_depths_and_rooms_are_those_of_the_file(self, official: Official) -> None:
        truth, result = official
        assert {Path(record.image).stem: record.scene for record in result.records} == {
            f"{index:04d}": room for index, room in enumerate(truth.rooms)
        }
        for index in range(5):
            image = indoor.load(result.root / f"rgb/{index:04d}.png")
            depth = indoor.load(result.root / f"depth/{index:04d}.png")
            np.testing.assert_array_equal(image, truth.images[index])
            assert depth[100, 200] == 1235  # 1.2346 m to the nearest millimetre
            np.testing.assert_array_equal(
                depth, np.rint(truth.depths[index].astype(np.float64) * 1000)
            )

    def test_raw_depth_keeps_its_holes(self, tmp_path: Path) -> None:
        truth = indoor.nyu_matrices(tmp_path / "raw")
        result = prepared(tmp_path / "raw", Options(nyu_depth="raw"))
        depth = indoor.load(tmp_path / "out/depth/0003.png")
        np.testing.assert_array_equal(depth > 0, truth.raw_depths[3] > 0)
        valid = result.of("train")[1].valid
        assert valid == pytest.approx((truth.raw_depths[3] > 0).mean(), abs=1e-6)

    def test_a_file_without_rooms_is_cut_into_hundreds(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw", rooms=False)
        records = prepared(tmp_path / "raw").records
        assert {record.scene for record in records} == {"test_000", "train_000"}

    @pytest.mark.parametrize("problem", ["no split", "damaged split", "cut short", "no rooms"])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path, problem: str) -> None:
        raw = tmp_path / "raw"
        indoor.nyu_matrices(raw, splits=problem != "no split", rooms=problem != "no rooms")
        if problem == "damaged split":
            (raw / "splits.mat").write_bytes(b"not a MATLAB file at all" * 20)
        elif problem == "cut short":
            indoor.truncate(raw / MATRICES)
        elif problem == "no rooms":
            with h5py.File(raw / MATRICES, "r+") as file:
                file["scenes"] = np.arange(5)  # of another form
        name = "splits.mat" if "split" in problem else MATRICES
        with refused(InputError, raw / name):
            prepared(raw)

    def test_frames_beyond_the_end_are_faults(self, tmp_path: Path) -> None:
        raw = tmp_path / "raw"
        truth = indoor.nyu_matrices(raw, rooms=False)
        with h5py.File(raw / MATRICES, "r+") as file:
            del file["depths"]
            file["depths"] = truth.depths[:4].transpose(0, 2, 1)
        summary = prepare("nyu_labelled", raw, tmp_path / "out")
        assert summary.counts == {"train": 2, "test": 2}
        assert summary.faults[0].subject == str(raw / MATRICES)

    def test_an_array_that_is_missing_is_named(self, tmp_path: Path) -> None:
        raw = tmp_path / "raw"
        indoor.nyu_matrices(raw)
        with h5py.File(raw / MATRICES, "r+") as file:
            del file["rawDepths"]
        with refused(DataError, tmp_path / "out/missing.txt"):
            prepared(raw, Options(nyu_depth="raw"))
        assert "rawDepths" in (tmp_path / "out/missing.txt").read_text()

    def test_lists_do_not_go_with_it(self, tmp_path: Path) -> None:
        indoor.nyu_matrices(tmp_path / "raw")
        listing = tmp_path / "train.txt"
        listing.write_text("rgb/0000.png depth/0000.png 518\n")
        with refused(InputError, tmp_path / "raw" / MATRICES, "splits.mat"):
            prepare("nyu_labelled", tmp_path / "raw", tmp_path / "out", lists=[listing])


class TestPlainFolder:
    def test_its_lists_are_the_split_and_its_runs_the_scenes(self, tmp_path: Path) -> None:
        indoor.nyu_plain(tmp_path / "raw")
        result = prepared(tmp_path / "raw")
        assert [(r.image, r.split, r.scene) for r in result.records] == [
            ("rgb/0000.jpg", "test", "run_0000"),
            ("rgb/0001.jpg", "test", "run_0000"),
            ("rgb/0002.jpg", "train", "run_0001"),
            ("rgb/0003.jpg", "train", "run_0001"),
            ("rgb/0004.jpg", "train", "run_0002"),
        ]
        for record in result.records:
            stored, raw = (
                indoor.load(tmp_path / place / record.target) for place in ("out", "raw")
            )
            np.testing.assert_array_equal(stored, raw)

    def test_a_sample_has_the_picture_at_full_size_and_depth_as_stored(
        self, tmp_path: Path
    ) -> None:
        indoor.nyu_plain(tmp_path / "raw")
        reduced = prepared(tmp_path / "raw").of("train")[0]
        assert reduced.size == (360, 480)
        assert reduced.intrinsics is not None
        assert reduced.intrinsics[0] == pytest.approx(389.143, abs=1e-3)
        assert reduced.intrinsics[3] == pytest.approx((253.73616633 + 0.5) * 0.75 - 0.5)
        sample = open_dataset(tmp_path / "out", "nyu_labelled", "train")[0]
        assert (sample.image.shape, sample.target.shape) == ((480, 640, 3), (240, 320))
        assert sample.camera is not None
        assert sample.camera.fx == pytest.approx(518.85790117)
        assert sample.camera.cx == pytest.approx(325.58244941)

    @pytest.mark.parametrize("below", [False, True])
    def test_an_index_gives_scene_and_camera_of_each_picture(
        self, tmp_path: Path, below: bool
    ) -> None:
        raw = tmp_path / "raw"
        indoor.nyu_plain(raw)
        (raw / "scenes.json").unlink()
        camera = {"fx": 259.4, "fy": 259.7, "cx": 162.5, "cy": 126.6}
        index = {f"{number:04d}": {"scene": f"room{number}", **camera} for number in range(4)}
        (raw / "index.json").write_text(json.dumps({"pairs": index} if below else index))
        result = prepared(raw)
        assert [record.scene for record in result.of("train")] == ["room2", "room3", "train_000"]
        assert result.of("test")[0].intrinsics == tuple(camera.values())

    def test_an_index_without_a_camera_is_an_error(self, tmp_path: Path) -> None:
        raw = tmp_path / "raw"
        indoor.nyu_plain(raw)
        (raw / "index.json").write_text(json.dumps({"0002": {"scene": "a"}}))
        faults = prepare("nyu_labelled", raw, tmp_path / "out").faults
        assert [Path(fault.subject).name for fault in faults] == ["index.json"]

    def test_raw_depth_is_not_to_be_had(self, tmp_path: Path) -> None:
        indoor.nyu_plain(tmp_path / "raw")
        with refused(InputError, tmp_path / "raw", MATRICES):
            prepared(tmp_path / "raw", Options(nyu_depth="raw"))


def test_real_frames_are_prepared_by_list(tmp_path: Path) -> None:
    packed = indoor.real_samples("nyu_labelled")
    heads = [(packed / f"{split}.txt").read_text().splitlines()[0] for split in ("train", "test")]
    raw = indoor.unpacked_nyu(tmp_path / "raw", heads)
    lines = (raw / "train.txt").read_text().splitlines()
    lists = [tmp_path / "train.txt", tmp_path / "test.txt"]
    for path, line in zip(lists, lines, strict=True):
        path.write_text(line)
    summary = prepare("nyu_labelled", raw, tmp_path / "out", lists=lists)
    assert (summary.counts, summary.faults) == ({"train": 1, "test": 1}, [])
    assert summary.valid["test"] == pytest.approx(0.955, abs=0.001)  # 4.5 % are the white frame
    depth = NYU_LABELLED.target.read(tmp_path / "out/depth/0000.png")
    assert depth[depth > 0].min() >= 0.7
    assert depth.max() <= 10.0
