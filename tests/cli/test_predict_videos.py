"""`idisc predict` of videos, alone and beside pictures."""

from functools import partial

import numpy as np
import pytest
from tests.fakes import films
from tests.fakes.photographed import shown

pytest.importorskip("av", reason="PyAV (idisc[video]) is not installed")


@pytest.fixture
def run(run):
    return partial(run, "predict")


@pytest.fixture
def clip(tmp_path):
    """One second of a grey that becomes lighter, with a cut after the fourth of ten frames."""
    pictures = [np.zeros((48, 64, 3), np.uint8) for _ in range(10)]
    for index, picture in enumerate(pictures):
        picture[:, (32 if index < 4 else 0) : (64 if index < 4 else 32)] = 100 + 5 * index
    return films.write_clip(tmp_path / "clip.mp4", pictures, movflags="+faststart")


def test_a_video_goes_beside_pictures(run, model, photos, clip):
    out = clip.parent / "out"
    options = ["--smooth", "0.2", "--side-by-side", "--save", "png,png16", "--no-gallery"]
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


def test_one_frame_and_one_cut_are_said_as_one(run, model, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    scenes = [np.full((48, 64, 3), 30, np.uint8)] * 4 + [noise // 2 + 100] * 4
    clip = films.write_clip(tmp_path / "clip.mp4", scenes)
    code, said, _ = run(clip, "--weights", model)
    assert code == 0
    assert f"{clip}: 8 frames of " in said
    assert "; scene cut at frame 4; " in said
    assert f"{clip}: 1 frame of " in run(clip, "--weights", model, "--every", "20")[1]


def test_a_film_of_last_time_is_not_a_video_of_this_time(run, model, clip):
    for _ in range(2):
        code, said, _ = run(clip.parent / "*.mp4", "--weights", model, "--every", "5")
        assert code == 0
        (line,) = said.splitlines()
        assert line.startswith(f"{clip}: 2 frames of 1.0 s; colours")
        film = clip.parent / "clip_depth.mp4"
        assert line.endswith(f"-> {film}, {film.with_suffix('.json')}")
    assert (clip.parent / "clip_depth.json").is_file()


def test_a_film_is_written_in_the_formats_it_has(run, model, photos, clip):
    out = clip.parent / "out"
    options = ["--save", "png,npy,ply,html", "--normals", "--no-gallery"]
    code, said, err = run(photos / "a.png", clip, "-o", out, "--weights", model, *options)
    assert code == 0
    assert err.startswith(f"{clip}: a video, without ply, html, normals")
    assert len(said.splitlines()) == 2
    films = {"clip_depth.mp4", "clip_depth.json", "clip_npy"}
    pictures = {"a_depth.png", "a_depth.npy", "a_points.ply", "a_viewer.html", "a_normals.png"}
    assert shown(out) == films | pictures | {"a_depth.json"}


def test_a_video_that_fails_does_not_stop_the_rest(run, model, photos, clip):
    broken = photos / "broken.mov"
    broken.write_bytes(b"no video")
    code, said, err = run(broken, photos / "a.png", clip, "--weights", model, "--save", "ply,html")
    assert (code, said.count("\n")) == (2, 1)
    failed = [line.split(": ")[:2] for line in err.splitlines()[:-1]]
    assert failed == [["failed", str(broken)], ["failed", str(clip)]]  # not in these formats
