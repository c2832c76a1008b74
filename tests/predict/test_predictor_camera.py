"""Predictor: the camera is given, read or assumed; a known distance scales the scene."""

import numpy as np
import pytest
from tests.fakes.brightness import Brightness, jpeg, picture
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.errors import IdiscWarning, InputError
from idisc.predict.predictor import Predictor
from idisc.provenance import KnownDistance
from idisc.provenance_text import describe


def test_the_camera_is_given_read_or_assumed(engine):
    model = Predictor(engine)
    assert model.predict(picture()).camera.origin == "assumed 60 deg"
    assert describe(model.predict(jpeg(30)))["camera"] == "EXIF 30 mm (60 deg across)"
    given = Camera.from_focal(60.0, (48, 64), "calibration")
    assert model.predict(jpeg(30), camera=given).camera == given

    def wide(size):
        return Camera.from_fov(62.0, size, "given 62 deg")

    results = list(model.predict_many([picture(), picture(96, 128)], camera=wide))
    assert [result.camera.size for result in results] == [(48, 64), (96, 128)]
    assert results[0].camera.origin == "given 62 deg"


def test_a_camera_of_another_shape_is_named_with_its_picture(engine):
    given = Camera.from_focal(60.0, (64, 48), "calibration")
    with refused(InputError, "array: camera"):
        Predictor(engine).predict(picture(), camera=given)


def test_a_matrix_is_a_camera(engine):
    matrix = np.array([[55.0, 0, 31.5], [0, 55.0, 23.5], [0, 0, 1]])
    for numbers in (matrix, matrix.tolist()):
        result = Predictor(engine).predict(picture(), camera=numbers)
        assert (result.camera.fx, result.camera.origin) == (55.0, "given matrix")
    with refused(InputError, "array: camera matrix"):
        Predictor(engine).predict(picture(20, 24), camera=matrix)
    assert len(engine.calls) == 2  # the third was refused before any work
    with pytest.warns(IdiscWarning):
        result = Predictor(Brightness(origin={})).predict(picture(36, 48), camera=matrix)
    assert [each.code for each in result.provenance.warnings] == ["camera_matrix"]


@pytest.mark.parametrize("known", ["10,20 50,20 = 2.40m", ((10, 20), (50, 20), 2.4)])
def test_a_known_distance_rescales_the_scene(engine, known):
    result = Predictor(engine).predict(picture(), known_distance=known)
    points = result.points
    assert np.linalg.norm(points[20, 50] - points[20, 10]) == pytest.approx(2.4, rel=1e-5)
    (rescaling,) = result.provenance.rescalings
    assert rescaling.known == (KnownDistance((10, 20), (50, 20), 2.4),)


def test_a_wrong_known_distance_is_an_error_before_anything_runs(engine):
    with pytest.raises(InputError):
        Predictor(engine).predict(picture(), known_distance="10,20 = 2m")
    assert engine.calls == []
    with refused(InputError, "array: point 70,20"):
        Predictor(engine).predict(picture(), known_distance="10,20 70,20 = 2m")


def test_a_known_distance_is_of_one_picture(engine):
    with refused(InputError, "known distance"):
        Predictor(engine).predict_many([picture()], known_distance="1,2 30,4 = 1m")
