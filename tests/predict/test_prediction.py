"""Prediction: points, a known distance, and files, without changing itself."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from idisc.camera import Camera
from idisc.errors import InputError
from idisc.predict.prediction import Known, Prediction


@pytest.fixture
def wall() -> Prediction:
    """A wall 2 m away, seen by a camera of 90 degrees: 4 m from edge to edge."""
    return Prediction(
        image=np.full((40, 80, 3), 90, np.uint8),
        depth=np.full((40, 80), 2.0, np.float32),
        camera=Camera.from_fov(90.0, (40, 80), "given 90 deg"),
        spread=np.full((40, 80), 0.1, np.float32),
        facts={"picture": "wall.jpg", "domain": "indoor", "camera": "given 90 deg"},
    )


def test_points_are_metres_in_front_of_the_camera(wall: Prediction) -> None:
    assert wall.points.shape == (40, 80, 3)
    np.testing.assert_allclose(wall.points[0, 0], [-1.975, -0.975, 2.0], rtol=1e-5)


def test_a_distance_is_measured_between_two_pixels(wall: Prediction) -> None:
    assert wall.measured((10, 20), (30, 20)) == pytest.approx(1.0)  # 20 of 80 pixels of 4 m
    assert wall.measured((10, 20), (10, 40 - 1)) == pytest.approx(19 / 20)


def test_a_known_distance_scales_all_and_is_recorded(wall: Prediction) -> None:
    scaled = wall.rescaled("10,20 30,20 = 1.50m")
    np.testing.assert_allclose(scaled.depth, 3.0, rtol=1e-6)
    assert scaled.spread is not None
    np.testing.assert_allclose(scaled.spread, 0.15, rtol=1e-6)
    assert scaled.facts["rescaled"] == "depth x 1.5, known 10,20 30,20 = 1.5 m, predicted 1 m"
    again = scaled.rescaled(((10, 20), (30, 20), 1))
    assert again.facts["rescaled"].endswith(
        "; depth x 0.6667, known 10,20 30,20 = 1 m, predicted 1.5 m"
    )
    np.testing.assert_allclose(again.depth, wall.depth, rtol=1e-6)
    assert "rescaled" not in wall.facts
    np.testing.assert_array_equal(wall.depth, 2.0)


@pytest.mark.parametrize(
    ("text", "metres"),
    [
        ("1,2 3,4 = 2.40m", 2.4),
        ("1,2 3,4=240 cm", 2.4),
        (" 1 , 2  3 , 4 = 2400mm ", 2.4),
        ("1,2 3,4 = .5m", 0.5),
    ],
)
def test_a_known_distance_has_units(text: str, metres: float) -> None:
    known = Known.parse(text)
    assert (known.first, known.second) == ((1.0, 2.0), (3.0, 4.0))
    assert known.metres == pytest.approx(metres)


@pytest.mark.parametrize(
    "text", ["", "1,2 3,4", "1,2 3,4 = m", "1 2 3 4 = 2m", "1,2,3,4 = 2m", "a"]
)
def test_what_is_no_known_distance_is_shown_how_to_write_one(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Known.parse(text)
    expected = f"known distance '{text}': write it as 'x1,y1 x2,y2 = 2.40m'"
    assert str(caught.value) == expected


@pytest.mark.parametrize("value", [3, (1, 2), ((1, 2), (3, 4)), ((1, 2), (3,), 2), ("a", "b", "c")])
def test_a_tuple_of_another_form_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"\(\(x1, y1\), \(x2, y2\), metres\) is needed"):
        Known.parse(value)


@pytest.mark.parametrize("metres", [0.0, -1.0, math.nan, math.inf])
def test_a_distance_has_to_be_one(metres: float) -> None:
    with pytest.raises(InputError, match="finite numbers, more than 0 m are needed"):
        Known((1, 2), (3, 4), metres)


@pytest.mark.parametrize("known", ["10,20 90,20 = 1m", "10,-5 20,20 = 1m", "10,20 20,40 = 1m"])
def test_points_outside_of_the_picture_are_refused(wall: Prediction, known: str) -> None:
    with pytest.raises(InputError, match="outside of a picture 80 pixels wide and 40 high"):
        wall.rescaled(known)


def test_one_point_twice_is_no_distance(wall: Prediction) -> None:
    with pytest.raises(
        InputError, match="0 m are predicted, nothing to scale; choose two points that"
    ):
        wall.rescaled("10,20 10,20 = 1m")


def test_a_prediction_does_not_change(wall: Prediction) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        wall.depth = wall.depth * 2  # type: ignore[misc]


def test_saving_writes_a_picture_and_metres_by_default(wall: Prediction, tmp_path: Path) -> None:
    written = wall.save(tmp_path / "out")
    assert {path.name for path in written} == {
        "wall_depth.png",
        "wall_depth16.png",
        "wall_depth16.json",
    }
    record = json.loads((tmp_path / "out" / "wall_depth16.json").read_text())
    assert record["facts"]["camera"] == "given 90 deg"
    assert record["metres_per_unit"] == 0.001


def test_normals_among_the_formats_are_in_the_other_files_too(
    wall: Prediction, tmp_path: Path
) -> None:
    written = wall.save(tmp_path, "npz,normals")
    assert [path.name for path in written] == ["wall_depth.npz", "wall_normals.png"]
    with np.load(tmp_path / "wall_depth.npz") as content:
        np.testing.assert_allclose(content["normals"][20, 40], [0, 0, -1], atol=1e-5)
        assert json.loads(str(content["facts"]))["facts"]["normals"] == "from depth and camera"
    assert wall.normals is None
    wall.save(tmp_path, "npz")
    with np.load(tmp_path / "wall_depth.npz") as content:
        assert "normals" not in content


@pytest.mark.parametrize("name", ["../evil", "a/b", "/tmp/evil", "a/", "", ".", ".."])
def test_a_name_does_not_lead_out_of_the_folder(
    wall: Prediction, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError, match=f"^name '{name}': a name without a folder is needed"):
        wall.save(tmp_path / "out", "npy", name=name)
    assert not list(tmp_path.iterdir())


def test_saving_what_a_network_for_normals_says_writes_normals(
    wall: Prediction, tmp_path: Path
) -> None:
    facing = np.zeros((40, 80, 3), np.float32)
    facing[..., 2] = -1
    bare = dataclasses.replace(wall, depth=np.full((40, 80), np.nan, np.float32), normals=facing)
    assert (wall.task, bare.task) == ("depth", "normals")
    assert dataclasses.replace(wall, normals=facing).task == "depth"
    assert [path.name for path in bare.save(tmp_path)] == ["wall_normals.png"]
    with pytest.raises(InputError, match="format png: not one pixel has a depth"):
        bare.save(tmp_path, "png")


def test_saving_takes_formats_and_a_name(wall: Prediction, tmp_path: Path) -> None:
    path, beside = wall.save(str(tmp_path), ["npy"], name="other")
    assert (path, beside) == (tmp_path / "other_depth.npy", tmp_path / "other_depth.json")
    np.testing.assert_array_equal(np.load(path), wall.depth)
    with pytest.raises(InputError, match="8 bits"):
        wall.save(tmp_path, ["jpg"])


def test_a_distance_without_a_unit_is_told_so() -> None:
    with pytest.raises(
        InputError, match=r"'1,2 3,4 = 2\.4': without a unit; end it in m, cm or mm"
    ):
        Known.parse("1,2 3,4 = 2.4")


def test_a_prediction_is_shown_in_one_short_line(wall: Prediction) -> None:
    assert repr(wall) == "<Prediction wall.jpg: 40x80, 2.00 to 2.00 m, camera given 90 deg>"
    nothing = dataclasses.replace(wall, depth=np.full((40, 80), np.nan, np.float32))
    assert repr(nothing) == "<Prediction wall.jpg: 40x80, no depth, camera given 90 deg>"


def test_formats_may_be_one_text(wall: Prediction, tmp_path: Path) -> None:
    names = [path.name for path in wall.save(tmp_path, "npy, ply")]
    assert names == ["wall_depth.npy", "wall_depth.json", "wall_points.ply"]


@pytest.mark.parametrize("name", ["x.png", "x.NPY", "x.html"])
def test_a_file_is_no_folder_to_save_to(wall: Prediction, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: a folder is needed, .* pass name= for"):
        wall.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    (tmp_path / name).mkdir()
    assert wall.save(tmp_path / name, "npy")[0].is_file()
