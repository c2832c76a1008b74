"""Hints about the unit of predictions: which ratio leads to which `--scale`."""

import math

import numpy as np
import pytest
from tests.fakes import examined

from idisc.data.units import UNITS, rank_correlation
from idisc.evaluate.units import check_unit, correlation_with

PICTURES = 8


def noise(number, share):
    """Factors (H, W) with errors of regions as large as furniture, and half as much of pixels."""
    random = np.random.default_rng(number)
    regions = np.kron(random.normal(size=(6, 8)), np.ones((20, 20)))
    pixels = random.normal(size=examined.SIZE)
    return np.exp(share * (regions + pixels / 2)).astype(np.float32)


def hint_for(predict, used=1.0):
    """The hint for predictions of some rooms."""
    depths = [examined.scene(number)[1] for number in range(PICTURES)]
    pairs = [(predict(number, depth), depth) for number, depth in enumerate(depths)]
    correlations = [correlation_with(depth.ravel(), values.ravel()) for values, depth in pairs]
    ratio = float(np.median([np.median(values / depth) for values, depth in pairs]))
    return check_unit(ratio, correlations, used)


def code(hint):
    return hint and hint.code


FOUND = UNITS.keys() - {"tenths of a millimetre"}  # twice 1/5000 m; networks may be that wrong


@pytest.mark.parametrize("used", sorted(FOUND))
@pytest.mark.parametrize("stored", sorted(FOUND))
def test_the_unit_of_noisy_predictions_is_found_whatever_unit_was_used(stored, used):
    factor = UNITS[used] / UNITS[stored]
    hint = hint_for(lambda number, depth: factor * depth * noise(number, 0.1), UNITS[used])
    if stored == used:
        assert hint is None
    else:
        details = {"unit": stored, "scale": UNITS[stored], "used": UNITS[used]}
        assert (hint.code, hint.details) == ("unit", details)


@pytest.mark.parametrize(
    ("used", "ratio", "expected"),
    [
        (0.001, 0.6, None),  # a bad network
        (1.0, 3.0, None),  # no unit
        (1.0, 1e6, "ratio"),
        (1.0, 0.0, "ratio"),  # a protocol may clamp predictions of 0 m
        (None, 0.256, None),  # a network predicts metres
        (None, 1000.0, "ratio"),
    ],
)
def test_other_ratios_suggest_no_unit(used, ratio, expected):
    assert code(check_unit(ratio, [0.9], used)) == expected


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
@pytest.mark.parametrize(
    "stored",
    [
        lambda inverse: inverse,
        lambda inverse: 700 * inverse,  # a disparity in pixels
        lambda inverse: 1000 * inverse + 20_000,  # affine, as of networks for relative depth
        lambda inverse: np.maximum(65535 * (inverse - inverse.min()), 1).round(),  # 16-bit PNG
    ],
)
def test_noisy_inverse_depth_is_recognised(stored, share):
    def predict(number, depth):
        return stored(noise(number, share) / depth)

    assert code(hint_for(predict)) == "inverse_depth"
    assert code(hint_for(predict, None)) != "inverse_depth"  # a network predicts metres


@pytest.mark.parametrize(
    "predict",
    [
        lambda number, depth: depth * noise(number, 0.8),
        lambda number, depth: 3 * noise(number, 0.5),  # nothing of the picture
        lambda number, depth: np.full_like(depth, 3),
        lambda number, depth: examined.scene(number + 50)[1],  # another picture's
        lambda number, depth: depth[:, ::-1],
        lambda number, depth: 1000 * depth * noise(number, 0.5),
        lambda number, depth: 0.5 / depth if number % 3 else depth,  # bad in places
    ],
)
def test_bad_depth_is_not_taken_for_inverse_depth(predict):
    assert code(hint_for(predict)) != "inverse_depth"


def test_few_or_constant_pixels_have_no_correlation():
    depth = np.geomspace(1, 80, 50).astype(np.float32)
    assert correlation_with(depth, 700 / depth) == pytest.approx(-1)
    assert math.isnan(correlation_with(depth[:3], depth[:3]))
    assert math.isnan(correlation_with(depth, np.full(50, 2.0, np.float32)))


def test_equal_values_share_their_rank():
    assert rank_correlation([1, 1, 1, 2], [1, 2, 3, 9]) == pytest.approx(np.sqrt(0.6))
    assert abs(rank_correlation([5, 5, 5, 7, 5], [1, 2, 4, 3, 5])) < 1e-12
