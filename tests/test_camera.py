"""Camera: a ray stays the same ray through every resize, crop and flip."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.refusals import refused

from idisc.camera import Camera, Lens, camera_of, matrix_camera
from idisc.errors import InputError

CAMERA = Camera(fx=500.0, fy=480.0, cx=300.0, cy=250.0, size=(480, 640), origin="calibration")
POINT = np.array([0.4, -0.3, 2.5])  # metres
PIXEL = (380.0, 192.4)  # 300 + 500 * 0.4 / 2.5 and 250 - 480 * 0.3 / 2.5
SIDES = st.integers(1, 2000)


def pixel_of(camera, point):
    """Where a point (x, y, z) is seen: across and down from the first pixel's centre."""
    across, down, depth = camera.matrix @ point
    return float(across / depth), float(down / depth)


def test_a_point_is_seen_where_the_matrix_says():
    assert pixel_of(CAMERA, POINT) == pytest.approx(PIXEL)


@given(SIDES, SIDES)
def test_a_point_keeps_its_place_in_a_resized_picture(height, width):
    across, down = pixel_of(CAMERA.resized((height, width)), POINT)
    # shares of the picture, counted from its edge, which is half a pixel before the first centre
    assert (across + 0.5) / width == pytest.approx((PIXEL[0] + 0.5) / 640)
    assert (down + 0.5) / height == pytest.approx((PIXEL[1] + 0.5) / 480)


@given(st.integers(-100, 479), st.integers(-100, 639))
def test_a_point_moves_with_the_corner_of_a_crop(top, left):
    window = CAMERA.cropped(top, left, (100, 200))
    assert pixel_of(window, POINT) == pytest.approx((PIXEL[0] - left, PIXEL[1] - top))
    assert window.size == (100, 200)


def test_a_mirrored_point_is_seen_in_the_mirrored_picture():
    mirrored = pixel_of(CAMERA.flipped(), POINT * [-1, 1, 1])
    assert mirrored == pytest.approx((639 - PIXEL[0], PIXEL[1]))
    assert CAMERA.flipped().flipped() == CAMERA


@given(st.floats(1.0, 179.0), SIDES, SIDES)
def test_field_of_view_is_what_the_camera_was_made_from(fov, height, width):
    camera = Camera.from_fov(fov, (height, width), "assumed")
    assert camera.fov_deg == pytest.approx(fov)
    assert camera.fx == camera.fy
    assert (camera.cx, camera.cy) == ((width - 1) / 2, (height - 1) / 2)


def test_field_of_view_survives_a_resize_and_shrinks_with_a_crop():
    camera = Camera.from_fov(90.0, (480, 640), "assumed")
    assert camera.resized((100, 1280)).fov_deg == pytest.approx(90.0)
    middle, left_half = (camera.cropped(0, left, (480, 320)) for left in (160, 0))
    assert middle.fov_deg == pytest.approx(math.degrees(2 * math.atan(0.5)))
    assert left_half.fov_deg == pytest.approx(45.0)  # both sides of the axis count


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("scale", [1.0, -2.0])
def test_matrix_and_projection_give_the_same_camera(columns, scale):
    matrix = scale * np.eye(3, columns)
    matrix[:, :3] = scale * CAMERA.matrix
    assert Camera.from_matrix(matrix, CAMERA.size, "calibration") == CAMERA


@pytest.mark.parametrize(
    ("make", "value"),
    [
        *((Camera.from_fov, value) for value in (0.0, 5e-324, 180.0, -60.0, math.nan)),
        *((Camera.from_focal, value) for value in (0, -3, math.nan)),
    ],
)
def test_a_field_of_view_or_focal_length_that_no_camera_has_is_refused(make, value):
    with pytest.raises(InputError) as caught:
        make(value, (480, 640))
    assert f"{value:g}" in caught.value.subject


@pytest.mark.parametrize(
    ("fx", "cx"), [(0.0, 1.0), (-500.0, 1.0), (math.nan, 1.0), (1.0, math.inf)]
)
def test_numbers_that_make_no_camera_are_refused(fx, cx):
    with refused(InputError, f"camera {(fx, 500.0, cx, 1.0)}"):
        Camera(fx=fx, fy=500.0, cx=cx, cy=1.0, size=(480, 640), origin="calibration")


@pytest.mark.parametrize(
    ("size", "fov_deg"),
    [
        ((2000, 3000), 65.5),  # 3:2 as film: 2 atan(18 / 28)
        ((3000, 2000), 46.4),  # the same camera upright: 2 atan(12 / 28)
        ((3000, 4000), 63.4),  # 4:3 by its diagonal: 2 atan(0.8 * 43.267 / 2 / 28)
    ],
)
def test_35_mm_equivalents_relate_diagonals(size, fov_deg):
    camera = Camera.from_focal_35mm(28.0, size, "given 28 mm")
    assert camera.fov_deg == pytest.approx(fov_deg, abs=0.06)


def test_upright_and_lying_pictures_of_a_camera_have_the_same_focal_length():
    lens = Lens(focal_35mm=26.0, taken_size=(3024, 4032))
    lying, upright = (camera_of(None, lens, size) for size in ((756, 1008), (1008, 756)))
    assert lying.fx == upright.fx == pytest.approx(26 * 1260 / 43.2666, rel=1e-5)
    assert lying.origin == upright.origin == "EXIF 26 mm"
    assert lying.relative_focal == upright.relative_focal


SENSOR = Lens(focal_mm=50.0, pixels_per_mm=6000 / 36, taken_size=(4000, 6000))
PHONE = Lens(focal_35mm=26.0, taken_size=(3024, 4032))


@pytest.mark.parametrize(
    ("lens", "size", "fx", "origin"),
    [
        (SENSOR, (1000, 1500), 50 / 36 * 1500, "EXIF 50 mm, 36 mm sensor"),  # reduced since
        (SENSOR, (1500, 1000), 50 / 36 * 1500, "EXIF 50 mm, 36 mm sensor"),  # turned
        (replace(SENSOR, focal_35mm=65535.0), (1000, 1500), 50 / 36 * 1500, "EXIF 50 mm, 36 mm"),
        (Lens(focal_mm=50.0, pixels_per_mm=100.0), (2000, 3000), 5000.0, "EXIF 50 mm"),
        (Lens(focal_35mm=4.0), (480, 640), 4 * 800 / 43.2666, "EXIF 4 mm"),  # fisheye
        (Lens(focal_35mm=2000.0), (480, 640), 2000 * 800 / 43.2666, "EXIF 2000 mm"),
    ],
)
def test_exif_gives_the_camera(lens, size, fx, origin):
    camera = camera_of(None, lens, size)
    assert camera.fx == pytest.approx(fx, rel=1e-5)
    assert camera.origin.startswith(origin)
    assert camera.known


@pytest.mark.parametrize(
    ("lens", "size", "reason"),
    [
        (PHONE, (3024, 3024), "cropped since EXIF was written"),
        (Lens(focal_35mm=65535.0), (480, 640), "EXIF 65535 mm not plausible"),
        (Lens(focal_35mm=1.0), (480, 640), "EXIF 1 mm not plausible"),
        (
            Lens(focal_mm=50.0, pixels_per_mm=1e5),
            (480, 640),
            "EXIF 50 mm, 0.0064 mm sensor not plausible",
        ),
        (
            Lens(focal_mm=1e200, pixels_per_mm=1e200),
            (480, 640),
            "EXIF 1e+200 mm, 6.4e-198 mm sensor not plausible",
        ),
    ],
)
def test_exif_that_cannot_be_right_is_not_used(lens, size, reason):
    camera = camera_of(None, lens, size)
    assert camera.origin == f"assumed 60 deg, {reason}"
    assert not camera.known


@pytest.mark.parametrize("lens", [Lens(), Lens(focal_mm=4.25), Lens(pixels_per_mm=100.0)])
def test_60_degrees_are_assumed_if_exif_is_incomplete(lens):
    camera = camera_of(None, lens, (480, 640))
    assert camera.origin == "assumed 60 deg"
    assert camera.fov_deg == pytest.approx(60.0)
    assert not camera.known


def test_the_assumed_field_of_view_is_that_of_the_longer_side():
    lying, upright = Camera.assumed((480, 640)), Camera.assumed((640, 480))
    assert lying.fx == upright.fx
    assert upright.fov_deg == pytest.approx(46.8, abs=0.05)
    assert Camera.assumed((480, 640), 75).origin == "assumed 75 deg"


def test_a_given_camera_takes_precedence_over_exif():
    lens = Lens(focal_35mm=26.0)
    given = Camera.from_focal(700.0, (480, 640), "calibration")
    assert camera_of(given, lens, (480, 640)) == given
    assert camera_of(given, lens, (960, 1280)).fx == 1400.0
    assert camera_of(given, lens, (960, 1280)).known
    with refused(InputError, "camera", "480x640", "640x480"):
        camera_of(given, lens, (640, 480))


@given(SIDES, SIDES)
def test_no_resize_changes_the_relative_focal_length(height, width):
    moved = CAMERA.resized((height, width))
    assert moved.relative_focal == pytest.approx(CAMERA.relative_focal)


def test_a_camera_records_its_origin():
    size = (480, 640)
    cameras = [Camera.from_fov(65, size), Camera.from_focal(700, size)]
    cameras += [Camera.from_focal_35mm(26, size), Camera.from_matrix(np.eye(3), size)]
    origins = [camera.origin for camera in cameras]
    assert origins == ["given 65 deg", "given 700 px", "given 26 mm", "given matrix"]
    assert all(camera.known for camera in cameras)
    cameras += [camera_of(None, lens, size) for lens in (Lens(focal_35mm=26.0), Lens())]
    cameras += [Camera.from_matrix(np.eye(3), size, "calibration")]
    sources = [camera.source for camera in cameras]
    assert sources == ["given", "given", "given", "matrix", "exif", "assumed", "given"]


def test_the_text_of_the_origin_decides_nothing():
    """What is known of a camera does not hang on how its origin is worded."""
    assert Camera.from_focal(700, (480, 640), "assumed by its maker").known
    assert not replace(Camera.assumed((480, 640)), origin="nobody knows").known


def test_a_matrix_must_be_in_pixels_of_its_picture():
    matrix = [[1400, 0, 960], [0, 1400, 540], [0, 0, 1]]
    assert matrix_camera(matrix, (1080, 1920)).cx == 960
    with refused(InputError, "camera matrix", "cx 960", "cy 540"):
        matrix_camera(matrix, (360, 640))
    with refused(InputError, "camera matrix 'a,b'"):
        matrix_camera("a,b", (360, 640))


@pytest.mark.parametrize(
    ("matrix", "fact"),
    [
        ([[520, 50, 300], [0, 520, 200], [0, 0, 1]], "skew 50"),
        ([[520, 0, 300], [-5, 520, 200], [0, 0, 1]], "skew 5"),
        ([[520, math.nan, 300], [0, 520, 200], [0, 0, 1]], "skew nan"),
        ([[520, 0, 0], [0, 520, 0], [300, 200, 1]], "300, 200, 1"),
        ([[520, 0, 300], [0, 520, 200]], "(2, 3)"),
    ],
)
def test_a_matrix_with_more_than_a_camera_holds_is_refused(matrix, fact):
    with refused(InputError, "camera matrix", fact):
        matrix_camera(matrix, (480, 640))
    slight = matrix_camera([[520, 0.3, 300], [0, 520, 200], [0, 0, 1]], (480, 640))
    assert slight.matrix[0, 1] == 0  # a skew of a fraction of a pixel
