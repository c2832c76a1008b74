"""Manifests: what is written is read, the hash pins it, and damage is named; published lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.catalog import ARGOVERSE, DDAD, DIODE, KITTI, NYU
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


def whole(root: Path, **changes: object) -> Manifest:
    made = Manifest(
        dataset="sunrgbd",
        target=DepthMap(metres_per_unit=1 / 1000, rotated_bits=3),
        records=RECORDS,
        root=root,
        prepared={"choices": {"surface": "nearest"}},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def listed(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


class TestFile:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        digest = manifest.write(whole(tmp_path))
        found = manifest.read(tmp_path)
        assert found == whole(tmp_path, records=tuple(reversed(RECORDS)), sha256=digest)

    def test_the_hash_does_not_depend_on_the_order_of_records(self, tmp_path: Path) -> None:
        first = manifest.write(whole(tmp_path))
        assert manifest.write(whole(tmp_path, records=RECORDS[::-1])) == first
        assert manifest.write(whole(tmp_path, records=RECORDS[1:])) != first

    def test_splits_are_chosen_by_name(self, tmp_path: Path) -> None:
        assert [record.image for record in whole(tmp_path).of("test")] == ["rgb/z.jpg"]
        with refused(manifest.EmptySplit, tmp_path, "'val'", "test, train"):
            whole(tmp_path).of("val")

    def test_a_folder_without_one_says_how_it_is_made(self, tmp_path: Path) -> None:
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
    def test_damage_is_named(self, tmp_path: Path, damage: object, where: str) -> None:
        manifest.write(whole(tmp_path))
        path = tmp_path / manifest.NAME
        path.write_text(damage(path.read_text()))  # type: ignore[operator]
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
    def test_a_line_is_read_by_its_fields(
        self, tmp_path: Path, name: str, line: str, column: int, expected: ListLine
    ) -> None:
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
    def test_a_list_that_cannot_be_used_is_named(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "test.txt"
        with refused(InputError, path):
            manifest.read_list(path)
        path.write_bytes(content)
        line = content.count(b"\n") + 1
        with refused(InputError, f"{path}:{line}" if b".png" in content[6:] else path):
            manifest.read_list(path)

    def test_a_line_that_comes_again_counts_once(self, tmp_path: Path) -> None:
        for name in ("a.png", "b.png"):
            (tmp_path / name).touch()
        path = listed(tmp_path / "test.txt", *["a.png a.png 5", "b.png b.png 5", "a.png a.png 5"])
        found = manifest.from_list(path, tmp_path, NYU)
        assert [record.image for record in found.records] == ["a.png", "b.png"]
        assert found.prepared["repeated"] == ["a.png"]


class TestManifestFromList:
    def test_files_are_used_where_they_are(self, tmp_path: Path) -> None:
        touch(tmp_path / "kitchen/rgb.jpg", tmp_path / "kitchen/depth.png")
        path = listed(tmp_path / "nyu_test.txt", "/kitchen/rgb.jpg /kitchen/depth.png 518")
        found = manifest.from_list(path, tmp_path, NYU)
        assert found.target == NYU.target
        assert found.records == (
            Record(
                image="kitchen/rgb.jpg", target="kitchen/depth.png", split="test", scene="kitchen"
            ),
        )

    def test_train_and_val_of_kittis_depth_count_as_merged(self, tmp_path: Path) -> None:
        touch(*(tmp_path / name for name in ("a.png", "b.png", "train/a/d.png", "val/b/d.png")))
        path = listed(
            tmp_path / "kitti_eigen_test.txt", "a.png a/d.png 7", "b.png b/d.png 7", "c.png None 7"
        )
        found = manifest.from_list(path, tmp_path, KITTI)
        assert [record.target for record in found.records] == ["train/a/d.png", "val/b/d.png"]

    def test_lines_whose_files_are_not_there_are_left_out_and_counted(self, tmp_path: Path) -> None:
        touch(tmp_path / "a.png", tmp_path / "a_depth.png")
        path = listed(tmp_path / "val.txt", "a.png a_depth.png", "b.png b_depth.png")
        found = manifest.from_list(path, tmp_path, DIODE)
        assert found.prepared == {"list": "val.txt", "missing": ["b.png"]}

    def test_a_list_of_another_folder_is_an_error(self, tmp_path: Path) -> None:
        path = listed(tmp_path / "val.txt", "b.png b_depth.png")
        with refused(DataError, tmp_path, "val.txt"):
            manifest.from_list(path, tmp_path, DIODE)

    def test_intrinsics_beside_the_list_belong_to_its_pictures(self, tmp_path: Path) -> None:
        image, depth = "000150/rgb/CAMERA_09/1.png", "000150/depth/CAMERA_09/1.png"
        touch(tmp_path / image, tmp_path / depth)
        path = listed(tmp_path / "ddad_val.txt", f"{image} {depth}")
        matrix = [[1050, 0, 950.5, 0], [0, 1051, 600, 0], [0, 0, 1, 0]]
        (tmp_path / "ddad_intrinsics.json").write_text(json.dumps({image: matrix}))
        [record] = manifest.from_list(path, tmp_path, DDAD).records
        assert record.intrinsics == (1050, 1051, 950.5, 600)
        assert record.sensor == "CAMERA_09"

    def test_an_empty_file_of_intrinsics_is_none(self, tmp_path: Path) -> None:
        touch(tmp_path / "a.png", tmp_path / "d.png", tmp_path / "argo_intrinsics.json")
        path = listed(tmp_path / "argo_val.txt", "a.png d.png")
        assert manifest.from_list(path, tmp_path, ARGOVERSE).records[0].intrinsics is None

    @pytest.mark.parametrize("content", ["[1, 2]", '{"a.png": [1, 2]}', '{"a.png": {"fx": 1}}'])
    def test_intrinsics_of_another_form_are_an_error(self, tmp_path: Path, content: str) -> None:
        touch(tmp_path / "a.png", tmp_path / "d.png")
        (tmp_path / "argo_intrinsics.json").write_text(content)
        path = listed(tmp_path / "argo_val.txt", "a.png d.png")
        with refused(InputError, tmp_path / "argo_intrinsics.json"):
            manifest.from_list(path, tmp_path, ARGOVERSE)
