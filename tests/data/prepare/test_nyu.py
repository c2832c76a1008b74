"""NYU's synchronised frames: any depth of folders, test by folder name, depth byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import indoor

from idisc.data import manifest
from idisc.data.catalog import NYU
from idisc.data.prepare.runner import prepare

SCENES = {"sync/kitchen_0001": 2, "sync/office_0002": 1, "official_splits/test/bathroom": 2}


def prepared(raw: Path, *lists: Path) -> manifest.Manifest:
    out = raw.with_name("out")
    assert prepare("nyu", raw, out, lists=lists).faults == []
    return manifest.read(out)


def test_folders_called_test_are_the_test_split_and_all_others_train(tmp_path: Path) -> None:
    indoor.nyu(tmp_path / "raw", SCENES)
    records = prepared(tmp_path / "raw").records
    assert {(record.scene, record.split) for record in records} == {
        ("kitchen_0001", "train"),
        ("office_0002", "train"),
        ("bathroom", "test"),
    }
    assert len(records) == 5


def test_depth_and_picture_are_the_bytes_of_the_archive(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    indoor.nyu(raw, SCENES)
    record = prepared(raw).of("test")[1]
    assert record.image == "rgb/official_splits/test/bathroom/rgb_00001.jpg"
    scene, out = raw / "official_splits/test/bathroom", tmp_path / "out"
    assert (out / record.image).read_bytes() == (scene / "rgb_00001.jpg").read_bytes()
    assert (out / record.target).read_bytes() == (scene / "sync_depth_00001.png").read_bytes()


def test_the_camera_is_the_catalogs_at_the_size_of_the_picture(tmp_path: Path) -> None:
    indoor.nyu(tmp_path / "raw", {"a": 1}, indoor.VGA)
    indoor.nyu(tmp_path / "raw", {"b": 1}, (240, 320))
    full, half = prepared(tmp_path / "raw").records
    assert full.intrinsics == NYU.cameras[""][0]
    assert half.intrinsics is not None
    assert half.intrinsics[0] == pytest.approx(518.85790117 / 2)
    assert half.intrinsics[2] == pytest.approx((325.58244941 + 0.5) / 2 - 0.5)


def test_the_manifest_does_not_know_how_the_raw_folder_was_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tmp_path / "test"
    indoor.nyu(raw, {".": 2})
    monkeypatch.chdir(raw)
    spelled = {"whole": raw, "dot": Path(), "round": Path("../test")}
    hashes = {prepare("nyu", path, tmp_path / name).sha256 for name, path in spelled.items()}
    assert len(hashes) == 1
    assert manifest.read(tmp_path / "dot").of("test")[0].scene == "test"


def test_lists_choose_exactly_their_lines_wherever_the_archive_put_them(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    indoor.nyu(raw, SCENES)
    train, test = tmp_path / "nyu_train.txt", tmp_path / "nyu_test.txt"
    train.write_text("/kitchen_0001/rgb_00001.jpg /kitchen_0001/sync_depth_00001.png 518.8579\n")
    test.write_text("bathroom/rgb_00000.jpg bathroom/sync_depth_00000.png 518.8579\n")
    records = prepared(raw, train, test).records
    assert [(record.split, record.image) for record in records] == [
        ("test", "rgb/bathroom/rgb_00000.jpg"),
        ("train", "rgb/kitchen_0001/rgb_00001.jpg"),
    ]
