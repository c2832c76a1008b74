"""Colours: what is near, far, wrong or missing can be told apart, also when points are few."""

import cmap
import numpy as np
import pytest
from tests.fakes.refusals import refused

from idisc import visualize
from idisc.errors import InputError
from idisc.tasks import DEPTH
from idisc.visualize import EMPTY

MAGMA_LOW, MAGMA_HIGH = (0, 0, 4), (252, 253, 191)  # matplotlib's first and last colour
COOLWARM_LOW, COOLWARM_HIGH = (59, 76, 192), (180, 4, 38)


def colours_of(picture):
    return {tuple(colour) for colour in picture.reshape(-1, 3).tolist()}


def test_missing_values_have_the_empty_colour():
    picture = visualize.colourise(np.array([[np.nan, np.inf, 0.5]]), 0, 1, empty=(1, 2, 3))
    assert picture[0, :2].tolist() == [[1, 2, 3], [1, 2, 3]]
    assert picture[0, 2].tolist() != [1, 2, 3]


def test_the_empty_colour_is_in_neither_colour_map_of_the_paper():
    ramp = np.linspace(0, 1, 256)[None]
    for name in (visualize.DEPTH_COLOURS, visualize.ERROR_COLOURS):
        assert EMPTY not in colours_of(visualize.colourise(ramp, 0, 1, name))


@pytest.mark.parametrize("name", ["viridis", "Spectral", "turbo", "Greys", "tab10", "twilight"])
def test_every_map_of_matplotlib_has_its_reverse(name):
    ramp = np.linspace(0, 1, 256)[None]
    forth = visualize.colourise(ramp, 0, 1, name)
    assert np.array_equal(visualize.colourise(ramp, 0, 1, f"{name}_r"), forth[:, ::-1])


def test_the_default_colours_are_those_of_matplotlib():
    expected = cmap.Colormap("matplotlib:magma_r")(np.linspace(0, 1, 256))[None, :, :3]
    picture = visualize.colourise(np.linspace(0, 1, 256)[None], 0, 1)
    np.testing.assert_array_equal(picture, (255 * expected + 0.5).astype(np.uint8))


@pytest.mark.parametrize("count", [1, 2, 7, 1001])
def test_percentiles_are_those_of_numpy(count):
    values = np.random.default_rng(count).random(count)
    assert visualize.percentiles(values, 2, 50, 98) == np.percentile(values, [2, 50, 98]).tolist()


@pytest.mark.parametrize(
    ("values", "low", "high", "colours", "subject"),
    [
        (np.zeros((2, 2, 3)), 0, 1, "magma", "values of shape (2, 2, 3)"),
        (np.zeros((2, 2)), 3, 3, "magma", "colours from 3 to 3"),
        (np.zeros((2, 2)), 0, float("nan"), "magma", "colours from 0 to nan"),
        (np.zeros((2, 2)), 0, 1, "magmma_r", "colour map 'magmma'"),
    ],
)
def test_invalid_values_ranges_and_names_are_refused(values, low, high, colours, subject):
    with refused(InputError, subject):
        visualize.colourise(values, low, high, colours)


def test_text_keeps_its_letters_without_accents():
    assert visualize.drawable_text("K\u00fcche \u00b7 \u6df1") == "Kuche \u00b7 ?"


def test_depth_of_zero_is_no_depth():
    picture = visualize.depth_picture(np.array([[0.0, -1.0, 2.0]]), 1, 3)
    assert (picture[0, :2] == EMPTY).all()
    assert (picture[0, 2] != EMPTY).any()


def test_errors_go_from_blue_to_red_and_stop_at_the_limit():
    target = np.full((1, 4), 2.0)
    prediction = np.array([[2.0, 2.5, 9.0, 2.0]])
    valid = np.array([[True, True, True, False]])
    picture = DEPTH.draw_error(prediction, target, valid, 0.5)
    assert [tuple(colour) for colour in picture[0].tolist()] == [
        COOLWARM_LOW,
        COOLWARM_HIGH,
        COOLWARM_HIGH,
        EMPTY,
    ]


def test_sparse_points_are_drawn_thicker_and_dense_maps_as_they_are():
    sparse = np.zeros((50, 50))
    sparse[10, 10] = sparse[0, 49] = 2.0
    seen = (visualize.depth_picture(sparse, 1, 3) != EMPTY).any(axis=2)
    assert seen[7:14, 7:14].all()  # three pixels to each side
    assert seen.sum() == 49 + 16  # the other one is in a corner, and does not come round
    dense = np.zeros((50, 50))
    dense[:, ::2] = 2.0
    assert ((visualize.depth_picture(dense, 1, 3) != EMPTY).any(axis=2) == (dense > 0)).all()


def test_a_map_without_any_value_stays_empty():
    assert colours_of(visualize.depth_picture(np.zeros((8, 8)), 1, 3)) == {EMPTY}
    assert visualize.depth_limits(np.zeros((8, 8))) == (0.0, 1.0)


def test_a_narrow_map_holds_the_mean_of_the_numbers_only():
    depth = np.array([[2.0, 0.0, 4.0, 6.0], [0.0, 0.0, 4.0, 6.0], [9.0, 9.0, 9.0, 9.0]])
    picture = visualize.depth_picture(depth, 0, 10, width=2)
    expected = visualize.colourise(np.array([[2.0, 5.0]]), 0, 10)
    assert np.array_equal(picture, expected)


def test_normals_are_shown_by_their_direction_alone():
    normals = np.array([[[0, 0, 5.0], [1, 0, 0], [0, 0, 0], [np.nan, 0, 1]]])
    picture = visualize.normals_picture(normals)
    assert picture[0].tolist() == [[128, 128, 255], [255, 128, 128], list(EMPTY), list(EMPTY)]


def test_limits_leave_out_the_extremes_but_never_all():
    depth = np.append(np.linspace(1, 5, 1000), [0.0, np.nan, 80.0]).reshape(17, 59)
    low, high = visualize.depth_limits(depth)
    assert (round(low, 1), round(high, 1)) == (1.1, 4.9)
    low, high = visualize.depth_limits(np.full((4, 4), 2.0))
    assert low < 2 < high


@pytest.mark.parametrize(
    ("low", "high", "count", "expected"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (0, 0.5, 5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (1.13, 4.87, 4, [2, 3, 4]),
        (0, 80, 4, [0, 20, 40, 60, 80]),
    ],
)
def test_ticks_are_round_numbers_within(low, high, count, expected):
    assert visualize.ticks(low, high, count) == expected


def test_numbers_of_one_axis_have_the_same_digits():
    assert visualize.format_ticks([0, 0.05, 0.1]) == ["0.00", "0.05", "0.10"]
    assert visualize.format_ticks([0, 20]) == ["0", "20"]
    assert visualize.format_ticks([]) == []


@pytest.mark.parametrize("width", [160, 640, 1216])
def test_the_legend_shows_the_whole_colour_map_and_numbers(width):
    picture = visualize.legend(0.7, 9.3, "m", width=width)
    assert picture.shape[1] == width
    assert {MAGMA_HIGH, MAGMA_LOW} <= colours_of(picture)
    assert (picture[-1] == 255).all()  # letters are not cut off at the foot
    foot = picture[picture.shape[0] // 2 :]
    assert (foot < 100).all(axis=2).sum() > 20  # ink


def test_pictures_are_placed_side_by_side_at_one_height():
    red, blue = np.zeros((40, 60, 3), np.uint8), np.zeros((80, 80, 3), np.uint8)
    red[..., 0], blue[..., 2] = 255, 255
    panel = visualize.side_by_side([red, blue], ["a red one", "a blue one"])
    assert panel.shape == (40 + 22, 60 + 5 + 40, 3)
    assert (panel[22:, :60] == red).all()
    assert (panel[22:, 65:] == blue[:40, :40]).all()
    assert (panel[:22] < 100).any()  # captions


def test_changes_are_white_at_zero_purple_below_and_orange_above():
    less, none, more = visualize.change_picture(np.array([[-9.0, 0.0, 9.0]]), 2.0)[0].astype(int)
    assert none.min() > 240
    assert less[2] > less[0] + 20  # purple
    assert more[0] > more[2] + 40  # orange
    assert abs(less.sum() - more.sum()) < 150  # neither end is the darker by much


def test_an_overlay_glows_where_the_weight_is_and_dims_the_rest():
    image = np.full((40, 60, 3), 200, np.uint8)
    weight = np.zeros((4, 6))
    weight[:, 3:] = 1
    picture = visualize.overlay(image, weight)
    assert picture.shape == image.shape
    assert (picture[:, 0] == 90).all()  # grey at 45 %
    bright = picture[20, -1].astype(int)
    assert bright[0] > 220
    assert bright[2] < bright[0] - 40  # yellow


def test_the_first_seven_members_have_colours_and_the_others_greys():
    order = [3, 0, 9, 8, 7, 6, 5, 4, 2, 1]
    colours = visualize.member_colours(order)
    coloured = {member for member in range(10) if len(set(colours[member].tolist())) > 1}
    assert coloured == set(order[:7])
    assert len(colours_of(colours[:, None])) == 10
    assert colours[3].tolist() == [0xE6, 0x9F, 0x00]


def test_soft_membership_mixes_colours_by_shares():
    colours = np.array([[200, 0, 0], [0, 100, 0]], np.uint8)
    shares = np.array([[[1.0, 0.5]], [[0.0, 0.5]]])
    assert visualize.member_picture(shares, colours)[0].tolist() == [[200, 0, 0], [100, 50, 0]]


@pytest.mark.parametrize(
    ("domain", "deepest", "limit"),
    [("indoor", 80.0, 0.5), ("road", 5.0, 5.0), ("any", 8.0, 0.5), ("any", 40.0, 5.0)],
)
def test_error_colours_stop_where_the_papers_do(domain, deepest, limit):
    assert visualize.error_limit_m(domain, np.array([[1.0, deepest]])) == limit
