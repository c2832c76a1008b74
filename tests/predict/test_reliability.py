"""A lens, an aspect ratio or a size unlike training leads to a warning or a correction."""

import warnings

import numpy as np
import pytest
from tests.fakes.brightness import FACTS, Brightness, jpeg, picture

from idisc.camera import Camera
from idisc.errors import IdiscWarning
from idisc.predict.predictor import Predictor
from idisc.provenance_text import describe, describe_warning


def codes(result):
    return [warning.code for warning in result.provenance.warnings]


@pytest.mark.parametrize(("fov_deg", "far"), [(60, False), (66, False), (76, True), (45, True)])
def test_an_uncorrected_camera_unlike_training_is_a_warning(engine, fov_deg, far):
    camera = Camera.from_fov(fov_deg, (48, 64), "given")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Predictor(engine).predict(picture(), camera=camera, camera_correction=False)
    assert codes(result) == ["field_of_view"] * far
    assert [item.category for item in caught] == [IdiscWarning] * far
    if far:
        text = describe_warning(result.provenance.warnings[0])
        assert str(caught[0].message) == f"array: {text}"
        assert text == describe(result)["warning"]


def test_assumed_cameras_and_unknown_training_give_no_warning(engine):
    camera = Camera.from_fov(120.0, (48, 64), "given")
    assert codes(Predictor(Brightness(origin={})).predict(picture(), camera=camera)) == []
    kitti = Brightness(origin={**FACTS, "training_fov_deg": 100.0})
    assert codes(Predictor(kitti).predict(picture())) == []
    training = Camera.from_fov(60.0, (48, 64), "training")
    upright = Camera.from_focal(training.fx, (64, 48), "given")
    model = Predictor(engine)
    assert codes(model.predict(picture(64, 48), camera=upright, camera_correction=False)) == []


def test_a_warning_has_the_field_of_view_that_training_has_at_this_aspect_ratio(engine):
    model = Predictor(engine)
    with pytest.warns(IdiscWarning, match="20 deg across, 67 deg in training"):
        result = model.predict(
            picture(72, 128), camera=lambda size: Camera.from_fov(20, size), camera_correction=False
        )
    details = result.provenance.warnings[0].details
    assert details["fov_deg"] == pytest.approx(20)
    like = Camera.from_fov(67, (72, 128))
    assert codes(model.predict(picture(72, 128), camera=like, camera_correction=False)) == []


def test_a_squeezed_picture_is_a_warning():
    wide = Predictor(Brightness(origin={**FACTS, "training_size": [480, 640]}))
    with pytest.warns(IdiscWarning, match="720x1280 squeezed into 480x640.*416x736"):
        result = wide.predict(picture(720, 1280), size=(480, 640))
    assert codes(result) == ["aspect"]
    for size in ((416, 736), None):
        assert codes(wide.predict(picture(720, 1280), size=size)) == []


@pytest.mark.filterwarnings("ignore::idisc.errors.IdiscWarning")
def test_a_network_size_unlike_training_is_a_warning(engine):
    assert codes(Predictor(engine).predict(picture(), size=(96, 128))) == ["network_size"]


@pytest.mark.filterwarnings("ignore::idisc.errors.IdiscWarning")
@pytest.mark.parametrize(
    ("size", "few"), [((1, 1), True), ((16, 16), True), ((15, 21), True), ((16, 22), False)]
)
def test_a_picture_of_few_pixels_is_a_warning(engine, size, few):
    assert codes(Predictor(engine).predict(picture(*size))) == ["resolution"] * few
    unknown = Predictor(Brightness(origin={}))
    assert codes(unknown.predict(picture(*size))) == []


@pytest.mark.parametrize(
    ("metres", "far"), [(1.0, False), (7.0, False), (500.0, True), (0.01, True)]
)
def test_a_known_distance_with_an_implausible_factor_is_a_warning(engine, metres, far):
    known = ((10, 20), (40, 20), metres)  # 1.08 m are predicted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = Predictor(engine).predict(picture(), known_distance=known)
    assert codes(result) == ["known_distance"] * far


@pytest.mark.filterwarnings("ignore::idisc.errors.IdiscWarning")
def test_a_known_distance_removes_warnings_about_scale_only(engine):
    tele, model = Camera.from_fov(20, (48, 64)), Predictor(engine)
    plain = model.predict(picture(), camera=tele, camera_correction=False, size=(96, 128))
    assert codes(plain) == ["field_of_view", "network_size"]
    assert codes(plain.rescaled(((10, 20), (40, 20), 1.0))) == []
    small = model.predict(picture(8, 8), known_distance="1,1 6,6 = 900m")
    assert codes(small) == ["resolution", "known_distance"]


def test_depth_is_corrected_for_another_focal_length(engine):
    model = Predictor(engine)
    training = Camera.from_fov(60.0, (48, 64), "training")
    for factor in (0.5, 2.0):
        camera = Camera.from_focal(training.fx * factor, (48, 64), "given")
        result = model.predict(picture(), camera=camera)
        np.testing.assert_allclose(result.metres, 2.0 * factor, rtol=1e-5)
        assert result.level_std is not None
        np.testing.assert_allclose(result.level_std, 0.1 * factor, rtol=1e-5)
        correction = result.provenance.camera_correction
        assert correction.factor == pytest.approx(factor)
        assert correction.training_fov_deg == pytest.approx(60)
        assert codes(result) == []
    larger = model.predict(picture(96, 128), camera=camera.resized((96, 128)))
    np.testing.assert_allclose(larger.depth, 4.0, rtol=1e-5)  # at equal width, whatever the size
    with pytest.warns(IdiscWarning, match="field of view"):
        plain = model.predict(picture(), camera=camera, camera_correction=False)
    np.testing.assert_allclose(plain.depth, 2.0, rtol=1e-5)
    assert plain.provenance.camera_correction is None


def test_exif_leads_to_a_correction_and_a_known_distance_follows(engine):
    photo = Predictor(engine).predict(jpeg(60))
    training = Camera.from_fov(60.0, (48, 64), "training")
    ratio = photo.camera.relative_focal / training.relative_focal
    np.testing.assert_allclose(photo.depth, 2.0 * ratio, rtol=1e-5)
    known = Predictor(engine).predict(jpeg(60), known_distance=((10, 20), (40, 20), 1.0))
    assert known.measure((10, 20), (40, 20)) == pytest.approx(1.0)
    assert known.provenance.camera_correction is not None
    assert len(known.provenance.rescalings) == 1


def test_unknown_cameras_are_not_corrected(engine):
    for model, source in ((engine, picture()), (Brightness(origin={}), jpeg(60))):
        result = Predictor(model).predict(source)
        np.testing.assert_allclose(result.depth, 2.0, rtol=1e-5)
        assert result.provenance.camera_correction is None
