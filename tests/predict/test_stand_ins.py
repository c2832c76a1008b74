"""Pictures without a name are numbered in a list; those with one keep it, whatever it is."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image
from tests.fakes import onnx_files

import idisc
from idisc.images import read_photo

GREY = np.full((30, 40, 3), 90, np.uint8)


def test_only_pictures_without_a_name_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "picture"  # a file may be called what we call one without a name
    Image.fromarray(GREY).save(path, format="PNG")
    photo = read_photo(path.read_bytes(), "bytes")
    model = idisc.load(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))
    results = model.predict([GREY, path, photo, path.read_bytes(), Image.fromarray(GREY)])
    names = [result.facts["picture"] for result in results]
    assert names == ["array_1", "picture", "bytes", "bytes_4", "picture_5"]


def test_a_photo_knows_whether_it_has_a_name(tmp_path: Path) -> None:
    path = tmp_path / "room.png"
    Image.fromarray(GREY).save(path)
    with Image.open(path) as opened, path.open("rb") as file:
        assert [read_photo(source).named for source in (path, opened, file)] == [True] * 3
    nameless = (path.read_bytes(), io.BytesIO(path.read_bytes()), GREY, Image.fromarray(GREY))
    assert [read_photo(source).named for source in nameless] == [False] * 4
    assert read_photo(GREY, "wall").named
