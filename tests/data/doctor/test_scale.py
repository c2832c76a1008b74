"""Depth in another unit than stated is found, and the likelier unit named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.examined import COUNT, SIZE, Pairs, as_dataset, good_pairs, only, save_depth, scene

from idisc.data import doctor


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)


@pytest.mark.parametrize(
    ("name", "scale"), [("millimetres", 0.001), ("centimetres", 0.01), ("1/5000 m (TUM)", 0.0002)]
)
def test_arrays_in_another_unit_are_named(pairs: Pairs, name: str, scale: float) -> None:
    for index, row in enumerate(pairs.rows):
        row["depth"] = f"depth/{index:04}.npy"
        np.save(pairs.depth(index), scene(index)[1] / np.float32(scale))
    finding = only(pairs.report())
    assert finding.severity == "error"
    assert f"values look like {name}: set depth_scale {scale:g}, not 1" in finding.message
    assert "0.1 to 200 m is possible" in finding.message


def test_metres_stored_as_whole_numbers_are_named(pairs: Pairs) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(index)[1], units_per_metre=10)
    pairs.set_all(depth_scale=0.001)
    finding = next(f for f in pairs.report().findings if f.check == "scale")
    assert "the median depth is 0.03" in finding.message


def test_256_units_for_a_metre_read_as_millimetres_are_told_by_the_range(pairs: Pairs) -> None:
    known = {"domain": "indoor", "max_depth": 10.0}
    assert as_dataset(pairs, **known).findings == ()
    pairs.set_all(depth_scale=1 / 256)
    finding = only(as_dataset(pairs, **known))
    assert finding.severity == "warning"
    assert "values look like millimetres: set depth_scale 0.001, not 0.00390625" in finding.message
    pairs.change_depth(lambda depth: depth * 0.256)
    pairs.set_all(depth_scale=0.001)
    finding = only(as_dataset(pairs, **known))
    assert "values look like 1/256 m (KITTI): set depth_scale 0.00390625" in finding.message


def test_a_few_maps_in_another_unit_are_named(pairs: Pairs) -> None:
    save_depth(pairs.depth(3), scene(3)[1], units_per_metre=10)
    finding = only(pairs.report())
    assert finding.files == ("depth/0003.png",)
    assert "1 of 20 depth maps is in another unit than the others: depth/0003.png" in (
        finding.message
    )


@pytest.mark.parametrize(
    ("units", "factor", "name"),
    [
        (256, 0.8, r"1/256 m (KITTI): set depth_scale 0.00390625"),
        (100, 0.8, "centimetres: set depth_scale 0.01"),
        (5000, 0.8, r"1/5000 m (TUM): set depth_scale 0.0002"),
        (5000, 0.59, r"1/5000 m (TUM): set depth_scale 0.0002"),  # a median of 11 m
    ],
)
def test_an_unlikely_scene_in_ones_own_folder_names_the_likelier_unit(
    pairs: Pairs, units: float, factor: float, name: str
) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(index)[1] * factor, units)
    finding = only(pairs.report())
    assert (finding.severity, finding.check) == ("warning", "scale")
    assert f"values look like {name}, not 0.001, in a CSV" in finding.message


def test_a_sparse_road_is_no_room_in_another_unit(pairs: Pairs) -> None:
    beams = (np.arange(SIZE[0]) % 10 == 0)[:, None]
    pairs.change_depth(lambda depth: np.where(beams, depth * 4.5, 0))
    assert pairs.report().findings == ()


@pytest.mark.parametrize("units", [256, 100, 5000])
def test_one_map_in_another_unit_is_named(pairs: Pairs, units: float) -> None:
    save_depth(pairs.depth(3), scene(3)[1], units)
    finding = only(pairs.report())
    assert (finding.severity, finding.files) == ("warning", ("depth/0003.png",))
    assert "1 of 20 depth maps may be in another unit than the others: depth/0003.png (" in (
        finding.message
    )


def test_advice_names_what_a_list_or_a_prepared_folder_has(pairs: Pairs) -> None:
    pairs.change_depth(lambda depth: depth / 100)
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    for told, advice in (
        ({"list": "test.txt"}, "not 0.001: pass the --dataset they belong to, or list the pairs"),
        ({"choices": {}}, "not 0.001: prepare the dataset again"),
    ):
        report = doctor.examine(replace(source, prepared=told), spec)
        finding = next(finding for finding in report.findings if finding.check == "scale")
        assert advice in finding.message
        assert "depth_scale" not in finding.message
