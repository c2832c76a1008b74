"""Configuration: conversion to JSON and back, changes `a.b=c`, and errors of names and values."""

import json
from dataclasses import dataclass, field
from typing import Literal

import pytest
from tests.fakes.refusals import refused

from idisc import configs
from idisc.configs import recipes, schema
from idisc.errors import InputError, lookup


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

    def __post_init__(self):
        if self.frames < 1:
            raise InputError("frames", f"{self.frames} is less than 1")


SHOT = Shot(title="pier")


def test_every_recipe_is_the_same_after_conversion_to_json_text():
    for recipe in (*recipes.RECIPES.values(), recipes.find("kitti_r101:paper")):
        text = json.dumps(configs.to_json(recipe))
        assert configs.from_json(schema.Recipe, json.loads(text), "config.json") == recipe


def test_json_has_the_fields_in_their_order_and_groups_as_objects():
    assert json.dumps(configs.to_json(SHOT)) == (
        '{"title": "pier", "frames": 1, "mode": "day", "stop": null, "size": [4, 6],'
        ' "lens": {"focal_px": 500.0, "coated": false}}'
    )


def test_json_values_take_the_type_of_their_field_or_its_default():
    data = {"title": "quay", "size": [8, 9, 10], "stop": 3, "lens": {"focal_px": 35}}
    shot = configs.from_json(Shot, data, "shot.json")
    assert shot == Shot(title="quay", size=(8, 9, 10), stop=3, lens=Lens(focal_px=35.0))
    assert isinstance(shot.lens.focal_px, float)


@pytest.mark.parametrize(
    ("data", "field", "fact"),
    [
        ({"title": "quay", "frmaes": 2}, "", "'frmaes'; did you mean frames?"),
        ({"lens": {"cotaed": True}}, "lens", "'cotaed'"),
        ({"frames": 2}, "title", "missing"),
        ({"title": 7}, "title", "7"),
        ({"frames": 2.5}, "frames", "2.5"),
        ({"frames": True}, "frames", "True"),
        ({"frames": None}, "frames", "None"),
        ({"frames": [1]}, "frames", "[1]"),
        ({"title": "quay", "frames": 0}, "frames", "0"),
        ({"mode": "dusk"}, "mode", "'dusk'"),
        ({"mode": ["day"]}, "mode", "['day']"),
        ({"stop": "open"}, "stop", "'open'"),
        ({"size": 5}, "size", "5"),
        ({"size": [4, "wide"]}, "size", "'wide'"),
        ({"lens": 50}, "lens", "Lens"),
        ({"lens": {"coated": 1}}, "lens.coated", "1"),
        ({"lens": {"focal_px": "far"}}, "lens.focal_px", "'far'"),
        ({"lens": {"focal_px": False}}, "lens.focal_px", "False"),
        ([], "", "Shot"),
    ],
)
def test_invalid_json_is_an_error_with_its_field(data, field, fact):
    with refused(InputError, f"shot.json: {field}" if field else "shot.json", fact):
        configs.from_json(Shot, data, "shot.json")


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
def test_a_change_is_read_by_the_type_of_its_field(change, expected):
    assert configs.override(SHOT, [change]) == expected


def test_changes_apply_in_order_and_leave_the_original_alone():
    changed = configs.override(SHOT, ["frames=2", "lens.coated=true", "frames=3"])
    assert changed == Shot(title="pier", frames=3, lens=Lens(coated=True))
    assert Shot(title="pier") == SHOT


@pytest.mark.parametrize(
    ("change", "subject", "fact"),
    [
        ("frames", "--set frames", "="),
        ("frames=", "--set frames", "''"),
        ("frames=2.5", "--set frames", "'2.5'"),
        ("lens.focal_px=nan", "--set lens.focal_px", "nan"),
        ("lens.focal_px=1e999", "--set lens.focal_px", "inf"),
        ("frames=0", "frames", "0"),
        ("mode=dusk", "--set mode", "day, night"),
        ("size=4,y", "--set size", "'y'"),
        ("lens.coated=maybe", "--set lens.coated", "'maybe'"),
        ("lens=50", "--set lens", "focal_px, coated"),
        ("frames.count=2", "--set frames.count", "frames"),
        ("lens.focal=2", "--set lens.focal", "focal_px?"),
        ("=2", "--set ", "title, frames, mode, stop, size, lens"),
    ],
)
def test_an_invalid_change_is_named(change, subject, fact):
    with refused(InputError, subject, fact):
        configs.override(SHOT, [change])


@pytest.mark.parametrize(
    ("name", "fact"), [("three", "thirteen or thirty"), ("zzz", "one, thirteen, thirty")]
)
def test_lookup_suggests_similar_names_or_all(name, fact):
    table = {"one": 1, "thirteen": 13, "thirty": 30}
    assert lookup(table, "one", "number") == 1
    with refused(InputError, f"number '{name}'", fact):
        lookup(table, name, "number")
