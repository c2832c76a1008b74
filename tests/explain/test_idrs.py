"""Explanations: maps and prediction of the network, and predictions without some IDRs."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.fakes import explained
from tests.fakes.pairs import TINY
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.explain.idrs import explain, explain_photo, stretch
from idisc.images import Photo, read_photo
from idisc.model.heads import fuse_depth
from idisc.model.network import IDisc
from idisc.model.tokens import to_positioned_tokens
from idisc.predict.predictor import Predictor
from idisc.predict.torch_engine import TorchEngine


def output(network, image, **how):
    rgb = torch.tensor(image[None]).permute(0, 3, 1, 2).float() / 255  # laid out as in an engine
    with torch.inference_mode():
        return network(rgb, **how)


def test_the_weights_of_a_pixel_sum_to_one_at_every_level():
    explanation = explained.explanation()
    assert [level.stride for level in explanation.levels] == [16, 8, 4]
    assert [level.size for level in explanation.levels] == [(3, 4), (6, 8), (12, 16)]
    for level in explanation.levels:
        for maps in (level.attention, level.partition):
            assert maps.shape == (explained.IDRS, 12, 16)
            assert (maps >= 0).all()
            np.testing.assert_allclose(maps.sum(axis=0), 1, rtol=1e-5)


def test_an_explanation_includes_guided_upsampling():
    decoder = replace(TINY.decoder, finest=8)
    network = explained.network(replace(TINY, decoder=decoder, upsampling="guided"))
    explanation = explain(network, explained.picture())
    assert [level.stride for level in explanation.levels] == [32, 16, 8]
    expected = output(network, explained.picture()).prediction[0, 0].numpy()
    for depth in (explanation.depth, explanation.muted({}), explanation.fused({0, 1, 2})):
        assert np.array_equal(depth, expected)


def test_maps_are_of_the_first_layer_of_isd_and_the_last_iteration_of_afp():
    out = output(explained.network(), explained.picture(), explain=True)
    fine = explained.explanation().levels[2]  # at its own size: nothing is enlarged
    np.testing.assert_allclose(fine.attention, out.attention[2][0, 0, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fine.partition, out.partition[2][0, -1, 0], rtol=1e-4, atol=1e-6)
    coarse = explained.explanation().levels[0].attention
    corners = (slice(None), [0, 0, -1, -1], [0, -1, 0, -1])  # which stay where they are
    np.testing.assert_allclose(coarse[corners], out.attention[0][0, 0, 0].numpy()[corners], 1e-4)


@pytest.mark.parametrize("size", [(48, 64), (224, 240)])  # the second is computed in chunks
def test_depth_is_the_prediction_bit_for_bit(size):
    image = explained.picture(size=size)
    explanation = explain(explained.network(), image, size=(50, 70))
    expected = output(explained.network(), image, size=(50, 70)).prediction[0, 0].numpy()
    assert np.array_equal(explanation.depth, expected)
    assert np.array_equal(explanation.muted({}), expected)
    assert np.array_equal(explanation.muted({0: set(), 2: []}), expected)
    assert np.array_equal(explanation.fused({0, 1, 2}), expected)


def test_a_photo_is_explained_as_it_is_predicted():
    predictor = Predictor(TorchEngine(explained.network(), "tiny"))
    photo = read_photo(explained.picture(size=(90, 140)))
    explanation = explain_photo(predictor, photo, size=(64, 96))
    predicted = predictor.predict(photo, size=(64, 96))
    assert np.array_equal(explanation.depth, predicted.depth)
    assert explanation.image is photo.image
    assert explanation.levels[2].size == (16, 24)


def test_muting_equals_isd_without_these_idrs_at_this_level():
    network, image = explained.network(), explained.picture()
    explanation = explain(network, image)
    rgb = torch.tensor(image).permute(2, 0, 1)[None].float() / 255
    left = [0, 1, 2, 4, 5, 7]
    with torch.inference_mode():
        features, embeddings = network.pixel_decoder(network.encode(rgb))
        answers = []
        for level, (f, p) in enumerate(zip(features, embeddings, strict=True)):
            idrs = network.afp[level](to_positioned_tokens(f))
            answers.append(network.decode_level(level, p, idrs[:, left] if level == 1 else idrs))
        expected = fuse_depth(answers, (48, 64))[0, 0].numpy()
    muted = explanation.muted({1: {3, 6}})
    np.testing.assert_allclose(muted, expected, rtol=1e-5)
    assert np.abs(muted - explanation.depth).max() > 1e-4
    assert np.array_equal(explanation.muted({1: [3, 6]}), muted)  # the value has not changed


def test_unknown_levels_and_networks_without_idrs_are_refused():
    for muted in ({3: {0}}, {-1: {0}}, {0: {8}}, {0: set(range(8))}):
        with pytest.raises(InputError):
            explained.explanation().muted(muted)
    with pytest.raises(InputError):
        explained.explanation().fused([])
    with refused(InputError, "discretization=edd"):
        explain(IDisc(replace(TINY, discretization="edd")).eval(), explained.picture())


def test_membership_is_the_attention_without_afp_and_always_sums_to_one():
    without = explained.network(replace(TINY, afp=replace(TINY.afp, iterations=0)))
    level = explain(without, explained.picture()).levels[0]
    assert level.partition is None
    assert level.membership is level.attention
    ordinary = explained.network(replace(TINY, afp=replace(TINY.afp, softmax="pixels")))
    level = explain(ordinary, explained.picture()).levels[2]
    np.testing.assert_allclose(level.membership.sum(axis=0), 1, rtol=1e-5)


def test_a_prediction_that_is_not_finite_is_refused():
    network = deepcopy(explained.network())
    network.mean.fill_(float("nan"))
    predictor = Predictor(TorchEngine(network, "broken"))
    with refused(InputError, "a.jpg: network"):
        explain_photo(predictor, Photo(explained.picture(), "a.jpg"))


def test_an_explanation_of_normals_has_no_depth():
    network, image = explained.normals_network(), explained.picture()
    explanation = explain(network, image)
    expected = output(network, image).prediction[0].permute(1, 2, 0).numpy()
    assert np.array_equal(explanation.prediction, expected)
    assert explanation.muted({0: {1}}).shape == (48, 64, 3)
    alone = [explanation.fused({level}) for level in range(3)]
    np.testing.assert_allclose(np.mean(alone, axis=0), expected, atol=1e-5)  # as unit vectors
    with pytest.raises(InputError):
        _ = explanation.depth


def test_maps_for_display_are_clamped_and_rescaled_unless_they_hardly_vary():
    seen = stretch(np.linspace(0.2, 0.7, 101).reshape(1, 1, 101))[0, 0]
    assert (seen[:3] == 0).all()  # the 2nd percentile and below
    assert (seen[98:] == 1).all()
    assert seen[50] == pytest.approx(0.5)
    noise = 0.03 + 1e-4 * np.random.default_rng(0).random((1, 9, 9))
    assert stretch(noise).max() < 0.011


def test_its_memory_is_counted():
    explanation = explained.explanation()
    maps = 2 * sum(level.attention.nbytes for level in explanation.levels)
    embeddings = sum(each.nbytes for each in explanation.kept.embeddings)
    assert maps + embeddings < explanation.nbytes < 2 * (maps + embeddings)
