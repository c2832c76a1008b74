"""Intervals: what resampling the pictures and averaging them again does to a total."""

import math
from dataclasses import replace

import numpy as np
import pytest

from idisc import averages, metrics
from idisc.evaluate import bootstrap
from idisc.evaluate.protocols import PROTOCOLS
from idisc.evaluate.scoring import reported
from idisc.metrics import Terms

IMAGE = PROTOCOLS["paper"]
PIXEL = replace(IMAGE, averaging="pixel")
BATCH = PROTOCOLS["published-code"]
BATCH_SIZE = 3
PROTOCOL = pytest.mark.parametrize(
    "protocol", [IMAGE, PIXEL, BATCH], ids=["image", "pixel", "batch"]
)


def pictures(count=8):
    """Pictures of 5 to 47 pixels, some of them harder than others."""
    random = np.random.default_rng(0)
    terms = []
    for number in range(count):
        target = random.uniform(1, 10, 5 + 6 * number)
        noise = random.normal(0, 0.05 * (1 + number % 4), len(target))
        terms.append(metrics.depth_terms(target * np.exp(noise), target))
    return terms


def intervals(terms, protocol):
    numbers = [reported(each.metrics(), protocol) if each.pixels else {} for each in terms]
    return bootstrap.bootstrap_intervals(terms, numbers, protocol, BATCH_SIZE)


def total(terms, protocol):
    average = averages.average(protocol.averaging, BATCH_SIZE)
    for each in terms:
        average.add(each)
    return reported(average.result(), protocol)


@PROTOCOL
def test_intervals_are_those_of_a_slow_oracle(protocol):
    terms = pictures()
    picks = np.random.default_rng(bootstrap.SEED).integers(
        len(terms), size=(bootstrap.RESAMPLES, len(terms))
    )
    totals = [total([terms[index] for index in pick], protocol) for pick in picks.tolist()]
    found = intervals(terms, protocol)
    assert set(found) == set(totals[0])
    for name, (low, high) in found.items():
        values = [each[name] for each in totals]
        assert low == pytest.approx(np.percentile(values, 2.5), rel=1e-9), name
        assert high == pytest.approx(np.percentile(values, 97.5), rel=1e-9), name


@PROTOCOL
def test_pictures_without_a_valid_pixel_change_nothing(protocol):
    terms = pictures()
    assert intervals([Terms(), *terms, Terms()], protocol) == intervals(terms, protocol)
    assert intervals([Terms(), *terms[:1]], protocol) == {}  # one picture has no interval
    assert intervals([], protocol) == {}


def test_a_number_that_is_not_defined_has_no_interval():
    """One pixel has no unbiased variance, and so the published silog has none."""
    one = metrics.depth_terms(np.array([2.0]), np.array([1.0]))
    terms = [*pictures(), one]
    assert math.isnan(total(terms, BATCH)["silog"])
    found = intervals(terms, BATCH)
    assert "silog" not in found
    assert {"abs_rel", "rmse", "rmse_log"} <= set(found)
    assert "silog" in intervals(terms, IMAGE)


def test_a_median_has_an_interval_by_image_only():
    normals = np.random.default_rng(1).normal(size=(2, 6, 9, 3))
    terms = [metrics.normal_terms(one, other) for one, other in zip(*normals, strict=True)]
    assert "median_deg" in intervals(terms, IMAGE)
    assert "median_deg" not in intervals(terms, PIXEL)
    assert "median_deg" not in intervals(terms, BATCH)
    assert "mean_deg" in intervals(terms, BATCH)


def test_points_in_space_are_averaged_by_image_under_every_protocol():
    terms = pictures(4)
    numbers = [{"chamfer": value} for value in (0.1, 0.2, 0.3, 0.6)]
    found = [
        bootstrap.bootstrap_intervals(terms, numbers, each, 2) for each in (IMAGE, PIXEL, BATCH)
    ]
    assert found[0] == found[1] == found[2]
    low, high = found[0]["chamfer"]
    assert 0.1 <= low < 0.3 < high <= 0.6
