"""Pictures for people: depth and uncertainty above a legend, normals in stated axes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.fakes.predicted import (
    CAMERA,
    DEPTH,
    RESULT,
    SIZE,
    WALL,
    predicted,
    provenance,
    texts_of,
    write,
)

from idisc.visualize import EMPTY


def test_the_picture_has_a_legend_below_and_its_provenance_inside(tmp_path):
    depth, image = (np.repeat(np.repeat(a, 8, 0), 8, 1) for a in (DEPTH, RESULT.image))
    large = predicted(depth, image, camera=CAMERA.resized((384, 512)))
    path = write("png", tmp_path, large, colormap="gray", limits=(2.0, 4.0))
    picture = np.asarray(Image.open(path))
    assert picture.shape[1] == 512
    assert 384 + 40 < picture.shape[0] < 384 + 90  # the caption is one line
    assert picture[200, 200].tolist() == [0, 0, 0]  # the box: 2 m
    assert picture[300, 8].tolist() == [255, 255, 255]  # the wall: 4 m
    assert picture[4, 4].tolist() == list(EMPTY)
    assert json.loads(texts_of(path)["idisc"])["provenance"]["picture"] == "room.jpg"


@pytest.mark.parametrize("size", [(16, 16), (900, 3), (30, 4000)])
def test_pictures_of_any_shape_get_a_legend(size, tmp_path):
    made = provenance("\u6df1\u3055", name="Ünglück " * 30)
    result = predicted(np.full(size, 2.0), provenance=made)
    picture = np.asarray(Image.open(write("png", tmp_path, result)))
    assert picture.shape[1] >= 320
    assert (picture[-80:] < 120).any()  # letters


def test_uncertainty_records_what_it_compares(tmp_path):
    made = replace(provenance(), level_std=("levels", "flip"))
    result = replace(RESULT, level_std=np.full(SIZE, 0.2, np.float32), provenance=made)
    record = json.loads(texts_of(write("uncertainty", tmp_path, result))["idisc"])
    stated = record["provenance"]["uncertainty"]
    assert stated["compares"] == ["levels", "flip"]
    assert stated["meaning"].startswith("standard deviation of the network's answers at its")


@pytest.mark.parametrize(("axes", "blue"), [("opencv", 0), ("opengl", 255)])
def test_normals_are_at_the_pictures_size_in_stated_axes(axes, blue, tmp_path):
    path = write("normals", tmp_path, WALL, axes=axes)
    picture = np.asarray(Image.open(path))
    assert picture.shape == (*SIZE, 3)
    assert picture[20, 20].tolist() == [128, 128, blue]  # (0, 0, -1) to the camera
    record = json.loads(texts_of(path)["idisc"])
    assert record["provenance"]["normals"] == "depth"
    assert record["axes"].startswith(f"{axes}: x right, y ")
    given = replace(WALL, normals=np.tile(np.float32([1, 0, 0]), (*SIZE, 1)))
    path = write("normals", tmp_path, given, axes=axes)
    assert np.asarray(Image.open(path))[5, 5, 0] == 255  # they take precedence over depth


def test_a_clean_picture_has_the_size_of_the_photo_and_records_its_range(tmp_path):
    path = write("png", tmp_path, colormap="gray", limits=(2.0, 4.0), clean=True)
    assert np.asarray(Image.open(path)).shape == (*SIZE, 3)
    assert json.loads(texts_of(path)["idisc"])["limits"] == [2.0, 4.0]
