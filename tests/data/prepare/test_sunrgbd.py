"""SUN RGB-D: bits rotated back, names that differ, a calibration in each folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fakes import indoor

from idisc.data import manifest
from idisc.data.decode import DepthMap
from idisc.data.prepare.runner import prepare


@pytest.mark.parametrize("given", ["raw", "raw/SUNRGBD"])
def test_prepared_depth_is_plain_millimetres(tmp_path: Path, given: str) -> None:
    depths, out = indoor.sunrgbd(tmp_path / "raw"), tmp_path / "out"
    summary = prepare("sunrgbd", tmp_path / given, out)
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 3}, [])
    result = manifest.read(out)
    assert result.target == DepthMap(metres_per_unit=1 / 1000)
    assert [r.scene for r in result.records] == ["kv1/b3dodata", "kv1/b3dodata", "kv2/align_kv2"]
    for name, depth in depths.items():
        np.testing.assert_array_equal(indoor.load(out / f"depth/{name}.png"), depth)


def test_intrinsics_are_those_of_the_folder_or_none(tmp_path: Path) -> None:
    indoor.sunrgbd(tmp_path / "raw")
    (tmp_path / "raw/SUNRGBD/kv1/b3dodata/img_0064/intrinsics.txt").unlink()
    summary = prepare("sunrgbd", tmp_path / "raw", tmp_path / "out")
    assert summary.faults == []
    known, unknown, _ = manifest.read(tmp_path / "out").records
    assert known.intrinsics == (529.5, 529.5, 365.0, 265.0)
    assert (unknown.intrinsics, unknown.size) == (None, (24, 32))


@pytest.mark.parametrize("text", ["529.5 0 365", "fx fy cx", "0 0 365 0 0 265 0 0 1"])
def test_a_broken_calibration_is_a_fault(tmp_path: Path, text: str) -> None:
    indoor.sunrgbd(tmp_path / "raw")
    path = tmp_path / "raw/SUNRGBD/kv1/b3dodata/img_0064/intrinsics.txt"
    path.write_text(text)
    summary = prepare("sunrgbd", tmp_path / "raw", tmp_path / "out")
    assert summary.counts["test"] == 2
    assert [fault.subject for fault in summary.faults] == [str(path)]


def test_lists_begin_at_the_parent_folder(tmp_path: Path) -> None:
    indoor.sunrgbd(tmp_path / "raw")
    folder = "SUNRGBD/kv1/b3dodata/img_0063"
    listing = tmp_path / "sunrgbd_val.txt"
    listing.write_text(f"{folder}/image/img_0063.jpg {folder}/depth/img_0063_abs.png\n")
    summary = prepare("sunrgbd", tmp_path / "raw/SUNRGBD", tmp_path / "out", lists=[listing])
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 1}, [])


def test_real_frames_are_metres_in_the_range_of_the_sensor(tmp_path: Path) -> None:
    raw = indoor.real_samples("sunrgbd")
    summary = prepare("sunrgbd", raw, tmp_path / "out")
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 2}, [])
    result = manifest.read(tmp_path / "out")
    kinect1, kinect2 = result.records
    assert (kinect1.size, kinect2.size) == ((427, 561), (530, 730))
    assert kinect2.intrinsics == (529.5, 529.5, 365.0, 265.0)
    for record in result.records:
        depth = result.target.read(tmp_path / "out" / record.target)
        assert depth[depth > 0].min() > 0.6
        assert depth.max() < 9.9
        assert 1.9 < np.median(depth[depth > 0]) < 4.1
