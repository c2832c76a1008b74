"""A lens, a shape or a size unlike those of training is warned of, or corrected for."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from tests.fakes.brightness import FACTS, Brightness, jpeg, picture

from idisc.camera import Camera
from idisc.errors import IdiscWarning
from idisc.predict.predictor import Predictor


@pytest.fixture
def engine() -> Brightness:
    return Brightness()


@pytest.mark.parametrize(("fov_deg", "far"), [(60, False), (66, False), (76, True), (45, True)])
def test_a_camera_unlike_training_that_is_not_corrected_for_is_warned_of(
    engine: Brightness, fov_deg: float, far: bool
) -> None:
    camera = Camera.from_fov(fov_deg, (48, 64), "given")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Predictor(engine).predict(picture(), camera=camera, camera_correction=False)
    assert ("warning" in result.facts) == far
    assert [item.category for item in caught] == [IdiscWarning] * far
    if far:
        expected = f"field of view {fov_deg} deg across, 60 deg in training: true depth may be "
        assert result.facts["warning"].startswith(expected)


def test_an_assumed_camera_and_an_unknown_training_warn_of_nothing(engine: Brightness) -> None:
    camera = Camera.from_fov(120.0, (48, 64), "given")
    assert "warning" not in Predictor(Brightness(origin={})).predict(picture(), camera=camera).facts
    kitti = Brightness(origin={**FACTS, "training_fov_deg": 100.0})
    assert "warning" not in Predictor(kitti).predict(picture()).facts


def test_an_upright_photo_of_the_training_camera_is_like_training(engine: Brightness) -> None:
    training = Camera.from_fov(60.0, (48, 64), "training")
    upright = Camera.from_focal(training.fx, (64, 48), "given")
    assert "warning" not in Predictor(engine).predict(picture(64, 48), camera=upright).facts


def test_a_warning_has_the_field_of_view_that_was_given(engine: Brightness) -> None:
    with pytest.warns(
        IdiscWarning, match=r"field of view 20 deg across, 60 deg in training \(67 deg in"
    ):
        result = Predictor(engine).predict(
            picture(72, 128), camera=lambda size: Camera.from_fov(20, size), camera_correction=False
        )
    assert result.facts["camera"] == "given 20 deg"
    like = Camera.from_fov(67, (72, 128))  # the number it names is one that it does not warn of
    plain = Predictor(engine).predict(picture(72, 128), camera=like, camera_correction=False)
    assert "warning" not in plain.facts


def test_a_squeezed_picture_is_warned_of(engine: Brightness) -> None:
    wide = Brightness(origin={**FACTS, "training_size": [480, 640]})
    message = "sees 720x1280 squeezed into 480x640, .*; 416x736, or no --size at all, keeps it"
    with pytest.warns(IdiscWarning, match=message):
        result = Predictor(wide).predict(picture(720, 1280), size=(480, 640))
    assert "squeezed into 480x640" in result.facts["warning"]
    for size in ((416, 736), None):
        assert "warning" not in Predictor(wide).predict(picture(720, 1280), size=size).facts


def test_remedies_are_called_as_on_the_command_line(engine: Brightness) -> None:
    tele = Camera.from_fov(20, (48, 64))
    with pytest.warns(IdiscWarning, match="; leave out --no-camera-correction, or give a distance"):
        Predictor(engine).predict(picture(), camera=tele, camera_correction=False)
    with pytest.warns(IdiscWarning, match="48x64 in training, .*; leave out --size"):
        Predictor(engine).predict(picture(), size=(96, 128))


@pytest.mark.parametrize("size", [(1, 1), (16, 16), (15, 21)])
def test_a_picture_of_few_pixels_is_warned_of(engine: Brightness, size: tuple[int, int]) -> None:
    expected = f"a picture of {size[0]}x{size[1]} pixels, 48x64 in training, and a blur has other"
    with pytest.warns(IdiscWarning, match=expected):
        Predictor(engine).predict(picture(*size))
    unknown = Predictor(Brightness(origin={}))
    assert "warning" not in unknown.predict(picture(*size)).facts


def test_a_thumbnail_of_a_third_of_the_pixels_across_is_not(engine: Brightness) -> None:
    assert "warning" not in Predictor(engine).predict(picture(16, 22)).facts


@pytest.mark.parametrize(
    ("metres", "far"), [(1.0, False), (7.0, False), (500.0, True), (0.01, True)]
)
def test_a_known_distance_that_scales_beyond_reason_is_warned_of(
    engine: Brightness, metres: float, far: bool
) -> None:
    known = ((10, 20), (40, 20), metres)  # 1.08 m are predicted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = Predictor(engine).predict(picture(), known=known)
    assert [item.category for item in caught] == [IdiscWarning] * far
    assert ("warning" in result.facts) == far
    if far:
        expected = r"the known distance is [\d.]+ times the predicted one; look at its points and"
        assert re.match(expected, result.facts["warning"])
        assert str(caught[0].message) == f"array: {result.facts['warning']}"


def test_a_scale_is_warned_of_beside_other_doubts(engine: Brightness) -> None:
    with pytest.warns(IdiscWarning, match="use a larger picture; the known distance is"):
        result = Predictor(engine).predict(picture(8, 8), known="1,1 6,6 = 900m")
    few, scale = result.facts["warning"].split("; use a larger picture; ")
    assert few.startswith("a picture of 8x8 pixels")
    assert scale.startswith("the known distance is ")


def test_depth_is_corrected_for_another_focal_length_unless_told_not_to(
    engine: Brightness,
) -> None:
    model = Predictor(engine)
    training = Camera.from_fov(60.0, (48, 64), "training")
    for factor in (0.5, 2.0):
        camera = Camera.from_focal(training.fx * factor, (48, 64), "given")
        result = model.predict(picture(), camera=camera)
        np.testing.assert_allclose(result.depth, 2.0 * factor, rtol=1e-5)
        assert result.spread is not None
        np.testing.assert_allclose(result.spread, 0.1 * factor, rtol=1e-5)
        expected = f"depth x {factor:g}, focal length over that of training (60 deg)"
        assert result.facts["correction"] == expected
        assert not {"rescaled", "warning"} & set(result.facts)
    larger = model.predict(picture(96, 128), camera=camera.resized((96, 128)))
    np.testing.assert_allclose(larger.depth, 4.0, rtol=1e-5)  # at equal width, whatever the size
    with pytest.warns(IdiscWarning, match="field of view"):
        plain = model.predict(picture(), camera=camera, camera_correction=False)
    np.testing.assert_allclose(plain.depth, 2.0, rtol=1e-5)
    assert "correction" not in plain.facts


def test_exif_is_enough_for_a_correction_and_a_known_distance_comes_after(
    engine: Brightness,
) -> None:
    photo = Predictor(engine).predict(jpeg(60))
    assert "correction" in photo.facts
    training = Camera.from_fov(60.0, (48, 64), "training")
    ratio = photo.camera.relative_focal / training.relative_focal
    np.testing.assert_allclose(photo.depth, 2.0 * ratio, rtol=1e-5)
    known = Predictor(engine).predict(jpeg(60), known=((10, 20), (40, 20), 1.0))
    assert known.measured((10, 20), (40, 20)) == pytest.approx(1.0)
    assert {"correction", "rescaled"} <= set(known.facts)


def test_what_is_not_known_is_not_corrected_for(engine: Brightness) -> None:
    for model, source in ((engine, picture()), (Brightness(origin={}), jpeg(60))):
        result = Predictor(model).predict(source)
        np.testing.assert_allclose(result.depth, 2.0, rtol=1e-5)
        assert "correction" not in result.facts
