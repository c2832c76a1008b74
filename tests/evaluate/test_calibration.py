"""The curve of error against the deviation of levels: parts of equal number, and ranks."""

import math

import numpy as np
import pytest

from idisc.evaluate.calibration import PARTS, CalibrationSums


def curve(*pictures):
    """Of (deviation, error) pairs, all at 2 m."""
    sums = CalibrationSums()
    for std, error in pictures:
        sums.add(std, error, np.full(std.shape, 2.0))
    found = sums.result()
    assert found is not None
    return found


def ranks(values):
    return np.argsort(np.argsort(values)).astype(float)


def test_an_error_that_follows_the_deviation_gives_a_rising_curve():
    std = np.geomspace(0.01, 1, 5000)
    found = curve((std, -3 * std))  # the sign does not matter
    assert found.rank_correlation == pytest.approx(1, abs=1e-3)
    assert found.error_per_std == pytest.approx(3)
    assert len(found.parts) == PARTS
    for part in found.parts:
        assert part.abs_error == pytest.approx(3 * part.level_std)
        assert part.abs_rel == pytest.approx(part.abs_error / 2)
        assert part.pixels == pytest.approx(500, abs=80)
    assert sum(part.pixels for part in found.parts) == 5000


def test_an_error_that_ignores_the_deviation_gives_a_flat_one():
    generator = np.random.default_rng(0)
    std, error = generator.lognormal(-3, 1, 20_000), generator.lognormal(-2, 0.5, 20_000)
    found = curve((std, error))
    assert abs(found.rank_correlation) < 0.02
    errors = [part.abs_error for part in found.parts]
    assert max(errors) < 1.1 * min(errors)


def test_ranks_in_classes_are_close_to_those_of_single_pixels():
    generator = np.random.default_rng(1)
    std = generator.lognormal(-3, 1, 5000)
    error = std * generator.lognormal(0, 1, 5000)
    exact = np.corrcoef(ranks(std), ranks(error))[0, 1]
    assert curve((std, error)).rank_correlation == pytest.approx(exact, abs=0.002)


def test_without_pixels_there_is_no_curve_and_without_deviation_no_rank():
    assert CalibrationSums().result() is None
    found = curve((np.zeros(10), np.linspace(0, 1, 10)))
    assert math.isnan(found.rank_correlation)
    assert math.isnan(found.error_per_std)
    assert [part.pixels for part in found.parts] == [10]
