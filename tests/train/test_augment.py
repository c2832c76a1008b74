"""Augmentation: picture, target and camera change together, and follow from the seed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from idisc.camera import Camera
from idisc.configs.schema import AugmentConfig
from idisc.data.dataset import Sample
from idisc.data.framing import Place
from idisc.data.manifest import Record
from idisc.tasks import DEPTH, NORMALS
from idisc.train import augment as module
from idisc.train.augment import augment, flip, move

H, W = 60, 80
CAMERA = Camera(fx=70.0, fy=70.0, cx=42.0, cy=27.0, size=(H, W), origin="made up")


def sample(target_size=(H, W), normals=False):
    """A picture whose red is x and green is y of the pixel, and a target with the same."""
    rows, columns = np.mgrid[:H, :W]
    image = np.stack([columns * 3, rows * 4, np.full((H, W), 90)], axis=-1).astype(np.uint8)
    rows, columns = np.mgrid[: target_size[0], : target_size[1]]
    depth = (1 + columns / target_size[1] + 2 * rows / target_size[0]).astype(np.float32)
    unit = np.broadcast_to(np.float32([0.6, 0.0, -0.8]), (*target_size, 3)).copy()
    return Sample(
        image=image,
        target=unit if normals else depth,
        valid=np.ones(target_size, dtype=bool),
        camera=CAMERA,
        place=Place(0, 0, target_size),
        record=Record(image="a.png", target="b.png", split="train"),
        task=NORMALS if normals else DEPTH,
    )


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("image", "target", "valid")
    )


def test_the_same_generator_gives_the_same_sample():
    config = AugmentConfig()
    samples = [augment(sample(), config, np.random.default_rng(seed)) for seed in (5, 5, 6)]
    assert same(samples[0], samples[1])
    assert not same(samples[0], samples[2])


@pytest.mark.parametrize(("flip_normals", "x"), [(True, -0.6), (False, 0.6)])  # False: as released
def test_a_flip_mirrors_picture_target_and_camera(flip_normals, x):
    mirrored = flip(sample(), AugmentConfig())
    np.testing.assert_array_equal(mirrored.image, sample().image[:, ::-1])
    np.testing.assert_array_equal(mirrored.target, sample().target[:, ::-1])
    assert mirrored.camera.cx == W - 1 - 42
    normals = flip(sample(normals=True), AugmentConfig(flip_normals=flip_normals)).target
    np.testing.assert_allclose(normals[0, 0], [x, 0, -0.8])


def test_a_quarter_turn_by_hand():
    square = replace(sample(), image=sample().image[:, :H], target=sample().target[:, :H])
    square = replace(square, valid=square.valid[:, :H], camera=replace(CAMERA, size=(H, H)))
    turned = move(square, angle_deg=90.0)
    # x_in = y, y_in = H - x: the picture turns clockwise, its top row becomes the right column.
    np.testing.assert_array_equal(turned.target[:, -1], square.target[0])
    np.testing.assert_allclose(turned.image[:, -1].astype(int), square.image[0].astype(int), atol=1)


def test_normals_rotate_with_the_picture():
    turned = move(sample(normals=True), angle_deg=90.0)
    np.testing.assert_allclose(turned.target[H // 2, W // 2], [0, 0.6, -0.8], atol=1e-6)
    slightly = move(sample(normals=True), angle_deg=5.0).target[H // 2, W // 2]
    np.testing.assert_allclose(np.linalg.norm(slightly), 1, rtol=1e-6)


def test_pixels_from_outside_are_black_and_not_valid():
    shifted = move(sample(), across=0.25)
    assert not shifted.valid[:, : W // 4].any()
    assert shifted.valid[:, W // 4 :].all()
    assert not shifted.image[:, : W // 4 - 1].any()
    assert not shifted.target[:, : W // 4].any()
    np.testing.assert_array_equal(shifted.target[:, W // 4 :], sample().target[:, : -(W // 4)])


def test_a_target_of_another_size_moves_by_the_same_share():
    double = sample(target_size=(2 * H, 2 * W))
    shifted = move(double, across=0.25, down=-0.1)
    assert not shifted.valid[:, : W // 2].any()
    assert not shifted.valid[2 * H - 12 :].any()
    assert shifted.valid[: 2 * H - 12, W // 2 :].all()


@pytest.mark.parametrize(
    "changes",
    [
        {"zoom": 1.3},
        {"across": 0.1, "down": -0.05},
        {"angle_deg": 4.0},
        {"zoom": 1.2, "angle_deg": -5.0},
    ],
)
def test_the_camera_moves_with_the_picture(changes):
    """The pixel on the optical axis stays on it, and angles keep their size."""
    start = sample()
    red, green = start.camera.cx * 3, start.camera.cy * 4
    end = move(start, **changes)
    seen = end.image[round(end.camera.cy), round(end.camera.cx)]
    assert seen[0] == pytest.approx(red, abs=3)
    assert seen[1] == pytest.approx(green, abs=4)
    assert end.camera.fx == pytest.approx(70 * changes.get("zoom", 1.0))


def test_zoom_keeps_depth_as_released_or_divides_it():
    def zoomed(zoom_depth):
        config = AugmentConfig(zoom=0.5, zoom_depth=zoom_depth)
        return module.zoom_in(sample(), config, np.random.default_rng(1))

    kept, divided = zoomed("kept"), zoomed("divided")
    ratio = kept.target[kept.valid] / divided.target[divided.valid]
    assert ratio.min() == pytest.approx(ratio.max())
    assert 1 < ratio.mean() < 1.5


def test_operations_are_drawn_by_their_weights(monkeypatch):
    drawn = Counter()

    def counting(name):
        def operation(sample, *_):
            drawn[name] += 1
            return sample

        return operation

    table = [(counting(name), 0.0 if name == "c" else 1.0) for name in "abcde"]
    monkeypatch.setattr(module, "operations", lambda config: table)
    for seed in range(1000):
        augment(sample(), AugmentConfig(flip=0), np.random.default_rng(seed))
    assert drawn["c"] == 0
    assert sum(drawn.values()) / 1000 == pytest.approx(2.1, abs=0.09)  # mean of 1..4
    assert max(drawn.values()) - min(drawn[n] for n in "abde") < 120


def test_changes_of_colour_do_not_change_the_target():
    still = AugmentConfig(flip=0, geometry_weight=0, translation_weight=0, blur_weight=1)
    for seed in range(10):
        changed = augment(sample(), still, np.random.default_rng(seed))
        np.testing.assert_array_equal(changed.target, sample().target)
        assert changed.camera == CAMERA
