"""A user's own pairs: in folders, tables or lists; mistakes are named."""

import json

import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import folder
from idisc.data.dataset import open_dataset
from idisc.errors import InputError

ROW = "image,depth\nimages/a.jpg,depth/a.png"
SCALED = "image,depth,depth_scale\nimages/a.jpg,depth/a.png,"


def pair(root, name, images="images", depth="depth"):
    indoor.save(root / images / f"{name}.jpg", indoor.picture(0))
    indoor.save(root / depth / f"{name}.png", indoor.millimetres(0))


def table(root, text, name="pairs.csv"):
    (root / name).write_text(text)
    return root


class TestFolders:
    def test_pairs_have_the_same_name_and_are_in_both_splits(self, tmp_path):
        pair(tmp_path, "b")
        first = folder.read(tmp_path).sha256
        pair(tmp_path, "day1/a")
        found = folder.read(tmp_path)
        assert found.sha256 != first
        for split in ("train", "test"):
            assert [(r.image, r.target, r.scene) for r in found.records_of(split)] == [
                ("images/b.jpg", "depth/b.png", ""),
                ("images/day1/a.jpg", "depth/day1/a.png", "day1"),
            ]
        (tmp_path / "depth/b.png").rename(tmp_path / "depth/c.png")
        with refused(InputError, tmp_path / "images/b.jpg", tmp_path / "depth"):
            folder.read(tmp_path)

    @pytest.mark.parametrize("name", ["test", "val", "validation"])
    def test_folders_around_them_are_splits(self, tmp_path, name):
        pair(tmp_path / "train", "a", images="rgb", depth="gt")
        pair(tmp_path / name, "b")
        found = folder.read(tmp_path)
        assert [record.image for record in found.records_of("train")] == ["train/rgb/a.jpg"]
        assert [record.image for record in found.records_of("test")] == [f"{name}/images/b.jpg"]

    def test_png_is_millimetres_and_arrays_are_metres(self, tmp_path):
        pair(tmp_path, "a")
        indoor.save(tmp_path / "images/b.jpg", indoor.picture(1))
        metres = np.full((24, 32), 2.5, dtype=np.float32)
        metres[0, 0] = np.inf  # as simulators store the sky
        np.save(tmp_path / "depth/b.npy", metres)
        first, second = open_dataset(tmp_path, "folder", "train")
        assert first.target.max() == pytest.approx(indoor.millimetres(0).max() / 1000)
        assert second.target[1, 1] == 2.5
        assert not second.valid[0, 0]
        assert second.valid.sum() == 24 * 32 - 1

    def test_pairs_may_share_one_folder(self, tmp_path):
        pair(tmp_path / "train", "0001", images=".", depth=".")
        pair(tmp_path / "test", "0002", images=".", depth=".")
        found = folder.read(tmp_path)
        assert [(r.image, r.target) for r in found.records_of("train")] == [
            ("train/0001.jpg", "train/0001.png")
        ]
        assert [record.image for record in found.records_of("test")] == ["test/0002.jpg"]

    def test_pairs_in_one_folder_must_be_unambiguous(self, tmp_path):
        indoor.save(tmp_path / "0001.jpg", indoor.picture(0))
        indoor.save(tmp_path / "0001.png", indoor.picture(0))  # 8 bits: the same photo again
        with refused(InputError, tmp_path):
            folder.read(tmp_path)
        pair(tmp_path, "0002", images=".", depth=".")
        with refused(InputError, tmp_path / "0001.jpg"):
            folder.read(tmp_path)
        np.save(tmp_path / "0001.npy", np.ones((24, 32), np.float32))
        with refused(InputError, tmp_path / "0001"):
            folder.read(tmp_path)


class TestLists:
    def test_a_list_of_the_field_is_found_by_its_name(self, tmp_path):
        pair(tmp_path, "a", images="left", depth="range")
        pair(tmp_path, "b", images="left", depth="range")
        np.save(tmp_path / "range/b.npy", np.full((24, 32), 2.5))
        lines = "left/b.jpg range/b.npy 518.9\n\n/left/a.jpg /range/a.png\nleft/c.jpg None 1\n"
        found = folder.read(table(tmp_path, lines, folder.LIST))
        assert found.prepared == {"from": "list.txt"}
        assert [(r.image, r.target) for r in found.records_of("test")] == [
            ("left/b.jpg", "range/b.npy"),
            ("left/a.jpg", "range/a.png"),
        ]
        assert [r.image for r in found.records_of("train")] == ["left/b.jpg", "left/a.jpg"]
        first, second = open_dataset(tmp_path, "folder", "test")
        assert first.target.max() == 2.5
        assert second.target.max() == pytest.approx(indoor.millimetres(0).max() / 1000)

    def test_a_table_is_used_before_a_list_and_a_list_before_folders(self, tmp_path):
        for name in ("a", "b", "c"):
            pair(tmp_path, name)
        table(tmp_path, "images/b.jpg depth/b.png\n", folder.LIST)
        assert [r.image for r in folder.read(tmp_path).records_of("test")] == ["images/b.jpg"]
        table(tmp_path, "image,depth\nimages/c.jpg,depth/c.png\n")
        assert [r.image for r in folder.read(tmp_path).records_of("test")] == ["images/c.jpg"]

    def test_a_missing_file_is_named(self, tmp_path):
        pair(tmp_path, "a")
        with refused(InputError, tmp_path / folder.LIST, "depth/z.png"):
            folder.read(table(tmp_path, "images/a.jpg depth/z.png\n", folder.LIST))


class TestTables:
    def test_columns_are_read_by_name(self, tmp_path):
        pair(tmp_path, "a")
        text = (
            "depth,image,split,scene,fx,fy,cx,cy,depth_scale\n"
            "depth/a.png,images/a.jpg,val,attic,30,31,16,12,0.01\n"
        )
        [record] = folder.read(table(tmp_path, text)).records
        assert (record.split, record.scene, record.scale) == ("test", "attic", 0.01)
        assert (record.intrinsics, record.size) == ((30, 31, 16, 12), (24, 32))
        sample = open_dataset(tmp_path, "folder", "test")[0]
        np.testing.assert_allclose(sample.target, indoor.millimetres(0) * 0.01, rtol=1e-6)
        assert (sample.camera.cx, sample.camera.origin) == (16, "calibration")

    def test_json_lines_have_the_same_columns(self, tmp_path):
        pair(tmp_path, "a")
        row = {"image": "images/a.jpg", "depth": "depth/a.png", "split": "Train", "fx": 30}
        text = json.dumps({**row, "fy": 31, "cx": 16.5, "cy": 12}) + "\n\n"
        [record] = folder.read(table(tmp_path, text, "pairs.jsonl")).records
        assert (record.split, record.intrinsics) == ("train", (30, 31, 16.5, 12))

    def test_rows_count_once_in_both_splits_and_may_name_files_elsewhere(self, tmp_path):
        pair(tmp_path / "disk", "a")
        (tmp_path / "here").mkdir()
        row = f"{tmp_path}/disk/images/a.jpg,{tmp_path}/disk/depth/a.png\r\n"
        # A byte order mark, as spreadsheets write it, is not a part of the first column.
        found = folder.read(table(tmp_path / "here", f"\ufeffimage,depth\r\n{row}{row}"))
        assert [record.split for record in found.records] == ["train", "test"]
        repeated = (tmp_path / "disk/images/a.jpg").as_posix()
        assert found.prepared == {"from": "pairs.csv", "repeated": [repeated]}
        sample = open_dataset(tmp_path / "here", "folder", "test")[0]
        assert sample.target.shape == (24, 32)

    @pytest.mark.parametrize(
        ("name", "text", "where", "fact"),
        [
            ("pairs.csv", "picture,depth\na,b\n", ":2", "picture"),
            ("pairs.csv", "image,depth\nimages/a.jpg\n", ":2", "missing"),
            ("pairs.csv", f"{ROW},7\n", ":2", "without a name"),
            ("pairs.csv", "image,depth\nimages/z.jpg,depth/a.png\n", ":2", "images/z.jpg"),
            ("pairs.csv", f"{ROW.replace(',depth', ',depth,fx', 1)},7\n", ":2", "1 of fx"),
            ("pairs.csv", f"{SCALED}mm\n", ":2: column depth_scale", "mm"),
            ("pairs.csv", f"{SCALED}0\n", ":2", "depth_scale 0"),
            ("pairs.csv", f"{ROW.replace(',depth', ',depth,split', 1)},tset\n", ":2", "tset"),
            ("pairs.csv", "image,depth\n", "", "no pairs"),
            ("pairs.csv", "", "", "no pairs"),
            ("pairs.jsonl", "{", ":1", "JSON"),
            ("pairs.jsonl", "[1]", ":1", "JSON object"),
            ("pairs.jsonl", '{"image": 5, "depth": "depth/a.png"}', ":1", "no such file"),
            (
                "pairs.jsonl",
                '{"image": "images/a.jpg", "depth": "depth/a.png", "fx": []}',
                ":1",
                "1 of fx",
            ),
        ],
    )
    def test_mistakes_are_named_with_their_line(self, tmp_path, name, text, where, fact):
        pair(tmp_path, "a")
        with refused(InputError, f"{tmp_path / name}{where}", fact):
            folder.read(table(tmp_path, text, name))

    def test_tables_that_cannot_be_used_are_named(self, tmp_path):
        (tmp_path / "pairs.csv").write_bytes(b"image,depth\n\xe9.jpg,\xff.png\n")
        with refused(InputError, tmp_path / "pairs.csv", "UTF-8"):
            folder.read(tmp_path)
        table(tmp_path, "", "more.jsonl")
        with refused(InputError, tmp_path, "more.jsonl, pairs.csv"):
            folder.read(tmp_path)

    def test_a_table_without_pairs_is_ignored(self, tmp_path):
        table(tmp_path, '{"step": 1, "loss": 0.5}\n', "log.jsonl")
        with refused(InputError, tmp_path, "log.jsonl", "images/NAME.jpg"):
            folder.read(tmp_path)
        pair(tmp_path, "a")
        assert folder.read(tmp_path).prepared["from"] == folder.FOLDERS
        table(tmp_path, "image,depth\nimages/a.jpg,depth/a.png\n")
        assert folder.read(tmp_path).prepared["from"] == "pairs.csv"
