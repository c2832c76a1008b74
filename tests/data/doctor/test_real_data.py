"""Real frames pass; the same ones shifted or off by one do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes import indoor
from tests.fakes.examined import Pairs, by_code, only, save_depth
from tests.fakes.road import SHARED

from idisc.data import doctor

real = pytest.mark.skipif(not SHARED.is_dir(), reason="no real data beside the checkout")


@pytest.fixture(scope="module")
def nyu(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """24 of NYU's test pictures, the first 16 called train."""
    lines = (indoor.shared("nyu_labelled") / "test.txt").read_text().splitlines()[:480:20]
    made = Pairs(indoor.unpacked_nyu(tmp_path_factory.mktemp("nyu") / "plain", lines))
    listing = made.root / "train.txt"
    plain = listing.read_text().splitlines()
    listing.unlink()  # the table of the pairs lists them instead
    for index, line in enumerate(plain):
        image, depth, _ = line.split()
        made.rows.append(
            {
                "image": (made.root / image).as_posix(),
                "depth": depth,
                "split": "train" if index < 16 else "test",
                "fx": 518.86,
                "fy": 519.47,
                "cx": 325.58,
                "cy": 253.74,
            }
        )
    return made


@real
def test_real_rooms_have_no_findings(nyu: Pairs) -> None:
    assert nyu.report().findings == ()


@real
def test_real_rooms_off_by_one_are_found(nyu: Pairs) -> None:
    depths = [row["depth"] for row in nyu.rows]
    moved = Pairs(nyu.root)
    moved.rows = [
        {**row, "depth": depth}
        for row, depth in zip(nyu.rows, [*depths[1:], depths[0]], strict=True)
    ]
    assert "offset" in by_code(moved.report())


@real
def test_real_rooms_shifted_by_20_pixels_are_found(nyu: Pairs, tmp_path: Path) -> None:
    moved = Pairs(tmp_path, [dict(row) for row in nyu.rows])
    (tmp_path / "depth").mkdir()
    for row in moved.rows:
        depth = np.asarray(Image.open(nyu.root / str(row["depth"])))
        Image.fromarray(np.roll(depth, 20, axis=1)).save(tmp_path / str(row["depth"]))
    assert only(moved.report()).details == {"right_px": 20, "down_px": 0}


REAL_LISTS: dict[str, tuple[str, list[str]]] = {
    "kitti": (
        "kitti",
        [
            f"raw/2011_09_26/2011_09_26_drive_9002_sync/image_02/data/{frame}.png"
            " depth_annotated/train/2011_09_26_drive_9002_sync/proj_depth/groundtruth/image_02/"
            f"{frame}.png 721.5"
            for frame in ("0000000005", "0000000050", "0000000100")
        ],
    ),
    "nyu": (
        "nyu_sync",
        [f"rgb_{n}.jpg sync_depth_{n}.png 518.8" for n in ("00000", "00050", "00100")],
    ),
    "sunrgbd": (
        "sunrgbd",
        [
            f"extra/{name}.jpg extra/{name}_depth.png 529.5"
            for name in ("kv2_bedroom", "kv2_dining")
        ],
    ),
}


@real
@pytest.mark.parametrize("name", REAL_LISTS)
def test_real_frames_through_a_list_have_no_findings_but_their_camera(
    name: str, tmp_path: Path
) -> None:
    folder, lines = REAL_LISTS[name]
    listing = tmp_path / f"{name}_test.txt"
    listing.write_text("\n".join(lines))
    report = doctor.examine(*doctor.gather(SHARED / folder, name, [listing]))
    assert by_code(report).keys() <= {"camera"}
    assert report.inspected == len(lines)


@real
def test_rendered_rooms_have_no_findings_but_camera_and_splits(tmp_path: Path) -> None:
    root = SHARED / "taskonomy"
    rows = []
    for image in sorted((root / "rgb").iterdir())[:24]:
        name = image.name.replace("rgb.jpg", "depth.png")
        stored = np.asarray(Image.open(root / "depth" / name)).astype(np.float32)
        save_depth(tmp_path / name, np.where(stored < 65000, stored / 512, 0))
        rows.append({"image": image.as_posix(), "depth": name})
    assert by_code(Pairs(tmp_path, rows).report()).keys() == {"camera", "unsplit"}
