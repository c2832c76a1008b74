"""Stored ground truth, compared with metres and vectors computed by hand."""

import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data.decode import DepthMap, NormalMap, write_depth, write_normals
from idisc.errors import InputError

MILLIMETRES = DepthMap(metres_per_unit=1 / 1000)
ROTATED = DepthMap(metres_per_unit=1 / 1000, rotated_bits=3)


def stored(path, *values):
    indoor.save(path, np.array([values], dtype=np.uint16))
    return path


@pytest.mark.parametrize("unit", [1000, 256])
def test_every_stored_value_becomes_the_nearest_float(tmp_path, unit):
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    indoor.save(tmp_path / "d.png", every)
    depth = DepthMap(metres_per_unit=1 / unit).read(tmp_path / "d.png")
    assert depth.dtype == np.float32
    np.testing.assert_array_equal(depth, (every.astype(np.float64) / unit).astype(np.float32))


def test_bits_are_rotated_back(tmp_path):
    depth = ROTATED.read(stored(tmp_path / "d.png", 8, 32000, 1, 0, 65535))
    np.testing.assert_array_equal(depth, np.float32([[0.001, 4.0, 8.192, 0, 65.535]]))


@pytest.mark.parametrize("name", ["d.npy", "d.NPY", "d.npz"])
def test_arrays_are_numbers_of_the_given_unit(tmp_path, name):
    values = np.array([[[1.5], [0.25]], [[0.0], [7.0]]])  # (2, 2, 1), float64
    with (tmp_path / name).open("wb") as file:
        if name.endswith("z"):
            np.savez(file, other=np.zeros(3), depth=values)
        else:
            np.save(file, values)
    depth = DepthMap(metres_per_unit=1.0).read(tmp_path / name)
    np.testing.assert_array_equal(depth, np.float32([[1.5, 0.25], [0, 7]]))


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3, 4)), np.zeros((0, 4)), np.array([["a"]]), np.array([[{}]])],
    ids=["3d", "empty", "text", "pickle"],  # a pickle is never opened
)
def test_an_array_of_another_kind_is_named(tmp_path, array):
    np.save(tmp_path / "d.npy", array)
    with refused(InputError, tmp_path / "d.npy"):
        MILLIMETRES.read(tmp_path / "d.npy")


def test_a_file_without_depth_is_named(tmp_path):
    indoor.save(tmp_path / "grey.png", np.zeros((4, 5), np.uint8))
    indoor.save(tmp_path / "rgb.png", indoor.picture(0))
    indoor.save(tmp_path / "cut.png", indoor.millimetres(0))
    np.save(tmp_path / "cut.npy", np.zeros((20, 30)))
    for cut in ("cut.png", "cut.npy"):
        indoor.truncate(tmp_path / cut)
    (tmp_path / "none.npy").touch()
    np.savez(tmp_path / "none.npz")
    names = ("grey.png", "rgb.png", "cut.png", "cut.npy", "none.npy", "none.npz", "gone.png")
    for name in (*names, "gone.npy"):
        with refused(InputError, tmp_path / name):
            MILLIMETRES.read(tmp_path / name)
    with refused(InputError, tmp_path / "grey.png", "mode L"):
        NormalMap().read(tmp_path / "grey.png")


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_is_more_than_zero(scale):
    with refused(InputError, f"depth scale {scale}"):
        DepthMap(metres_per_unit=scale)


def test_metres_are_rounded_down_and_units_kept_when_written(tmp_path):
    depth = np.float32([[1.9999, 0.001, 0, 300, -1, np.nan, np.inf]])
    write_depth(tmp_path / "d.png", depth, 1 / 256)
    assert indoor.load(tmp_path / "d.png").tolist() == [[511, 0, 0, 65535, 0, 0, 0]]
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    write_depth(tmp_path / "u.png", every, 1 / 1000)
    np.testing.assert_array_equal(indoor.load(tmp_path / "u.png"), every)


def test_normals_are_vectors_black_is_none_and_alpha_is_ignored(tmp_path):
    pixels = np.uint8([[[0, 0, 0], [255, 0, 0], [0, 51, 255]]])
    indoor.save(tmp_path / "rgb.png", pixels)
    indoor.save(tmp_path / "rgba.png", np.dstack([pixels, np.full((1, 3), 9, np.uint8)]))
    expected = np.float32([[[0, 0, 0], [1, -1, -1], [-1, -0.6, 1]]])
    for name in ("rgb.png", "rgba.png"):
        normals = NormalMap().read(tmp_path / name)
        assert normals.dtype == np.float32
        np.testing.assert_allclose(normals, expected, atol=1e-7)


def test_normals_are_rounded_to_the_nearest_byte_and_none_is_black(tmp_path):
    normals = np.array([[[0, 0, -1], [0.6, -0.8, 0], [0, 0, 0]]], np.float32)
    write_normals(tmp_path / "n.png", normals, NormalMap())
    read = NormalMap().read(tmp_path / "n.png")
    np.testing.assert_allclose(read, normals, atol=0.5 / 127.5 + 1e-6)
    assert (read[0, 2] == 0).all()
