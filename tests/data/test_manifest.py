"""Manifests and published lists: written, read, hashed; damage is named."""

import json
from dataclasses import replace

import pytest
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.catalog import DDAD, KITTI, NYU
from idisc.data.decode import DepthMap
from idisc.data.manifest import ListLine, Manifest, Record
from idisc.errors import DataError, InputError

RECORDS = (
    Record(
        image="rgb/b.jpg",
        target="depth/b.png",
        split="train",
        scene="kitchen",
        sensor="CAMERA_09",
        size=(480, 640),
        intrinsics=(518.8, 519.4, 325.5, 253.7),
        valid=0.0,
        sha256="ab",
    ),
    Record(image="rgb/a.jpg", target="depth/a.png", split="train", scale=0.25),
    Record(image="rgb/z.jpg", target="", split="test"),
)


def whole(root, **changes):
    made = Manifest(
        dataset="sunrgbd",
        target=DepthMap(metres_per_unit=1 / 1000, rotated_bits=3),
        records=RECORDS,
        root=root,
        prepared={"choices": {"surface": "nearest"}},
    )
    return replace(made, **changes)


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def listed(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class TestFile:
    def test_records_are_written_sorted_and_read_back(self, tmp_path):
        digest = manifest.write(whole(tmp_path))
        found = manifest.read(tmp_path)
        assert found == whole(tmp_path, records=tuple(reversed(RECORDS)), sha256=digest)
        assert manifest.write(whole(tmp_path, records=RECORDS[::-1])) == digest
        assert manifest.write(whole(tmp_path, records=RECORDS[1:])) != digest

    def test_splits_are_chosen_by_name(self, tmp_path):
        assert [record.image for record in whole(tmp_path).records_of("test")] == ["rgb/z.jpg"]
        with refused(manifest.EmptySplit, tmp_path, "'val'", "test, train"):
            whole(tmp_path).records_of("val")
        with refused(DataError, tmp_path, "`idisc prepare`"):
            manifest.read(tmp_path)

    @pytest.mark.parametrize(
        ("damage", "where"),
        [
            (lambda text: text[: len(text) // 2], ""),
            (lambda text: "", ""),
            (lambda text: text.replace("idisc/1", "idisc/9"), ""),
            (lambda text: text.splitlines()[0], ""),
            (lambda text: text.replace('"kind": "depth"', '"kind": "dept"'), ": target 'dept'"),
            (lambda text: text.replace('"scene"', '"scenes"'), ":4"),
            (lambda text: text + "[]\n", ":5"),
            (lambda text: text.replace('"prepared": {', '"prepared": "", "_": {'), ""),
            (lambda text: text.replace("518.8, ", ""), ":4: intrinsics"),
        ],
    )
    def test_damage_is_named(self, tmp_path, damage, where):
        manifest.write(whole(tmp_path))
        path = tmp_path / manifest.NAME
        path.write_text(damage(path.read_text()))
        with refused(InputError if where else DataError, f"{path}{where}"):
            manifest.read(tmp_path)


class TestLists:
    @pytest.mark.parametrize(
        ("name", "line", "column", "expected"),
        [
            ("nyu_train.txt", "a.jpg a.png 518", 1, ListLine("a.jpg", "a.png", "train")),
            ("ddad_val.txt", "a.jpg a.png", 1, ListLine("a.jpg", "a.png", "test")),
            ("test.txt", "/a/b.jpg /a/b.png 5", 1, ListLine("a/b.jpg", "a/b.png", "test")),
            ("train.txt", "i.png d.png n.png", 2, ListLine("i.png", "n.png", "train")),
        ],
    )
    def test_a_line_is_read_by_its_fields(self, tmp_path, name, line, column, expected):
        path = listed(tmp_path / name, line, "without.png None None", "")
        assert manifest.read_list(path, column) == [expected]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"a.png None 5",
            b"a.png b.png\nc.png",
            b"\xff\xfe\x00\x81",
            b"../../pics/f.png d.png 518",
            b"f.png a/../../d.png 518",
        ],
        ids=["empty", "no target", "too few fields", "binary", "image outside", "target outside"],
    )
    def test_a_list_that_cannot_be_used_is_named(self, tmp_path, content):
        path = tmp_path / "test.txt"
        with refused(InputError, path):
            manifest.read_list(path)
        path.write_bytes(content)
        line = content.count(b"\n") + 1
        with refused(InputError, f"{path}:{line}" if b".png" in content[6:] else path):
            manifest.read_list(path)


class TestManifestFromList:
    def test_existing_files_are_used_where_they_are_each_once(self, tmp_path):
        touch(tmp_path / "kitchen/rgb.jpg", tmp_path / "kitchen/depth.png")
        line = "/kitchen/rgb.jpg /kitchen/depth.png 518"
        path = listed(tmp_path / "nyu_test.txt", line, "gone.jpg gone.png 518", line)
        record = Record(
            image="kitchen/rgb.jpg", target="kitchen/depth.png", split="test", scene="kitchen"
        )
        found = manifest.from_lists([path], tmp_path, NYU)
        assert (found.target, found.records) == (NYU.target, (record,))
        assert found.prepared == {
            "list": "nyu_test.txt",
            "missing": ["gone.jpg"],
            "repeated": ["kitchen/rgb.jpg"],
        }
        (tmp_path / "kitchen/rgb.jpg").unlink()
        with refused(DataError, tmp_path, "nyu_test.txt"):
            manifest.from_lists([path], tmp_path, NYU)

    def test_train_and_val_of_kittis_depth_count_as_merged(self, tmp_path):
        touch(*(tmp_path / name for name in ("a.png", "b.png", "train/a/d.png", "val/b/d.png")))
        path = listed(tmp_path / "kitti_eigen_test.txt", "a.png a/d.png 7", "b.png b/d.png 7")
        found = manifest.from_lists([path], tmp_path, KITTI)
        assert [record.target for record in found.records] == ["train/a/d.png", "val/b/d.png"]

    def test_intrinsics_next_to_the_list_belong_to_its_pictures(self, tmp_path):
        image, depth = "000150/rgb/CAMERA_09/1.png", "000150/depth/CAMERA_09/1.png"
        touch(tmp_path / image, tmp_path / depth, tmp_path / "ddad_intrinsics.json")
        path = listed(tmp_path / "ddad_val.txt", f"{image} {depth}")
        assert (
            manifest.from_lists([path], tmp_path, DDAD).records[0].intrinsics is None
        )  # empty file
        matrix = [[1050, 0, 950.5, 0], [0, 1051, 600, 0], [0, 0, 1, 0]]
        (tmp_path / "ddad_intrinsics.json").write_text(json.dumps({image: matrix}))
        [record] = manifest.from_lists([path], tmp_path, DDAD).records
        assert record.intrinsics == (1050, 1051, 950.5, 600)
        assert record.sensor == "CAMERA_09"
        for content in ("[1, 2]", '{"a.png": [1, 2]}', '{"a.png": {"fx": 1}}'):
            (tmp_path / "ddad_intrinsics.json").write_text(content)
            with refused(InputError, tmp_path / "ddad_intrinsics.json"):
                manifest.from_lists([path], tmp_path, DDAD)
