"""Geometry: points on their rays, and normals of planes, a sphere and a scanned apartment."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.errors import InputError
from idisc.geometry import is_between, mesh, normals_from_depth, plane_normals, thin, unproject
from idisc.metrics import angular_error_deg

SIZE = (48, 64)
CAMERA = Camera(fx=60.0, fy=50.0, cx=30.0, cy=25.5, size=SIZE, origin="test")
ROWS, COLUMNS = np.mgrid[: SIZE[0], : SIZE[1]]
RAYS = np.stack([(COLUMNS - 30.0) / 60.0, (ROWS - 25.5) / 50.0, np.ones(SIZE)], axis=-1)
TASKONOMY = Path(__file__).parents[2] / "shared" / "data" / "taskonomy"


def plane(normal, distance):
    """Depth of the plane at that distance from the camera, whose normal points to it."""
    return -distance / (RAYS @ normal)


def unit(x, y, z):
    return np.array([x, y, z]) / math.sqrt(x * x + y * y + z * z)


def angles(normals, truth):
    return angular_error_deg(
        normals.reshape(-1, 3), np.broadcast_to(truth, (*SIZE, 3)).reshape(-1, 3)
    )


def test_a_pixel_becomes_the_point_on_its_ray():
    depth = np.full(SIZE, 2.0)
    depth[10, 60] = 3.0
    points = unproject(depth, CAMERA)
    assert points.shape == (*SIZE, 3)
    assert points.dtype == np.float32
    assert points[10, 60] == pytest.approx([1.5, -0.93, 3.0])  # 3 * 30 / 60 and -3 * 15.5 / 50
    assert points[..., 2] == pytest.approx(depth)


@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(0.3, 50.0))
def test_a_tilted_plane_has_one_normal_up_to_its_border(x, y, far):
    normal = unit(x, y, -1.0)
    normals = normals_from_depth(plane(normal, far), CAMERA)
    assert normals.dtype == np.float32
    assert angles(normals, normal).max() < 1e-2


def test_a_sphere_has_normals_along_its_radius():
    centre, radius = np.array([0.2, -0.1, 5.0]), 2.0
    along = RAYS @ centre
    square = (RAYS * RAYS).sum(axis=-1)
    inside = along**2 - square * (centre @ centre - radius**2)
    seen = inside > 0
    depth = np.where(seen, (along - np.sqrt(np.maximum(inside, 0.0))) / square, 0.0)
    normals = normals_from_depth(depth, CAMERA)
    truth = (RAYS * depth[..., None] - centre) / radius
    facing = seen & (-(truth * RAYS).sum(axis=-1) / np.sqrt(square) > 0.6)  # away from the rim
    assert facing.sum() > 500
    assert angular_error_deg(normals[facing], truth[facing]).max() < 1.0
    assert np.isnan(normals[~seen]).all()


def test_normals_do_not_bend_across_a_depth_edge():
    near, far = unit(0.3, 0.1, -1.0), unit(-0.2, 0.2, -1.0)
    left = COLUMNS < 32
    depth = np.where(left, plane(near, 1.0), plane(far, 4.0))
    truth = np.where(left[..., None], near, far)
    assert angles(normals_from_depth(depth, CAMERA), truth).max() < 1e-2


def test_the_mean_slope_of_a_cell_hides_the_patches_of_enlarged_depth():
    cell = 8
    bent = 1 / (0.3 + 0.1 * (np.arange(0, 64 + cell, cell) / 64) ** 2)  # inverse depth bends
    row = 1 / np.interp(np.arange(64), np.arange(0, 64 + cell, cell), 1 / bent)
    depth = np.tile(row, (48, 1))
    camera = Camera.from_fov(60, (48, 64))
    patched, smooth = (
        normals_from_depth(depth, camera, pixels_per_feature=each)[24, cell:-cell, 0]
        for each in (1, cell)
    )
    jumps = [np.abs(np.diff(each)).max() for each in (patched, smooth)]
    assert jumps[1] < jumps[0] / 3
    assert smooth.mean() == pytest.approx(patched.mean(), rel=0.02)


@pytest.mark.parametrize("missing", [0.0, -1.0, math.nan, math.inf])
def test_a_missing_depth_has_no_normal_and_affects_no_other(missing):
    normal = unit(0.3, 0.1, -1.0)
    depth = plane(normal, 2.0)
    depth[20, 30] = missing
    normals = normals_from_depth(depth, CAMERA)
    assert np.isnan(normals[20, 30]).all()
    normals[20, 30] = normal
    assert angles(normals, normal).max() < 1e-2


def test_a_pixel_without_a_neighbour_on_its_surface_has_no_normal():
    depth = np.full(SIZE, 3.0)
    depth[20, 30] = 2.0  # a step to all sides
    depth[30, :] = 2.0  # neighbours to the sides only
    missing = np.isnan(normals_from_depth(depth, CAMERA)).any(axis=-1)
    assert missing[20, 30]
    assert missing[30].all()
    assert missing.sum() == 1 + SIZE[1]


@pytest.mark.parametrize("function", [unproject, normals_from_depth])
def test_a_camera_of_another_size_is_refused(function):
    assert callable(function)
    with refused(InputError, "depth", "(24, 32)", "(48, 64)"):
        function(np.ones((24, 32)), CAMERA)


@pytest.mark.skipif(not TASKONOMY.is_dir(), reason="no Taskonomy views beside this checkout")
def test_normals_of_a_scanned_apartment_are_those_of_its_mesh():
    medians, shares, covered = zip(*map(compared_with_mesh, views()), strict=True)
    assert len(medians) == 102
    assert np.median(medians) <= 2.0  # measured 1.87
    assert max(medians) <= 9.0  # depth in steps of 2 mm; the worst view is a wall close by
    assert np.mean(shares) >= 0.93  # measured 0.932
    assert np.mean(covered) >= 0.99  # measured 0.998


def views():
    return sorted(path.name.split("_domain")[0] for path in (TASKONOMY / "points").iterdir())


def compared_with_mesh(view):
    """Median angle in degrees, share below 11.25 degrees, share of pixels that have a normal."""
    pose = json.loads((TASKONOMY / "points" / f"{view}_domain_fixatedpose.json").read_text())
    with Image.open(TASKONOMY / "depth" / f"{view}_domain_depth.png") as picture:
        stored = np.asarray(picture).astype(np.float64)
    with Image.open(TASKONOMY / "normal" / f"{view}_domain_normal.png") as picture:
        colours = np.asarray(picture).astype(np.float64)
    depth = np.where(stored < 65000, stored / 512, 0.0)
    fov_deg = math.degrees(pose["field_of_view_rads"])
    normals = normals_from_depth(depth, Camera.from_fov(fov_deg, (256, 256), "Taskonomy"))
    surface = (depth > 0) & ~(colours == 128).all(axis=-1)
    found = surface & np.isfinite(normals).all(axis=-1)
    error = angular_error_deg(normals[found], (colours[found] - 127) / 127)
    return float(np.median(error)), float((error < 11.25).mean()), found.sum() / surface.sum()


def facing(shape):
    """Normals of the triangles (F, 3), by the right hand, not of unit length."""
    first, second, third = (shape.vertices[shape.faces[:, corner]] for corner in range(3))
    return np.cross(second - first, third - first)


def test_a_fitted_plane_has_the_normal_of_noisy_depth():
    truth = unit(0.3, -0.4, -0.9)
    noise = np.random.default_rng(0).normal(1, 0.003, SIZE)
    depth = plane(truth, 2.0) * noise
    fitted = plane_normals(depth, CAMERA)
    present = np.isfinite(fitted[..., 0])
    assert present.mean() > 0.9
    plain = normals_from_depth(depth, CAMERA)
    fitted_cosine, plain_cosine = fitted[present] @ truth, plain[present] @ truth
    assert np.arccos(np.nanmean(fitted_cosine)) < 0.7 * np.arccos(np.nanmean(plain_cosine))


def test_planes_are_not_fitted_across_a_depth_edge_or_a_hole():
    depth = np.where(COLUMNS < 32, 2.0, 4.0)
    depth[10:20, 10:20] = 0
    normals = plane_normals(depth, CAMERA)
    assert np.isnan(normals[10:20, 10:20]).all()
    present = np.isfinite(normals[..., 0])
    assert present.mean() > 0.9
    np.testing.assert_allclose(
        normals[present], np.broadcast_to([0, 0, -1], (present.sum(), 3)), atol=1e-3
    )


def test_a_mesh_covers_a_plane_once_and_faces_the_camera():
    normal = unit(0.2, -0.3, -1.0)
    shape = mesh(plane(normal, 2.0), CAMERA)
    assert len(shape.vertices) == 48 * 64
    assert len(shape.faces) == 2 * 47 * 63
    assert np.array_equal(shape.pixels, np.arange(48 * 64))
    assert shape.vertices @ normal == pytest.approx(-2.0, abs=1e-4)
    areas = facing(shape) @ normal / 2
    assert areas.min() > 0
    corners = unproject(plane(normal, 2.0), CAMERA)[[0, 0, -1, -1], [0, -1, -1, 0]]
    diagonals = np.cross(corners[2] - corners[0], corners[3] - corners[1])
    assert areas.sum() == pytest.approx(np.linalg.norm(diagonals) / 2, rel=1e-4)


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("column", [0, 1])
def test_a_missing_corner_leaves_the_triangle_of_the_other_three(row, column):
    depth = np.full((2, 2), 1.0)
    depth[row, column] = np.nan
    shape = mesh(depth, Camera.from_fov(60, (2, 2), "test"))
    assert sorted(shape.pixels) == sorted({0, 1, 2, 3} - {2 * row + column})
    assert len(shape.faces) == 1
    assert facing(shape)[0, 2] < 0


def test_a_mesh_is_cut_where_depth_jumps():
    depth = np.full(SIZE, 2.0)
    depth[:, 30:] = 2.09  # less than 5 %
    depth[20:, :] += 0.2  # more
    depth[40, 50] = 0.0
    shape = mesh(depth, CAMERA)
    steps = np.ptp(shape.vertices[:, 2][shape.faces], axis=1)
    assert steps.max() == pytest.approx(0.09, abs=1e-5)
    assert len(shape.faces) == 2 * 46 * 63 - 4  # one row of squares, and half of four, are missing
    assert 40 * 64 + 50 not in shape.pixels
    assert len(mesh(depth, CAMERA, edge=0.2).faces) == 2 * 47 * 63 - 4


def test_thinned_pixels_lie_on_their_own_rays():
    depth = plane(unit(0.2, -0.3, -1.0), 2.0)
    camera, picks = thin(CAMERA, 20)
    assert camera.size == (12, 16)
    kept = unproject(depth, CAMERA)[picks, picks]
    assert unproject(depth[picks, picks], camera) == pytest.approx(kept, abs=1e-5)
    assert thin(CAMERA, 64) == (CAMERA, slice(0, None, 1))
    strip, picks = thin(Camera.from_fov(60, (1000, 1), "test"), 100)
    assert strip.size == np.ones((1000, 1))[picks, picks].shape == (100, 1)


def test_no_pixel_of_a_steep_plane_is_between_surfaces():
    depth = plane(unit(1.0, 0.1, -0.35), 0.5)
    assert depth[depth > 0].max() > 20  # up to its horizon
    assert not is_between(depth).any()


def test_a_sharp_edge_loses_a_pixel_to_each_side():
    depth = np.full(SIZE, 4.0)
    depth[:, 30:] = 2.0
    depth[:, 0] = 0.0
    assert np.flatnonzero(is_between(depth).any(axis=0)).tolist() == [29, 30]


@pytest.mark.parametrize("width", [2, 4, 8])
def test_a_blurred_edge_loses_its_ramp(width):
    inverse = np.interp(np.arange(64), [30, 30 + width], [0.5, 0.25])
    depth = np.tile(1 / inverse, (48, 1))
    found = set(np.flatnonzero(is_between(depth).any(axis=0)).tolist())
    assert set(range(31, 30 + width)) <= found <= set(range(29, 32 + width))


def test_normals_of_bands_are_those_of_the_whole(monkeypatch):
    depth = np.random.default_rng(0).uniform(2, 2.1, SIZE).astype(np.float32)
    whole = normals_from_depth(depth, CAMERA, pixels_per_feature=3)
    monkeypatch.setattr("idisc.geometry._BAND", 5)
    assert np.allclose(normals_from_depth(depth, CAMERA, pixels_per_feature=3), whole, atol=1e-6)
