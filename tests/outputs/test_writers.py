"""Writers: several formats at once, refusals in one line, whole files or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.depicted import CAMERA, RESULT, SIZE, WALL, write

from idisc import outputs
from idisc.errors import InputError
from idisc.outputs import WRITERS, Options


def test_several_formats_of_one_picture_lie_side_by_side(tmp_path: Path) -> None:
    formats = ["png", "png16", "npy", "npz", "ply", "glb", "normals", "html"]
    written = outputs.save(RESULT, tmp_path / "new", "room", formats)
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert [path.name for path in written] == [
        "room_depth.png",
        "room_depth16.png",
        "room_depth16.json",
        "room_depth.npy",
        "room_depth.json",
        "room_depth.npz",
        "room_points.ply",
        "room_mesh.glb",
        "room_normals.png",
        "room_viewer.html",
    ]


def test_no_two_formats_share_a_name() -> None:
    assert len({writer.suffix for writer in WRITERS.values()}) == len(WRITERS)


def test_formats_are_asked_for_in_a_text_or_in_several() -> None:
    assert outputs.formats_of(" npy, PLY,,npy") == ("npy", "ply")
    assert outputs.formats_of(["html,png16", "Png"]) == ("html", "png16", "png")
    for nothing in ("", " , ", []):
        with pytest.raises(InputError, match=r"^no format is named; there is png, png16, npy"):
            outputs.formats_of(nothing)
    with pytest.raises(InputError, match=r"^format 'pgn' does not exist; did you mean png"):
        outputs.formats_of("npy,pgn")
    with pytest.raises(InputError, match=r"^format webp: webp has 8 bits"):
        outputs.formats_of("webp")


@pytest.mark.parametrize("kind", ["jpg", "png8"])
def test_metres_in_eight_bits_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"format {kind}: {kind} has 8 bits, 256 steps, and no"):
        outputs.save(RESULT, tmp_path, "room", [kind])
    with pytest.raises(InputError, match=r"room\.jpg: jpg has 8 bits.* choose png16, npy, npz"):
        outputs.write("png16", tmp_path / "room.jpg", RESULT)
    assert not list(tmp_path.iterdir())


def test_a_name_with_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"room\.exr: 'npy' is written to \.npy; change the name"):
        outputs.write("npy", tmp_path / "room.exr", RESULT)


def test_nothing_is_written_if_one_format_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format 'pcd' does not exist"):
        outputs.save(RESULT, tmp_path, "room", ["npy", "pcd"])
    with pytest.raises(InputError, match="format spread: this result has none"):
        outputs.save(RESULT, tmp_path, "room", ["npy", "spread"])
    assert not list(tmp_path.iterdir())


def test_a_format_that_cannot_hold_a_result_does_not_cost_the_others(tmp_path: Path) -> None:
    far = replace(RESULT, depth=np.full(SIZE, 300.0, np.float32))
    with pytest.raises(InputError, match=r"room_depth16\.png: .*; the others are written: "):
        outputs.save(far, tmp_path, "room", ["png16", "npy"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["room_depth.json", "room_depth.npy"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": np.full(SIZE, 200, np.uint8)}, r"depth \(48, 64\) of uint8: .* metres needed"),
        ({"camera": CAMERA.resized((24, 32))}, r"camera for \(24, 32\) pixels with depth for"),
        ({"image": np.zeros((2, 2, 3), np.uint8)}, r"image for \(2, 2\) pixels with depth for"),
        ({"depth": np.zeros(SIZE, np.float32)}, "format ply: not one pixel has a depth"),
    ],
)
def test_arrays_that_cannot_be_written_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        write("ply", tmp_path, replace(RESULT, **changes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": (5.0, 1.0)}, "range 5 to 1: two rising distances"),
        ({"axes": "opengle"}, "axis convention 'opengle' does not exist"),
        ({"edge": 0.0}, "edge 0, grid 640"),
        ({"metres_per_unit": -1.0}, "-1 metres per unit"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Options(**options)


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("npy", tmp_path)
    before = path.read_bytes()

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(OSError, match="disk full") as caught:
        write("npy", tmp_path, WALL)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["room_depth.json", path.name]
