"""Rendered rooms and streets: their ground truth is exact, and depends on nothing but a seed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data.dataset import open_dataset
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import FARTHEST, Options
from idisc.data.synthetic import Kind, Shot, casting, make_shot
from idisc.data.synthetic.render import Rendered, render
from idisc.data.synthetic.rooms import make_room
from idisc.data.synthetic.scenes import Light, Material, Pose, Scene, Shape, solid
from idisc.data.synthetic.viewpoints import CLEARANCE, is_clear, place_camera
from idisc.errors import InputError
from idisc.geometry import normals_from_depth, unproject

SIZE = (90, 120)
GREY = Material(colour=(0.5, 0.5, 0.5))
CAMERA = Camera.from_fov(70, SIZE, origin="test")
TILTED = Pose(position=(0.3, -0.2, 1.4), yaw=0.4, pitch=-0.2, roll=0.1)
FLOOR = solid((-50, 50), (-50, 50), (-1, 0), GREY)
SUN = Light(position=(3e3, -5e3, 8e3), colour=(1, 1, 1))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def shown(*shapes: Shape, pose: Pose = TILTED, sun: Light = SUN) -> Rendered:
    scene = Scene(shapes=shapes, lights=(sun,), ambient=(0.5, 0.5, 0.5))
    return render(scene, CAMERA, pose, rng(0))


def world_points(rendered: Rendered) -> NDArray[np.float64]:
    """(P, 3) in the world, of the pixels with depth."""
    points = unproject(rendered.depth, CAMERA)[rendered.depth > 0].astype(np.float64)
    return np.asarray(points @ TILTED.axes + TILTED.position)


@cache
def shot(kind: Kind, seed: int, size: tuple[int, int] = SIZE) -> Shot:
    return make_shot(rng(seed), kind, size)


def distances(shape: Shape, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(P,): metres from points to the surface of a shape, about."""
    sin, cos = math.sin(shape.yaw), math.cos(shape.yaw)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    local = np.abs((points - shape.centre) @ turn)
    if shape.form == "ball":
        return np.abs(np.linalg.norm(local, axis=1) - shape.half[0])
    if shape.form == "tube":
        local = np.stack([np.hypot(local[:, 0], local[:, 1]), local[:, 2]], axis=1)
        return np.abs((local - shape.half[1:]).max(axis=1))
    return np.abs((local - shape.half).max(axis=1))


class TestGeometry:
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
    def test_points_are_on_the_surface_to_a_tenth_of_a_millimetre(self, shape: Shape) -> None:
        points = world_points(shown(shape))
        near = np.abs(points).max(axis=1) < 20
        assert near.sum() > 300
        assert distances(shape, points[near]).max() < 1e-4

    def test_a_wall_straight_ahead_has_one_depth_and_faces_the_camera(self) -> None:
        wall = solid((-20, 20), (5, 6), (-20, 20), GREY)
        rendered = shown(wall, pose=Pose(position=(0, 1, 0)))
        np.testing.assert_allclose(rendered.depth, 4, atol=1e-6)
        np.testing.assert_allclose(rendered.normals - [0, 0, -1], 0, atol=1e-6)

    def test_yaw_turns_left_pitch_up_and_roll_clockwise(self) -> None:
        def middle(**angles: float) -> NDArray[np.float64]:
            rendered = shown(
                solid((-1.3, -0.7), (9.7, 10.3), (0.7, 1.3), GREY, "ball"),
                pose=Pose(position=(0, 0, 0), **angles),
            )
            place = np.argwhere(rendered.depth > 0).mean(axis=0)
            return np.asarray(place - [CAMERA.cy, CAMERA.cx])

        row, column = middle()
        assert row < 0
        assert column < 0
        assert middle(yaw=0.1)[1] == pytest.approx(0, abs=0.6)
        assert middle(pitch=0.1)[0] == pytest.approx(0, abs=0.6)
        assert middle(roll=math.pi / 2) == pytest.approx([-column, row], abs=0.6)

    def test_the_nearest_surface_wins(self) -> None:
        near = solid((-0.5, 0.5), (2.5, 3.5), (-0.5, 0.5), GREY)
        far = solid((-9, 9), (8.5, 9.5), (-9, 9), GREY)
        for shapes in ((near, far), (far, near)):
            rendered = shown(*shapes, pose=Pose(position=(0, 0, 0)))
            assert rendered.depth[45, 60] == pytest.approx(2.5)
            assert rendered.depth[45, 5] == pytest.approx(8.5)

    def test_what_hides_the_sun_casts_a_shadow(self) -> None:
        def brightness(*shapes: Shape) -> float:
            sun, pose = replace(SUN, position=(0, 4, 1e4)), Pose(position=(0, 0, 1), pitch=-0.3)
            image = shown(*shapes, pose=pose, sun=sun).image
            return float(image[60:80, 50:70].mean()) / float(image[60:80, :20].mean())

        roof = solid((-0.7, 0.7), (1, 5), (3.9, 4.1), GREY)
        assert brightness(FLOOR, roof) < 0.9 * brightness(FLOOR)


@pytest.mark.parametrize("kind", ["room", "street"])
@pytest.mark.parametrize("seed", [1, 2])
class TestShots:
    def test_normals_are_unit_vectors_towards_the_camera(self, kind: Kind, seed: int) -> None:
        made = shot(kind, seed)
        depth, normals = made.rendered.depth, made.rendered.normals
        rays = unproject(np.ones(SIZE, np.float32), made.camera)
        seen = depth > 0
        np.testing.assert_allclose(np.linalg.norm(normals[seen], axis=-1), 1, atol=1e-6)
        assert (np.einsum("ijk,ijk->ij", normals, rays)[seen] < 1e-6).all()
        assert (normals[~seen] == 0).all()

    def test_normals_are_those_of_the_depth(self, kind: Kind, seed: int) -> None:
        made = shot(kind, seed)
        derived = normals_from_depth(made.rendered.depth, made.camera)
        cosine = np.einsum("ijk,ijk->ij", derived, made.rendered.normals)
        angle_deg = np.degrees(np.arccos(np.clip(cosine[np.isfinite(cosine)], -1, 1)))
        assert angle_deg.size > 0.4 * cosine.size
        assert np.median(angle_deg) < 0.1
        assert np.percentile(angle_deg, 70) < 1

    def test_no_shape_is_cut_off_by_its_window(self, kind: Kind, seed: int) -> None:
        made = shot(kind, seed)
        rays = casting.camera_rays(made.camera, made.pose)
        depth = np.full(SIZE, np.inf)
        for shape in made.scene.shapes:  # the oracle: each of them in the whole image
            near, far = casting.interval(shape, np.array(made.pose.position), rays)
            seen = (near < far) & (near > casting.NEAREST) & (near < depth)
            depth[seen] = near[seen]
        depth[np.isinf(depth)] = 0
        np.testing.assert_array_equal(made.rendered.depth, depth.astype(np.float32))

    def test_a_seed_gives_the_same_bytes(self, kind: Kind, seed: int) -> None:
        one, two = shot(kind, seed).rendered, make_shot(rng(seed), kind, SIZE).rendered
        for field in ("image", "depth", "normals"):
            assert getattr(one, field).tobytes() == getattr(two, field).tobytes()
        assert one.image.tobytes() != shot(kind, seed + 100).rendered.image.tobytes()

    def test_depth_and_brightness_are_plausible(self, kind: Kind, seed: int) -> None:
        depth, image = shot(kind, seed).rendered.depth, shot(kind, seed).rendered.image
        if kind == "room":
            assert depth.min() > 0.1
            assert depth.max() < 10
            assert 1 < np.median(depth) < 6
        else:
            assert (depth > 0).mean() > 0.45
            assert np.percentile(depth[depth > 0], 99) > 20
        assert 60 < image.mean() < 200
        assert image.std() > 15
        detail = np.abs(np.diff(image.mean(axis=2), axis=1))
        assert np.median(detail) > 0.5  # texture and noise, also where there is no edge


def test_a_camera_is_not_placed_in_a_cupboard_or_beyond_the_wall() -> None:
    room = make_room(rng(5))
    assert room.room is not None
    x, y, z = room.room
    assert not is_clear(room, (x / 2 - CLEARANCE / 2, 0, 1))
    assert not is_clear(room, (0, y / 2 + 1, 1))
    assert not is_clear(room, (0, 0, z + 1))
    bulky = next(shape for shape in room.shapes[10:] if min(shape.half) > 0.15)
    assert not is_clear(room, bulky.centre)
    pose = place_camera(rng(1), room)
    assert pose is not None
    assert is_clear(room, pose.position)
    assert 1.0 <= pose.position[2] <= 1.8


class TestPrepared:
    @pytest.mark.parametrize("kind", ["room", "street"])
    def test_depth_is_stored_to_the_millimetre_as_far_as_the_file_holds_it(
        self, tmp_path: Path, kind: Kind
    ) -> None:
        options = Options(count=3, size=(48, 64), streets=float(kind == "street"))
        prepare("synthetic", None, tmp_path / "out", options)
        train = open_dataset(tmp_path / "out", "synthetic", "train")
        sample, exact = train[0], _first(options, kind).rendered
        there = (exact.depth > 0) & (exact.depth <= FARTHEST)
        assert len(train) == 2
        assert sample.camera is not None
        assert there.all() == (kind == "room")
        np.testing.assert_array_equal(sample.image, exact.image)
        np.testing.assert_array_equal(sample.valid, there)
        np.testing.assert_allclose(sample.target[there], exact.depth[there], atol=0.00051)

    def test_normals_open_as_a_dataset_too(self, tmp_path: Path) -> None:
        options = Options(count=2, size=(48, 64), streets=1.0)
        prepare("synthetic_normals", None, tmp_path / "out", options)
        sample = open_dataset(tmp_path / "out", "synthetic_normals", "train")[0]
        exact = _first(options, "street").rendered
        np.testing.assert_allclose(sample.target, exact.normals, atol=0.5 / 127.5 + 1e-6)
        np.testing.assert_array_equal(sample.valid, exact.depth > 0)

    def test_a_raw_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as error:
            prepare("synthetic", tmp_path, tmp_path / "out")
        assert error.value.subject == str(tmp_path)

    @pytest.mark.parametrize(
        "option",
        [{"count": 1}, {"size": (48,)}, {"size": (48, 16)}, {"streets": 1.5}, {"seed": -1}],
    )
    def test_impossible_options_are_named(self, option: dict[str, object]) -> None:
        with pytest.raises(InputError) as error:
            Options(**option)  # type: ignore[arg-type]
        assert [error.value.subject] == list(option)


def _first(options: Options, kind: Kind) -> Shot:
    """Image number 0 of a preparation, made without it."""
    generator = np.random.default_rng((options.seed, 0))
    generator.random()  # what decides between room and street
    return make_shot(generator, kind, (options.size[0], options.size[1]))
