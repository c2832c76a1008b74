"""What a file says about its model reaches every result; a missing model has an advice."""

import json
import sys

import numpy as np
import pytest
from tests.fakes import onnx_files
from tests.fakes.brightness import FACTS, Brightness, picture
from tests.fakes.refusals import refused

import idisc
from idisc.data import catalog
from idisc.errors import CheckpointError, IdiscWarning
from idisc.images import Photo
from idisc.predict.model_info import dataset_ancestry, read_model_info
from idisc.predict.predictor import Predictor
from idisc.provenance_text import describe, record
from idisc.zoo import cards


def test_every_result_describes_its_model(engine):
    result = Predictor(engine).predict(Photo(picture(), "room.jpg"))
    meaning = "standard deviation of the network's answers at its resolutions, in metres"
    assert describe(result) == {
        "picture": "room.jpg",
        "model": "brightness (sha256 0123456789ab)",
        "domain": "indoor",
        "range": "depth to 10 m in training",
        "camera": "assumed 60 deg",
        "network size": "48x64 (height x width), as in training",
        "uncertainty": f"{meaning}; no error bound",
        "trained on": "rooms",
        "licence of weights": "CC0",
    }
    unknown = describe(Predictor(Brightness(origin={})).predict(picture()))
    names = ("domain", "range", "trained on", "licence of weights")
    assert [unknown[name] for name in names] == ["unknown"] * 4


def test_the_record_of_a_result_is_json_with_typed_values(engine):
    engine.fixed_size = (40, 40)
    with pytest.warns(IdiscWarning):
        result = Predictor(engine).predict(picture(96, 128), flip=True, tile=True)
    found = json.loads(json.dumps(record(result)))["provenance"]
    assert found["model"]["training_size"] == [48, 64]
    assert (found["network_size"], found["network_size_reason"]) == ([40, 40], "file")
    assert found["uncertainty"]["compares"] == ["levels", "flip"]
    assert found["tiles"]["count"] > 1
    (warning,) = found["warnings"]
    assert (warning["code"], warning["details"]["picture"]) == ("aspect", [96, 128])
    assert warning["message"] == describe(result)["warning"]


@pytest.mark.parametrize(
    "origin",
    [
        {"depth_range": "0.01,10", "training_size": "48x64", "training_fov_deg": "60.0"},
        {"depth_range": "[0.01, 10.0]", "training_size": "[48, 64]", "training_fov_deg": "60"},
        FACTS,
    ],
)
def test_fields_are_read_as_json_and_as_the_text_of_onnx(origin):
    info = read_model_info(Brightness(origin=origin))
    assert info.depth_range == (0.01, 10.0)
    assert info.training_size == (48, 64)
    assert info.training_fov_deg == 60.0


@pytest.mark.parametrize("size", ["wide", [480], "480x640x3", "0x0", {"a": 1}])
def test_invalid_fields_are_named(size):
    with refused(CheckpointError, "brightness", "training_size"):
        read_model_info(Brightness(origin={"training_size": size}))


def test_an_exported_file_provides_metadata_and_uncertainty(tmp_path):
    path = onnx_files.depth_and_spread(tmp_path / "small.onnx")
    onnx_files.describe(path, domain="road", training_size="32x64", licence="CC0")
    model = idisc.load(path)
    assert (model.model.domain, model.model.licence) == ("road", "CC0")
    assert model.network_size((64, 128)) == (32, 64)
    grey = np.full((64, 128, 3), 100, np.uint8)  # 2 m
    result = model.predict(grey)
    assert result.level_std is not None
    np.testing.assert_allclose(result.level_std, 0.2, rtol=1e-6)
    np.testing.assert_allclose(model.engine.run(grey[None]).maps, 2.0)


def test_a_file_for_one_size_is_recognised(tmp_path):
    model = idisc.load(onnx_files.for_one_size(tmp_path / "one.onnx"))
    assert model.engine.fixed_size == (8, 8)
    assert model.predict(picture(30, 30)).provenance.network_size == (8, 8)
    with refused(CheckpointError, "one.onnx", "8x8"):
        model.engine.run(picture()[None])


def test_a_published_file_is_known_by_its_name():
    origin = {"file": "kitti_swintiny.pt", "licence": "CC BY-NC 4.0"}
    info = read_model_info(Brightness(origin=origin))
    assert (info.domain, info.training_size) == ("road", (352, 1216))
    assert info.depth_range == (0.01, 80.0)
    assert info.training_fov_deg == pytest.approx(80.2, abs=0.1)  # 1216 of 1242 columns
    assert (info.licence, info.non_commercial) == ("CC BY-NC 4.0", True)
    assert [parent.name for parent in info.parents] == ["kitti_swintiny.pt"]


def test_a_result_records_parents_licence_and_verification(engine):
    engine.verified = False
    parents = [{"name": "kitti.pt", "sha256": "0123456789abcdef"}]
    engine.origin = {**FACTS, "non_commercial": True, "parents": parents}
    result = Predictor(engine).predict(picture())
    stated = json.loads(json.dumps(record(result)))["provenance"]["model"]
    assert (stated["non_commercial"], stated["verified"]) == (True, False)
    assert stated["parents"] == parents
    texts = describe(result)
    assert texts["trained from"] == "kitti.pt (sha256 0123456789ab)"
    assert {"checksum", "licence of weights"} <= texts.keys()


@pytest.mark.parametrize(
    ("name", "fov_deg"), [("nyu", 63.3), ("diode", 60.0), ("sunrgbd", None), ("folder", None)]
)
def test_the_field_of_view_of_a_dataset_is_inherited(name, fov_deg):
    found = dataset_ancestry(catalog.find(name), (480, 640)).training_fov_deg
    assert found == (fov_deg and pytest.approx(fov_deg, abs=0.15))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("nyu_swint", "`idisc models nyu_swintiny.pt`"),
        ("nyu_swintiny.pt", "`idisc convert nyu_swintiny.pt --out nyu_swintiny`"),
        ("tiny_synthetic", "`idisc train tiny_synthetic`"),
        ("nowhere", ".onnx file"),
    ],
)
def test_an_unknown_model_name_is_answered_with_advice(name, advice, monkeypatch, tmp_path):
    monkeypatch.setattr(cards, "HOME", tmp_path)
    monkeypatch.chdir(tmp_path)
    with refused(CheckpointError, name, advice):
        idisc.load(name)


def test_a_folder_of_photos_is_no_model_and_needs_no_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with refused(CheckpointError, tmp_path, "config.json"):
        idisc.load(tmp_path)
