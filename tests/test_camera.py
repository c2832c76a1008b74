"""Camera: a ray stays the same ray through every resize, crop and flip."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.errors import InputError

CAMERA = Camera(fx=500.0, fy=480.0, cx=300.0, cy=250.0, size=(480, 640), origin="calibration")
POINT = np.array([0.4, -0.3, 2.5])  # metres
PIXEL = (380.0, 192.4)  # 300 + 500 * 0.4 / 2.5 and 250 - 480 * 0.3 / 2.5
SIDES = st.integers(1, 2000)


def pixel_of(camera: Camera, point: NDArray[np.float64]) -> tuple[float, float]:
    """Where a point (x, y, z) is seen: across and down from the first pixel's centre."""
    across, down, depth = camera.matrix @ point
    return float(across / depth), float(down / depth)


def test_a_point_is_seen_where_the_matrix_says() -> None:
    assert pixel_of(CAMERA, POINT) == pytest.approx(PIXEL)


def test_half_the_size_puts_two_pixels_into_one() -> None:
    half = CAMERA.resized((240, 320))
    assert (half.fx, half.fy, half.cx, half.cy) == (250.0, 240.0, 149.75, 124.75)
    assert half.size == (240, 320)


@given(SIDES, SIDES)
def test_a_point_keeps_its_place_in_a_resized_picture(height: int, width: int) -> None:
    across, down = pixel_of(CAMERA.resized((height, width)), POINT)
    # shares of the picture, counted from its edge, which is half a pixel before the first centre
    assert (across + 0.5) / width == pytest.approx((PIXEL[0] + 0.5) / 640)
    assert (down + 0.5) / height == pytest.approx((PIXEL[1] + 0.5) / 480)


@given(SIDES, SIDES)
def test_resizing_there_and_back_changes_nothing(height: int, width: int) -> None:
    back = CAMERA.resized((height, width)).resized(CAMERA.size)
    assert back.matrix == pytest.approx(CAMERA.matrix)
    assert back.size == CAMERA.size


@given(st.integers(-100, 479), st.integers(-100, 639))
def test_a_point_moves_with_the_corner_of_a_crop(top: int, left: int) -> None:
    window = CAMERA.cropped(top, left, (100, 200))
    assert pixel_of(window, POINT) == pytest.approx((PIXEL[0] - left, PIXEL[1] - top))
    assert window.size == (100, 200)


def test_a_mirrored_point_is_seen_in_the_mirrored_picture() -> None:
    mirrored = pixel_of(CAMERA.flipped(), POINT * [-1, 1, 1])
    assert mirrored == pytest.approx((639 - PIXEL[0], PIXEL[1]))
    assert CAMERA.flipped().flipped() == CAMERA


def test_a_camera_keeps_its_origin_through_all_of_them() -> None:
    moved = CAMERA.resized((240, 320)).cropped(8, 8, (200, 300)).flipped()
    assert moved.origin == "calibration"


@given(st.floats(1.0, 179.0), SIDES, SIDES)
def test_field_of_view_is_what_the_camera_was_made_from(
    fov: float, height: int, width: int
) -> None:
    camera = Camera.from_fov(fov, (height, width), "assumed")
    assert camera.fov_deg == pytest.approx(fov)
    assert camera.fx == camera.fy
    assert (camera.cx, camera.cy) == ((width - 1) / 2, (height - 1) / 2)


def test_ninety_degrees_have_a_focal_length_of_half_the_width() -> None:
    assert Camera.from_fov(90.0, (480, 640), "assumed").fx == pytest.approx(320.0)


def test_field_of_view_survives_a_resize_and_shrinks_with_a_crop() -> None:
    camera = Camera.from_fov(90.0, (480, 640), "assumed")
    assert camera.resized((100, 1280)).fov_deg == pytest.approx(90.0)
    middle = camera.cropped(0, 160, (480, 320))
    assert middle.fov_deg == pytest.approx(math.degrees(2 * math.atan(0.5)))


def test_off_axis_pictures_count_both_sides_of_the_axis() -> None:
    left_half = Camera.from_fov(90.0, (480, 640), "assumed").cropped(0, 0, (480, 320))
    assert left_half.fov_deg == pytest.approx(45.0)


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize("scale", [1.0, -2.0])
def test_matrix_and_projection_give_the_same_camera(columns: int, scale: float) -> None:
    matrix = scale * np.eye(3, columns)
    matrix[:, :3] = scale * CAMERA.matrix
    assert Camera.from_matrix(matrix, CAMERA.size, "calibration") == CAMERA


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"camera matrix: shape \(2, 3\); \(3, 3\) is needed"):
        Camera.from_matrix(np.ones((2, 3)), (480, 640), "calibration")


@pytest.mark.parametrize("fov", [0.0, 180.0, -60.0, math.nan])
def test_a_field_of_view_that_no_camera_has_is_refused(fov: float) -> None:
    with pytest.raises(InputError, match="between 0 and 180 degrees is needed"):
        Camera.from_fov(fov, (480, 640), "assumed")


@pytest.mark.parametrize(
    ("fx", "cx"), [(0.0, 1.0), (-500.0, 1.0), (math.nan, 1.0), (1.0, math.inf)]
)
def test_numbers_that_make_no_camera_are_refused(fx: float, cx: float) -> None:
    with pytest.raises(InputError, match="fx and fy more than 0, and four finite numbers"):
        Camera(fx=fx, fy=500.0, cx=cx, cy=1.0, size=(480, 640), origin="calibration")
