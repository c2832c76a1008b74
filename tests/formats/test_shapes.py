"""PLY and GLB: read by another library, in metres, in stated axes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.predicted import RESULT, SIZE, WALL, provenance, write
from tests.fakes.refusals import refused

from idisc.errors import InputError


def load_mesh(path):
    import trimesh

    return trimesh.load(path, process=False)


def test_ply_is_read_by_trimesh_in_metres(tmp_path):
    cloud = load_mesh(write("ply", tmp_path))
    assert len(cloud.vertices) == 48 * 64 - 2
    assert cloud.vertices[-1] == pytest.approx([4 * 33 / 60, 4 * 21.5 / 50, 4.0])
    assert cloud.colors[-1].tolist()[:3] == [63 * 4, 47 * 5, 0]


def test_ply_states_its_axes_and_provenance(tmp_path):
    made = provenance("Küche\nplate " + "x" * 500)
    path = write("ply", tmp_path, replace(RESULT, provenance=made), axes="opengl")
    head = path.read_bytes().partition(b"end_header\n")[0].decode("ascii").splitlines()
    assert head[:2] == ["ply", "format binary_little_endian 1.0"]
    assert "comment axes: opengl: x right, y up, z back; metres" in head
    assert "comment model: a test (sha256 0123456789ab)" in head
    assert any(
        "fx 60.00 fy 50.00 cx 30.00 cy 25.50 for 48x64 (height x width) pixels" in line
        for line in head
    )
    assert all(len(line) < 256 for line in head)
    assert load_mesh(path).vertices[-1] == pytest.approx([2.2, -4 * 21.5 / 50, -4.0])


def record_in(path):
    content = path.read_bytes()
    length = int.from_bytes(content[12:16], "little")
    tree = json.loads(content[20 : 20 + length])
    assert tree["extensionsUsed"] == ["KHR_materials_unlit"]
    return tree["asset"]["extras"]


def test_glb_has_the_size_of_the_scene_with_y_up(tmp_path):
    path = write("glb", tmp_path, WALL)
    (surface,) = load_mesh(path).geometry.values()
    low, high = surface.bounds
    assert low == pytest.approx([-3 * 30 / 60, -3 * 21.5 / 50, -3.0])
    assert high == pytest.approx([3 * 33 / 60, 3 * 25.5 / 50, -3.0])
    assert surface.area == pytest.approx(3.15 * 2.82, rel=1e-4)
    assert surface.face_normals[:, 2].min() == pytest.approx(1.0)  # all look back to the camera
    assert record_in(path)["axes"] == "opengl: x right, y up, z back; metres"


def test_glb_is_cut_at_depth_edges(tmp_path):
    path = write("glb", tmp_path, axes="opencv")
    (surface,) = load_mesh(path).geometry.values()
    assert np.ptp(surface.vertices[surface.faces][..., 2], axis=1).max() == 0
    assert record_in(path)["axes"].startswith("opencv")


def test_glb_is_textured_with_the_picture(tmp_path):
    (surface,) = load_mesh(write("glb", tmp_path, WALL)).geometry.values()
    photo = np.asarray(surface.visual.material.baseColorTexture.convert("RGB")).astype(int)
    assert photo.shape == (*SIZE, 3)
    assert np.abs(photo - WALL.image).max() < 16  # a JPEG
    corner = surface.vertices[:, :2] @ [1, -1]
    assert surface.visual.uv[corner.argmax()] == pytest.approx(
        [63.5 / 64, 0.5 / 48], abs=1e-6
    )  # lower right


def test_a_large_mesh_is_thinned_which_is_recorded(tmp_path):
    path = write("glb", tmp_path, WALL, grid=32)
    (surface,) = load_mesh(path).geometry.values()
    assert len(surface.vertices) == 24 * 32
    assert record_in(path)["every_nth_pixel"] == 2
    assert surface.vertices[0] == pytest.approx([3 * (1 - 30) / 60, 3 * (25.5 - 1) / 50, -3.0])


def test_an_empty_surface_is_an_error(tmp_path):
    alone = np.zeros(SIZE, np.float32)
    alone[10, 10] = 1.0
    with refused(InputError, "format glb"):
        write("glb", tmp_path, replace(RESULT, depth=alone))
