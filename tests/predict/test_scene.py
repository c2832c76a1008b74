"""Pictures unlike the domain of a model: the probe, the warning, and the choice of a model."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import idisc
from idisc.errors import IdiscWarning
from idisc.predict import scene
from idisc.predict.auto import AutoPredictor
from idisc.provenance import ModelInfo

EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))
ROOMS = ("bedroom", "kitchen", "living_room", "waiting_room")
INDOOR = ModelInfo(name="indoor", sha256="", domain="indoor")


@pytest.fixture
def probe(monkeypatch):
    """Road where the first of two numbers is larger."""
    made = scene.SceneProbe(
        domains=("indoor", "road"), weights=((0.0, 1.0), (1.0, 0.0)), biases=(0.0, 0.0)
    )
    monkeypatch.setattr(scene, "read_probe", lambda: made)
    return made


def token(*numbers):
    return np.array(numbers, np.float32)


def test_probabilities_are_those_of_a_softmax(probe):
    found = probe.probabilities(token(np.log(3.0), 0.0))
    assert found == {"indoor": pytest.approx(0.25), "road": pytest.approx(0.75)}


def test_a_picture_of_another_domain_is_a_warning_with_a_better_model(probe):
    found = scene.check_domain(INDOOR, "depth", token(9.0, 0.0))
    assert found.code == "domain"
    assert (found.details["domain"], found.details["model"]) == ("road", "road")


@pytest.mark.parametrize(
    "numbers",
    [(0.0, 9.0), (1.0, 0.0), (9.0, 0.0, 0.0)],
    ids=["its own domain", "unsure", "the token of another encoder"],
)
def test_pictures_of_the_domain_or_unsure_ones_give_no_warning(probe, numbers):
    assert scene.check_domain(INDOOR, "depth", token(*numbers)) is None


def test_a_model_for_any_domain_never_warns(probe):
    assert scene.check_domain(ModelInfo(name="own", sha256=""), "depth", token(9.0, 0.0)) is None


def test_auto_predicts_rooms_and_streets_with_their_models():
    predictor = idisc.load("auto")
    photos = [EXAMPLES / f"{name}.jpg" for name in (*ROOMS, "street")]
    found = {p.provenance.picture: p.provenance for p in predictor.predict_many(photos)}
    assert {name: made.model.name for name, made in found.items()} == {
        **{f"{room}.jpg": "indoor" for room in ROOMS},
        "street.jpg": "road",
    }
    assert all(each.code != "domain" for made in found.values() for each in made.warnings)
    assert isinstance(predictor, AutoPredictor)
    assert predictor.for_picture(photos[-1]).model.name == "road"


def test_a_street_predicted_by_the_model_for_rooms_is_a_warning():
    with pytest.warns(IdiscWarning, match="--weights road"):
        found = idisc.load("indoor").predict(EXAMPLES / "street.jpg")
    assert [each.code for each in found.provenance.warnings] == ["domain"]
