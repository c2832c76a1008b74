"""Views through the canonical camera: image, depth and camera."""

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes import pairs
from tests.fakes.refusals import refused
from tests.fakes.training import start
from tests.train.test_augment import CAMERA, H, W, sample

from idisc.configs.schema import AugmentConfig, DataConfig
from idisc.errors import DataError
from idisc.predict.model_info import read_model_info
from idisc.predict.torch_engine import TorchEngine
from idisc.train.loader import Item
from idisc.train.views import Window, draw_window, view

FOCAL = CAMERA.relative_focal


def test_the_whole_picture_of_the_canonical_camera_is_itself():
    seen = view(sample(), (H, W), FOCAL, Window())
    np.testing.assert_array_equal(seen.image, sample().image)
    np.testing.assert_allclose(seen.target, sample().target, rtol=1e-6)
    assert seen.valid.all()


@pytest.mark.parametrize("target_size", [(H, W), (H // 2, W // 2), (2 * H, 2 * W)])
def test_a_zoomed_window_is_enlarged_and_its_depth_divided(target_size):
    stored = sample(target_size)
    seen = view(stored, (H, W), FOCAL, Window(zoom=2.0, across=0.25, down=0.75))
    assert seen.target.shape == seen.valid.shape == (H, W)
    corner = stored.target[target_size[0] // 2 :, : target_size[1] // 2] / 2  # the lower left
    rows, columns = np.mgrid[:H, :W]
    expected = corner[rows * len(corner) // H, columns * corner.shape[1] // W]
    np.testing.assert_allclose(seen.target, expected, rtol=1e-5)
    columns = (np.arange(W) + 0.5) / 2 - 0.5  # red is 3 x
    np.testing.assert_allclose(seen.image[H // 2, 4:-4, 0], 3 * columns[4:-4], atol=2)
    assert (seen.camera.fx, seen.camera.size) == (2 * CAMERA.fx, (H, W))
    assert (seen.camera.cx, seen.camera.cy) == ((W - 1) / 2, (H - 1) / 2)


def test_a_smaller_view_has_the_same_depth():
    """What counts is the focal length over the size of the picture."""
    stored = sample()
    seen = view(stored, (H // 2, W // 2), 2 * FOCAL, Window())
    np.testing.assert_allclose(seen.target.mean(), 2 * stored.target.mean(), rtol=0.02)
    assert seen.camera.relative_focal == pytest.approx(FOCAL)
    square = view(stored, (30, 30), FOCAL, Window())  # 60x60 of the picture
    factor = FOCAL / (70 / 60)
    np.testing.assert_allclose(square.target.mean(), factor * stored.target.mean(), rtol=0.02)


def test_normals_rotate_with_the_picture_and_are_not_scaled():
    seen = view(sample(normals=True), (H, W), 3 * FOCAL, Window(angle_deg=90.0))
    np.testing.assert_allclose(seen.target[H // 2, W // 2], [0.0, 0.6, -0.8], atol=1e-6)
    assert not seen.valid[:, 0].any()  # outside of the picture
    red, green = seen.image[H // 2, W // 2, :2]  # red grows downwards now, green to the left
    assert seen.image[H // 2 + 10, W // 2, 0] > red
    assert seen.image[H // 2, W // 2 + 10, 1] < green


@pytest.mark.parametrize("size", [(H, W), (40, 40), (24, 96)])
def test_windows_without_rotation_stay_inside_the_picture(size):
    data = DataConfig(size=size, augment=AugmentConfig(zoom=1.2, rotation_deg=0.0))
    generator = np.random.default_rng(0)
    windows = [draw_window(sample(), data, generator) for _ in range(200)]
    assert all(view(sample(), size, FOCAL, window).valid.all() for window in windows)
    zooms = {window.zoom for window in windows}
    assert 2.1 < max(zooms) <= 2.2
    assert 0.2 < np.mean([window == Window() for window in windows]) < 0.4  # as prediction sees it


def test_a_picture_without_a_camera_is_refused():
    with refused(DataError, "a.png"):
        view(replace(sample(), camera=None), (H, W), FOCAL, Window())


def test_a_run_with_a_canonical_camera_uses_views_and_records_the_camera(tmp_path):
    root, recipe = pairs.make(tmp_path / "data"), pairs.recipe()
    pairs.write_table(root, fx=64, fy=64, cx=31.5, cy=23.5)
    data = replace(recipe.data, size=(32, 40), canonical_focal=1.3)
    run = start(replace(recipe, data=data), root, tmp_path / "run")
    item = run.stream[0]
    assert isinstance(item, Item)
    assert item.image.shape == (32, 40, 3)
    assert item.target.shape == (32, 40)
    facts = read_model_info(TorchEngine(run.stepper.network, "tiny", origin=run.origin))
    assert facts.canonical
    assert facts.training_camera.relative_focal == pytest.approx(1.3, rel=1e-3)
