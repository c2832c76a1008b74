"""Rendered rooms and streets: their ground truth is exact, and a seed is all they depend on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from idisc.camera import Camera
from idisc.data import manifest
from idisc.data.dataset import open_dataset
from idisc.data.decode import NormalMap, write_normals
from idisc.data.prepare.frames import PrepareConfig
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import FARTHEST
from idisc.data.synthetic import (
    Box,
    Cylinder,
    Kind,
    Light,
    Material,
    Pose,
    Rendered,
    Scene,
    Shot,
    Sphere,
    casting,
    make_camera,
    make_room,
    make_shot,
    make_street,
    place_camera,
    render,
)
from idisc.data.synthetic.scenes import bounds
from idisc.data.synthetic.textures import TEXTURES
from idisc.data.synthetic.viewpoints import CLEARANCE, is_clear
from idisc.errors import InputError
from idisc.geometry import normals_from_depth, unproject

SIZE = (90, 120)
GREY = (Material(colour=(0.5, 0.5, 0.5)),)
CAMERA = Camera.from_fov(70, SIZE, origin="test")
TILTED = Pose(position=(0.3, -0.2, 1.4), yaw=0.4, pitch=-0.2, roll=0.1)
FLOOR = Box(centre=(0, 0, -0.5), half=(50, 50, 0.5), materials=GREY)
SMALL = PrepareConfig(count=22, size=(48, 64), streets=0.5)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def outdoors(*shapes: Box | Sphere | Cylinder) -> Scene:
    sun = Light(position=(3e3, -5e3, 8e3), colour=(1, 1, 1))
    return Scene(kind="street", shapes=shapes, lights=(sun,), ambient=(0.5, 0.5, 0.5))


def world_points(rendered: Rendered, camera: Camera, pose: Pose) -> NDArray[np.float64]:
    """(P, 3) in the world, of the pixels with depth."""
    points = unproject(rendered.depth, camera)[rendered.depth > 0].astype(np.float64)
    return np.asarray(points @ pose.axes + pose.position)


@cache
def shot(kind: Kind, seed: int, size: tuple[int, int] = SIZE) -> Shot:
    return make_shot(rng(seed), kind, size)


class TestGeometry:
    def test_a_floor_is_flat_to_a_tenth_of_a_millimetre(self) -> None:
        rendered = render(outdoors(FLOOR), CAMERA, TILTED, rng(0))
        points = world_points(rendered, CAMERA, TILTED)
        near = np.abs(points[:, :2]).max(axis=1) < 20
        assert near.sum() > 3000
        assert np.abs(points[near, 2]).max() < 1e-4

    def test_the_points_of_a_turned_box_lie_on_its_sides(self) -> None:
        box = Box(centre=(-1.2, 3.0, 1.0), half=(0.8, 0.4, 0.6), materials=GREY, yaw=0.7)
        rendered = render(outdoors(box), CAMERA, TILTED, rng(0))
        apart = world_points(rendered, CAMERA, TILTED) - box.centre
        sin, cos = math.sin(box.yaw), math.cos(box.yaw)
        local = apart @ np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
        assert len(local) > 500
        assert np.abs((np.abs(local) / box.half).max(axis=1) - 1).max() < 1e-4

    def test_the_points_of_a_sphere_are_a_radius_from_its_centre(self) -> None:
        sphere = Sphere(centre=(-1.0, 4.0, 1.2), radius=0.9, materials=GREY)
        rendered = render(outdoors(sphere), CAMERA, TILTED, rng(0))
        points = world_points(rendered, CAMERA, TILTED)
        assert len(points) > 300
        assert np.abs(np.linalg.norm(points - sphere.centre, axis=1) - 0.9).max() < 1e-4

    def test_the_points_of_a_cylinder_lie_on_its_side_or_its_lid(self) -> None:
        pillar = Cylinder(
            centre=(-1.0, 3.0, 0.5), radius=0.4, height=1.0, materials=GREY
        )  # its lid is below the camera
        rendered = render(outdoors(pillar), CAMERA, TILTED, rng(0))
        apart = np.abs(world_points(rendered, CAMERA, TILTED) - pillar.centre)
        on_side = np.abs(np.hypot(apart[:, 0], apart[:, 1]) - 0.4) < 1e-4
        on_lid = np.abs(apart[:, 2] - 0.5) < 1e-4
        assert on_side.sum() > 100
        assert on_lid.sum() > 30
        assert (on_side | on_lid).all()

    def test_a_wall_straight_ahead_has_one_depth_and_faces_the_camera(self) -> None:
        wall = Box(centre=(0, 5.5, 0), half=(20, 0.5, 20), materials=GREY)
        rendered = render(outdoors(wall), CAMERA, Pose(position=(0, 1, 0)), rng(0))
        np.testing.assert_allclose(rendered.depth, 4, atol=1e-6)
        np.testing.assert_allclose(rendered.normals - [0, 0, -1], 0, atol=1e-6)

    def test_yaw_turns_left_pitch_up_and_roll_as_the_picture_shows_it(self) -> None:
        ball = Sphere(centre=(-1.0, 10.0, 1.0), radius=0.3, materials=GREY)

        def middle(**angles: float) -> NDArray[np.float64]:
            pose = Pose(position=(0, 0, 0), **angles)
            rendered = render(outdoors(ball), CAMERA, pose, rng(0))
            place = np.argwhere(rendered.depth > 0).mean(axis=0)
            return np.asarray(place - [CAMERA.cy, CAMERA.cx])

        row, column = middle()
        assert row < 0
        assert column < 0
        assert middle(yaw=0.1)[1] == pytest.approx(0, abs=0.6)
        assert middle(pitch=0.1)[0] == pytest.approx(0, abs=0.6)
        turned = middle(roll=math.pi / 2)  # the camera clockwise, so the world the other way
        assert turned == pytest.approx([-column, row], abs=0.6)

    def test_the_nearest_surface_wins(self) -> None:
        near = Box(centre=(0, 3, 0), half=(0.5, 0.5, 0.5), materials=GREY)
        far = Box(centre=(0, 9, 0), half=(9, 0.5, 9), materials=GREY)
        pose = Pose(position=(0, 0, 0))
        for shapes in ((near, far), (far, near)):
            rendered = render(outdoors(*shapes), CAMERA, pose, rng(0))
            assert rendered.depth[45, 60] == pytest.approx(2.5)
            assert rendered.depth[45, 5] == pytest.approx(8.5)

    def test_what_hides_the_sun_throws_a_shadow(self) -> None:
        def brightness(*shapes: Box) -> float:
            scene = dataclasses.replace(
                outdoors(*shapes), lights=(Light(position=(0, 4, 1e4), colour=(1, 1, 1)),)
            )
            image = render(scene, CAMERA, Pose(position=(0, 0, 1), pitch=-0.3), rng(0)).image
            return float(image[60:80, 50:70].mean()) / float(image[60:80, :20].mean())

        roof = Box(centre=(0, 3, 4), half=(0.7, 2, 0.1), materials=GREY)
        assert brightness(FLOOR, roof) < 0.9 * brightness(FLOOR)


@pytest.mark.parametrize("kind", ["room", "street"])
@pytest.mark.parametrize("seed", [1, 2, 3])
class TestShots:
    def test_normals_are_unit_vectors_to_the_camera(self, kind: Kind, seed: int) -> None:
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
        for shape in made.scene.shapes:  # the oracle: each of them in the whole picture
            near, far = casting.interval(shape, rays, casting.WHOLE)
            surface = far if isinstance(shape, Box) and shape.hollow else near
            seen = (near < far) & (surface > casting.NEAREST) & (surface < depth)
            depth[seen] = surface[seen]
        depth[np.isinf(depth)] = 0
        np.testing.assert_array_equal(made.rendered.depth, depth.astype(np.float32))

    def test_a_seed_gives_the_same_bytes(self, kind: Kind, seed: int) -> None:
        one, two = (make_shot(rng(seed), kind, SIZE).rendered for _ in range(2))
        for field in ("image", "depth", "normals"):
            assert getattr(one, field).tobytes() == getattr(two, field).tobytes()
        assert one.image.tobytes() != shot(kind, seed + 100).rendered.image.tobytes()

    def test_depth_is_that_of_rooms_and_streets(self, kind: Kind, seed: int) -> None:
        depth = shot(kind, seed).rendered.depth
        assert depth.dtype == np.float32
        if kind == "room":
            assert (depth > 0.1).all()  # every pixel
            assert depth.max() < 10
            assert 1 < np.median(depth) < 6
        else:
            assert (depth > 0).mean() > 0.45
            assert np.percentile(depth[depth > 0], 99) > 20

    def test_pictures_are_neither_dark_nor_flat(self, kind: Kind, seed: int) -> None:
        image = shot(kind, seed).rendered.image.astype(float)
        assert 60 < image.mean() < 200
        assert image.std() > 15
        detail = np.abs(np.diff(image.mean(axis=2), axis=1))
        assert np.median(detail) > 0.5  # texture and noise, also where there is no edge

    def test_the_camera_stands_clear(self, kind: Kind, seed: int) -> None:
        made = shot(kind, seed)
        assert is_clear(made.scene, made.pose.position)
        assert made.rendered.depth[made.rendered.depth > 0].min() > 0.1


def test_a_camera_is_not_placed_in_a_cupboard_or_beyond_the_wall() -> None:
    room = make_room(rng(5))
    _, (east, north, ceiling) = bounds(room.shapes[0])
    assert not is_clear(room, (east - CLEARANCE / 2, 0, 1))
    assert not is_clear(room, (0, north + 1, 1))
    assert not is_clear(room, (0, 0, ceiling + 1))
    bulky = next(s for s in room.shapes[1:] if isinstance(s, Box) and min(s.half) > 0.15)
    assert not is_clear(room, bulky.centre)
    pose = place_camera(rng(1), room)
    assert pose is not None
    assert is_clear(room, pose.position)
    assert 1.0 <= pose.position[2] <= 1.8


def test_lenses_are_those_of_the_field() -> None:
    ranges: dict[Kind, tuple[int, int]] = {"room": (50, 80), "street": (52, 90)}
    for kind, (low, high) in ranges.items():
        angles = [make_camera(rng(i), kind, SIZE).fov_deg for i in range(100)]
        assert low <= min(angles) + 1e-6
        assert max(angles) <= high + 1e-6
        assert np.std(angles) > 4


@pytest.mark.parametrize("make", [make_room, make_street])
def test_every_material_has_a_texture_that_exists(
    make: Callable[[np.random.Generator], Scene],
) -> None:
    for seed in range(10):
        for shape in make(rng(seed)).shapes:
            assert len(shape.materials) in (1, 6)
            assert {material.texture for material in shape.materials} <= set(TEXTURES)


def test_any_size_will_do() -> None:
    for size in ((32, 32), (64, 200), (120, 70)):
        assert shot("room", 0, size).rendered.image.shape == (*size, 3)
        assert shot("street", 0, size).rendered.image.shape == (*size, 3)


class TestPrepared:
    def test_two_workers_write_the_bytes_of_one(self, tmp_path: Path) -> None:
        made = [
            prepare("synthetic", None, tmp_path / str(workers), SMALL, workers=workers)
            for workers in (1, 2)
        ]
        assert made[0] == made[1]
        assert made[0].counts == {"train": 20, "test": 2}
        assert made[0].faults == []
        one, two = (
            {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
            for root in (tmp_path / "1", tmp_path / "2")
        )
        assert one == two

    def test_rooms_open_as_a_dataset_of_depth_in_every_pixel(self, tmp_path: Path) -> None:
        choices = PrepareConfig(count=3, size=(48, 64))
        prepare("synthetic", None, tmp_path / "out", choices)
        train = open_dataset(tmp_path / "out", "synthetic", "train")
        assert len(train) == 2
        sample = train[0]
        assert sample.image.shape == (48, 64, 3)
        assert sample.valid.all()
        assert sample.camera is not None
        assert 50 <= sample.camera.fov_deg <= 80
        exact = _first(choices)
        np.testing.assert_array_equal(sample.image, exact.rendered.image)
        np.testing.assert_allclose(sample.target, exact.rendered.depth, atol=0.00051)
        assert {record.valid for record in manifest.read(tmp_path / "out").records} == {1.0}

    def test_normals_open_as_a_dataset_too(self, tmp_path: Path) -> None:
        choices = PrepareConfig(count=2, size=(48, 64), streets=1.0)
        prepare("synthetic_normals", None, tmp_path / "out", choices)
        sample = open_dataset(tmp_path / "out", "synthetic_normals", "train")[0]
        exact = _first(choices, "street").rendered
        np.testing.assert_allclose(sample.target, exact.normals, atol=0.5 / 127.5 + 1e-6)
        np.testing.assert_array_equal(sample.valid, exact.depth > 0)

    def test_what_is_too_far_for_the_file_counts_as_sky(self, tmp_path: Path) -> None:
        choices = PrepareConfig(count=4, size=(48, 64), streets=1.0)
        prepare("synthetic", None, tmp_path / "out", choices)
        sample = open_dataset(tmp_path / "out", "synthetic", "train")[0]
        exact = _first(choices, "street").rendered.depth
        assert exact.max() > FARTHEST
        assert sample.target.max() <= FARTHEST
        np.testing.assert_array_equal(sample.valid, (exact > 0) & (exact <= FARTHEST))

    def test_another_seed_makes_other_rooms(self, tmp_path: Path) -> None:
        sums = {
            prepare(
                "synthetic",
                None,
                tmp_path / str(seed),
                PrepareConfig(count=2, size=(32, 32), seed=seed),
            ).sha256
            for seed in (1, 2)
        }
        assert len(sums) == 2

    def test_a_raw_folder_is_asked_for_where_it_is_needed_and_only_there(
        self, tmp_path: Path
    ) -> None:
        with pytest.raises(
            InputError, match=r"nyu: the extracted .* needed; pass the folder as --raw"
        ):
            prepare("nyu", None, tmp_path / "out", PrepareConfig())
        with pytest.raises(InputError, match="synthetic is made from nothing but a seed; leave"):
            prepare("synthetic", tmp_path, tmp_path / "out", SMALL)

    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            ({"count": 1}, "count: 1; 2 are needed"),
            ({"size": (48,)}, "size: .48,.; height and width"),
            ({"size": (48, 16)}, "32 or more"),
            ({"streets": 1.5}, "streets: 1.5"),
            ({"seed": -1}, "seed: -1"),
        ],
    )
    def test_impossible_choices_are_named(self, choice: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            PrepareConfig(**choice)  # type: ignore[arg-type]


def test_normals_are_rounded_to_the_nearest_byte_and_none_is_black(tmp_path: Path) -> None:
    normals = np.array([[[0, 0, -1], [0.6, -0.8, 0], [0, 0, 0]]], np.float32)
    write_normals(tmp_path / "n.png", normals, NormalMap())
    read = NormalMap().read(tmp_path / "n.png")
    np.testing.assert_allclose(read, normals, atol=0.5 / 127.5 + 1e-6)
    assert (read[0, 2] == 0).all()


def _first(choices: PrepareConfig, kind: Kind = "room") -> Shot:
    """Picture number 0 of a preparation, made without it."""
    generator = np.random.default_rng((choices.seed, 0))
    generator.random()  # what decides between room and street
    return make_shot(generator, kind, (choices.size[0], choices.size[1]))
