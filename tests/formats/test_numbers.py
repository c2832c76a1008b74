"""Formats for programs: every one read back, with the factor that makes metres of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.fakes.predicted import CAMERA, DEPTH, RESULT, SIZE, provenance, texts_of, write
from tests.fakes.refusals import refused

from idisc.errors import InputError, MissingExtra


def test_png16_is_in_millimetres_indoors(tmp_path):
    path = write("png16", tmp_path)
    values = np.asarray(Image.open(path))
    assert values.dtype == np.uint16
    assert (values[40, 5], values[20, 30], values[0, 0], values[0, 1]) == (4000, 2000, 0, 0)
    texts, beside = texts_of(path), json.loads(path.with_suffix(".json").read_text())
    assert float(texts["metres_per_unit"]) == beside["metres_per_unit"] == 0.001
    assert beside == json.loads(texts["idisc"])
    assert beside["camera"]["fx"] == 60.0
    assert beside["camera"]["origin"] == "assumed 60 deg"
    assert beside["provenance"]["model"]["name"] == "a test"


@pytest.mark.parametrize(
    ("domain", "deepest", "unit"),
    [
        ("indoor", 65.5, 0.001),
        ("indoor", 65.6, 1 / 256),
        ("road", 4.0, 1 / 256),
        ("road", 255.9, 1 / 256),
        ("roadside inns", 4.0, 0.001),
        ("indoor", 0.11, 0.001),
        ("indoor", 0.09, 1e-5),  # of millimetres there would be too few
    ],
)
def test_png16_has_the_unit_of_its_domain(domain, deepest, unit, tmp_path):
    depth = np.linspace(0.01, deepest, 48 * 64, dtype=np.float32).reshape(SIZE)
    path = write(
        "png16", tmp_path, replace(RESULT, depth=depth, provenance=provenance(domain=domain))
    )
    assert float(texts_of(path)["metres_per_unit"]) == unit
    assert np.abs(np.asarray(Image.open(path)) * unit - depth).max() <= unit / 2 + 1e-5


def test_png16_refuses_depth_beyond_16_bits(tmp_path):
    far = replace(RESULT, depth=np.full(SIZE, 300.0, np.float32))
    for unit in (None, 0.001):
        with refused(InputError, "format png16", "300.0 m"):
            write("png16", tmp_path, far, metres_per_unit=unit)
    path = write("png16", tmp_path, far, metres_per_unit=0.01)
    assert np.asarray(Image.open(path)).max() == 30000
    near = replace(RESULT, depth=np.full(SIZE, 1e-5, np.float32))
    assert np.asarray(Image.open(write("png16", tmp_path, near))).min() == 1  # 0 is none


def test_npy_is_the_depth(tmp_path):
    path = write("npy", tmp_path)
    depth = np.load(path, allow_pickle=False)
    assert depth.dtype == np.float32
    assert np.array_equal(depth, DEPTH, equal_nan=True)
    beside = json.loads(path.with_suffix(".json").read_text())  # an array says nothing of itself
    assert beside["provenance"]["picture"] == "room.jpg"
    assert beside["camera"]["origin"] == "assumed 60 deg"


@pytest.mark.parametrize("kind", ["png16", "npy"])
def test_the_json_file_is_optional(kind, tmp_path):
    path = write(kind, tmp_path, sidecar=False)
    assert list(tmp_path.iterdir()) == [path]


def test_npz_holds_all_arrays(tmp_path):
    plain = np.load(write("npz", tmp_path), allow_pickle=False)
    assert sorted(plain) == ["camera", "depth", "record"]
    assert np.array_equal(plain["camera"], CAMERA.matrix)
    assert json.loads(str(plain["record"]))["provenance"]["model"]["domain"] == "indoor"
    level_std, normals = np.full(SIZE, 0.1, np.float32), np.ones((*SIZE, 3), np.float32)
    complete = replace(RESULT, level_std=level_std, normals=normals)
    for axes, direction in ((None, [1, 1, 1]), ("opengl", [1, -1, -1])):
        full = np.load(write("npz", tmp_path, complete, axes=axes), allow_pickle=False)
        assert np.array_equal(full["uncertainty"], level_std)
        assert full["normals"][0, 0].tolist() == direction
        assert np.array_equal(full["depth"], DEPTH, equal_nan=True)
    assert json.loads(str(full["record"]))["axes"] == "opengl: x right, y up, z back"


def test_exr_has_the_depth_in_channel_z(tmp_path):
    open_exr = pytest.importorskip("OpenEXR", reason="OpenEXR comes with idisc[exr]")
    with open_exr.File(str(write("exr", tmp_path))) as file:
        assert np.array_equal(file.channels()["Z"].pixels, DEPTH, equal_nan=True)
        assert json.loads(file.header()["idisc"])["provenance"]["picture"] == "room.jpg"


def test_exr_names_the_extra_to_install(monkeypatch, tmp_path):
    def absent(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("importlib.import_module", absent)
    with refused(MissingExtra, "OpenEXR", "idisc[exr]"):
        write("exr", tmp_path)
