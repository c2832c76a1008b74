"""DIODE: masks applied, 100 metres at most, val as the test split, indoors by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.prepare.diode import Options
from idisc.data.prepare.runner import prepare
from idisc.errors import DataError


def test_depth_is_rounded_down_where_the_mask_allows_it(tmp_path: Path) -> None:
    depths = indoor.diode(tmp_path / "raw")
    summary = prepare("diode", tmp_path / "raw", tmp_path / "out")
    assert (summary.counts, summary.faults) == ({"train": 1, "test": 2}, [])
    records = manifest.read(tmp_path / "out").records
    assert {(record.split, record.scene) for record in records} == {
        ("train", "indoors/scene_00001/scan_00010"),
        ("test", "indoors/scene_00019/scan_00183"),
    }
    for record in records:
        stored = indoor.load(tmp_path / "out" / record.target)
        truth = depths[record.image.removeprefix("rgb/").removesuffix(".png")]
        np.testing.assert_array_equal(stored, np.floor(256 * np.clip(truth, 0, 100)))
        assert stored[0, 0] == 25600  # 149 m, cut at 100
        assert stored[1, 0] == 0  # NaN under the mask


@pytest.mark.parametrize(("part", "count"), [("outdoor", 1), ("both", 3)])
def test_outdoor_scans_come_when_asked_for(tmp_path: Path, part: str, count: int) -> None:
    indoor.diode(tmp_path / "raw")
    options = Options(diode_part=part)  # type: ignore[arg-type]
    summary = prepare("diode", tmp_path / "raw", tmp_path / "out", options)
    assert summary.counts["test"] == count


def test_published_lists_name_the_depth_that_is_yet_to_be_made(tmp_path: Path) -> None:
    indoor.diode(tmp_path / "raw")
    stem = "val/indoors/scene_00019/scan_00183/00019_00183_indoors_160_000"
    listing = tmp_path / "diode_indoor_val.txt"
    listing.write_text(f"{stem}.png {stem}_depth.png\n")
    summary = prepare("diode", tmp_path / "raw", tmp_path / "out", lists=[listing])
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 1}, [])
    assert manifest.read(tmp_path / "out").records[0].image == f"rgb/{stem}.png"


def test_intrinsics_come_from_the_devkits_file_or_the_catalog(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    indoor.diode(raw)
    prepare("diode", raw, tmp_path / "catalog")
    (raw / "intrinsics.txt").write_text(
        "The intrinsic parameters are:\n\t[fx, fy, cx, cy] = [800.0, 900, 512, 384]\nMore text."
    )
    prepare("diode", raw, tmp_path / "file")
    stated, given = (
        manifest.read(tmp_path / name).records[0].intrinsics for name in ("catalog", "file")
    )
    assert stated is not None
    assert given is not None
    assert stated[0] == pytest.approx(886.81 / 32)  # a picture of 24x32 for one of 768x1024
    assert given[0] == pytest.approx(800 / 32)


def test_an_unreadable_calibration_is_a_fault_of_every_scan(tmp_path: Path) -> None:
    indoor.diode(tmp_path / "raw")
    (tmp_path / "raw/intrinsics.txt").write_text("fx = 886")
    with refused(DataError, tmp_path / "out/missing.txt", "1 fault"):
        prepare("diode", tmp_path / "raw", tmp_path / "out")


def test_arrays_of_different_sizes_are_a_fault(tmp_path: Path) -> None:
    indoor.diode(tmp_path / "raw")
    folder = tmp_path / "raw/val/indoors/scene_00019/scan_00183"
    masks = sorted(folder.glob("*_mask.npy"))
    np.save(masks[0], np.ones((5, 5), dtype=np.float32))
    indoor.save(folder / "00019_00183_indoors_160_000.png", indoor.picture(0, (12, 16)))
    summary = prepare("diode", tmp_path / "raw", tmp_path / "out")
    assert [Path(fault.subject).name for fault in summary.faults] == [
        "00019_00183_indoors_150_000_depth.npy",
        "00019_00183_indoors_160_000.png",
    ]


def test_a_real_view_keeps_its_depth_to_a_256th_of_a_metre(tmp_path: Path) -> None:
    raw = indoor.real_samples("diode")
    summary = prepare("diode", raw, tmp_path / "out")
    assert (summary.counts, summary.faults) == ({"train": 0, "test": 1}, [])
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
