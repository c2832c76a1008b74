"""Hints about the unit of predictions: which ratio leads to which `--scale`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from idisc.evaluate.units import check_unit, log_correlation


@pytest.mark.parametrize(
    ("used", "ratio", "scale"),
    [
        (0.001, 0.256, 1 / 256),  # KITTI's files, read as millimetres
        (1 / 256, 1000 / 256 * 1.1, 0.001),  # millimetres, read as KITTI's; 10 % too far
        (1.0, 1000.0, 0.001),  # floats in millimetres
        (1.0, 80.0, 0.01),
        (0.001, 5.0, 1 / 5000),
        (0.001, 1 / 1000, 1.0),  # metres
    ],
)
def test_the_ratio_of_a_known_unit_suggests_its_scale(
    used: float, ratio: float, scale: float
) -> None:
    hint = check_unit(ratio, 0.9, used)
    assert hint is not None
    assert (hint.code, hint.details["scale"], hint.details["used"]) == ("unit", scale, used)


@pytest.mark.parametrize(
    ("used", "ratio", "code"),
    [
        (1.0, 1.0, None),
        (0.001, 0.6, None),  # a bad network
        (1.0, 3.0, None),  # no unit
        (1.0, 1e6, "ratio"),
        (1.0, 0.0, "ratio"),  # a protocol may clamp predictions of 0 m
        (None, 0.256, None),  # a network predicts metres
        (None, 1000.0, "ratio"),
    ],
)
def test_other_ratios_suggest_no_unit(used: float | None, ratio: float, code: str | None) -> None:
    hint = check_unit(ratio, 0.9, used)
    assert (hint and hint.code) == code


def test_what_falls_with_the_depth_is_inverse_depth_whatever_the_ratio() -> None:
    hint = check_unit(1000.0, -0.9, 1.0)
    assert hint is not None
    assert (hint.code, hint.details) == ("inverse_depth", {"correlation": -0.9})
    network = check_unit(1.0, -0.9)
    assert network is None


def test_the_correlation_is_that_of_the_logarithms() -> None:
    depth = np.geomspace(1, 80, 50).astype(np.float32)
    assert log_correlation(700 / depth, depth) == pytest.approx(-1)
    assert log_correlation(depth**2, depth) == pytest.approx(1)
    for pixels in (depth[:3], np.full(50, 2.0)):  # too few, constant
        assert math.isnan(log_correlation(pixels, pixels))
