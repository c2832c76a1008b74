"""Crops, sizes and scored windows of each dataset, as in the released code.

Pictures are ramps: red counts columns and green counts rows, so that the colour of a pixel shows
where in the stored picture it comes from.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.data import framing, masks
from idisc.data.framing import as_stored, resize_nearest
from idisc.errors import InputError
from idisc.sizes import resize_bilinear


def places(size):
    """A target whose value is 10000 * row + column."""
    rows, columns = np.indices(size, dtype=np.float32)
    return 10000 * rows + columns


def ramps(size):
    """Red rises by one from column to column and green from row to row, around the middle."""
    rows, columns = np.indices(size)
    red = np.clip(columns - size[1] // 2 + 127, 0, 255)
    green = np.clip(rows - size[0] // 2 + 127, 0, 255)
    return np.stack([red, green, np.zeros(size, int)], axis=-1).astype(np.uint8)


def camera_of(size):
    return Camera(
        fx=700, fy=720, cx=size[1] / 2 + 3.25, cy=size[0] / 2 - 5.5, size=size, origin="test"
    )


@pytest.mark.parametrize(
    ("before", "after"), [((53, 73), (48, 66)), ((24, 32), (48, 64)), ((87, 48), (58, 32))]
)
def test_bilinear_is_the_weighted_mean_of_four_pixels_rounded_to_nearest(before, after):
    image = np.random.default_rng(0).integers(0, 256, (*before, 3), dtype=np.uint8)
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].double()  # (1, 3, H, W)
    exact = F.interpolate(pixels, after, mode="bilinear", align_corners=False)
    resized = resize_bilinear(image, after)
    assert np.abs(resized - exact[0].permute(1, 2, 0).numpy()).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("before", "after"),
    [((531, 681), (499, 640)), ((427, 561), (487, 640)), ((768, 1024), (480, 640))],
)
def test_nearest_takes_the_pixel_at_the_scaled_index_rounded_down(before, after):
    resized = resize_nearest(places(before), after)
    for row, column in ((0, 0), (1, 1), (17, 33), (after[0] - 1, after[1] - 1)):
        # OpenCV's INTER_NEAREST: floor(i * scale) in double precision
        y = int(row * (1 / (after[0] / before[0])))
        x = int(column * (1 / (after[1] / before[1])))
        assert resized[row, column] == 10000 * y + x


@pytest.mark.parametrize(
    ("size", "corner"),
    [
        ((375, 1242), (23, 13)),
        ((370, 1226), (18, 5)),
        ((376, 1241), (24, 12)),
        ((374, 1238), (22, 11)),
    ],
)
def test_kitti_keeps_the_lowest_rows_and_the_middle_columns(size, corner):
    framed = framing.bottom_middle(as_stored(ramps(size), places(size), None))
    assert framed.image.shape == (352, 1216, 3)
    assert framed.target[0, 0] == 10000 * corner[0] + corner[1]
    assert framed.target[-1, -1] == 10000 * (corner[0] + 351) + corner[1] + 1215
    assert framed.place == (*corner, size)
    np.testing.assert_array_equal(framed.image, ramps(size)[corner[0] :, corner[1] :][:, :1216])


def test_picture_and_target_may_differ_in_size():
    framed = framing.bottom_middle(as_stored(ramps((375, 1242)), places((370, 1226)), None))
    assert framed.place == (18, 5, (370, 1226))
    assert framed.image.shape[:2] == framed.target.shape
    normals = np.zeros((500, 700, 3), dtype=np.float32)
    framed = framing.picture_top_left(as_stored(ramps((500, 700)), normals, None))
    assert (framed.image.shape, framed.target.shape) == ((480, 640, 3), (500, 700, 3))


@pytest.mark.parametrize(
    ("size", "resized", "top", "left"),
    [
        ((531, 681), (499, 640), 9, 0),  # narrower than 4:3: rows 9..488 of 499 are kept
        ((441, 591), (480, 643), 0, 1),
        ((427, 561), (487, 640), 3, 0),
        ((530, 730), (480, 661), 0, 10),
        ((480, 640), (480, 640), 0, 0),
    ],
)
def test_sunrgbd_covers_480x640_and_keeps_the_middle(size, resized, top, left):
    framed = framing.covering(as_stored(ramps(size), places(size), None))
    assert framed.image.shape == (480, 640, 3)
    assert framed.place == (top, left, resized)
    expected = resize_nearest(places(size), resized)[top : top + 480, left : left + 640]
    np.testing.assert_array_equal(framed.target, expected)
    picture = resize_bilinear(ramps(size), resized)[top : top + 480, left : left + 640]
    np.testing.assert_array_equal(framed.image, picture)


@pytest.mark.parametrize(
    ("window", "size", "top", "left"),
    [
        (framing.argoverse, (1200, 1920), 180, 0),
        (framing.ddad, (1216, 1936), 180, 8),
        (framing.ddad_paper, (1216, 1936), 210, 8),
    ],
)
def test_roads_have_targets_of_870x1920_and_pictures_of_two_thirds(window, size, top, left):
    framed = window(as_stored(ramps(size), places(size), None))
    assert (framed.image.shape, framed.target.shape) == ((580, 1280, 3), (870, 1920))
    assert framed.target[0, 0] == 10000 * top + left
    assert framed.target[-1, -1] == 10000 * (top + 869) + left + 1919
    assert framed.place == (top, left, size)


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (framing.whole, (480, 640)),
        (framing.top_left, (500, 700)),
        (framing.bottom_middle, (375, 1242)),
        (framing.covering, (531, 681)),
        (framing.covering, (530, 730)),
        (framing.reduced, (768, 1024)),
        (framing.argoverse, (1200, 1920)),
        (framing.ddad, (1216, 1936)),
    ],
)
def test_a_scene_point_is_seen_in_the_pixel_where_the_camera_puts_it(frame, size):
    before = camera_of(size)
    framed = frame(as_stored(ramps(size), places(size), before))
    after = framed.camera
    assert after.size == framed.image.shape[:2]
    rows, columns = np.indices(after.size)
    # The ray of every pixel, back into the stored picture, whose colour there is known.
    x = (columns - after.cx) / after.fx * before.fx + before.cx
    y = (rows - after.cy) / after.fy * before.fy + before.cy
    red, green = x - size[1] // 2 + 127, y - size[0] // 2 + 127
    known = (red > 2) & (red < 253) & (green > 2) & (green < 253)
    assert known.sum() > 10000
    for channel, expected in ((0, red), (1, green)):
        error = (framed.image[..., channel] - expected)[known]
        assert np.abs(error).max() <= 0.5 + 1e-3  # what rounding explains, and no shift


@pytest.mark.parametrize(
    ("frame", "image", "target", "facts"),
    [
        (framing.top_left, (480, 639), (480, 640), ("480x639", "480x640")),
        (framing.top_left, (480, 640), (240, 320), ("240x320", "480x640")),
        (framing.bottom_middle, (351, 1216), (352, 1216), ("351x1216", "352x1216")),
        (framing.ddad, (1049, 1928), (1216, 1936), ("1049x1928", "1050x1928")),
    ],
)
def test_a_frame_that_is_too_small_is_an_error(frame, image, target, facts):
    with refused(InputError, "", *facts):
        frame(as_stored(ramps(image), places(target), None))


def bounds(window):
    rows, columns = window
    return rows.start, rows.stop, columns.start, columns.stop


@pytest.mark.parametrize(
    ("rule", "size", "expected"),
    [
        (masks.garg, (352, 1216), (143, 349, 43, 1172)),
        (masks.eigen_road, (352, 1216), (117, 321, 43, 1172)),
        (masks.garg, (375, 1242), (153, 371, 44, 1197)),  # the usual one, of the full frame
        (masks.eigen_indoor, (480, 640), (45, 471, 41, 601)),
        (masks.eigen_indoor, (240, 320), (22, 236, 20, 300)),
    ],
)
def test_windows_are_those_of_the_released_code(rule, size, expected):
    assert bounds(rule(size)) == expected


def test_windows_of_the_full_frame_are_moved_into_a_crop():
    assert bounds(masks.shifted(masks.garg((375, 1242)), 23, 13)) == (130, 348, 31, 1184)
    assert bounds(masks.shifted((slice(5, 50), slice(0, 9)), 10, 20)) == (0, 40, 0, 0)
