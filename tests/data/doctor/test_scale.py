"""Depth in another unit than stated is found, and the likelier unit named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.examined import (
    COUNT,
    SIZE,
    Pairs,
    as_dataset,
    only,
    save_depth,
    scene,
)

from idisc.data.doctor.scale import UNITS


@pytest.mark.parametrize("unit", ["millimetres", "centimetres", "1/5000 m (TUM)"])
def test_arrays_in_another_unit_are_named(pairs: Pairs, unit: str) -> None:
    for index, row in enumerate(pairs.rows):
        row["depth"] = f"depth/{index:04}.npy"
        np.save(pairs.depth(index), scene(index)[1] / np.float32(UNITS[unit]))
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("error", "scale")
    assert finding.details["likely_unit"] == unit
    assert finding.details["likely_scale"] == UNITS[unit]
    assert finding.details["used_scale"] == 1


def test_256_units_for_a_metre_read_as_millimetres_are_found_by_the_range(pairs: Pairs) -> None:
    known = {"domain": "indoor", "max_depth": 10.0}
    assert as_dataset(pairs, **known).findings == ()
    pairs.set_all(depth_scale=1 / 256)
    finding = only(as_dataset(pairs, **known))
    assert (finding.severity, finding.code) == ("warning", "range")
    assert finding.details["likely_unit"] == "millimetres"
    pairs.change_depth(lambda depth: depth * 0.256)
    pairs.set_all(depth_scale=0.001)
    assert only(as_dataset(pairs, **known)).details["likely_unit"] == "1/256 m (KITTI)"


@pytest.mark.parametrize(
    ("units", "factor", "unit"),
    [(256, 0.8, "1/256 m (KITTI)"), (5000, 0.59, "1/5000 m (TUM)")],  # 12 m and 11 m
)
def test_an_unlikely_scene_in_a_users_folder_names_the_likelier_unit(
    pairs: Pairs, units: float, factor: float, unit: str
) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(index)[1] * factor, units)
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("warning", "unlikely")
    assert finding.details["likely_unit"] == unit


def test_a_sparse_road_is_no_room_in_another_unit(pairs: Pairs) -> None:
    beams = (np.arange(SIZE[0]) % 10 == 0)[:, None]
    pairs.change_depth(lambda depth: np.where(beams, depth * 4.5, 0))
    assert pairs.report().findings == ()


@pytest.mark.parametrize(("units", "severity"), [(10, "error"), (256, "warning")])
def test_one_map_in_another_unit_is_named(pairs: Pairs, units: float, severity: str) -> None:
    save_depth(pairs.depth(3), scene(3)[1], units)
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == (severity, "unit")
    assert (finding.files, finding.total) == (("depth/0003.png",), COUNT)
