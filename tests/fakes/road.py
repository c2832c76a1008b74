"""Small raw trees of KITTI, DDAD and Argoverse, whose depth can be computed by hand.

Walls surround the car, `WALL` metres from the middle of its LiDAR frame, so that a camera looking
straight ahead has one depth everywhere, which follows from the position of the camera. Pictures
have their real sizes and one colour, to be small.
"""

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from idisc.data import manifest
from idisc.data.decode import DepthMap

WALL = 20.0


def facing(angle_deg):
    """The rotation (w, x, y, z) from camera axes to a car's, turned to the left about its z."""
    ahead = Rotation.from_quat([-0.5, 0.5, -0.5, 0.5])  # x right, y down, z forward
    x, y, z, w = (Rotation.from_euler("z", angle_deg, degrees=True) * ahead).as_quat().tolist()
    return w, x, y, z


@cache
def flat(size, suffix):
    """A grey picture."""
    buffer = io.BytesIO()
    kind = "JPEG" if suffix == "jpg" else "PNG"
    Image.new("RGB", (size[1], size[0]), (90, 100, 110)).save(buffer, format=kind)
    return buffer.getvalue()


def walls(step=0.5):
    """Points (N, 3) of four walls around the origin, x forward, y left, z up."""
    along, up = np.meshgrid(np.arange(-WALL, WALL, step), np.arange(-3.0, 3.0, step))
    across = np.full(along.size, WALL)
    front = np.stack([across, along.ravel(), up.ravel()], axis=1)
    side = front[:, [1, 0, 2]]
    return np.concatenate([front, -front, side, -side])


def write(path, content):
    """Bytes, text, or anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def records(out):
    """The records of a prepared folder."""
    return manifest.read(out).records


def depth_of(out, record=None):
    """The prepared depth of a record, or of the first one."""
    target = (record or records(out)[0]).target
    return DepthMap(metres_per_unit=1 / 256).read(out / target)


def names_of(summary):
    """The names of the raw files that are wrong."""
    return [Path(fault.subject).name for fault in summary.faults]


# --- KITTI

KITTI_SIZE = (375, 1242)
KITTI_FOCAL, KITTI_MIDDLE = 700.0, (600.0, 180.0)
KITTI_WALL = WALL - 0.27 + 0.003  # velodyne -> camera 0 -> camera 2, along the axis


def kitti_calibration(date):
    """Turned axes, the LiDAR 27 cm behind camera 0, and camera 2 another 3 mm behind."""
    (cx, cy), f, shift = KITTI_MIDDLE, KITTI_FOCAL, (0.06, 0.0, 0.003)
    offset = f * shift[0] + cx * shift[2], f * shift[1] + cy * shift[2], shift[2]
    numbers = (f, 0, cx, offset[0], 0, f, cy, offset[1], 0, 0, 1, offset[2])
    write(
        date / "calib_cam_to_cam.txt",
        "calib_time: 09-Jan-2012 13:57:47\n"
        "R_rect_00: 1 0 0 0 1 0 0 0 1\n"
        f"S_rect_02: {KITTI_SIZE[1]:e} {KITTI_SIZE[0]:e}\n"
        f"P_rect_02: {' '.join(f'{number:e}' for number in numbers)}\n",
    )
    write(
        date / "calib_velo_to_cam.txt",
        "calib_time: 15-Mar-2012 11:37:16\nR: 0 -1 0 0 0 -1 1 0 0\nT: 0 -0.08 -0.27\n",
    )


def annotated():
    """Annotated depth: 10 m in every second pixel of the lower half."""
    stored = np.zeros(KITTI_SIZE, dtype=np.uint16)
    stored[200:, ::2] = 2560
    buffer = io.BytesIO()
    Image.fromarray(stored).save(buffer, format="PNG")
    return buffer.getvalue()


def kitti(
    raw, depth, drives=("2011_09_26_drive_0001_sync", "2011_09_26_drive_0002_sync"), frames=2
):
    """Drives below `raw`, annotated depth below `depth`/train: drive 0001 is train, 0002 test."""
    sweep = np.concatenate([walls(), np.zeros((len(walls()), 1))], axis=1, dtype=np.float32)
    for drive in drives:
        folder = raw / drive[:10] / drive
        kitti_calibration(folder.parent)
        for number in range(frames):
            name = f"{number:010d}"
            write(folder / "image_02" / "data" / f"{name}.png", flat(KITTI_SIZE, "png"))
            write(folder / "velodyne_points" / "data" / f"{name}.bin", sweep.tobytes())
            target = depth / "train" / drive / "proj_depth" / "groundtruth" / "image_02"
            write(target / f"{name}.png", annotated())
    return raw


def kitti_line(drive, number):
    """A line of a published list."""
    name = f"image_02/data/{number:010d}.png"
    target = f"{drive}/proj_depth/groundtruth/image_02/{number:010d}.png"
    return f"{drive[:10]}/{drive}/{name} {target} 721.5377"


# --- DDAD

DDAD_SIZE = (1216, 1936)
DDAD_CAMERAS = {"CAMERA_01": 0.0, "CAMERA_05": 60.0, "CAMERA_06": -60.0, "CAMERA_09": 180.0}
DDAD_FORWARD = 1.5  # metres from the middle of the car to the front camera, along its axis
DDAD_SPEED = 15.0  # metres a second
DDAD_LATE_S = 0.02  # time from the sweep to the picture
DDAD_FIRST = 15_616_458_250_000_000


def _dgp_pose(rotation, x, z=0.0):
    return {
        "rotation": dict(zip(("qw", "qx", "qy", "qz"), rotation, strict=True)),
        "translation": {"x": x, "y": 0.0, "z": z},
    }


def ddad_calibration():
    """Cameras at the middle of the car, 1.5 m up; the front one is also forward."""
    lens = {"fx": 1000.0, "fy": 1010.0, "cx": 960.0, "cy": 600.0, "skew": 0.0}
    cameras = [_ddad_camera(angle, 0.0) for angle in DDAD_CAMERAS.values()]
    return {
        "names": ["LIDAR", *DDAD_CAMERAS],
        "intrinsics": [dict.fromkeys(lens, 0.0), *([lens] * len(DDAD_CAMERAS))],
        "extrinsics": [_dgp_pose((1.0, 0.0, 0.0, 0.0), 0.0), *cameras],
    }


def _ddad_camera(angle_deg, car):
    return _dgp_pose(facing(angle_deg), car + (DDAD_FORWARD if angle_deg == 0 else 0.0), 1.5)


def ddad_scene(folder, samples):
    """A scene of a car that drives straight on, with a sample every tenth of a second."""
    buffer = io.BytesIO()
    np.savez(buffer, data=np.concatenate([walls(), np.ones((len(walls()), 1))], axis=1))
    data = []
    entries = []

    def add(key, sensor, kind, name, file, **content):
        write(folder / name, file)
        datum = {kind: {"filename": name, **content}}
        data.append({"key": key, "id": {"name": sensor, "timestamp": ""}, "datum": datum})

    for number in range(samples):
        stamp = str(DDAD_FIRST + number * 1_000_000)  # in DDAD's own units
        swept = DDAD_SPEED * 0.1 * number
        add(
            *(f"L{number}", "LIDAR", "point_cloud", f"point_cloud/LIDAR/{stamp}.npz"),
            buffer.getvalue(),
            point_format=["X", "Y", "Z", "INTENSITY"],
            pose=_dgp_pose((1.0, 0.0, 0.0, 0.0), swept),
        )
        for sensor, angle in DDAD_CAMERAS.items():
            add(
                *(f"{sensor}{number}", sensor, "image", f"rgb/{sensor}/{stamp}.png"),
                flat(DDAD_SIZE, "png"),
                height=DDAD_SIZE[0],
                width=DDAD_SIZE[1],
                pose=_ddad_camera(angle, swept + DDAD_SPEED * DDAD_LATE_S),
            )
        keys = [f"L{number}", *(f"{sensor}{number}" for sensor in DDAD_CAMERAS)]
        time = {"timestamp": f"2464-11-12T01:04:{10 + number:02d}.027900Z"}
        entries.append({"calibration_key": "c0ffee", "datum_keys": keys, "id": time})
    write(folder / "calibration" / "c0ffee.json", ddad_calibration())
    return write(folder / "scene_beef.json", {"data": data, "samples": entries, "name": "made up"})


def ddad(raw, samples):
    """Two scenes of training and one of validation."""
    splits = {"0": ["000000", "000001"], "1": ["000150"]}
    for name in (name for names in splits.values() for name in names):
        ddad_scene(raw / name, samples)
    listed = {
        key: {"filenames": [f"{name}/scene_beef.json" for name in names]}
        for key, names in splits.items()
    }
    write(raw / "ddad.json", {"metadata": {"name": "DDAD"}, "scene_splits": listed})
    return raw


# --- Argoverse

ARGOVERSE_SIZE = (1200, 1920)
ARGOVERSE_CAMERAS = {
    "ring_front_center": 0.0,
    "ring_front_left": 45.0,
    "ring_front_right": -45.0,
    "ring_rear_left": 150.0,
    "ring_rear_right": -150.0,
    "ring_side_left": 90.0,
    "ring_side_right": -90.0,
}
ARGOVERSE_LENS = (-0.172, 0.117, -0.025)  # about those of the real cars
ARGOVERSE_FORWARD = 1.5
ARGOVERSE_SPEED = 10.0  # metres a second
ARGOVERSE_FIRST_NS = 315_971_347_800_000_000
ARGOVERSE_LATE_NS = 10_000_000  # time from the sweep to the nearest picture


def ply(points):
    """Return a sweep as Argoverse stores it."""
    row = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "u1"), ("laser_number", "<u2")]
    vertices = np.zeros(len(points), dtype=row)
    for axis, name in enumerate("xyz"):
        vertices[name] = points[:, axis]
    kinds = {"<f4": "float", "u1": "uchar", "<u2": "ushort"}
    properties = "".join(f"property {kinds[kind]} {name}\n" for name, kind in row)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{properties}"
    return f"{header}end_header\n".encode() + vertices.tobytes()


def argoverse_calibration():
    """Ring cameras at the middle of the car, 1.4 m up; the front one is also forward."""
    return {
        "camera_data_": [
            {
                "key": f"image_raw_{name}",
                "value": {
                    "focal_length_x_px_": 1400.0,
                    "focal_length_y_px_": 1400.0,
                    "focal_center_x_px_": 960.0,
                    "focal_center_y_px_": 600.0,
                    "skew_": 0.0,
                    "distortion_coefficients_": ARGOVERSE_LENS,
                    "vehicle_SE3_camera_": {
                        "rotation": {"coefficients": facing(angle)},
                        "translation": [ARGOVERSE_FORWARD if angle == 0 else 0.0, 0.0, 1.4],
                    },
                },
            }
            for name, angle in ARGOVERSE_CAMERAS.items()
        ]
    }


def argoverse_pose(log, stamp):
    """Write the pose of a car that drives straight on."""
    x = ARGOVERSE_SPEED * (stamp - ARGOVERSE_FIRST_NS) / 1e9
    pose = {"rotation": [1.0, 0.0, 0.0, 0.0], "translation": [x, 0.0, 0.0]}
    return write(log / "poses" / f"city_SE3_egovehicle_{stamp}.json", pose)


def argoverse_log(log, sweeps, cameras, points=None):
    """Sweeps at 10 Hz, each with a picture shortly before it and a nearer one after it."""
    write(log / "vehicle_calibration_info.json", argoverse_calibration())
    for number in range(sweeps):
        stamp = ARGOVERSE_FIRST_NS + number * 100_000_000
        write(log / "lidar" / f"PC_{stamp}.ply", points or ply(walls()))
        argoverse_pose(log, stamp)
        for late in (-23_000_000, ARGOVERSE_LATE_NS):
            argoverse_pose(log, stamp + late)
            for camera in cameras:
                name = f"{camera}_{stamp + late}.jpg"
                write(log / camera / name, flat(ARGOVERSE_SIZE, "jpg"))
    return log


def argoverse(raw, sweeps):
    """A log of training and one of validation, pictures of two cameras."""
    for name in ("train1/log-a", "val/log-b"):
        argoverse_log(raw / name, sweeps, ("ring_front_center", "ring_side_left"))
    return raw
