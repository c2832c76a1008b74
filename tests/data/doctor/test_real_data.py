"""Real frames have no findings except a missing camera."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import indoor
from tests.fakes.examined import Pairs, by_code

from idisc.data import doctor


def test_real_rooms_have_no_findings(tmp_path: Path) -> None:
    lines = (indoor.real_samples("nyu_labelled") / "test.txt").read_text().splitlines()[:480:20]
    made = Pairs(indoor.unpacked_nyu(tmp_path / "plain", lines))
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
    assert made.report().findings == ()


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


@pytest.mark.parametrize("name", REAL_LISTS)
def test_real_frames_through_a_list_have_no_findings_but_their_camera(
    name: str, tmp_path: Path
) -> None:
    folder, lines = REAL_LISTS[name]
    listing = tmp_path / f"{name}_test.txt"
    listing.write_text("\n".join(lines))
    report = doctor.examine(*doctor.gather(indoor.real_samples(folder), name, [listing]))
    assert by_code(report).keys() <= {"camera"}
    assert report.inspected == len(lines)
