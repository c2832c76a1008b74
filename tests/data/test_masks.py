"""The field's windows, against the numbers that the released code comes to."""

from __future__ import annotations

import pytest

from idisc.data import masks
from idisc.data.masks import Window, WindowRule

Bounds = tuple[int, int, int, int]


def bounds(window: Window) -> Bounds:
    rows, columns = window
    return rows.start, rows.stop, columns.start, columns.stop


@pytest.mark.parametrize(
    ("rule", "size", "expected"),
    [
        (masks.garg, (352, 1216), (143, 349, 43, 1172)),
        (masks.eigen_road, (352, 1216), (117, 321, 43, 1172)),
        (masks.garg, (375, 1242), (153, 371, 44, 1197)),  # the customary one, on the full frame
        (masks.eigen_indoor, (480, 640), (45, 471, 41, 601)),
        (masks.eigen_indoor, (240, 320), (22, 236, 20, 300)),
    ],
)
def test_windows_are_those_of_the_field(
    rule: WindowRule, size: tuple[int, int], expected: Bounds
) -> None:
    assert bounds(rule(size)) == expected


def test_the_full_frame_window_in_a_crop_of_kitti() -> None:
    window = masks.shifted(masks.garg((375, 1242)), 23, 13)
    assert bounds(window) == (130, 348, 31, 1184)


def test_a_window_that_begins_above_the_crop_begins_with_it() -> None:
    assert bounds(masks.shifted((slice(5, 50), slice(0, 9)), 10, 20)) == (0, 40, 0, 0)
