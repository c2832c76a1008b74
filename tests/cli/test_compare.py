"""`idisc compare`: two networks side by side."""

from unittest.mock import Mock

import numpy as np
from PIL import Image
from tests.fakes import onnx_files, pairs
from tests.fakes.predicted import predicted

from idisc import visualize
from idisc.cli import compare


def test_two_networks_are_drawn_side_by_side(run, tmp_path):
    ours = onnx_files.depth_of_brightness(tmp_path / "ours.onnx")
    theirs = onnx_files.foreign(tmp_path / "theirs.onnx")
    onnx_files.sealed(onnx_files.describe(ours, licence="CC BY-NC 4.0", non_commercial="true"))
    photo = tmp_path / "two\nlines.png"
    Image.fromarray(np.full((60, 80, 3), 100, np.uint8)).save(photo)
    code, out, err = run("compare", ours, theirs, photo, "-o", tmp_path / "out")
    assert (code, out.count("\n")) == (0, 1)
    assert err.splitlines() == [
        "model ours.onnx, licence CC BY-NC 4.0; not for commercial use",
        "model theirs.onnx, unverified: there is no checksum in its file",
    ]
    path = tmp_path / "out" / "two\nlines_compare.png"
    assert out.rstrip().endswith(str(path).replace("\n", "\\n"))
    with Image.open(path) as picture:
        assert picture.width >= 3 * 80


def test_each_depth_map_states_its_own_range_although_the_colours_are_shared(monkeypatch):
    shown = Mock()
    monkeypatch.setattr(visualize, "side_by_side", shown)
    compare.draw(predicted(np.linspace(1, 2, 100)[None]), predicted(np.linspace(4, 8, 100)[None]))
    _, captions = shown.call_args.args
    assert captions == [
        "room.jpg; colours: 1.04 to 7.84 m",
        "a test: 1.02 to 1.98 m",
        "a test: 4.08 to 7.92 m",
    ]


def test_nothing_to_compare_is_a_usage_error(refusal):
    assert "--data" in refusal("compare", "a.onnx", "b.onnx")


def test_a_picture_that_reveals_a_bug_does_not_end_the_others(run, model, photos, monkeypatch):
    drawn = Mock(side_effect=[ZeroDivisionError, np.zeros((30, 80, 3), np.uint8)])
    monkeypatch.setattr(compare, "draw", drawn)
    code, out, err = run("compare", model, model, photos, "-o", photos.parent / "out")
    assert (code, out.count("_compare.png")) == (1, 1)
    assert "ZeroDivisionError" in err


def test_both_are_scored_on_a_dataset(run, tmp_path):
    data = pairs.make(tmp_path / "data")
    ours = onnx_files.depth_of_brightness(tmp_path / "ours.onnx")
    theirs = onnx_files.foreign(tmp_path / "theirs.onnx", ("pixel_values", "depth"), (1, 3, 42, 56))
    (tmp_path / "theirs.json").write_text('{"like": "depth-anything-v2"}')
    code, out, err = run("compare", ours, theirs, "--data", data)
    assert (code, "protocol affine" in out) == (0, True), err
    assert "A: ours.onnx" in out
    assert "B: theirs.onnx" in out
    assert run("evaluate", "--weights", theirs, "--data", data)[0] == 2
