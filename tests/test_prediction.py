"""A prediction: points, distances, a known distance that scales the scene, files."""

import dataclasses
import json
import math

import numpy as np
import pytest
from tests.fakes.predicted import SIZE, predicted, provenance

from idisc.camera import Camera
from idisc.errors import InputError
from idisc.provenance import KnownDistance
from idisc.provenance_text import describe


@pytest.fixture
def wall():
    """A wall 2 m away, seen by a camera of 90 degrees: 4 m from edge to edge."""
    return predicted(
        np.full((40, 80), 2.0),
        camera=Camera.from_fov(90.0, (40, 80), "given 90 deg"),
        level_std=np.full((40, 80), 0.1, np.float32),
        provenance=provenance("wall.jpg", domain="indoor"),
    )


def test_points_are_metres_in_front_of_the_camera(wall):
    assert wall.points.shape == (40, 80, 3)
    np.testing.assert_allclose(wall.points[0, 0], [-1.975, -0.975, 2.0], rtol=1e-5)


def test_a_distance_is_measured_between_two_pixels(wall):
    assert wall.measure((10, 20), (30, 20)) == pytest.approx(1.0)  # 20 of 80 pixels of 4 m
    assert wall.measure((10, 20), (10, 40 - 1)) == pytest.approx(19 / 20)


def test_a_known_distance_scales_all_and_is_recorded(wall):
    scaled = wall.rescaled("10,20 30,20 = 1.50m")
    np.testing.assert_allclose(scaled.metres, 3.0, rtol=1e-6)
    assert scaled.level_std is not None
    np.testing.assert_allclose(scaled.level_std, 0.15, rtol=1e-6)
    again = scaled.rescaled(((10, 20), (30, 20), 1))
    np.testing.assert_allclose(again.metres, wall.metres, rtol=1e-6)
    factors = [each.factor for each in again.provenance.rescalings]
    assert factors == pytest.approx([1.5, 1 / 1.5])
    assert describe(again)["rescaled"] == (
        "depth x 1.5, known 10,20 30,20 = 1.5 m, predicted 1 m;"
        " depth x 0.6667, known 10,20 30,20 = 1 m, predicted 1.5 m"
    )
    assert wall.provenance.rescalings == ()
    np.testing.assert_array_equal(wall.metres, 2.0)


def test_several_known_distances_are_averaged_with_their_disagreement(wall):
    scaled = wall.rescaled("10,20 30,20 = 4m; 10,20 50,20 = 2m")  # predicted 1 and 2 m
    np.testing.assert_allclose(scaled.metres, 4.0, rtol=1e-6)
    (change,) = scaled.provenance.rescalings
    assert (change.factor, len(change.known)) == (pytest.approx(2.0), 2)
    assert describe(scaled)["rescaled"].endswith("whose factors differ by 300.0 %")
    outside = ["10,20 90,20 = 1m", "10,-5 20,20 = 1m", "10,20 20,40 = 1m"]
    for known in ([], *outside, "10,20 10,20 = 1m"):
        with pytest.raises(InputError):
            wall.rescaled(known)


@pytest.mark.parametrize(
    ("text", "metres"),
    [
        ("1,2 3,4 = 2.40m", 2.4),
        ("1,2 3,4=240 cm", 2.4),
        (" 1 , 2  3 , 4 = 2400mm ", 2.4),
        ("1,2 3,4 = .5m", 0.5),
    ],
)
def test_a_known_distance_has_units(text, metres):
    known = KnownDistance.parse(text)
    assert (known.first, known.second) == ((1.0, 2.0), (3.0, 4.0))
    assert known.metres == pytest.approx(metres)


@pytest.mark.parametrize(
    "value",
    [
        *("", "1,2 3,4", "1,2 3,4 = m", "1 2 3 4 = 2m", "1,2,3,4 = 2m", "a", "1,2 3,4 = 2.4"),
        *(3, (1, 2), ((1, 2), (3, 4)), ((1, 2), (3,), 2), ("a", "b", "c")),
        *(((1, 2), (3, 4), metres) for metres in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_invalid_known_distances_are_refused(value):
    with pytest.raises(InputError):
        KnownDistance.parse(value)


def test_saving_writes_a_picture_and_metres_by_default(wall, tmp_path):
    written = wall.save(tmp_path / "out")
    assert {path.name for path in written} == {
        "wall_depth.png",
        "wall_depth16.png",
        "wall_depth16.json",
    }
    record = json.loads((tmp_path / "out" / "wall_depth16.json").read_text())
    assert record["camera"]["origin"] == "given 90 deg"
    assert record["metres_per_unit"] == 0.001


def test_normals_among_the_formats_are_in_the_other_files_too(wall, tmp_path):
    written = wall.save(tmp_path, "npz,normals")
    assert [path.name for path in written] == ["wall_depth.npz", "wall_normals.png"]
    with np.load(tmp_path / "wall_depth.npz") as content:
        np.testing.assert_allclose(content["normals"][20, 40], [0, 0, -1], atol=1e-5)
        assert json.loads(str(content["record"]))["provenance"]["normals"] == "depth"
    assert wall.normals is None
    wall.save(tmp_path, "npz")
    with np.load(tmp_path / "wall_depth.npz") as content:
        assert "normals" not in content


def test_a_prediction_of_normals_is_saved_as_normals(wall, tmp_path):
    facing = np.zeros((40, 80, 3), np.float32)
    facing[..., 2] = -1
    bare = dataclasses.replace(wall, depth=None, level_std=None, normals=facing)
    assert (wall.task.name, bare.task.name) == ("depth", "normals")
    assert dataclasses.replace(wall, normals=facing).task.name == "depth"
    assert [path.name for path in bare.save(tmp_path)] == ["wall_normals.png"]
    with pytest.raises(InputError):
        bare.save(tmp_path, "png")
    with pytest.raises(InputError):
        _ = bare.points


def test_saving_takes_formats_and_a_name(wall, tmp_path):
    path, beside = wall.save(str(tmp_path), ["npy"], name="other")
    assert (path, beside) == (tmp_path / "other_depth.npy", tmp_path / "other_depth.json")
    np.testing.assert_array_equal(np.load(path), wall.depth)


def test_the_repr_of_a_prediction_is_one_line(wall):
    assert repr(wall) == "<Prediction wall.jpg: 40x80, 2.00 to 2.00 m, camera given 90 deg>"
    nothing = dataclasses.replace(wall, depth=np.full((40, 80), np.nan, np.float32))
    assert repr(nothing) == "<Prediction wall.jpg: 40x80, no depth, camera given 90 deg>"


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": np.full(SIZE, 200, np.uint8)},
        {"camera": Camera.assumed((24, 32))},
        {"image": np.zeros((2, 2, 3), np.uint8)},
        {"depth": None},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes):
    with pytest.raises(InputError):
        dataclasses.replace(predicted(np.ones(SIZE)), **changes)
