"""Pictures to look at: depth and spread above a legend, normals in stated axes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes.depicted import CAMERA, FACTS, RESULT, SIZE, WALL, Result, texts_of, write

from idisc.camera import Camera
from idisc.visualize import EMPTY


def test_the_picture_has_a_legend_below_and_its_facts_inside(tmp_path: Path) -> None:
    large = Result(*(np.repeat(np.repeat(a, 8, 0), 8, 1) for a in (RESULT.depth, RESULT.image)))
    large = replace(large, camera=CAMERA.resized((384, 512)))
    path = write("png", tmp_path, large, colours="gray", limits=(2.0, 4.0))
    picture = np.asarray(Image.open(path))
    assert picture.shape[1] == 512
    assert 384 + 40 < picture.shape[0] < 384 + 120
    assert picture[200, 200].tolist() == [0, 0, 0]  # the box: 2 m
    assert picture[300, 8].tolist() == [255, 255, 255]  # the wall: 4 m
    assert picture[4, 4].tolist() == list(EMPTY)
    assert json.loads(texts_of(path)["idisc"])["facts"] == FACTS


@pytest.mark.parametrize("size", [(16, 16), (900, 3), (30, 4000)])
def test_pictures_of_any_shape_get_a_legend(size: tuple[int, int], tmp_path: Path) -> None:
    result = Result(
        depth=np.full(size, 2.0, np.float32),
        image=np.zeros((*size, 3), np.uint8),
        camera=Camera.from_fov(60, size, "test"),
        facts={"model": "Ünglück " * 30, "picture": "\u6df1\u3055"},
    )
    picture = np.asarray(Image.open(write("png", tmp_path, result)))
    assert picture.shape[1] >= 320
    assert (picture[-80:] < 120).any()  # letters


def test_spread_says_what_it_means(tmp_path: Path) -> None:
    result = replace(RESULT, spread=np.full(SIZE, 0.2, np.float32))
    record = json.loads(texts_of(write("spread", tmp_path, result))["idisc"])
    assert record["spread"].startswith("standard deviation of the network's answers, in metres;")
    result = replace(result, facts={**FACTS, "spread": "of the three resolutions"})
    record = json.loads(texts_of(write("spread", tmp_path, result))["idisc"])
    assert record["spread"] == "of the three resolutions"


@pytest.mark.parametrize(("axes", "blue"), [("opencv", 0), ("opengl", 255)])
def test_normals_are_at_the_pictures_size_in_stated_axes(
    axes: str, blue: int, tmp_path: Path
) -> None:
    path = write("normals", tmp_path, WALL, axes=axes)
    picture = np.asarray(Image.open(path))
    assert picture.shape == (*SIZE, 3)
    assert picture[20, 20].tolist() == [128, 128, blue]  # (0, 0, -1) to the camera
    said = json.loads(texts_of(path)["idisc"])["normals"]
    assert said.startswith(f"from depth and camera; {axes}: x right, y ")


def test_given_normals_are_preferred(tmp_path: Path) -> None:
    normals = np.tile(np.float32([1, 0, 0]), (*SIZE, 1))
    path = write("normals", tmp_path, replace(WALL, normals=normals))
    assert np.asarray(Image.open(path))[5, 5].tolist() == [255, 128, 128]
    assert "from the model" in texts_of(path)["idisc"]


def test_a_legend_is_no_higher_than_its_picture(tmp_path: Path) -> None:
    facts = {f"fact {number}": "some words about the model and its data" for number in range(12)}
    size = (180, 320)
    small = Result(
        image=np.zeros((*size, 3), np.uint8),
        depth=np.full(size, 2.0, np.float32),
        camera=Camera.from_fov(60, size),
        facts=facts,
    )
    with Image.open(write("png", tmp_path, small)) as picture:
        factor = picture.width // 320
        assert factor > 1
        assert picture.height <= 2 * 180 * factor
