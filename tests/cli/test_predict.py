"""`idisc predict`: files, folders, patterns and stdin; one line for each thing that is wrong."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import ExifTags, Image
from tests.fakes import called, onnx_files
from tests.fakes.called import Run

from idisc.cli import main as command_line
from idisc.cli.cameras import camera_rule
from idisc.errors import InputError
from idisc.outputs import WRITERS
from idisc.zoo import cards


@pytest.fixture
def run(run: Run) -> Run:
    return partial(run, "predict")


@pytest.fixture(autouse=True)
def _nothing_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """depth = 0.5 m + brightness / 50."""
    return onnx_files.depth_of_brightness(tmp_path / "small.onnx")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, shade in (("a.png", 50), ("b.jpg", 100), ("deep/c.png", 150)):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (shade, shade, shade)).save(path)
    return tmp_path / "photos"


def shown(folder: Path) -> set[str]:
    """Names of the files in it that one sees."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def metres(path: Path) -> float:
    """The one depth of a 16-bit PNG, by the factor that lies beside it."""
    values = np.asarray(Image.open(path))
    assert values.dtype == np.uint16
    record = json.loads(path.with_suffix(".json").read_text())
    return float(np.median(values)) * float(record["metres_per_unit"])


def test_a_photo_becomes_a_picture_and_metres(run: Run, model: Path, photos: Path) -> None:
    out = photos.parent / "out"
    code, said, err = run(photos / "a.png", "-o", out, "--weights", model)
    assert (code, err) == (0, "")
    assert shown(out) == {"a_depth.png", "a_depth16.png", "a_depth16.json"}
    assert metres(out / "a_depth16.png") == pytest.approx(1.5, abs=0.001)
    line = f"{photos / 'a.png'}: 1.50 to 1.50 m, median 1.50 m; camera assumed 60 deg, model small"
    assert said.startswith(line)
    assert str(out / "a_depth16.png") in said


def test_without_a_folder_the_result_lies_beside_the_picture(
    run: Run, model: Path, photos: Path
) -> None:
    for _ in range(2):  # the second time, results of the first are no pictures
        code, said, _ = run(photos, "--recursive", "--weights", model, "--save", "png,npy")
        assert code == 0
        assert len(said.splitlines()) == 3
    assert np.load(photos / "deep" / "c_depth.npy").mean() == pytest.approx(3.5)
    assert (photos / "a_depth.png").is_file()


def test_files_folders_and_patterns_together(run: Run, model: Path, photos: Path) -> None:
    out = photos.parent / "out"
    arguments = [photos / "deep" / "c.png", photos, photos / "*.jpg"]
    code, said, _ = run(*arguments, "-o", out, "--weights", model, "--save", "npy")
    assert code == 0
    order = [line.partition(":")[0] for line in said.splitlines()]
    assert order == [str(photos / name) for name in ("deep/c.png", "a.png", "b.jpg")]
    assert shown(out) == {f"{name}_depth.{kind}" for name in "abc" for kind in ("npy", "json")}


def test_failures_do_not_stop_the_rest_and_are_named(run: Run, model: Path, photos: Path) -> None:
    (photos / "broken.png").write_bytes(b"not a picture")
    (photos / "empty.jpg").write_bytes(b"")
    out = photos.parent / "out"
    code, said, err = run(photos, photos / "none.jpg", "-o", out, "--weights", model)
    assert code == 2
    assert len(said.splitlines()) == 2
    lines = err.splitlines()
    assert lines[0] == f"failed: {photos / 'none.jpg'}: no such file"
    assert lines[1].startswith(f"failed: {photos / 'broken.png'}: not a picture")
    assert lines[2].startswith(f"failed: {photos / 'empty.jpg'}: empty")
    names = ", ".join(str(photos / name) for name in ("none.jpg", "broken.png", "empty.jpg"))
    assert lines[3] == f"idisc: 3 of 5 failed: {names}"
    assert (out / "b_depth.png").is_file()


def test_one_picture_that_fails_is_one_line(run: Run, model: Path, photos: Path) -> None:
    (photos / "broken.png").write_bytes(b"not a picture")
    code, said, err = run(photos / "broken.png", "--weights", model)
    assert (code, said) == (2, "")
    text = "not a picture (or its first bytes are damaged)"
    assert err == f"idisc: {photos / 'broken.png'}: {text}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jpg"], "none.jpg: no such file"),
        (["*.gif"], "*.gif: no pictures or videos match"),
        (["{photos}"], "no model ships with this version; name a checkpoint folder or an .onnx"),
        (["{photos}", "--weights", "nowhere"], "nowhere: not there"),
        (["{photos}", "--save", "jpg"], "format jpg: jpg has 8 bits, 256 steps, and no room for"),
        (["{photos}", "--save", "pgn"], "format 'pgn' does not exist; did you mean png"),
        (["{photos}", "--size", "wide"], "Invalid value for '--size': 'wide' is not a size"),
        (["{photos}", "--known", "here"], "known distance 'here': write it as"),
        (["{photos}", "--focal", "26"], "--focal 26: write it as 26mm (35 mm equivalent) or"),
        (["{photos}", "--fov", "200"], "field of view 200: between 0 and 180 degrees is needed"),
        (["{photos}", "--fov", "60", "--focal", "26mm"], "one of --fov, --focal and"),
        (["{photos}", "--camera-matrix", "1,2"], "--camera-matrix 1,2: fx,fy,cx,cy or the nine"),
        (["{photos}", "--range", "far"], "--range far: write it in metres, as 0.5,8"),
        (["{photos}", "--range", "8,2"], "range 8 to 2: two rising distances"),
        (
            ["{photos}", "--smooth", "0.3"],
            "--smooth is for videos, and none is named",
        ),
        (
            ["{photos}", "--side-by-side"],
            "--side-by-side is for videos, and none is named",
        ),
        (["{photos}", "--axes", "opencl"], "axis convention 'opencl' does not exist; did you"),
        ([], "Missing argument 'PICTURE...'. (see idisc predict --help)"),
    ],
)
def test_a_wrong_call_is_one_line(
    run: Run, photos: Path, arguments: list[str], message: str
) -> None:
    code, said, err = run(*(each.format(photos=photos) for each in arguments))
    assert (code, said) == (2, "")
    assert err.startswith(f"idisc: {message}")
    assert err.count("\n") == 1


def test_the_help_names_every_format_and_sizes_as_they_are_written(run: Run) -> None:
    code, said, _ = run("--help")
    assert code == 0
    listed = said.partition("Formats: ")[2].partition("Of a video")[0]
    assert set(WRITERS) == set(re.findall(r"[a-z0-9]+(?=[,. ])", re.sub(r"\(.*?\)", "", listed)))
    assert "--size HxW " in said


def test_stdin_goes_to_stdout(
    model: Path,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    for formats, check in (
        ([], lambda data: np.asarray(Image.open(io.BytesIO(data))) / 1000),
        (["--save", "npy"], lambda data: np.load(io.BytesIO(data))),
    ):
        stdin = SimpleNamespace(buffer=io.BytesIO((photos / "a.png").read_bytes()))
        monkeypatch.setattr("sys.stdin", stdin)
        assert called.run("predict", "-", "--weights", model, *formats) == 0
        out, err = capsysbinary.readouterr()
        np.testing.assert_allclose(check(out), 1.5, atol=0.001)
        assert err.startswith(b"stdin: 1.50 to 1.50 m")


def test_stdin_with_a_folder_goes_there(
    run: Run, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO((photos / "a.png").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    out = photos.parent / "out"
    assert run("-", "-o", out, "--weights", model, "--save", "npy")[0] == 0
    assert (out / "stdin_depth.npy").is_file()


@pytest.mark.parametrize("formats", ["png", "png16,npy"])
def test_stdout_takes_one_format_of_metres(run: Run, model: Path, formats: str) -> None:
    code, said, err = run("-", "--weights", model, "--save", formats)
    assert (code, said) == (2, "")
    assert err == "idisc: stdin to stdout is one of png16 or npy; or pass -o DIR\n"


def test_options_reach_the_result(run: Run, model: Path, photos: Path) -> None:
    out = photos.parent / "out"
    options = ["--size", "48x64", "--tta", "--known", "5,5 30,5 = 200cm", "--normals"]
    options += ["--fov", "70", "--range", "0.5,8", "--colours", "viridis", "--axes", "opengl"]
    code, said, err = run(photos / "a.png", "-o", out, "--weights", model, *options)
    assert (code, err) == (0, "")
    facts = json.loads((out / "a_depth16.json").read_text())["facts"]
    assert facts["network size"] == "48x64, as asked for"
    assert facts["camera"] == "given 70 deg"
    assert "known 5,5 30,5 = 2 m" in facts["rescaled"]
    assert facts["tta"] == "mean of the picture and its mirror image"
    assert "known 5,5 30,5 = 2 m" in said
    assert (out / "a_normals.png").is_file()


def test_tiles_are_chosen_or_given(run: Run, model: Path, photos: Path) -> None:
    Image.new("RGB", (900, 700)).save(photos / "large.png")
    out = photos.parent / "out"
    for options, expected in (
        (["--tile"], "4 of 480x640"),
        (["--tile-size", "400x500"], "6 of 400x500"),
    ):
        arguments = [photos / "large.png", "-o", out, "--weights", model, "--save", "png16"]
        assert run(*arguments, *options)[0] == 0
        facts = json.loads((out / "large_depth16.json").read_text())["facts"]
        assert facts["tiles"] == f"{expected}, aligned to the whole picture"


def test_a_network_for_normals_saves_normals(run: Run, tmp_path: Path, photos: Path) -> None:
    model = onnx_files.normals_of_colour(tmp_path / "normals.onnx")
    code, said, _ = run(photos / "a.png", "-o", tmp_path / "out", "--weights", model)
    assert code == 0
    assert shown(tmp_path / "out") == {"a_normals.png"}
    assert f"{photos / 'a.png'}: normals; camera" in said


def test_exif_gives_the_camera_and_is_said(run: Run, model: Path, photos: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.FocalLengthIn35mmFilm] = 26
    Image.new("RGB", (40, 30)).save(photos / "phone.jpg", exif=exif)
    code, said, _ = run(photos / "phone.jpg", "--weights", model, "--save", "npy")
    assert code == 0
    assert "camera EXIF 26 mm (" in said
    assert np.load(photos / "phone_depth.npy").shape == (40, 30)


def test_cameras_are_made_of_options(tmp_path: Path) -> None:
    assert camera_rule(None, None, None) is None
    wide = camera_rule(90.0, None, None)
    assert wide is not None
    assert wide((480, 640)).fx == pytest.approx(320.0)
    film = camera_rule(None, "50 mm", None)
    assert film is not None
    assert film((2000, 3000)).fx == pytest.approx(50 / 36 * 3000)
    pixels = camera_rule(None, "1400px", None)
    assert pixels is not None
    assert (pixels((480, 640)).fx, pixels((480, 640)).origin) == (1400.0, "given 1400 px")
    text = tmp_path / "k.json"
    text.write_text("[[700.5, 0, 320], [0, 701, 240], [0, 0, 1]]")
    for given in ("700.5,701,320,240", "700.5 0 320 0 701 240 0 0 1", str(text)):
        rule = camera_rule(None, None, given)
        assert rule is not None
        camera = rule((480, 640))
        assert (camera.fx, camera.fy, camera.cx, camera.cy) == (700.5, 701.0, 320.0, 240.0)
        assert camera.origin == "given matrix"
    with pytest.raises(InputError, match="fx and fy more than 0"):
        camera_rule(None, None, "0,700,320,240")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """One second of a grey that becomes lighter, with a cut after the fourth of ten frames."""
    av = pytest.importorskip("av", reason="PyAV (idisc[video]) is not installed")
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=10, options={"crf": "4"})
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for index in range(10):
            picture = np.zeros((48, 64, 3), np.uint8)
            picture[:, (32 if index < 4 else 0) : (64 if index < 4 else 32)] = 100 + 5 * index
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def test_a_video_goes_beside_pictures(run: Run, model: Path, photos: Path, clip: Path) -> None:
    out = clip.parent / "out"
    options = ["--smooth", "0.2", "--side-by-side", "--save", "png,png16"]
    code, said, err = run(photos / "a.png", clip, "-o", out, "--weights", model, *options)
    assert (code, err) == (0, "")
    assert shown(out) == {
        *("a_depth.png", "a_depth16.png", "a_depth16.json"),
        *("clip_beside.mp4", "clip_beside.json", "clip_png16"),
    }
    line = said.splitlines()[1]
    assert line.startswith(f"{clip}: 10 frames of 1.0 s; colours 0.50 to ")
    assert "; flicker " in line
    assert " %, smoothed " in line
    film = f"{out / 'clip_beside.mp4'}, {out / 'clip_beside.json'}"
    assert line.endswith(f"-> {film}, {out / 'clip_png16'}")
    assert len(list((out / "clip_png16").glob("*.png"))) == 10


def test_a_film_of_last_time_is_not_a_video_of_this_time(run: Run, model: Path, clip: Path) -> None:
    for _ in range(2):
        code, said, _ = run(clip.parent / "*.mp4", "--weights", model, "--every", "5")
        assert code == 0
        (line,) = said.splitlines()
        assert line.startswith(f"{clip}: 2 frames of 1.0 s; colours")
        film = clip.parent / "clip_depth.mp4"
        assert line.endswith(f"-> {film}, {film.with_suffix('.json')}")
    assert (clip.parent / "clip_depth.json").is_file()


def test_a_video_that_is_cut_short_is_done_and_said(run: Run, model: Path, clip: Path) -> None:
    clip.write_bytes(clip.read_bytes()[:-60])
    code, said, _ = run(clip, "--weights", model, "--range", "0.5,8")
    assert code == 0
    assert "colours 0.50 to 8.00 m" in said
    assert "cut short or damaged: " in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--every", "0"], "every 0 frames: 1 or more is needed"),
        (["--fps", "0"], "fps 0: a number above 0 is needed"),
        (["--smooth", "0"], "smooth 0: a number above 0 is needed"),
        (
            ["--save", "ply,html"],
            "{clip}: ply, html of a video; there is png, png16, npy, npz, exr",
        ),
    ],
)
def test_what_a_video_cannot_be_asked_is_one_line(
    run: Run, model: Path, clip: Path, options: list[str], message: str
) -> None:
    code, said, err = run(clip, "--weights", model, *options)
    assert (code, said) == (2, "")
    assert err == f"idisc: {message.format(clip=clip)}\n"


def test_a_broken_video_does_not_stop_the_rest(run: Run, model: Path, photos: Path) -> None:
    pytest.importorskip("av", reason="PyAV (idisc[video]) is not installed")
    broken = photos / "broken.mov"
    broken.write_bytes(b"no video")
    code, said, err = run(broken, photos / "a.png", "--weights", model)
    assert code == 2
    assert len(said.splitlines()) == 1
    assert err.splitlines()[0].startswith(f"failed: {broken}: not a video, damaged or cut short")


# What newcomers met


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "5000x5000"], "Invalid value for '--size': '5000x5000' is more than 8.4 mill"),
        (["--focal", "0mm"], "--focal 0mm: a length above 0 is needed, as 26mm or 1400px"),
        (["--known", "5,5 30,5 = 2"], "known distance '5,5 30,5 = 2': without a unit; end it in m"),
        (["--known", "5,5 30,5 = 2m"], "--known 5,5 30,5 = 2m: its points are pixels of one pict"),
        (["--save", ""], "no format is named; there is png, png16, npy"),
        (["--save", "npy", "--colours", "nosuch"], "colour map 'nosuch' does not exist"),
        (["-o", "{photos}/a.png"], "-o {photos}/a.png: a file; name a folder"),
        (["-o", "{photos}/a.png/out"], "{photos}/a.png/out: cannot be written ("),
        (["--weights", "nyu_swint"], "nyu_swint: not there; its weights do not ship: `idisc mod"),
        (["--weights", "{photos}"], "{photos}: no config.json in it, so not a checkpoint folder"),
    ],
)
def test_a_call_that_cannot_end_well_is_refused_before_it_begins(
    run: Run, photos: Path, arguments: list[str], message: str
) -> None:
    code, said, err = run(photos, *(each.format(photos=photos) for each in arguments))
    assert (code, said) == (2, "")
    assert err.startswith(f"idisc: {message.format(photos=photos)}")
    assert err.count("\n") == 1


def test_names_of_formats_may_be_capitals(run: Run, model: Path, photos: Path) -> None:
    out = photos.parent / "out"
    assert run(photos / "a.png", "-o", out, "--weights", model, "--save", "NPY")[0] == 0
    assert shown(out) == {"a_depth.npy", "a_depth.json"}


def test_a_full_disk_fails_one_picture_and_not_the_rest(
    run: Run, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource", reason="limits of Unix")
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(photos / "large.png")
    out = photos.parent / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        arguments = ["--weights", model, "--save", "npy,ply"]
        code, said, err = run(photos / "large.png", photos / "b.jpg", "-o", out, *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 2
    assert said.startswith(f"{photos / 'b.jpg'}: ")
    assert err.startswith(f"failed: {out / 'large_depth.npy'}: ")
    assert err.endswith(f"idisc: 1 of 2 failed: {photos / 'large.png'}\n")
    assert shown(out) == {"b_depth.npy", "b_depth.json", "b_points.ply"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, of Linux")
def test_a_full_stdout_is_one_line(model: Path, photos: Path) -> None:
    call = [sys.executable, "-m", "idisc", "predict", "-", "--weights", str(model)]
    with Path("/dev/full").open("wb") as full, (photos / "a.png").open("rb") as photo:
        done = subprocess.run(
            call, stdin=photo, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    message = "idisc: stdout: cannot be written (No space left on device)\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_words_keep_away_from_a_stdout_of_bytes(
    model: Path,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO((photos / "a.png").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    arguments = ["-", photos / "b.jpg", "--weights", model, "--save", "npy"]
    with pytest.raises(SystemExit):
        command_line.main(["predict", *map(str, arguments)])
    out, err = capsysbinary.readouterr()
    buffer = io.BytesIO(out)
    np.testing.assert_allclose(np.load(buffer), 1.5, rtol=1e-6)
    assert buffer.read() == b""
    assert [line.partition(b":")[0] for line in err.splitlines()] == [
        b"stdin",
        str(photos / "b.jpg").encode(),
    ]


def test_a_film_is_written_in_the_formats_it_has(
    run: Run, model: Path, photos: Path, clip: Path
) -> None:
    out = clip.parent / "out"
    options = ["--save", "png,npy,ply,html", "--normals"]
    code, said, err = run(photos / "a.png", clip, "-o", out, "--weights", model, *options)
    assert code == 0
    assert err == f"{clip}: a video, without ply, html, normals, which pictures have\n"
    assert len(said.splitlines()) == 2
    films = {"clip_depth.mp4", "clip_depth.json", "clip_npy"}
    pictures = {"a_depth.png", "a_depth.npy", "a_points.ply", "a_viewer.html", "a_normals.png"}
    assert shown(out) == films | pictures | {"a_depth.json"}


def test_notes_and_the_range_of_the_model_are_said(run: Run, model: Path, photos: Path) -> None:
    frames = [Image.new("RGB", (40, 30), (shade, 0, 0)) for shade in (10, 200)]
    frames[0].save(photos / "moving.gif", save_all=True, append_images=frames[1:])
    for name in ("clear.png", "clearer.png"):
        Image.new("RGBA", (40, 30), (9, 9, 9, 100)).save(photos / name)
    code, said, err = run(photos, "-o", photos.parent / "out", "--weights", model)
    assert code == 0
    assert err.splitlines() == [
        f"{photos / 'clear.png'} (and 1 more): transparency laid on white",
        f"{photos / 'moving.gif'}: animated, first frame taken",
    ]
    assert "domain unknown (depth range unknown)" in said


def test_a_size_of_another_shape_is_warned_of(run: Run, model: Path, photos: Path) -> None:
    out = photos.parent / "out"
    arguments = ["-o", out, "--weights", model, "--size", "64x64"]
    code, _, err = run(photos / "a.png", *arguments)
    assert code == 0
    assert "the network sees 30x40 squeezed into 64x64" in err


def test_a_matrix_is_of_one_size(run: Run, model: Path, photos: Path) -> None:
    Image.new("RGB", (80, 60)).save(photos / "large.png")
    options = ["--weights", model, "--camera-matrix", "35,35,19.5,14.5", "--save", "npy"]
    code, said, err = run(photos, *options)
    assert code == 2
    assert len(said.splitlines()) == 2
    message = "large.png: --camera-matrix is in pixels of 30x40, the size of the first picture,"
    assert message in err
    code, _, err = run(photos / "a.png", "--weights", model, "--camera-matrix", "900,900,640,360")
    assert code == 2
    assert "a.png: camera matrix: cx 640, cy 360 are outside of a picture 40 pixels wide" in err


def test_a_result_does_not_replace_that_of_another_picture(
    run: Run, model: Path, photos: Path
) -> None:
    out = photos.parent / "out"
    Image.new("RGB", (40, 30)).save(photos / "deep" / "a.png")
    options = ["-o", out, "--weights", model, "--save", "npy"]
    for _ in range(2):  # the same picture may be predicted again
        assert run(photos / "a.png", *options)[0] == 0
    before = (out / "a_depth.npy").read_bytes()
    code, said, err = run(photos / "deep" / "a.png", photos / "b.jpg", *options)
    assert code == 2
    assert said.startswith(str(photos / "b.jpg"))
    expected = f"{photos / 'deep' / 'a.png'}: {out / 'a'}_... is there and of ../photos/a.png;"
    assert err.startswith(f"failed: {expected} choose another -o, or remove it\n")
    assert (out / "a_depth.npy").read_bytes() == before
    for path in out.glob("a_depth.*"):
        path.unlink()
    assert run(photos / "deep" / "a.png", *options)[0] == 0


def test_pictures_that_differ_in_their_suffix_keep_their_results(
    run: Run, model: Path, photos: Path
) -> None:
    Image.new("RGB", (40, 30)).save(photos / "a.jpg")
    for name in ("a.jpg", "a.png"):
        assert run(photos / name, "--weights", model, "--save", "npy")[0] == 0
    assert {"a_jpg_depth.npy", "a_png_depth.npy"} <= shown(photos)


def test_a_png_of_the_user_is_not_replaced(run: Run, model: Path, photos: Path) -> None:
    truth = photos / "b_depth.png"  # as the ground truth of many datasets is called
    Image.new("I;16", (40, 30), 1500).save(truth)
    before = truth.read_bytes()
    code, said, err = run(photos / "b.jpg", "--weights", model)
    assert (code, said) == (2, "")
    assert err == f"idisc: {truth}: is there, and no result of ours; -o names another place\n"
    assert truth.read_bytes() == before
    assert not (photos / "b_depth16.png").exists()


def test_a_large_file_says_its_size(
    run: Run, model: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idisc.cli.predict.LARGE", 1000)
    arguments = ["-o", photos.parent / "out", "--weights", model, "--save", "npy"]
    _, said, _ = run(photos / "a.png", *arguments)
    assert "a_depth.npy (0.0 GB), " in said
