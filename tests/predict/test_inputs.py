"""Arguments become a list of inputs: nothing twice, nothing unnamed, always in the same order."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, PngImagePlugin
from tests.fakes.refusals import refused

from idisc.errors import InputError
from idisc.predict import inputs


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Two folders of pictures, one below the other, with what else lies around."""
    for name in (
        *("b.jpg", "a.PNG", "notes.txt", ".hidden.jpg"),
        *("deep/c.webp", "deep/a.png", "deep/.cache/x.jpg"),
    ):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a picture")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "photos"


def names(*arguments, recursive=False):
    found = inputs.find(arguments, recursive=recursive)
    assert found.problems == ()
    return [(each.name, each.label) for each in found.inputs]


def test_a_folder_is_its_pictures_by_name(photos):
    assert names("photos") == [("a", str(Path("photos/a.PNG"))), ("b", str(Path("photos/b.jpg")))]


def test_a_folder_includes_its_videos_but_not_earlier_results(photos):
    for name in ("clip.MP4", "clip_depth.mp4", "clip_depth.json", "z_beside.mp4"):
        (photos / name).write_bytes(b"")
    expected = ["a", "b", "clip", "z_beside"]  # without its record, a film may be anybody's
    assert [name for name, _ in names("photos")] == expected
    assert [name for name, _ in names("photos/*")] == expected
    assert [name for name, _ in names("photos/clip_depth.mp4")] == ["clip_depth"]


def test_patterns_are_expanded(photos):
    assert [name for name, _ in names("photos/*.jpg")] == ["b"]
    assert [name for name, _ in names("photos/*")] == ["a", "b"]
    assert [name for name, _ in names("photos/**/*.webp")] == ["c"]
    assert [name for name, _ in names("photos/*.txt")] == ["notes"]  # spelt out, so it is meant


@pytest.mark.parametrize("name", ["notes.txt", "room[1].jpg"])
def test_a_named_file_is_an_input_whatever_its_suffix(photos, name):
    (photos / name).write_bytes(b"")
    assert names(f"photos/{name}") == [(Path(name).stem, str(Path("photos", name)))]


def test_duplicate_arguments_are_one_input(photos):
    found = names("photos/b.jpg", "photos", "photos/*.jpg", str(photos / "b.jpg"))
    assert [name for name, _ in found] == ["b", "a"]


def test_names_of_results_are_unique(photos):
    (photos / "a.jpg").write_bytes(b"")
    found = [name for name, _ in names("photos/a.PNG", "photos/a.jpg")]
    assert found == ["a_PNG", "a_jpg"]
    assert [name for name, _ in names("photos/a.PNG")] == ["a_PNG"]  # whatever else is predicted
    beside = inputs.find(["photos/a.PNG", "photos/deep/a.png"], beside=True)
    assert [each.name for each in beside.inputs] == ["a_PNG", "a"]
    found = [name for name, _ in names("photos/a.PNG", "photos/a.jpg", "photos/deep/a.png")]
    assert len({name.lower() for name in found}) == 3
    (photos / "a_jpg.jpg").write_bytes(b"")  # the name that another file has already
    found = [name for name, _ in names("photos/a.PNG", "photos/a_jpg.jpg", "photos/a.jpg")]
    assert len(set(found)) == 3


def test_earlier_results_are_not_inputs(photos):
    info = PngImagePlugin.PngInfo()
    info.add_text("Description", "depth")
    info.add_text("idisc", "{}")
    Image.new("L", (8, 8)).save(photos / "b_depth.png", pnginfo=info)
    assert [name for name, _ in names("photos", "photos/[ab]*")] == ["a", "b"]
    assert [name for name, _ in names("photos/b_depth.png")] == ["b_depth"]


def test_stdin_is_an_input(monkeypatch):
    (only,) = inputs.find(["-"]).inputs
    assert (only.name, only.label, only.path) == ("stdin", "stdin", None)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"bytes")))
    assert only.source() == b"bytes"


def test_arguments_without_inputs_are_reported_and_the_others_kept(photos):
    (photos / "empty").mkdir()
    found = inputs.find(["photos/none.jpg", "photos/b.jpg", "photos/empty", "photos/*.gif"])
    assert [each.name for each in found.inputs] == ["b"]
    subjects = [str(Path("photos/none.jpg")), str(Path("photos/empty")), "photos/*.gif"]
    for problem, subject in zip(found.problems, subjects, strict=True):
        assert problem.subject == subject


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (["nowhere.jpg"], "nowhere.jpg"),
        (["*.png"], "*.png"),
        (["nowhere.jpg", "*.png"], "nowhere.jpg, *.png"),
        ([], "input"),
    ],
)
def test_no_input_at_all_is_an_error(photos, arguments, subject):
    with refused(InputError, subject):
        inputs.find(arguments)


def test_inputs_are_sorted(photos):
    for index in np.random.default_rng(0).permutation(30):
        (photos / f"p{index:02}.jpg").write_bytes(b"")
    found = [name for name, _ in names("photos")]
    assert found == sorted(found)


def test_names_include_the_folders_below_the_named_folder(photos):
    (photos / "deep" / "er").mkdir()
    (photos / "deep" / "er" / "c.jpg").write_bytes(b"")
    found = [name for name, _ in names("photos", recursive=True)]
    assert found == ["a", "b", "deep_a", "deep_c", "deep_er_c"]
    found = [name for name, _ in names("photos/deep", "photos/a.PNG")]
    assert found == ["deep_a", "c", "photos_a"]  # of two arguments, folders have to tell


def test_a_link_to_another_folder_has_a_unique_name(photos):
    (photos / "more").mkdir()
    try:
        (photos / "more" / "a.png").symlink_to(photos / "b.jpg")
    except OSError:
        pytest.skip("no links here")
    found = [name for name, _ in names("photos/more", "photos/deep")]
    assert len(set(found)) == len(found)
