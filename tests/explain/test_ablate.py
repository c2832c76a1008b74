"""The effect of removing levels or IDRs on the prediction, in metres or degrees."""

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes import explained
from tests.fakes.pairs import TINY

from idisc.explain import ablate
from idisc.explain.idrs import explain


def test_a_change_is_the_prediction_without_a_part_minus_that_with_it():
    explanation = explained.explanation()
    effect = ablate.effect(explanation, "farther", explanation.depth + np.float32(0.5))
    assert effect.change == pytest.approx(0.5, abs=1e-5)
    assert (effect.mean, effect.largest) == (pytest.approx(0.5), pytest.approx(0.5))
    assert (ablate.mute(explanation, {}).change == 0).all()


def test_the_changes_of_leaving_out_each_level_cancel():
    effects = ablate.leave_one_out(explained.explanation())
    assert [effect.name for effect in effects] == [
        "without level 0 (stride 16)",
        "without level 1 (stride 8)",
        "without level 2 (stride 4)",
    ]
    np.testing.assert_allclose(sum(effect.change for effect in effects), 0, atol=1e-5)
    alone = ablate.levels_alone(explained.explanation())
    for each, effect in zip(alone, effects, strict=True):  # mean - each, halved
        expected = -each.change / 2
        np.testing.assert_allclose(effect.change, expected, atol=1e-5)


def test_a_single_level_cannot_be_left_out():
    network = explained.network(replace(TINY, resolutions=1))
    explanation = explain(network, explained.picture())
    assert ablate.leave_one_out(explanation) == []
    assert np.array_equal(ablate.levels_alone(explanation)[0].prediction, explanation.depth)


def test_idrs_are_muted_together():
    explanation = explained.explanation()
    both = ablate.mute(explanation, {1: {4, 2}, 0: {1}})
    assert both.name == "without 0:1 and 1:2,4"
    assert np.array_equal(both.prediction, explanation.muted({0: {1}, 1: {2, 4}}))


def test_normals_change_by_degrees():
    explanation = explain(explained.normals_network(), explained.picture())
    turned = explanation.prediction[..., [1, 0, 2]] * np.array([1, -1, 1], np.float32)
    change = ablate.effect(explanation, "turned", turned).change
    normal = explanation.prediction[7, 9].astype(np.float64)
    cosine = normal[2] ** 2 / (normal @ normal)  # x, y turned by 90 degrees
    assert change[7, 9] == pytest.approx(np.degrees(np.arccos(cosine)), abs=0.1)
