"""LiDAR sweeps as depth maps: transforms, lens distortion, rasterization, files."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tests.fakes import road
from tests.fakes.refusals import refused

from idisc.camera import Camera
from idisc.data import lidar
from idisc.data.lidar import ARGOVERSE_PUBLISHED, DDAD_PUBLISHED, Distortion, Raster
from idisc.errors import InputError

CAMERA = Camera(fx=10.0, fy=10.0, cx=4.0, cy=2.0, size=(5, 9), origin="test")
REAL_DISTORTION = Distortion(*road.ARGOVERSE_LENS)


def points(*rows):
    return np.array(rows, dtype=np.float64)


# --- rigid motion


def test_quaternions_are_w_x_y_z_and_need_no_unit_length():
    generator = np.random.default_rng(0)
    for _ in range(5):
        w, x, y, z = generator.normal(size=4)
        point, shift = generator.normal(size=(2, 3))
        expected = Rotation.from_quat([x, y, z, w]).apply(point) + shift
        transform = lidar.rigid_transform((-2 * w, -2 * x, -2 * y, -2 * z), shift)
        assert lidar.transform_points([point], transform)[0] == pytest.approx(expected)


def test_impossible_transforms_are_refused():
    for rotation in ((0, 0, 0, 0), (1, 0, 0), (math.nan, 0, 0, 1)):
        with pytest.raises(ValueError, match="rotation"):
            lidar.rigid_transform(rotation, (0, 0, 0))
    with pytest.raises(ValueError, match="translation"):
        lidar.rigid_transform((1, 0, 0, 0), (math.nan, 0, 0))


def test_transforms_are_inverted_and_composed():
    way = lidar.rigid_transform((0.3, -0.2, 0.9, 0.1), (5.0, -7.0, 11.0))
    assert lidar.compose(lidar.inverse(way), way) == pytest.approx(np.eye(4))
    assert lidar.inverse(way) == pytest.approx(np.linalg.inv(way))


# --- pixels


def test_argoverse_published_ties_go_to_the_even_pixel():
    pixels, _ = ARGOVERSE_PUBLISHED.pixels(np.array([[2.5, 1.5], [3.5, 0.5]]), (5, 9))
    assert pixels.tolist() == [[2, 2], [4, 0]]


@pytest.mark.parametrize("raster", [Raster(), ARGOVERSE_PUBLISHED, DDAD_PUBLISHED])
def test_a_sweep_is_projected_as_point_by_point(raster):
    generator = np.random.default_rng(1)
    sweep = generator.normal(size=(3000, 3)) * (3.0, 2.0, 5.0)
    expected = np.zeros(CAMERA.size)
    for x, y, z in sweep:
        if z <= 0:
            continue
        u, v = 10.0 * x / z + 4.0, 10.0 * y / z + 2.0
        if raster.rounding == "even":
            inside, column, row = 0 <= u < 8 and 0 <= v < 4, round(u), round(v)
        else:
            nearest = raster.rounding == "centre"
            column = math.floor(u + 0.5) if nearest else int(u)
            row = math.floor(v + 0.5) if nearest else int(v)
            inside = 0 <= column < 9 and 0 <= row < 5
        if inside and (raster.surface == "last" or not 0 < expected[row, column] <= z):
            expected[row, column] = z
    assert lidar.project(sweep, CAMERA, raster) == pytest.approx(expected, rel=1e-6)


def test_points_behind_and_points_without_numbers_are_not_seen():
    behind, nowhere = (0, 0, -5), [(math.nan, 0, 5), (0, 0, math.nan), (0, math.inf, 5)]
    sweep = points(behind, (0, 0, 0), *nowhere, (1, 1, 5e-324))
    depth = lidar.project(sweep, CAMERA)
    assert depth.dtype == np.float32
    assert not depth.any()


def test_depth_is_never_rounded_up_to_the_next_step_of_a_file():
    depth = 1354.99999548 / 256  # the nearest float32 is 1355 / 256
    assert float(np.float32(depth)) * 256 == 1355
    assert int(lidar.project(points((0, 0, depth)), CAMERA)[2, 4] * 256) == 1354


# --- lens


def test_a_lens_moves_a_ray_by_its_polynomial():
    # r2 = 0.25: 1 - 0.1 * 0.25 + 0.2 * 0.0625 - 0.4 * 0.015625 = 0.98125
    bent = Distortion(-0.1, 0.2, -0.4).distort(np.array([[0.3, -0.4]]))
    assert bent == pytest.approx(np.array([[0.294375, -0.3925]]))


def test_a_point_at_the_side_does_not_come_back_through_the_lens():
    camera = Camera(fx=1400, fy=1400, cx=960, cy=600, size=(1200, 1920), origin="test")
    r2 = 2.2**2  # 66 degrees off the axis; the picture ends at 34
    folded = 2.2 * (1 - 0.172 * r2 + 0.117 * r2**2 - 0.025 * r2**3)
    assert abs(folded) * 1400 < 960  # the polynomial alone would put it into the picture
    assert not lidar.project(points((2.2, 0.0, 1.0)), camera, distortion=REAL_DISTORTION).any()


# --- keyframes


@pytest.mark.parametrize(
    ("x", "step_s", "metres", "elapsed_s", "kept"),
    [
        ((0.0, 1.9, 2.1, 3.9, 4.2, 4.3, 9.0), 0.1, 2.0, None, [0, 2, 4, 6]),
        ((0.0, 2.0), 0.1, 2.0, None, [0, 1]),  # exactly the distance is enough
        ((0.0, 1.5, 0.0, 1.5), 1.0, 2.0, None, [0]),  # a straight line, not the way driven
        ((0.0,) * 7, 10.0, 2.0, None, [0]),  # a car that waits
        ((0.0,) * 7, 10.0, 2.0, 30.0, [0, 3, 6]),  # the same by the rule of the code
        ((0.0,) * 3, 1.0, 0.0, None, [0, 1, 2]),
        ((), 1.0, 2.0, None, []),
    ],
)
def test_keyframes_are_kept_by_distance_or_time(x, step_s, metres, elapsed_s, kept):
    times_s = [step_s * number for number in range(len(x))]
    positions = [(place, 0.0, 0.0) for place in x]
    assert lidar.keyframes(positions, times_s, metres, elapsed_s) == kept


# --- files


def test_files_of_kitti_and_dgp_are_read(tmp_path):
    rows = np.array([[1, 2, 3, 0.5], [4, 5, 6, 0.1]], dtype="<f4")
    path = road.write(tmp_path / "0.bin", rows.tobytes())
    assert lidar.read_velodyne(path).tolist() == [[1, 2, 3], [4, 5, 6]]
    np.savez(tmp_path / "a.npz", data=np.array([[9.0, 1.0, 2.0, 3.0]]))
    assert lidar.read_npz(tmp_path / "a.npz", (1, 2, 3)).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("content", [None, b"", b"\0" * 30, b"PK\3\4 and no more.", "flat"])
@pytest.mark.parametrize("read", [lidar.read_ply, lidar.read_velodyne, lidar.read_npz])
def test_missing_and_damaged_files_are_named(tmp_path, read, content):
    path = tmp_path / "sweep.npz"
    if content == "flat":
        np.savez(path, data=np.zeros(4))
    elif content is not None:
        road.write(path, content)
    with refused(InputError, path):
        read(path)


def test_a_ply_may_have_its_properties_in_any_order_and_type(tmp_path):
    row = np.dtype([("time", "<f8"), ("z", "<f8"), ("x", "<i2"), ("laser", "i1"), ("y", "<f4")])
    vertices = np.array([(9.0, 0.25, -3, 1, 0.5), (9.5, 1.25, 4, 2, 1.5)], dtype=row)
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment element vertex 7\nelement vertex 2\n"
        "property double time\nproperty float64 z\nproperty short x\nproperty char laser\n"
        "property float32 y\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
    )
    path = road.write(tmp_path / "a.ply", header.encode() + vertices.tobytes() + b"\3abcabcabcabc")
    assert lidar.read_ply(path).tolist() == [[-3, 0.5, 0.25], [4, 1.5, 1.25]]


GOOD = "ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty float x\n"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("solid cube\n", "no PLY header"),
        (GOOD, "no PLY header"),  # its end is missing
        ("ply\nformat ascii 1.0\nend_header\n", "not a binary little-endian PLY"),
        ("ply\nformat binary_little_endian 1.0\nend_header\n", "the first element is not vertex"),
        (f"{GOOD}end_header\n", "no property y, z in its header"),
        (f"{GOOD}property list uchar int y\nend_header\n", "property 'list uchar int y' is not"),
        (f"{GOOD}property half y\nend_header\n", "property 'half y' is not"),
        (f"{GOOD}property float y\nproperty float z\nend_header\nabc", "0 points, 1 expected"),
    ],
)
def test_a_ply_of_another_form_is_named(tmp_path, header, message):
    path = road.write(tmp_path / "a.ply", header)
    with refused(InputError, path, message):
        lidar.read_ply(path)
