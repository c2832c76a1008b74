"""Models that ship: found by name, described by their card, believed only with the right hash."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from tests.fakes import onnx_files, shipped
from tests.fakes.refusals import refused

import idisc
from idisc import checksums, files
from idisc.errors import CheckpointError, InputError
from idisc.zoo import cards


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty zoo."""
    monkeypatch.setattr(cards, "HOME", tmp_path)
    return tmp_path


def change(path, **fields):
    """Edit a card by hand, without its checksum."""
    record = {**json.loads(path.read_text()), **fields}
    del record["crc32"]
    path.write_text(json.dumps(record))


def grey(model):
    """The depth of a picture of brightness 50, which the fake puts at 1.5 m."""
    return float(model.predict(np.full((30, 40, 3), 50, np.uint8)).depth.mean())


def test_an_empty_zoo_says_what_to_do_instead():
    assert cards.shipped() == {}
    with refused(InputError, "default model", "--weights"):
        idisc.load()


def test_the_only_model_is_the_default_and_answers_to_its_name(home):
    shipped.make(home / "rooms")
    for model in (idisc.load(), idisc.load("rooms"), idisc.load(home / "rooms.onnx")):
        assert grey(model) == pytest.approx(1.5)
    made = idisc.load().predict(np.zeros((30, 40, 3), np.uint8)).provenance
    assert made.model.name == "rooms"


def test_the_files_of_a_model_are_checked_once_and_not_hashed(home, monkeypatch):
    shipped.make(home / "rooms")
    expected, checked = files.sha256(home / "rooms.onnx"), []
    original = checksums.crc32
    monkeypatch.setattr(checksums, "crc32", lambda path: checked.append(path) or original(path))
    monkeypatch.delattr(files, "sha256")
    assert idisc.load().model.sha256 == expected
    assert sorted(path.name for path in checked) == ["rooms.onnx", "rooms.safetensors"]


def test_a_model_opened_by_its_path_is_checked_and_described_by_the_card_next_to_it(home):
    change(shipped.make(home / "rooms"), non_commercial=True)
    model = idisc.load(home / "rooms.onnx").model
    assert (model.licence, model.non_commercial, model.verified) == ("Apache-2.0", True, True)
    (home / "rooms.safetensors").write_bytes(b"no tensorz")
    with refused(CheckpointError, home / "rooms.safetensors"):
        idisc.load(home / "rooms.onnx")
    content = shipped.make(home / "rooms").read_text()
    for damaged in (content[:-9], content.replace("Apache-2.0", "Apache-2.1")):
        (home / "rooms.json").write_text(damaged)
        with refused(CheckpointError, home / "rooms.json"):
            idisc.load(home / "rooms.onnx")
    (home / "rooms.json").write_text('{"of": "somebody else"}')
    assert idisc.load(home / "rooms.onnx").model.name == "rooms.onnx"


def test_what_a_card_says_counts_before_its_files(home):
    """All of it by one rule, also what its file is silent about or has otherwise."""
    card = shipped.make(home / "rooms")
    onnx_files.describe(card.with_suffix(".onnx"), domain="road")
    described = cards.describe([card.with_suffix(".onnx"), card.with_suffix(".safetensors")])
    change(card, files=[asdict(file) for file in described])
    model = idisc.load().model
    assert (model.domain, model.depth_range) == ("indoor", (0.5, 5.6))
    assert (model.training_size, model.training_fov_deg) == ((48, 64), 60.0)
    assert model.data == ("Rendered rooms", "ImageNet-1k weights")
    assert model.licence == "Apache-2.0"


def test_of_several_the_one_that_says_so_is_the_default(home):
    for name in ("halls", "rooms", "streets"):
        shipped.make(home / name)
    with refused(InputError, "default model", "halls, rooms, streets"):
        idisc.load()
    change(home / "rooms.json", default=True)
    assert cards.default_card().name == "rooms"
    assert list(cards.shipped()) == ["halls", "rooms", "streets"]


def test_a_wrong_name_is_answered_with_those_that_ship(home):
    shipped.make(home / "rooms")
    with refused(CheckpointError, "room", "rooms?"):
        idisc.load("room")


def test_a_checkpoint_of_the_users_comes_before_a_name_and_another_folder_does_not(
    home, tmp_path_factory, monkeypatch
):
    shipped.make(home / "rooms")
    here = tmp_path_factory.mktemp("here")
    (here / "rooms").mkdir()
    monkeypatch.chdir(here)
    assert idisc.load("rooms").model.name == "rooms"
    (here / "rooms" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError):
        idisc.load("rooms")


@pytest.mark.parametrize("damage", ["changed", "longer", "gone"])
def test_a_file_that_is_not_that_of_its_card_is_not_used(home, damage):
    path = shipped.make(home / "rooms").with_suffix(".onnx")
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"\0" + content[damage == "changed" :])
    with refused(CheckpointError, path, "no such file" if damage == "gone" else "checksum"):
        idisc.load()


def test_weights_are_checked_as_well_and_a_graph_needs_them(home):
    path = shipped.make(home / "rooms")
    card = cards.default_card()
    assert cards.locate(card, "checkpoint") == path
    path.with_suffix(".onnx").unlink()
    assert cards.locate(card, "checkpoint") == path  # which has no use for the graph
    shipped.make(home / "rooms").with_suffix(".safetensors").write_bytes(b"other")
    for part in ("onnx", "checkpoint"):
        with refused(CheckpointError, home / "rooms.safetensors", "checksum"):
            cards.locate(card, part)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"format": "idisc/9"}, "format"),
        ({"licence": 3}, "licence"),
        ({"depth_range": [10.0, 0.1]}, "depth_range"),
        ({"training_size": [480]}, "training_size"),
        ({"files": []}, "files"),
        ({"weights": ["more.safetensors"]}, "files"),
        ({"files": [{"path": "../x", "bytes": 1, "sha256": "", "crc32": ""}]}, "files.path"),
        ({"files": [{"path": "C:x", "bytes": 1, "sha256": "", "crc32": ""}]}, "files.path"),
        (
            {"scores": [{"dataset": "d", "protocol": "p", "metric": "d1", "value": 1, "low": 0}]},
            "scores.d1",
        ),
    ],
)
def test_an_invalid_card_is_refused(home, fields, field):
    path = shipped.make(home / "rooms")
    change(path, **fields)
    with refused(CheckpointError, f"{path}: {field}"):
        cards.shipped()


def test_a_card_of_another_name_is_refused(home):
    shipped.make(home / "rooms").rename(home / "halls.json")
    with refused(CheckpointError, home / "halls.json", "'rooms'"):
        cards.shipped()


def test_a_score_is_written_with_its_interval():
    score = cards.Score(
        dataset="NYU", protocol="bts", metric="d1", value=0.8, low=0.79, high=0.8123
    )
    assert str(score) == "d1 0.800 [0.790, 0.812]"
