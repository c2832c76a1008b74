"""The model that ships: it is what its card says, and it sees rooms."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import called

import idisc
from idisc.predict.model_info import read_model_info
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.open import open_model
from idisc.predict.predictor import Predictor, load
from idisc.zoo import cards

EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))
CARD = cards.default_card()


def test_the_files_are_those_of_the_card_and_small_enough():
    assert cards.locate(CARD).is_file()
    assert cards.locate(CARD, "checkpoint").is_file()
    assert CARD.bytes <= 90e6


def test_the_card_and_the_graph_say_the_same():
    """But for data and licence, which a file does not know in full."""
    ours, own = read_model_info(open_model()), read_model_info(OnnxEngine(cards.locate(CARD)))
    assert (ours.data, ours.licence, ours.name) == (CARD.data, CARD.licence, CARD.name)
    assert ours == replace(own, name=ours.name, data=ours.data, licence=ours.licence, verified=True)


def test_a_card_names_what_its_parents_were_made_of():
    shipped = cards.shipped()
    for card in shipped.values():
        for parent in card.parents:
            assert set(shipped[parent.name].data) <= set(card.data)


def test_the_card_has_numbers_with_intervals_and_a_licence_for_every_ingredient():
    assert {"d1", "abs_rel", "rmse"} <= {score.metric for score in CARD.scores}
    for score in CARD.scores:
        assert score.low is not None
        assert score.high is not None
        assert score.low <= score.value <= score.high
    assert all(ingredient.licence for ingredient in CARD.ingredients)


@pytest.mark.parametrize("room", ["bedroom", "kitchen", "living_room", "waiting_room"])
def test_a_room_has_its_floor_before_its_far_wall(room):
    result = idisc.load().predict(EXAMPLES / f"{room}.jpg")
    height, width = result.depth.shape
    assert 0.5 < np.median(result.depth) < 8
    floor = np.median(result.depth[-height // 8 :])  # what lies before the photographer's feet
    middle = np.median(result.depth[height // 4 : height // 2, width // 4 : -width // 4])
    assert floor < 0.8 * middle
    assert result.provenance.model.licence == CARD.licence


def test_its_two_forms_give_the_same_metres():
    pytest.importorskip("torch")
    photo = EXAMPLES / "bedroom.jpg"
    exported = idisc.load().predict(photo).depth
    checkpoint = Predictor(open_model(part="checkpoint")).predict(photo).depth
    np.testing.assert_allclose(exported, checkpoint, atol=0.01)  # both have rounded weights


def test_it_gives_the_same_metres_to_few_pictures_and_to_many():
    photo = EXAMPLES / "bedroom.jpg"
    quick, optimized = load(pictures=2).predict(photo), load().predict(photo)
    np.testing.assert_allclose(quick.depth, optimized.depth, rtol=1e-4)
    assert quick.provenance == optimized.provenance


def test_it_is_what_predict_takes_when_nothing_is_named(tmp_path, capsys):
    photo = EXAMPLES / "kitchen.jpg"
    assert called.run("predict", photo, "-o", tmp_path, "--save", "npy") == 0
    assert f", model {CARD.name}, domain indoor (" in capsys.readouterr().out
    assert np.load(tmp_path / "kitchen_depth.npy").ndim == 2
