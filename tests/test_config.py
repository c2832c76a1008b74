"""Configuration: JSON there and back, `a.b=c` changes, and what a wrong name or value is told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from idisc import config, recipes, settings
from idisc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Lens:
    focal_px: float = 500.0
    coated: bool = False


@dataclass(frozen=True, kw_only=True)
class Shot:
    title: str
    frames: int = 1
    mode: Literal["day", "night"] = "day"
    stop: int | None = None
    size: tuple[int, ...] = (4, 6)
    lens: Lens = field(default_factory=Lens)

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise InputError(f"frames: {self.frames}; at least 1 is needed")


SHOT = Shot(title="pier")


def message_of(call: Any, *args: Any) -> str:
    with pytest.raises(InputError) as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", [*recipes.RECIPES, *(f"{make.__name__}:paper" for make in recipes.PUBLISHED_RECIPES)]
)
def test_every_recipe_survives_the_way_through_json_text(name: str) -> None:
    recipe = recipes.find(name)
    text = json.dumps(config.to_json(recipe))
    assert config.from_json(settings.Recipe, json.loads(text), "config.json") == recipe


def test_json_has_the_fields_in_their_order_and_groups_as_objects() -> None:
    assert json.dumps(config.to_json(SHOT)) == (
        '{"title": "pier", "frames": 1, "mode": "day", "stop": null, "size": [4, 6],'
        ' "lens": {"focal_px": 500.0, "coated": false}}'
    )


def test_a_field_that_json_leaves_out_keeps_its_default() -> None:
    data = {"title": "quay", "lens": {"coated": True}}
    expected = Shot(title="quay", lens=Lens(focal_px=500.0, coated=True))
    assert config.from_json(Shot, data, "shot.json") == expected


def test_a_list_becomes_a_tuple_and_a_whole_number_a_float() -> None:
    data = {"title": "quay", "size": [8, 9, 10], "stop": 3, "lens": {"focal_px": 35}}
    shot = config.from_json(Shot, data, "shot.json")
    assert shot.size == (8, 9, 10)
    assert shot.stop == 3
    assert isinstance(shot.lens.focal_px, float)


def test_an_unknown_key_is_answered_with_the_nearest_name() -> None:
    data = {"title": "quay", "frmaes": 2}
    assert message_of(config.from_json, Shot, data, "shot.json") == (
        "shot.json: field 'frmaes' does not exist; did you mean frames?"
    )


def test_an_unknown_key_in_a_group_says_which_group() -> None:
    data = {"title": "quay", "lens": {"cotaed": True}}
    assert message_of(config.from_json, Shot, data, "shot.json") == (
        "shot.json.lens: field 'cotaed' does not exist; did you mean coated?"
    )


def test_a_missing_field_without_default_is_named() -> None:
    message = message_of(config.from_json, Shot, {"frames": 2}, "shot.json")
    assert message.startswith("shot.json: ")
    assert "'title'" in message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"title": 7}, "shot.json.title: 7 is not of type str"),
        ({"frames": 2.5}, "shot.json.frames: 2.5 is not of type int"),
        ({"frames": True}, "shot.json.frames: True is not of type int"),
        ({"frames": None}, "shot.json.frames: None is not of type int"),
        ({"frames": [1]}, "shot.json.frames: [1] is not of type int"),
        ({"title": "quay", "frames": 0}, "shot.json: frames: 0; at least 1 is needed"),
        ({"mode": "dusk"}, "shot.json.mode: 'dusk' is not one of day, night"),
        ({"mode": ["day"]}, "shot.json.mode: ['day'] is not one of day, night"),
        ({"stop": "open"}, "shot.json.stop: 'open' is not of type int"),
        ({"size": 5}, "shot.json.size: 5 is not a list"),
        ({"size": [4, "wide"]}, "shot.json.size: 'wide' is not of type int"),
        ({"lens": 50}, "shot.json.lens: an object with the fields of Lens expected"),
        ({"lens": {"coated": 1}}, "shot.json.lens.coated: 1 is not of type bool"),
        ({"lens": {"focal_px": "far"}}, "shot.json.lens.focal_px: 'far' is not of type float"),
        ({"lens": {"focal_px": False}}, "shot.json.lens.focal_px: False is not of type float"),
        ([], "shot.json: an object with the fields of Shot expected"),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_with_its_place(data: Any, message: str) -> None:
    assert message_of(config.from_json, Shot, data, "shot.json") == message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("title=a = b", Shot(title="a = b")),
        ("frames=12", Shot(title="pier", frames=12)),
        (" frames = 12 ", Shot(title="pier", frames=12)),
        ("mode=night", Shot(title="pier", mode="night")),
        ("stop=8", Shot(title="pier", stop=8)),
        ("stop=none", Shot(title="pier", stop=None)),
        ("size=480,640", Shot(title="pier", size=(480, 640))),
        ("lens.focal_px=1e3", Shot(title="pier", lens=Lens(focal_px=1000.0))),
        ("lens.focal_px=35", Shot(title="pier", lens=Lens(focal_px=35.0))),
        ("lens.coated=true", Shot(title="pier", lens=Lens(coated=True))),
        ("lens.coated=Yes", Shot(title="pier", lens=Lens(coated=True))),
        ("lens.coated=no", Shot(title="pier", lens=Lens(coated=False))),
    ],
)
def test_a_change_is_read_by_the_type_of_its_field(change: str, expected: Shot) -> None:
    assert config.override(SHOT, [change]) == expected


def test_changes_apply_in_order_and_leave_the_original_alone() -> None:
    changed = config.override(SHOT, ["frames=2", "lens.coated=true", "frames=3"])
    assert changed == Shot(title="pier", frames=3, lens=Lens(coated=True))
    assert Shot(title="pier") == SHOT


def test_no_changes_give_the_same_config() -> None:
    assert config.override(SHOT, []) == SHOT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("frames", "--set frames: no '='; write it as field.name=value"),
        ("frames=", "--set frames: '' is not of type int"),
        ("frames=2.5", "--set frames: '2.5' is not of type int"),
        ("frames=0", "frames: 0; at least 1 is needed"),
        ("mode=dusk", "--set mode: 'dusk' is not one of day, night"),
        ("size=4,y", "--set size: 'y' is not of type int"),
        ("lens.coated=maybe", "--set lens.coated: 'maybe' is not of type bool"),
        ("lens=50", "--set lens: a group of fields; name one of them: focal_px, coated"),
        ("frames.count=2", "--set frames.count: frames has no fields"),
        ("lens.focal=2", "--set lens.focal: field 'focal' does not exist; did you mean focal_px?"),
        (
            "=2",
            "--set : field '' does not exist; choose from title, frames, mode, stop, size, lens",
        ),
    ],
)
def test_a_wrong_change_says_what_is_wrong_with_it(change: str, message: str) -> None:
    assert message_of(config.override, SHOT, [change]) == message


def test_lookup_gives_the_entry_of_a_table() -> None:
    assert config.lookup({"one": 1, "two": 2}, "two", "number") == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("three", "number 'three' does not exist; did you mean thirteen or thirty?"),
        ("zzz", "number 'zzz' does not exist; choose from one, thirteen, thirty"),
    ],
)
def test_lookup_answers_a_wrong_name_with_near_ones_or_all(name: str, message: str) -> None:
    table = {"one": 1, "thirteen": 13, "thirty": 30}
    assert message_of(config.lookup, table, name, "number") == message


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_a_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(
        InputError, match=r"--set train\.lr: -?(nan|inf); a finite number is needed"
    ):
        config.override(recipes.RECIPES["nyu_swint"], [f"train.lr={text}"])
