"""`idisc predict` when something is wrong: one line for each, the rest is done, nothing is lost."""

import json
import os
import sys
from functools import partial

import numpy as np
import pytest
from PIL import Image
from tests.fakes.photographed import shown

from idisc.cli.predict_output import SOURCES
from idisc.formats import gallery, table
from idisc.zoo import cards

LATER = ("exr", "uncertainty")  # need a package or a network of their own


@pytest.fixture
def run(run):
    return partial(run, "predict")


@pytest.fixture(autouse=True)
def _nothing_ships(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")


# Calls


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (["{photos}", "--known-distance", "5,5 30,5 = 2m"], "--known-distance 5,5 30,5 = 2m: "),
        (["{photos}", "--focal", "0mm"], "--focal 0mm: "),
        (["{photos}", "--camera-matrix", "1,2"], "--camera-matrix 1,2: "),
        (["{photos}", "-o", "{photos}/a.png"], "-o {photos}/a.png: "),
        (["{photos}", "--size", "5000x5000"], "Invalid value for '--size': "),
        (["{photos}", "--smooth", "0.3"], "--smooth is for videos"),
        (["{photos}", "--axes", "opencl"], "axis convention 'opencl'"),
        (["{photos}", "--colormap", "nosuch"], "colour map 'nosuch'"),
        (["{photos}", "-o", "{photos}/a.png/out"], "{photos}/a.png/out: "),
        (["-", "-o", "-"], "-o -: "),
        (["-", "--normals"], "--normals: "),
        ([], "Missing argument 'PICTURE...'. (see idisc predict --help)"),
    ],
)
def test_a_wrong_call_is_one_line_before_anything_is_done(refusal, photos, arguments, subject):
    """More such calls are in tests/test_messages.py."""
    err = refusal(*(each.format(photos=photos) for each in arguments))
    assert err.startswith(f"idisc: {subject.format(photos=photos)}")


@pytest.mark.parametrize(
    ("options", "unused"),
    [
        (["--save", "npy", "--colormap", "viridis"], "--colormap is for --save png, html"),
        (["--save", "npy,ply", "--range", "0.5,8"], "--range is for --save png, html"),
        (["--axes", "opengl"], "--axes is for --save ply, glb, normals"),
        (["--colormap", "viridis"], ""),
        (["--save", "npy,html", "--range", "0.5,8"], ""),
        (["--normals", "--axes", "opengl"], ""),
    ],
)
def test_an_option_that_changes_no_format_is_refused(run, model, photos, options, unused):
    code, _, err = run(photos / "a.png", "--weights", model, *options)
    assert code == (2 if unused else 0)
    assert err.startswith(f"idisc: {unused}" if unused else "")


# Pictures and disks


def test_failures_do_not_stop_the_rest_and_are_named(run, model, photos):
    (photos / "broken.png").write_bytes(b"not a picture")
    (photos / "empty.jpg").write_bytes(b"")
    (photos / "gone.jpg").symlink_to("nowhere.jpg")
    (photos / "loop.jpg").symlink_to("loop.jpg")
    out = photos.parent / "out"
    code, said, err = run(photos, photos / "none.jpg", "-o", out, "--weights", model)
    assert code == 2
    assert len(said.splitlines()) == 3  # two results and the gallery
    *failed, last = err.splitlines()
    names = ["gone.jpg", "loop.jpg", "none.jpg", "broken.png", "empty.jpg"]
    paths = [str(photos / name) for name in names]
    assert [line.split(": ")[:2] for line in failed] == [["failed", path] for path in paths]
    assert last.startswith(f"idisc: {', '.join(paths[:3])} and 2 more: 5 of 7 ")
    assert (out / "b_depth.png").is_file()


def test_a_bug_with_one_picture_is_a_line_and_its_files_are_recorded(
    run, model, photos, monkeypatch
):
    describe = gallery.describe

    def fail(title, *given):
        if title == "a.png":
            raise ZeroDivisionError("a bug")
        return describe(title, *given)

    monkeypatch.setattr(gallery, "describe", fail)
    out = photos.parent / "out"
    call = ["-o", out, "--weights", model, "--save", "npy", "--gallery"]
    code, said, err = run(photos, *call)
    assert (code, len(said.splitlines()), err.count("\n")) == (1, 2, 2)
    assert err.startswith(f"failed: {photos / 'a.png'}: ")
    assert "ZeroDivisionError" in err
    assert json.loads((out / SOURCES).read_text())["sources"].keys() == {"a", "b"}
    with pytest.raises(ZeroDivisionError):  # alone, with its traceback
        run(photos / "a.png", *call)


def test_a_name_that_is_not_text_is_predicted_in_every_format(run, model, photos):
    name = os.fsdecode(b"caf\xe9.png")
    try:
        (photos / "a.png").rename(photos / name)
        (photos / "b.jpg").rename(photos / "b\n\x1b[2J.jpg")
    except OSError:
        pytest.skip("names are text on this file system")
    out, formats = photos.parent / "out", [n for n in table.FORMATS if n not in LATER]
    code, said, _ = run(photos, "-o", out, "--weights", model, "--save", ",".join(formats))
    assert code == 0
    assert "caf\\udce9" in said
    assert "b\\n\\x1b[2J" in said
    assert "\x1b" not in said
    for page in out.glob("*.html"):
        page.read_text("utf-8")
    picture = json.loads((out / os.fsdecode(b"caf\xe9_depth.json")).read_text())["provenance"]
    assert picture["picture"] == "caf?.png"


@pytest.mark.parametrize(("stream", "argument"), [("stdin", "-"), ("stdout", "{photos}")])
def test_a_closed_stream_is_one_line(run, model, photos, monkeypatch, stream, argument):
    monkeypatch.setattr(sys, stream, None)
    code, _, err = run(argument.format(photos=photos), "--weights", model)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"idisc: {stream}: closed")


def test_a_matrix_is_of_one_size(run, model, photos):
    Image.new("RGB", (80, 60)).save(photos / "large.png")
    options = ["--weights", model, "--camera-matrix", "35,35,19.5,14.5", "--save", "npy"]
    code, said, err = run(photos, *options)
    assert code == 2
    assert len(said.splitlines()) == 2
    assert err.startswith("failed: large.png: --camera-matrix: ")


def test_a_full_disk_fails_one_picture_and_not_the_rest(run, model, photos):
    resource = pytest.importorskip("resource", reason="limits of Unix")
    noise = np.random.default_rng(0).integers(0, 256, (100, 150, 3), dtype=np.uint8)
    Image.fromarray(noise).save(photos / "large.png")
    out = photos.parent / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        arguments = ["--weights", model, "--save", "npy,ply", "--no-gallery"]
        code, said, err = run(photos / "large.png", photos / "b.jpg", "-o", out, *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, said.count("\n")) == (2, 1)
    assert err.startswith(f"failed: {out / 'large_points.ply'}: ")
    assert shown(out) == {"b_depth.npy", "b_depth.json", "b_points.ply"}


# What is there already


def test_a_result_does_not_replace_that_of_another_picture(run, model, photos):
    out = photos.parent / "out"
    Image.new("RGB", (40, 30)).save(photos / "deep" / "a.png")
    options = ["-o", out, "--weights", model, "--save", "npy"]
    for _ in range(2):  # the same picture may be predicted again
        assert run(photos / "a.png", *options)[0] == 0
    before = (out / "a_depth.npy").read_bytes()
    code, said, err = run(photos / "deep" / "a.png", photos / "b.jpg", *options)
    assert code == 2
    assert said.startswith(str(photos / "b.jpg"))
    assert err.startswith(f"failed: {photos / 'deep' / 'a.png'}: {out / 'a'}_... exists")
    assert (out / "a_depth.npy").read_bytes() == before
    for path in out.glob("a_depth.*"):
        path.unlink()
    assert run(photos / "deep" / "a.png", *options)[0] == 0


def test_a_png_of_the_user_is_not_replaced(run, model, photos):
    truth = photos / "b_depth.png"  # as the ground truth of many datasets is called
    Image.new("I;16", (40, 30), 1500).save(truth)
    before = truth.read_bytes()
    code, said, err = run(photos / "b.jpg", "--weights", model)
    assert (code, said) == (2, "")
    assert err.startswith(f"idisc: {photos / 'b.jpg'}: {truth} exists")
    assert truth.read_bytes() == before
    assert not (photos / "b_depth16.png").exists()
