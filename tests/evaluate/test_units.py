"""Hints about the unit of predictions: which ratio leads to which `--scale`."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fakes import examined

from idisc.data.units import rank_correlation
from idisc.evaluate.units import check_unit, correlation_with


@pytest.mark.parametrize(
    ("used", "ratio", "code", "scale"),
    [
        (0.001, 0.256, "unit", 1 / 256),  # KITTI's files, read as millimetres
        (1 / 256, 1000 / 256 * 1.1, "unit", 0.001),  # millimetres, read as KITTI's; 10 % too far
        (1.0, 1000.0, "unit", 0.001),  # floats in millimetres
        (1.0, 80.0, "unit", 0.01),
        (0.001, 5.0, "unit", 1 / 5000),
        (0.001, 1 / 1000, "unit", 1.0),  # metres
        (1.0, 1.0, None, None),
        (0.001, 0.6, None, None),  # a bad network
        (1.0, 3.0, None, None),  # no unit
        (1.0, 1e6, "ratio", None),
        (1.0, 0.0, "ratio", None),  # a protocol may clamp predictions of 0 m
        (None, 0.256, None, None),  # a network predicts metres
        (None, 1000.0, "ratio", None),
    ],
)
def test_the_ratio_of_a_known_unit_suggests_its_scale(used, ratio, code, scale):
    hint = check_unit(ratio, [0.9], used)
    assert (hint and hint.code) == code
    assert (hint and hint.details.get("scale")) == scale


Maps = NDArray[np.float32]
PICTURES = 8


def noise(number, share):
    """Factors (H, W) with errors of regions as large as furniture, and half as much of pixels."""
    random = np.random.default_rng(number)
    regions = np.kron(random.normal(size=(6, 8)), np.ones((20, 20)))
    pixels = random.normal(size=examined.SIZE)
    return np.exp(share * (regions + pixels / 2)).astype(np.float32)


def hinted(predict, metres_per_unit=1.0):
    """Tell whether predictions of some rooms are taken for inverse depth."""
    depths = [examined.scene(number)[1] for number in range(PICTURES)]
    pairs = [(predict(number, depth), depth) for number, depth in enumerate(depths)]
    correlations = [correlation_with(depth.ravel(), values.ravel()) for values, depth in pairs]
    ratio = float(np.median([np.median(values / depth) for values, depth in pairs]))
    hint = check_unit(ratio, correlations, metres_per_unit)
    return hint is not None and hint.code == "inverse_depth"


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

    assert hinted(predict)
    assert not hinted(predict, None)  # a network predicts metres


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
    assert not hinted(predict)


def test_few_or_constant_pixels_have_no_correlation():
    depth = np.geomspace(1, 80, 50).astype(np.float32)
    assert correlation_with(depth, 700 / depth) == pytest.approx(-1)
    assert math.isnan(correlation_with(depth[:3], depth[:3]))
    assert math.isnan(correlation_with(depth, np.full(50, 2.0, np.float32)))


def test_equal_values_share_their_rank():
    assert rank_correlation([1, 1, 1, 2], [1, 2, 3, 9]) == pytest.approx(np.sqrt(0.6))
    assert abs(rank_correlation([5, 5, 5, 7, 5], [1, 2, 4, 3, 5])) < 1e-12
