"""Rendered rooms and streets: exact ground truth that depends only on the seed."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.data.dataset import open_dataset
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import FARTHEST, Options
from idisc.data.synthetic import make_shot
from idisc.data.synthetic.render import NEAREST, camera_rays, cast, interval, render
from idisc.data.synthetic.scene import Light, Material, Pose, Scene, rotation, solid
from idisc.errors import InputError
from idisc.geometry import normals_from_depth, unproject

SIZE = (90, 120)
GREY = Material(colour=(0.5, 0.5, 0.5))
CAMERA = Camera.from_fov(70, SIZE, origin="test")
TILTED = Pose(position=(0.3, -0.2, 1.4), yaw=0.4, pitch=-0.2, roll=0.1)
FLOOR = solid((-50, 50), (-50, 50), (-1, 0), GREY)
SUN = Light(position=(3e3, -5e3, 8e3), colour=(1, 1, 1))


def shown(*shapes, pose=TILTED, sun=SUN):
    scene = Scene(shapes=shapes, lights=(sun,), ambient=(0.5, 0.5, 0.5))
    return render(scene, CAMERA, pose, cast(scene, CAMERA, pose), np.random.default_rng(0))


@cache
def shot(kind, seed):
    return make_shot(np.random.default_rng(seed), kind, SIZE)


def distances(shape, points):
    """(P,): approximate metres from points to the surface of a shape."""
    local = np.abs((points - shape.centre) @ rotation(shape.yaw))
    if shape.form == "ball":
        return np.abs(np.linalg.norm(local, axis=1) - shape.half[0])
    if shape.form == "tube":
        local = np.stack([np.hypot(local[:, 0], local[:, 1]), local[:, 2]], axis=1)
        return np.abs((local - shape.half[1:]).max(axis=1))
    return np.abs((local - shape.half).max(axis=1))


@pytest.mark.parametrize(
    "shape",
    [
        FLOOR,
        replace(solid((-2, -0.4), (2.6, 3.4), (0.4, 1.6), GREY), yaw=0.2),
        solid((-1.9, -0.1), (3.1, 4.9), (0.3, 2.1), GREY, "ball"),
        solid((-1.4, -0.6), (2.6, 3.4), (0, 1), GREY, "tube"),  # its lid is below the camera
    ],
    ids=["floor", "box", "ball", "tube"],
)
def test_points_are_on_the_surface_to_a_tenth_of_a_millimetre(shape):
    depth = shown(shape).depth
    points = unproject(depth, CAMERA)[depth > 0].astype(np.float64) @ TILTED.axes + TILTED.position
    near = np.abs(points).max(axis=1) < 20
    assert near.sum() > 300
    assert distances(shape, points[near]).max() < 1e-4


def test_yaw_turns_left_pitch_up_and_roll_clockwise():
    def middle(**angles):
        ball = solid((-1.3, -0.7), (9.7, 10.3), (0.7, 1.3), GREY, "ball")
        depth = shown(ball, pose=Pose(position=(0, 0, 0), **angles)).depth
        return np.asarray(np.argwhere(depth > 0).mean(axis=0) - [CAMERA.cy, CAMERA.cx])

    row, column = middle()
    assert max(row, column) < 0
    assert middle(yaw=0.1)[1] == pytest.approx(0, abs=0.6)
    assert middle(pitch=0.1)[0] == pytest.approx(0, abs=0.6)
    assert middle(roll=math.pi / 2) == pytest.approx([-column, row], abs=0.6)


def test_an_obstacle_in_front_of_the_sun_casts_a_shadow():
    def brightness(*shapes):
        sun, pose = replace(SUN, position=(0, 4, 1e4)), Pose(position=(0, 0, 1), pitch=-0.3)
        image = shown(*shapes, pose=pose, sun=sun).image
        return float(image[60:80, 50:70].mean()) / float(image[60:80, :20].mean())

    roof = solid((-0.7, 0.7), (1, 5), (3.9, 4.1), GREY)
    assert brightness(FLOOR, roof) < 0.9 * brightness(FLOOR)


@pytest.mark.parametrize("kind", ["room", "street"])
@pytest.mark.parametrize("seed", [1, 2])
class TestShots:
    def test_normals_are_unit_vectors_and_those_of_the_depth(self, kind, seed):
        made = shot(kind, seed)
        seen, rays = made.depth > 0, unproject(np.ones(SIZE, np.float32), made.camera)
        np.testing.assert_allclose(np.linalg.norm(made.normals[seen], axis=-1), 1, atol=1e-6)
        assert (np.einsum("ijk,ijk->ij", made.normals, rays)[seen] < 1e-6).all()
        assert (made.normals[~seen] == 0).all()
        derived = normals_from_depth(made.depth, made.camera)
        cosine = np.einsum("ijk,ijk->ij", derived, made.normals)
        angle_deg = np.degrees(np.arccos(np.clip(cosine[np.isfinite(cosine)], -1, 1)))
        assert angle_deg.size > 0.4 * cosine.size
        assert np.median(angle_deg) < 0.1
        assert np.percentile(angle_deg, 70) < 1

    def test_no_shape_is_cut_off_by_its_window(self, kind, seed):
        made = shot(kind, seed)
        rays, depth = camera_rays(made.camera, made.pose), np.full(SIZE, np.inf)
        for shape in made.scene.shapes:  # the oracle: each of them in the whole image
            near, far = interval(shape, np.array(made.pose.position), rays)
            seen = (near < far) & (near > NEAREST) & (near < depth)
            depth[seen] = near[seen]
        depth[np.isinf(depth)] = 0
        np.testing.assert_array_equal(made.depth, depth.astype(np.float32))

    def test_a_seed_gives_the_same_bytes(self, kind, seed):
        one, two = shot(kind, seed), make_shot(np.random.default_rng(seed), kind, SIZE)
        for field in ("image", "depth", "normals"):
            assert getattr(one, field).tobytes() == getattr(two, field).tobytes()
        assert one.image.tobytes() != shot(kind, 3 - seed).image.tobytes()

    def test_depth_brightness_and_detail_are_plausible(self, kind, seed):
        depth, image = shot(kind, seed).depth, shot(kind, seed).image
        if kind == "room":
            assert 0.1 < depth.min() < depth.max() < 10
        else:
            assert (depth > 0).mean() > 0.45
            assert np.percentile(depth[depth > 0], 99) > 20
        assert 60 < image.mean() < 200
        assert image.std() > 15
        assert np.median(np.abs(np.diff(image.mean(axis=2), axis=1))) > 0.5


@pytest.mark.parametrize("kind", ["room", "street"])
def test_prepared_depth_and_normals_are_those_of_the_renderer(tmp_path, kind):
    options = Options(count=3, size=(48, 64), streets=float(kind == "street"))
    generator = np.random.default_rng((options.seed, 0))
    generator.random()  # decides between room and street
    exact = make_shot(generator, kind, (48, 64))
    prepare("synthetic", None, tmp_path / "depth", options)
    train = open_dataset(tmp_path / "depth", "synthetic", "train")
    there = (exact.depth > 0) & (exact.depth <= FARTHEST)
    assert len(train) == 2
    assert there.all() == (kind == "room")
    np.testing.assert_array_equal(train[0].image, exact.image)
    np.testing.assert_array_equal(train[0].valid, there)
    np.testing.assert_allclose(train[0].target[there], exact.depth[there], atol=0.00051)
    prepare("synthetic_normals", None, tmp_path / "normals", options)
    sample = open_dataset(tmp_path / "normals", "synthetic_normals", "train")[0]
    np.testing.assert_allclose(sample.target, exact.normals, atol=0.5 / 127.5 + 1e-6)
    np.testing.assert_array_equal(sample.valid, exact.depth > 0)


def test_a_raw_folder_and_impossible_options_are_refused(tmp_path):
    with refused(InputError, tmp_path):
        prepare("synthetic", tmp_path, tmp_path / "out")
    for option in ({"count": 1}, {"size": (48,)}, {"size": (48, 16)}, {"streets": 2}, {"seed": -1}):
        with refused(InputError, next(iter(option))):
            Options(**option)
