"""Metrics: numbers worked out by hand, the published code's, and what must not change them."""

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.refusals import refused
from tests.golden import metrics as golden

from idisc.averages import AVERAGES, ImageAverage, PixelAverage, average
from idisc.configs import paper
from idisc.errors import DataError, InputError, MissingExtra
from idisc.metrics import (
    CLOUD_DISTANCES,
    METRICS,
    PUBLISHED,
    Formula,
    Terms,
    angular_error_deg,
    boundary_f1,
    cloud_metrics,
    depth_terms,
    normal_terms,
    pool,
)

UNBIASED = Formula(unbiased=True)


def depth(*metres):
    return np.array(metres)


def image_of(*prediction):
    """An image whose target is 1 m everywhere."""
    return depth_terms(depth(*prediction), np.ones(len(prediction)))


def tilted(*angles_deg):
    """Normals (P, 3) that differ from (0, 0, -1) by these angles."""
    angles = np.radians(angles_deg)
    return np.stack([np.sin(angles), np.zeros(len(angles)), -np.cos(angles)], axis=1)


def image_with_angles(*angles_deg):
    return normal_terms(tilted(*angles_deg), tilted(*(0.0 for _ in angles_deg)))


def averaged(name, images, batch_size=1):
    return filled(average(name, batch_size), images)


def filled(total, images):
    for terms in images:
        total.add(terms)
    return total.result()


def about(values, rel=1e-9):
    return pytest.approx(dict(values), rel=rel, abs=1e-12, nan_ok=True)


def test_depth_metrics_equal_hand_computed_numbers():
    values = depth_terms(depth(1.0, 3.0, 2.0), depth(1.0, 2.0, 4.0)).metrics()
    logs = [0.0, math.log(1.5), -math.log(2.0)]
    mean = sum(logs) / 3
    assert values == about(
        {
            **dict.fromkeys(("d05", "d1", "abs_rel"), 1 / 3),
            **dict.fromkeys(("d2", "d3"), 2 / 3),
            "sq_rel": 0.5,
            "rmse": math.sqrt(5 / 3),
            "rmse_log": math.sqrt(sum(log * log for log in logs) / 3),
            "log10": (math.log10(1.5) + math.log10(2.0)) / 3,
            "silog": 100 * math.sqrt(sum((log - mean) ** 2 for log in logs) / 3),
            "sq_rel_percent": 100 * (0.25 + 0.25) / 3,
            "abs_rel_percent": 100 / 3,
            "irmse": 1000 * math.sqrt(((1 / 3 - 1 / 2) ** 2 + (1 / 2 - 1 / 4) ** 2) / 3),
        }
    )


def test_a_ratio_of_exactly_the_bound_is_outside():
    assert image_of(1.25).metrics()["d1"] == 0.0
    assert image_of(0.8).metrics()["d1"] == 0.0
    assert image_of(1.2499).metrics()["d1"] == 1.0
    assert image_of(1.5625).metrics() | {"d2": 0.0, "d3": 1.0} == image_of(1.5625).metrics()


def test_every_name_in_the_papers_tables_is_a_metric():
    ours = set(METRICS) | {"median_deg"}
    assert {name for table in paper.RESULTS.values() for name in table} <= ours


def test_normals_metrics_equal_hand_computed_numbers():
    values = image_with_angles(0.0, 6.0, 20.0, 90.0).metrics()
    assert values == about(
        {
            "a5": 0.25,
            **dict.fromkeys(("a7.5", "a11.25", "a11.5"), 0.5),
            **dict.fromkeys(("a22.5", "a30"), 0.75),
            "mean_deg": 29.0,
            "median_deg": 13.0,
            "rmse_deg": math.sqrt((36 + 400 + 8100) / 4),
        }
    )


def test_angles_do_not_depend_on_length_and_a_vector_without_one_is_off_by_ninety():
    target = tilted(0.0, 0.0, 0.0, 0.0)
    prediction = 3.0 * tilted(0.0, 60.0, 180.0, 0.0)
    prediction[3] = 0.0
    assert angular_error_deg(prediction, target) == pytest.approx([0.0, 60.0, 180.0, 90.0])


def test_the_published_formula_changes_roots_variance_and_median():
    plain, published = image_of(1.0, 1.0, 1.0, 2.0), image_of(1.0, 1.0, 1.0, 2.0).metrics(PUBLISHED)
    assert published["rmse"] == pytest.approx(math.sqrt(0.25 + 1e-6), abs=1e-12)
    assert published["silog"] == pytest.approx(plain.metrics()["silog"] * math.sqrt(4 / 3))
    assert published["abs_rel"] == plain.metrics()["abs_rel"]
    assert image_with_angles(1.0, 2.0, 4.0, 9.0).metrics(PUBLISHED)["median_deg"] == pytest.approx(
        2
    )


def test_no_pixels_have_terms_but_no_metrics():
    for nothing in (image_of(), image_with_angles(), pool([]), pool([image_of()])):
        assert nothing.pixels == 0
        with refused(DataError, "ground truth"):
            nothing.metrics()


@pytest.mark.parametrize(
    ("function", "prediction", "target", "subject"),
    [
        (depth_terms, np.ones(2), np.ones(1), "depth of shapes (2,) and (1,)"),
        (depth_terms, np.ones((2, 2)), np.ones((2, 2)), "depth of shapes (2, 2) and (2, 2)"),
        (normal_terms, np.ones((3, 2)), np.ones((3, 2)), "normals of shapes (3, 2) and (3, 2)"),
        (normal_terms, np.ones((1, 3)), np.full((1, 3), math.nan), "normals"),
        (cloud_metrics, np.ones((4, 3)), np.ones((0, 3)), "point cloud of shape (0, 3)"),
        (cloud_metrics, np.ones((4, 2)), np.ones((4, 3)), "point cloud of shape (4, 2)"),
        (cloud_metrics, np.ones((4, 3)), np.full((4, 3), math.nan), "point cloud"),
    ],
)
def test_arrays_of_other_shapes_or_without_finite_numbers_are_refused(
    function, prediction, target, subject
):
    with refused(InputError, subject):
        function(prediction, target)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_depth_without_a_logarithm_is_refused(value):
    with refused(InputError, "prediction"):
        depth_terms(depth(1.0, value), depth(1.0, 1.0))
    with refused(InputError, "target"):
        depth_terms(depth(1.0, 1.0), depth(1.0, value))


def test_two_images_weigh_differently_under_the_three_averages():
    images = [image_of(1.0, 1.0, 1.0, 2.0), image_of(2.0)]
    both, single = averaged("batch", images, 2), averaged("batch", images, 1)
    assert (both["abs_rel"], both["d1"]) == pytest.approx((0.4, 0.6))
    assert (single["abs_rel"], single["d1"]) == pytest.approx((0.625, 0.375))
    for values in (both, single):
        assert values["rmse"] == pytest.approx(0.7500007, abs=1e-7)
        assert math.isnan(values["silog"])
    assert averaged("image", images)["rmse"] == pytest.approx(0.75)
    assert averaged("image", images)["abs_rel"] == pytest.approx(0.625)
    assert averaged("pixel", images)["abs_rel"] == pytest.approx(0.4)
    assert averaged("pixel", images)["rmse"] == pytest.approx(math.sqrt(0.4))


def test_one_pixel_has_no_unbiased_deviation_which_the_average_by_image_leaves_out():
    assert image_of(2.0).metrics()["silog"] == 0.0
    assert math.isnan(image_of(2.0).metrics(UNBIASED)["silog"])
    values = filled(ImageAverage(UNBIASED), [image_of(1.0, 1.0, 1.0, 2.0), image_of(2.0)])
    assert values["silog"] == pytest.approx(100 * math.log(2.0) / 2)
    assert values["rmse"] == pytest.approx(0.75)


def test_images_without_valid_pixels_count_in_batches_only():
    images = [image_of(2.0, 2.0), image_of(), image_of(3.0, 3.0)]
    assert averaged("image", images)["abs_rel"] == pytest.approx(1.5)
    assert averaged("pixel", images)["abs_rel"] == pytest.approx(1.5)
    assert averaged("batch", images, 2)["abs_rel"] == pytest.approx((2 * 1.0 + 1 * 2.0) / 3)


def test_the_median_of_all_pixels_is_right_to_half_a_thousandth_of_a_degree():
    images = [image_with_angles(1.0, 10.0), image_with_angles(20.00031, 30.0, 180.0)]
    assert averaged("pixel", images)["median_deg"] == pytest.approx(20.00031, abs=5.1e-4)
    images.append(image_with_angles(10.5))
    assert averaged("pixel", images)["median_deg"] == pytest.approx(15.25, abs=5.1e-4)
    assert filled(PixelAverage(PUBLISHED), images)["median_deg"] == pytest.approx(10.5, abs=5.1e-4)


@pytest.mark.parametrize("name", AVERAGES)
def test_a_dataset_without_a_valid_pixel_has_no_metrics(name):
    with pytest.raises(DataError):
        averaged(name, [])
    with pytest.raises(DataError):
        averaged(name, [image_of(), image_of()], 4)


def test_unknown_averages_and_batch_sizes_are_refused():
    with refused(InputError, "average 'pixels'", "pixel"):
        average("pixels")
    with refused(InputError, "batch size 0"):
        average("batch", 0)


def assert_golden(ours, stored, rel):
    named = {golden.OURS.get(name, name): value for name, value in stored.items()}
    assert {name: ours[name] for name in named} == pytest.approx(named, rel=rel)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
@pytest.mark.parametrize("case", golden.cases(), ids=str)
def test_batches_give_the_published_numbers(case, batch_size):
    published = case.published[batch_size]
    if "error" in published:  # a batch without a valid pixel fails there, too
        with refused(DataError, f"batch {published['after_batches'] + 1} of {batch_size} images"):
            averaged("batch", case.images(), batch_size)
    else:
        assert_golden(averaged("batch", case.images(), batch_size), published["final"], rel=2e-6)


@pytest.mark.parametrize("name", ["image", "pixel"])
@pytest.mark.parametrize("case", golden.cases(), ids=str)
def test_images_and_pixels_agree_with_an_independent_count(case, name):
    values, stored = averaged(name, case.images()), dict(case.independent[name])
    apart = {key: stored.pop(key, None) for key in ("silog_unbiased", "median_lower", "median")}
    assert_golden(values, stored, rel=1e-9)
    small_print = ImageAverage(PUBLISHED) if name == "image" else PixelAverage(PUBLISHED)
    lower = filled(small_print, case.images())
    if apart["silog_unbiased"]:
        assert lower["silog"] == pytest.approx(apart["silog_unbiased"], rel=1e-9)
    else:
        tolerance = 5e-4 if name == "pixel" else 1e-9  # degrees; a histogram for all pixels
        assert values["median_deg"] == pytest.approx(apart["median"], abs=tolerance)
        assert lower["median_deg"] == pytest.approx(apart["median_lower"], abs=tolerance)


@pytest.mark.skipif(
    not golden.SHARED.is_file(), reason="the larger golden set is not beside this checkout"
)
def test_the_published_numbers_agree_after_each_batch():
    compared = 0
    for case in golden.cases(golden.SHARED):
        images = case.images()
        for size, published in case.published.items():
            for batch, stored in enumerate(published.get("after_each_batch", ()), start=1):
                assert_golden(averaged("batch", images[: batch * size], size), stored, rel=3e-6)
                compared += 1
    assert compared > 80


METRES = st.floats(0.1, 100.0)
PAIRS = st.lists(st.tuples(METRES, METRES), min_size=1, max_size=30)


def terms_of(pairs):
    prediction, target = np.array(pairs).T
    return depth_terms(prediction, target)


@given(PAIRS, st.lists(st.integers(0, 30), max_size=4))
def test_pooled_parts_are_the_whole(pairs, cuts):
    edges = [0, *sorted(cuts), len(pairs)]
    parts = [pairs[first:last] for first, last in pairwise(edges)]
    pooled = pool(terms_of(part) if part else Terms() for part in parts)
    assert pooled.pixels == len(pairs)
    assert pooled.metrics() == about(terms_of(pairs).metrics())


@given(st.lists(METRES, min_size=1, max_size=30), st.floats(0.01, 100.0))
def test_a_pure_scale_error_has_no_silog_when_pooled(metres, scale):
    target = np.array(metres)
    image = depth_terms(scale * target, target)
    assert averaged("pixel", [image] * 50)["silog"] < 1e-11


def brute_force(prediction, target):
    """The same from the table of all distances."""
    table = np.linalg.norm(prediction[:, None] - target[None], axis=-1)
    there, back = table.min(axis=1), table.min(axis=0)
    values = {"chamfer": 0.5 * there.mean() + 0.5 * back.mean()}
    for distance in CLOUD_DISTANCES:
        precision, recall = (there < distance).mean(), (back < distance).mean()
        both = precision + recall
        values[f"f1_{distance}"] = 2 * precision * recall / both if both else 0.0
    return values


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_clouds_agree_with_brute_force(p, q, seed):
    random = np.random.default_rng(seed)
    prediction, target = random.random((p, 3)) * 2, random.random((q, 3)) * 2
    assert cloud_metrics(prediction, target) == about(brute_force(prediction, target))


def test_the_same_cloud_is_perfect_and_a_distant_one_scores_nothing():
    cloud = np.random.default_rng(0).random((100, 3)).astype(np.float32)
    assert cloud_metrics(cloud, cloud[::-1]) == {
        **{f"f1_{distance:g}": 1.0 for distance in CLOUD_DISTANCES},
        "chamfer": 0.0,
    }
    far = cloud_metrics(cloud, cloud + np.float32(10))
    assert far["f1_0.75"] == 0.0
    assert far["chamfer"] > 14


def test_clouds_name_the_extra_that_installs_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with refused(MissingExtra, "scipy", "idisc[data]"):
        cloud_metrics(np.ones((1, 3)), np.ones((1, 3)))


def test_boundaries_agree_where_edges_of_the_same_direction_are():
    columns = np.arange(20) + np.zeros((8, 1))
    target, everywhere = np.where(columns < 10, 2.0, 4.0), np.ones((8, 20), bool)
    assert boundary_f1(target, target, everywhere) == 1
    assert boundary_f1(3 * target, target, everywhere) == 1  # whatever the scale
    assert boundary_f1(8 / target, target, everywhere) == 0  # the other side is nearer
    assert boundary_f1(np.where(columns < 11, 2.0, 4.0), target, everywhere) == 0  # a pixel off
    ramp = np.clip(2 + (columns - 6) / 4, 2, 4)  # steps of 6 to 12 %: an edge up to that threshold
    assert 0 < boundary_f1(ramp, target, everywhere) < 0.3
    assert math.isnan(boundary_f1(target, target, columns < 10))
