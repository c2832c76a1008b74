"""NYU's normals as GeoNet published them: copied, named and split by their folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fakes import indoor

from idisc.data import manifest
from idisc.data.decode import NormalMap
from idisc.data.prepare import nyu_normals
from idisc.data.prepare.frames import PictureOptions
from idisc.data.prepare.runner import prepare


def test_splits_are_folders_and_normals_their_bytes(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    indoor.nyu_normals(raw)
    summary = prepare("nyu_normals", raw, out)
    assert (summary.counts, summary.faults) == ({"train": 3, "test": 3}, [])
    result = manifest.read(out)
    assert result.target == NormalMap()
    record = result.of("train")[2]
    assert record.image == "rgb/train/img/kitchen/7.png"
    source = raw / "train/norm/kitchen/7.png"
    assert (out / record.target).read_bytes() == source.read_bytes()
    assert record.valid == pytest.approx(23 / 24, abs=1e-6)  # the first of 24 rows is black


def test_lists_name_the_normals_third(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    indoor.nyu_normals(raw)
    summary = prepare("nyu_normals", raw, out, lists=[raw / "nyu_test.txt"])
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 3}, [])
    record = manifest.read(out).records[0]
    np.testing.assert_array_equal(indoor.load(out / record.target), indoor.normal_pixels(0))


def test_large_folders_are_cut_into_hundreds(tmp_path: Path) -> None:
    lines = [manifest.ListLine(f"test/img/{n:06d}.png", "", "test") for n in range(250)]
    scenes = nyu_normals.PREPARATION.scenes(tmp_path, PictureOptions(), lines)
    assert [scene.name for scene in scenes] == [f"test/img/000{n}" for n in range(3)]
    assert [len(scene.lines or ()) for scene in scenes] == [100, 100, 50]
