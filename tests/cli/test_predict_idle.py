"""Options of `idisc predict` that would change nothing are refused, not passed over."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.fakes import onnx_files
from tests.fakes.called import run


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "room.png"
    Image.new("RGB", (40, 30), (90, 90, 90)).save(path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return onnx_files.depth_of_brightness(tmp_path / "small.onnx")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--save", "npy", "--colours", "viridis"], "--colours is for --save png, html; leave"),
        (
            ["--save", "npy,ply", "--range", "0.5,8"],
            "--range is for --save png, html; leave it out",
        ),
        (["--axes", "opengl"], "--axes is for --save ply, glb, normals; leave it out"),
        (["--save", "npy", "--axes", "opengl"], "--axes is for --save ply, glb, normals; leave"),
        (["--fps", "25"], "--fps is for videos, and none is named; leave it out"),
    ],
)
def test_an_option_that_changes_no_format_is_refused(
    photo: Path, model: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", photo, "--weights", model, *options) == 2
    assert capsys.readouterr().err.startswith(f"idisc: {message}")
    assert not list(photo.parent.glob("room_*"))


@pytest.mark.parametrize(
    "options",
    [
        ["--colours", "viridis"],
        ["--save", "npy,html", "--range", "0.5,8"],
        ["--normals", "--axes", "opengl"],
        ["--save", "ply", "--axes", "opencv"],
    ],
)
def test_an_option_that_changes_one_of_several_formats_is_taken(
    photo: Path, model: Path, options: list[str]
) -> None:
    assert run("predict", photo, "--weights", model, *options) == 0


def test_the_axes_of_a_network_for_normals_need_no_format(tmp_path: Path, photo: Path) -> None:
    model = onnx_files.normals_of_colour(tmp_path / "normals.onnx")
    assert run("predict", photo, "--weights", model, "--axes", "opengl") == 0
    assert (tmp_path / "room_normals.png").is_file()


def test_normals_do_not_go_to_stdout(
    photo: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(photo.read_bytes())))
    assert run("predict", "-", "--weights", model, "--normals") == 2
    said = "idisc: --normals: stdin to stdout is depth alone; leave it out, or -o DIR\n"
    assert capsys.readouterr().err == said


def test_the_network_is_named_by_weights_alone(
    photo: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict", photo, "--model", model) == 2
    assert "No such option" in capsys.readouterr().err
