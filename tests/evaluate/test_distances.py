"""Errors by distance, in bins that fit the data."""

import numpy as np
import pytest

from idisc.evaluate.distances import Distances


def binned(*targets, error=0.0):
    """Start, stop and pixels of the bins; each argument is a picture."""
    distances = Distances()
    for each in targets:
        values = np.array(each, np.float32)
        distances.add(values + np.float32(error), values)
    return [(each.start, each.stop, each.pixels) for each in distances.bins()]


def test_numbers_are_means_over_the_pixels_of_a_bin():
    distances = Distances()
    distances.add(np.float32([3, 9]), np.float32([2, 9]))
    distances.add(np.float32([1]), np.float32([2]))
    near, far = distances.bins()
    assert (near.start, near.pixels, near.abs_rel) == (2.0, 2, pytest.approx((1 / 2 + 1 / 2) / 2))
    assert (near.abs_error, near.bias) == (pytest.approx(1.0), pytest.approx(0.0))
    assert (far.start, far.pixels, far.abs_rel) == (9.0, 1, 0.0)


def test_edges_follow_the_range_of_the_data():
    desk = np.linspace(0.3, 0.6, 1000).tolist()
    street = np.linspace(5, 78, 1000).tolist()
    assert [stop - start for start, stop, _ in binned(desk)] == pytest.approx([0.02] * 16)
    assert {stop - start for start, stop, _ in binned(street)} == {5.0}
    assert binned([1.5, 1.9, 2.0, 9.99])[0] == (1.0, 2.0, 2)


def test_the_order_of_pictures_does_not_matter_and_few_far_pixels_share_a_bin():
    room, window = np.linspace(1, 4, 1000).tolist(), [37.0, 91.0]
    first = binned(room, window)
    assert first == binned(window, room)
    assert first[-1] == (4.0, 91.2, 3)
    assert sum(pixels for *_, pixels in first) == 1002


def test_without_a_pixel_there_is_no_bin():
    assert binned([]) == []
