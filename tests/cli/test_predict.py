"""`idisc predict`: files, folders, patterns and stdin; options, and what is said of the result."""

import io
import json
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from tests.fakes import called, onnx_files
from tests.fakes.photographed import metres, shown

from idisc.cli.cameras import camera_rule
from idisc.cli.predict_report import Report
from idisc.errors import InputError
from idisc.formats import FORMATS


@pytest.fixture
def run(run):
    return partial(run, "predict")


def test_a_photo_becomes_a_picture_and_metres(run, model, photos):
    out = photos.parent / "out"
    code, said, err = run(photos / "a.png", "-o", out, "--weights", model)
    assert (code, err) == (0, "")
    assert shown(out) == {"a_depth.png", "a_depth16.png", "a_depth16.json"}
    assert metres(out / "a_depth16.png") == pytest.approx(1.5, abs=0.001)
    line = f"{photos / 'a.png'}: mostly 1.50 to 1.50 m, median 1.50 m; camera assumed 60 deg, model"
    assert said.startswith(f"{line} small.onnx, domain")
    assert str(out / "a_depth16.png") in said


def test_without_a_folder_the_result_lies_beside_the_picture(run, model, photos):
    for _ in range(2):  # the second time, results of the first are no pictures
        code, said, _ = run(photos, "--recursive", "--weights", model, "--save", "png,npy")
        assert code == 0
        assert len(said.splitlines()) == 3
    assert np.load(photos / "deep" / "c_depth.npy").mean() == pytest.approx(3.5)
    assert (photos / "a_depth.png").is_file()


def test_the_help_names_every_format_and_sizes_as_they_are_written(run):
    code, said, _ = run("--help")
    assert code == 0
    listed = said.partition("Formats")[2]
    assert all(f"\n  {name} " in listed for name in FORMATS)
    assert "--size HxW " in said


# From stdin, to stdout


@pytest.fixture
def stdin(photos, monkeypatch):
    """A photo on stdin."""
    stream = SimpleNamespace(buffer=io.BytesIO((photos / "a.png").read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)


@pytest.mark.usefixtures("stdin")
@pytest.mark.parametrize(
    ("formats", "read"),
    [
        ([], lambda data: np.asarray(Image.open(data)) / 1000),
        (["--save", "npz"], lambda data: np.load(data)["depth"]),
    ],
)
def test_stdin_goes_to_stdout(model, capsysbinary, formats, read):
    assert called.run("predict", "-", "--weights", model, *formats) == 0
    out, err = capsysbinary.readouterr()
    np.testing.assert_allclose(read(io.BytesIO(out)), 1.5, atol=0.001)
    assert err.startswith(b"stdin: mostly 1.50 to 1.50 m")


@pytest.mark.usefixtures("stdin")
def test_stdin_with_a_folder_goes_there(run, model, photos):
    out = photos.parent / "out"
    assert run("-", "-o", out, "--weights", model, "--save", "npy")[0] == 0
    assert (out / "stdin_depth.npy").is_file()


@pytest.mark.usefixtures("stdin")
def test_text_goes_to_stderr_if_stdout_contains_bytes(model, photos, capsysbinary):
    called.run("predict", "-", photos / "b.jpg", "--weights", model, "--save", "npy")
    out, err = capsysbinary.readouterr()
    buffer = io.BytesIO(out)
    np.testing.assert_allclose(np.load(buffer), 1.5, rtol=1e-6)
    assert buffer.read() == b""
    labels = [line.partition(b":")[0] for line in err.splitlines()]
    assert labels == [b"stdin", str(photos / "b.jpg").encode()]


# Options


def test_options_reach_the_result(run, model, photos):
    onnx_files.sealed(onnx_files.describe(model, training_fov_deg="60", training_size="48x64"))
    out = photos.parent / "out"
    options = ["--size", "48x64", "--flip", "--known-distance", "5,5 30,5 = 200cm", "--normals"]
    options += ["--fov", "20", "--range", "0.5,8", "--colormap", "viridis", "--axes", "opengl"]
    options += ["--no-camera-correction"]
    code, said, err = run(photos / "a.png", "-o", out, "--weights", model, *options)
    assert (code, err) == (0, "")
    record = json.loads((out / "a_depth16.json").read_text())
    made = record["provenance"]
    assert (made["network_size"], made["network_size_reason"]) == ([48, 64], "user")
    assert record["camera"]["origin"] == "given 20 deg"
    assert made["rescalings"][0]["known"][0]["metres"] == 2
    assert (made["flip"], made["normals"], made["camera_correction"]) == (True, "depth", None)
    assert "known 5,5 30,5 = 2 m" in said
    assert (out / "a_normals.png").is_file()


def test_warnings_and_unusual_steps_are_noted(run, model, photos):
    known = ["--weights", model, "--known-distance", "5,5 30,5 = 50m"]
    code, _, err = run(photos / "a.png", *known)
    assert code == 0
    warning, steps = err.splitlines()
    assert warning.startswith(f"{photos / 'a.png'}: the known distance is 46.2 times the predicted")
    assert steps.startswith(f"{photos / 'a.png'}: png16 in steps of 1/256 m")
    assert metres(photos / "a_depth16.png") == pytest.approx(69.28, abs=0.01)


@pytest.mark.parametrize(
    ("option", "tiles"),
    [
        (["--tile"], {"count": 1, "size": [200, 300]}),
        (["--tile-size", "100x150"], {"count": 9, "size": [100, 150]}),
    ],
)
def test_tiles_are_chosen_or_given(run, model, photos, option, tiles):
    Image.new("RGB", (300, 200)).save(photos / "large.png")
    assert run(photos / "large.png", "--weights", model, "--save", "png16", *option)[0] == 0
    record = json.loads((photos / "large_depth16.json").read_text())
    assert record["provenance"]["tiles"] == tiles


def test_a_network_for_normals_saves_normals(run, tmp_path, photos):
    model = onnx_files.normals_of_colour(tmp_path / "normals.onnx")
    options = ["-o", tmp_path / "out", "--weights", model, "--axes", "opengl"]
    code, said, _ = run(photos / "a.png", *options)
    assert code == 0
    assert shown(tmp_path / "out") == {"a_normals.png"}
    assert f"{photos / 'a.png'}: normals; camera" in said


def test_cameras_are_made_of_options(tmp_path):
    assert camera_rule(None, None, None) is None
    wide = camera_rule(90.0, None, None)
    assert wide((480, 640)).fx == pytest.approx(320.0)
    film = camera_rule(None, "50 mm", None)
    assert film((2000, 3000)).fx == pytest.approx(50 / 36 * 3000)
    pixels = camera_rule(None, "1400px", None)
    assert (pixels((480, 640)).fx, pixels((480, 640)).origin) == (1400.0, "given 1400 px")
    text = tmp_path / "k.json"
    text.write_text("[[700.5, 0, 320], [0, 701, 240], [0, 0, 1]]")
    for given in ("700.5,701,320,240", "700.5 0 320 0 701 240 0 0 1", str(text)):
        rule = camera_rule(None, None, given)
        camera = rule((480, 640))
        assert (camera.fx, camera.fy, camera.cx, camera.cy) == (700.5, 701.0, 320.0, 240.0)
        assert camera.origin == "given matrix"
    with pytest.raises(InputError):
        camera_rule(None, None, "0,700,320,240")


# What is said


def test_notes_and_the_range_of_the_model_are_said(run, model, photos):
    frames = [Image.new("RGB", (40, 30), (shade, 0, 0)) for shade in (10, 200)]
    frames[0].save(photos / "moving.gif", save_all=True, append_images=frames[1:])
    for name in ("clear.png", "clearer.png"):
        Image.new("RGBA", (40, 30), (9, 9, 9, 100)).save(photos / name)
    code, said, err = run(photos, "-o", photos.parent / "out", "--weights", model)
    assert code == 0
    assert err.splitlines() == [
        f"{photos / 'clear.png'} (and 1 more): transparency laid on white",
        f"{photos / 'moving.gif'}: animated, first frame taken; palette turned into RGB",
    ]
    assert "domain unknown (depth range unknown)" in said


def test_notes_about_the_model_are_said_once(run, photos):
    model = onnx_files.depth_of_brightness(photos.parent / "other.onnx")
    onnx_files.describe(model, licence="CC BY-NC 4.0", non_commercial="true")
    code, _, err = run(photos, "-o", photos.parent / "out", "--weights", model)
    assert code == 0
    assert err.splitlines() == [
        "model other.onnx, licence CC BY-NC 4.0; not for commercial use",
        "model other.onnx, unverified: there is no checksum in its file",
    ]


def test_a_large_file_says_its_size(run, model, photos, monkeypatch):
    monkeypatch.setattr("idisc.cli.predict_report.LARGE_FILE", 1000)
    arguments = ["-o", photos.parent / "out", "--weights", model, "--save", "npy"]
    _, said, _ = run(photos / "a.png", *arguments)
    assert "a_depth.npy (0.0 GB), " in said


def test_what_was_done_before_an_interruption_is_told(run, model, photos, monkeypatch):
    finished, add = iter("ac"), Report.add

    def interrupted(*given):
        if next(finished) == "c":
            signal.raise_signal(signal.SIGTERM)
        add(*given)

    monkeypatch.setattr(Report, "add", interrupted)
    (photos / "b.jpg").write_bytes(b"no picture")
    code, said, err = run(photos, photos / "deep", "-o", photos.parent / "out", "--weights", model)
    assert (code, err.splitlines()[-1]) == (143, "idisc: interrupted")
    assert len(said.splitlines()) == 1
    assert "a_depth16.png" in said
    assert "failed: " in err


def test_several_pictures_get_a_gallery_unless_it_is_refused(run, model, photos):
    out = photos.parent / "out"
    code, said, _ = run(photos, "-o", out, "--weights", model, "--save", "npy")
    assert code == 0
    assert said.splitlines()[-1].endswith(f"-> {out / 'index.html'}")
    assert "a.png" in (out / "index.html").read_text()
    (out / "index.html").unlink()
    assert run(photos, "-o", out, "--weights", model, "--no-gallery")[0] == 0
    assert not (out / "index.html").exists()
    assert run(photos / "a.png", "-o", out, "--weights", model, "--gallery")[0] == 0
    assert (out / "index.html").is_file()
    code, _, err = run(photos, "--weights", model, "--gallery")
    assert code == 2
    assert "-o DIR" in err
