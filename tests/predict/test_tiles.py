"""Tiles: an exact network stays exact, errors of scale go, and no seam is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.predict import tiles
from idisc.predict.engine import Output
from idisc.predict.tiles import Tiles, choose_size, lay_out, refine

SIDES = st.integers(32, 300)


def scene(height, width):
    """A picture whose red and green bytes say what its depth is, and that depth."""
    rows, columns = np.mgrid[:height, :width]
    steps = (rows * 7 + columns * 3 + (rows // 40 + columns // 30) % 2 * 500).astype(np.int64)
    image = np.stack([steps // 256, steps % 256, steps * 0], axis=-1).astype(np.uint8)
    return image, told(image)


def told(image):
    return (1 + (image[..., 0] * 256.0 + image[..., 1]) / 1000).astype(np.float32)


def exact(image):
    return Output(told(image), told(image) / 10)


def with_error(factors):
    """A network that is wrong by another factor in each tile."""
    drawn = iter(factors * 100)

    def predict(image):
        depth = next(drawn) * told(image)
        return Output(depth.astype(np.float32), (depth / 10).astype(np.float32))

    return predict


@given(SIDES, SIDES, st.integers(32, 120), st.integers(32, 120))
@settings(max_examples=50, deadline=None)
def test_tiles_cover_every_pixel_and_overlap(height, width, rows, cols):
    layout = lay_out((height, width), (rows, cols))
    for starts, size, length in (
        (layout.tops, layout.size[0], height),
        (layout.lefts, layout.size[1], width),
    ):
        assert starts[0] == 0
        assert starts[-1] + size == length
        steps = np.diff(starts)
        assert (steps <= size - size // 4).all()
        assert len(steps) == 0 or steps.max() - steps.min() <= 1


@given(SIDES, SIDES, st.integers(32, 120))
@settings(max_examples=25, deadline=None)
def test_an_exact_network_stays_exact(height, width, side):
    image, depth = scene(height, width)
    found = refine(image, depth, exact, lay_out((height, width), (side, side)))
    np.testing.assert_allclose(found.maps, depth, rtol=1e-5)
    assert found.level_std is not None
    np.testing.assert_allclose(found.level_std, depth / 10, rtol=1e-4)


@given(st.lists(st.floats(0.2, 5.0), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_an_error_of_scale_in_each_tile_is_removed(factors):
    image, depth = scene(120, 150)
    found = refine(image, depth, with_error(factors), lay_out((120, 150), (64, 80)))
    np.testing.assert_allclose(found.maps, depth, rtol=1e-4)
    assert found.level_std is not None
    np.testing.assert_allclose(found.level_std, depth / 10, rtol=1e-4)


def test_detail_comes_from_the_tiles_and_layout_from_the_whole():
    rows, columns = np.mgrid[:128, :128]
    layout = np.exp(rows / 256).astype(np.float32)  # all that the whole sees
    detail = np.exp(0.2 * ((rows // 4 + columns // 4) % 2))  # what a tile sees besides
    bend = np.exp(columns / 128)  # and what it gets wrong
    seen = (layout * detail * bend).astype(np.float32)
    image = np.zeros((128, 128, 3), np.uint8)
    found = refine(image, layout, lambda _: Output(seen), lay_out((128, 128), (128, 128)))
    inside = np.s_[16:-16, 16:-16]
    expected = (layout * detail)[inside] / np.exp(0.1)  # the detail goes both ways from the layout
    np.testing.assert_allclose(found.maps[inside], expected, rtol=0.03)


def test_no_seam_is_left_where_tiles_disagree():
    image = np.zeros((96, 256, 3), np.uint8)
    slope = np.linspace(0.9, 1.1, 128, dtype=np.float32)  # each tile is bent the same way
    found = refine(
        image,
        np.full((96, 256), 2.0, np.float32),
        lambda tile: Output(np.broadcast_to(2 * slope[: tile.shape[1]], tile.shape[:2])),
        lay_out((96, 256), (96, 128)),
    )
    steps = np.abs(np.diff(found.maps, axis=1))
    assert steps.max() < 0.02  # the bend itself is 0.003, an unblended edge would be 0.4
    assert found.level_std is None


def test_a_picture_no_larger_than_a_tile_is_one_tile():
    assert lay_out((50, 60), (64, 64)) == Tiles((50, 60), (0,), (0,))


def test_tiles_that_are_too_small_are_refused():
    with refused(InputError, "tiles of 16x64"):
        lay_out((500, 500), (16, 64))


@pytest.mark.parametrize("picture", [(480, 640), (3000, 4000), (9000, 12_000), (600, 12_000)])
def test_the_chosen_tile_size_limits_the_number_of_tiles(picture):
    size = choose_size(picture, (480, 640))
    assert len(lay_out(picture, size)) <= tiles.MAX_TILES
    assert size[0] >= 480
