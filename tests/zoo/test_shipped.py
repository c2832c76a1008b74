"""The model that ships: it is what its card says, and it sees rooms."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import called

import idisc
from idisc.predict.engine import ModelFacts, open_engine, open_model
from idisc.zoo import cards

EXAMPLES = Path(str(resources.files("idisc").joinpath("assets", "examples")))
CARD = cards.default_card()


def test_the_files_are_those_of_the_card_and_small_enough() -> None:
    assert cards.locate(CARD).is_file()
    assert cards.locate(CARD, cards.CHECKPOINT).is_dir()
    assert CARD.bytes <= 50e6
    assert sum(file.bytes for file in CARD.files) < 90e6


@pytest.mark.parametrize("part", [cards.ONNX, cards.CHECKPOINT])
def test_the_card_and_the_files_say_the_same(part: str) -> None:
    """But for data and licence, which a file does not know in full."""
    if part == cards.CHECKPOINT:
        pytest.importorskip("torch")
    ours, own = (
        ModelFacts.of(open_model(part=part)),
        ModelFacts.of(open_engine(cards.locate(CARD, part))),
    )
    assert (ours.data, ours.licence, ours.name) == (CARD.data, CARD.licence, CARD.name)
    assert ours == replace(own, name=ours.name, data=ours.data, licence=ours.licence)


def test_the_card_has_numbers_with_intervals_and_a_licence_for_every_ingredient() -> None:
    assert {"d1", "abs_rel", "rmse"} <= {score.metric for score in CARD.scores}
    for score in CARD.scores:
        assert score.low is not None
        assert score.high is not None
        assert score.low <= score.value <= score.high
    assert all(ingredient.licence for ingredient in CARD.ingredients)


@pytest.mark.parametrize("photo", sorted(EXAMPLES.glob("*.jpg")), ids=lambda path: path.stem)
def test_a_room_has_its_floor_before_its_far_wall(photo: Path) -> None:
    result = idisc.load().predict(photo)
    height, width = result.depth.shape
    assert 0.5 < np.median(result.depth) < 8
    floor = np.median(result.depth[-height // 8 :])  # what lies before the photographer's feet
    middle = np.median(result.depth[height // 4 : height // 2, width // 4 : -width // 4])
    assert floor < 0.8 * middle
    assert result.facts["licence of weights"] == CARD.licence


def test_its_two_forms_give_the_same_metres() -> None:
    pytest.importorskip("torch")
    photo = EXAMPLES / "bedroom.jpg"
    exported = idisc.load().predict(photo).depth
    checkpoint = idisc.load(cards.locate(CARD, cards.CHECKPOINT)).predict(photo).depth
    np.testing.assert_allclose(exported, checkpoint, atol=0.01)  # both have rounded weights


def test_its_companion_is_fastdepth_as_published() -> None:
    torch = pytest.importorskip("torch")
    ramp = torch.linspace(0, 1, 224)
    channels = (ramp.expand(224, 224), ramp[:, None].expand(224, 224), torch.full((224, 224), 0.5))
    network = idisc.load_network(cards.locate(CARD, cards.CHECKPOINT))
    with torch.no_grad():
        metres = network.companion.metres(torch.stack(channels)[None])[0, 0, ::74, ::74].numpy()
    of_its_file = [  # what ONNX Runtime computes with the file that NOTICE.md names
        [1.3337, 0.9876, 0.9426, 1.1850],
        [1.1103, 1.0407, 0.9772, 0.9262],
        [1.0648, 0.9857, 0.9642, 0.9297],
        [1.2291, 1.0366, 0.9980, 1.1254],
    ]
    np.testing.assert_allclose(metres, of_its_file, atol=0.004)  # weights are rounded to fp16


def test_it_is_what_predict_takes_when_nothing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = EXAMPLES / "kitchen.jpg"
    assert called.run("predict", photo, "-o", tmp_path, "--save", "npy") == 0
    assert f", model {CARD.name}, domain indoor (" in capsys.readouterr().out
    assert np.load(tmp_path / "kitchen_depth.npy").ndim == 2
