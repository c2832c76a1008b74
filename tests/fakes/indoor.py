"""A few frames of each indoor dataset, in the folders and file formats of the real ones.

Every builder fills a raw folder and returns its contents, so that a test can compare. Pictures are
small unless the format fixes their size.
"""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

SMALL, VGA = (24, 32), (480, 640)
SHARED = Path(__file__).parents[3] / "shared" / "data"


def real_samples(name):
    """Return a folder of real samples next to the checkout; without it the test is skipped."""
    if not (SHARED / name).is_dir():
        pytest.skip(f"no real samples of {name} next to this checkout")
    return SHARED / name


def picture(seed, size=SMALL):
    """Some smooth colours (H, W, 3)."""
    corners = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    image = Image.fromarray(corners).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.asarray(image)


def millimetres(seed, size=SMALL):
    """Smooth depth between 0.6 and 9.9 m, with 0 in the first tenth of the rows."""
    corners = np.random.default_rng(seed).uniform(600, 9900, (4, 5)).astype(np.float32)
    image = Image.fromarray(corners).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    depth = np.asarray(image).astype(np.uint16)
    depth[: size[0] // 10] = 0
    return depth


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def load(path):
    with Image.open(path) as image:
        return np.asarray(image)


def truncate(path):
    """Cut a file in half, as an interrupted download does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nyu(raw, scenes, size=SMALL):
    """Synchronised frames, so many for each folder; depths by the name of the frame."""
    depths = {}
    for number, (scene, count) in enumerate(scenes.items()):
        for frame in range(count):
            name = f"{scene}/rgb_{frame:05d}"
            depths[name] = millimetres(100 * number + frame, size)
            save(raw / f"{name}.jpg", picture(100 * number + frame, size), quality=85)
            save(raw / scene / f"sync_depth_{frame:05d}.png", depths[name])
    return depths


def nyu_matrices(raw, *, rooms=True, splits=True):
    """`nyu_depth_v2_labeled.mat` with five pictures, as MATLAB 7.3 writes it, and `splits.mat`.

    Images (N, 480, 640, 3), depth (N, 480, 640) in-painted and with holes; indices are from 0.
    """
    count = 5
    filled = np.stack([millimetres(index, VGA) for index in range(count)]) / np.float32(1000)
    filled = np.where(filled > 0, filled, 2.7184).astype(np.float32)
    filled[:, 100, 200] = 1.2346  # to the nearest millimetre, 1.235
    holes = np.where(filled > 5, 0, filled).astype(np.float32)
    content = SimpleNamespace(
        images=np.stack([picture(index, VGA) for index in range(count)]),
        depths=filled,
        raw_depths=holes,
        rooms=("kitchen_0004", "kitchen_0004", "office_0001", "bathroom_0002", "office_0001"),
        train=(2, 3, 4),
        test=(0, 1),
    )
    raw.mkdir(parents=True, exist_ok=True)
    with h5py.File(raw / "nyu_depth_v2_labeled.mat", "w", userblock_size=512) as file:
        # MATLAB stores column by column: its (H, W, 3, N) is (N, 3, W, H) in HDF5.
        file["images"] = content.images.transpose(0, 3, 2, 1)
        file["depths"] = content.depths.transpose(0, 2, 1)
        file["rawDepths"] = content.raw_depths.transpose(0, 2, 1)
        if rooms:
            _write_cells(file, "scenes", content.rooms)
    if splits:
        numbers = {
            f"{split}Ndxs": np.array([[index + 1] for index in indices], dtype=np.uint16)
            for split, indices in (("train", content.train), ("test", content.test))
        }
        savemat(raw / "splits.mat", numbers)
    return content


def _write_cells(file, name, texts):
    """A cell array of N x 1 texts: (1, N) references to (length, 1) UTF-16 units each."""
    cells = file.create_dataset(name, (1, len(texts)), dtype=h5py.ref_dtype)
    for index, text in enumerate(texts):
        letters = np.array([[ord(letter)] for letter in text], dtype=np.uint16)
        cells[0, index] = file.create_dataset(f"#refs#/{name}{index}", data=letters).ref


def nyu_plain(raw):
    """Extracted labelled frames: two of test at full size, three of train reduced."""
    for split, numbers, sizes in (
        ("test", (0, 1), (VGA, VGA)),
        ("train", (2, 3, 4), ((360, 480), (240, 320))),
    ):
        for number in numbers:
            save(raw / f"rgb/{number:04d}.jpg", picture(number, sizes[0]), quality=80)
            save(raw / f"depth/{number:04d}.png", millimetres(number, sizes[1]))
        lines = [f"rgb/{n:04d}.jpg depth/{n:04d}.png 518.8579\n" for n in numbers]
        (raw / f"{split}.txt").write_text("".join(lines))
    (raw / "scenes.json").write_text(json.dumps({"index_base": 0, "run": [0, 0, 1, 1, 2]}))


def unpacked_nyu(out, lines):
    """The real labelled frames of these lines of the packed lists, unpacked into `out`."""
    packed, subset = real_samples("nyu_labelled"), out.with_name(f"{out.name}_packed")
    subset.mkdir(parents=True)
    for name in ("rgb", "depth"):
        (subset / name).symlink_to(packed / name)
    (subset / "list.txt").write_text("\n".join(lines))
    script = [sys.executable, str(packed / "unpack.py"), str(out), "--extra", str(subset)]
    subprocess.run(script, check=True, capture_output=True)
    return out


def normal_pixels(seed, size=SMALL):
    """Unit normals as 8-bit RGB, black in the first row."""
    vectors = np.random.default_rng(seed).normal(size=(*size, 3))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    pixels = np.rint(127.5 * (vectors + 1)).astype(np.uint8)
    pixels[0] = 0
    return pixels


def nyu_normals(raw):
    """Two classes of training pictures and three of test; the lists with their unread depth."""
    names = {
        "train": ["bathroom/1", "bathroom/2", "kitchen/7"],
        "test": ["000000", "000001", "000008"],
    }
    for split, stems in names.items():
        for number, stem in enumerate(stems):
            save(raw / f"{split}/img/{stem}.png", picture(number))
            save(raw / f"{split}/norm/{stem}.png", normal_pixels(number))
        lines = [
            " ".join(f"{split}/{kind}/{stem}.png" for kind in ("img", "depth", "norm"))
            for stem in stems
        ]
        (raw / f"nyu_{split}.txt").write_text("\n".join(lines) + "\n")


def rotated(depth):
    """Rotate 16 bits left by three, as SUN RGB-D stores millimetres."""
    return (depth << np.uint16(3)) | (depth >> np.uint16(13))


def sunrgbd(raw):
    """Three frames of two sources; beyond 8.191 m the rotation reaches the low bits."""
    frames = {
        "kv2/align_kv2/2014-12-18_11-31-54": ("0000144.jpg", "0000144.png", (30, 41)),
        "kv1/b3dodata/img_0063": ("img_0063.jpg", "img_0063_abs.png", (24, 32)),
        "kv1/b3dodata/img_0064": ("img_0064.jpg", "img_0064_abs.png", (24, 32)),
    }
    depths = {}
    for seed, (folder, (image, depth, size)) in enumerate(frames.items()):
        name = f"{folder}/image/{Path(image).stem}"
        depths[name] = millimetres(seed, size)
        depths[name][0, :3] = (1, 4000, 8192)
        base = raw / "SUNRGBD" / folder
        save(base / "image" / image, picture(seed, size), quality=90)
        save(base / "depth" / depth, rotated(depths[name]))
        save(base / "depth_bfx" / depth, np.zeros(size, dtype=np.uint16))
        k = "529.5 0.0 365.0\n0.0 529.5 265.0\n0.0 0.0 1.0\n"
        (base / "intrinsics.txt").write_text(k)
    return depths


def diode(raw):
    """Views of three scans, one of them outdoors; depths, with the mask applied, by frame."""
    views = {
        "train/indoors/scene_00001/scan_00010": ["00001_00010_indoors_000_010"],
        "val/indoors/scene_00019/scan_00183": [
            "00019_00183_indoors_150_000",
            "00019_00183_indoors_160_000",
        ],
        "val/outdoor/scene_00022/scan_00195": ["00022_00195_outdoor_000_000"],
    }
    depths, size = {}, (24, 32)
    for seed, (folder, stems) in enumerate(views.items()):
        for number, stem in enumerate(stems):
            rng = np.random.default_rng([seed, number])
            depth = rng.uniform(0.5, 20, (*size, 1)).astype(np.float32)
            depth[0, :2] = 149.0  # beyond the 100 m of the preparation
            mask = (rng.random(size) < 0.9).astype(np.float32)
            mask[0, :2] = 1
            mask[1, 0], depth[1, 0] = 0, np.nan
            save(raw / folder / f"{stem}.png", picture(seed, size))
            np.save(raw / folder / f"{stem}_depth.npy", depth)
            np.save(raw / folder / f"{stem}_depth_mask.npy", mask)
            depths[f"{folder}/{stem}"] = np.where(mask > 0, depth[..., 0], 0).astype(np.float32)
    return depths
