"""The scale of one prediction, applied to another."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.predicted import CAMERA, RESULT, SIZE, provenance, write
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.provenance import BorrowedScale, CameraCorrection
from idisc.scale import apply_scale, read_scale

KNOWN = ((0, 40), (60, 40), 8.0)  # 4 m are predicted
CALIBRATED = replace(RESULT, camera=replace(CAMERA, origin="given", source="given"))


def sidecar(folder, result=None):
    """The JSON file of a prediction."""
    made = CALIBRATED.rescaled(KNOWN) if result is None else result
    return write("npy", folder, made).with_suffix(".json")


def test_the_factor_of_one_picture_is_applied_to_another(tmp_path):
    found = read_scale(sidecar(tmp_path))
    other = replace(CALIBRATED, provenance=provenance("other.jpg"))
    scaled = apply_scale(other, found)
    (change,) = scaled.provenance.rescalings
    assert isinstance(change, BorrowedScale)
    assert (change.picture, change.factor) == ("room.jpg", pytest.approx(2.0))
    assert scaled.metres[40, 5] == pytest.approx(8.0)
    assert scaled.provenance.warnings == ()


def test_an_applied_scale_can_be_applied_again(tmp_path):
    scaled = apply_scale(CALIBRATED, read_scale(sidecar(tmp_path)))
    again = read_scale(sidecar(tmp_path / "again", scaled))
    assert again.scale.factor == pytest.approx(2.0)
    assert again.scale.known[0].metres == 8.0


def test_a_correction_for_the_camera_is_not_applied_twice(tmp_path):
    found = read_scale(sidecar(tmp_path))
    corrected = CALIBRATED.apply(CameraCorrection(factor=1.25, training_fov_deg=60.0))
    assert apply_scale(corrected, found).metres[40, 5] == pytest.approx(8.0)


def test_another_model_or_lens_is_refused(tmp_path):
    path = sidecar(tmp_path)
    found = read_scale(path)
    model = replace(CALIBRATED, provenance=provenance(sha256="f" * 16))
    lens = replace(CALIBRATED, camera=replace(CALIBRATED.camera, fx=66.0))
    for other in (model, lens, RESULT):  # the camera of the last one is assumed
        with refused(InputError, path):
            apply_scale(other, found)


def test_differences_of_camera_and_network_size_are_warnings(tmp_path):
    found = read_scale(sidecar(tmp_path, RESULT.rescaled(KNOWN)))
    made = replace(provenance(), network_size=(2 * SIZE[0], SIZE[1]))
    scaled = apply_scale(replace(RESULT, provenance=made), found)
    assert [each.code for each in scaled.provenance.warnings] == ["scale_camera", "scale_size"]


def test_files_without_a_scale_are_refused(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "factor.json").write_text(
        json.dumps(json.loads(sidecar(tmp_path).read_text()) | {"camera": None})
    )
    np.save(tmp_path / "depth.npy", np.zeros(3))
    plain = sidecar(tmp_path / "plain", CALIBRATED)
    for path in (tmp_path / "list.json", tmp_path / "factor.json", tmp_path / "depth.npy", plain):
        with refused(InputError, path):
            read_scale(path)
