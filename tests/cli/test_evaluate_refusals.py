"""`idisc evaluate` of wrong files and wrong calls: one line that says which, and no report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import indoor, onnx_files
from tests.fakes.called import run
from tests.fakes.scored import own_pairs, scored_by

from idisc.zoo import cards


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return own_pairs(tmp_path)


@pytest.fixture
def guess(own: Path) -> tuple[object, ...]:
    return scored_by(own)


def truncate_truth(own: Path) -> str:
    indoor.save(
        own / "depth/0.png", np.random.default_rng(0).integers(1, 9999, (24, 32)).astype("<u2")
    )
    indoor.truncate(own / "depth/0.png")
    return "own/depth/0.png: damaged or cut short"


def truncate_prediction(own: Path) -> str:
    path = own.parent / "guess/0.png"
    indoor.save(path, np.random.default_rng(0).integers(1, 9999, (24, 32)).astype("<u2"))
    indoor.truncate(path)
    return "guess/0.png: damaged or cut short"


def eight_bits_of_truth(own: Path) -> str:
    indoor.save(own / "depth/1.png", np.full((24, 32), 200, np.uint8))
    return "own/depth/1.png: 8-bit, 16-bit expected"


def eight_bits_of_prediction(own: Path) -> str:
    indoor.save(own.parent / "guess/1.png", np.full((24, 32), 200, np.uint8))
    return "guess/1.png: 8-bit, 16-bit expected"


def nan_in_a_prediction(own: Path) -> str:
    (own.parent / "guess/0.png").unlink()
    np.save(own.parent / "guess/0.npy", np.where(np.eye(24, 32) > 0, np.nan, 1))
    return "guess/0.npy: 24 pixels are NaN or infinite; mend them, or pass --holes skip"


def hole_in_a_prediction(own: Path) -> str:
    indoor.save(own.parent / "guess/0.png", np.zeros((24, 32), np.uint16))
    return "guess/0.png: 768 pixels are 0 or less"


def a_prediction_too_small(own: Path) -> str:
    indoor.save(own.parent / "guess/1.png", np.ones((12, 16), np.uint16))
    return "guess/1.png: 12x16 pixels, 24x32 expected; pass --fit resize"


def no_prediction(own: Path) -> str:
    (own.parent / "guess/1.png").unlink()
    return "guess: 1 of 2 predictions missing: images/1.png"


def an_empty_prediction(own: Path) -> str:
    (own.parent / "guess/1.png").unlink()
    (own.parent / "guess/1.npz").touch()
    return "guess/1.npz: empty, there is no array in it; write it again"


def predictions_of_other_names(own: Path) -> str:
    for path in (own.parent / "guess").iterdir():
        path.rename(path.with_stem(f"{path.stem}_pred"))
    return "would be called 0.png, but the folder has e.g. 0_pred.png; rename the files"


def no_predictions(own: Path) -> str:
    for path in (own.parent / "guess").iterdir():
        path.unlink()
    return "guess: no PNG, NPY or NPZ in it"


@pytest.mark.parametrize(
    "spoil",
    [
        *(truncate_truth, truncate_prediction, eight_bits_of_truth, eight_bits_of_prediction),
        *(nan_in_a_prediction, hole_in_a_prediction, a_prediction_too_small),
        *(no_prediction, an_empty_prediction, predictions_of_other_names, no_predictions),
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_wrong_file_is_one_line_that_names_it_and_no_report_is_written(
    own: Path,
    guess: tuple[object, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], str],
) -> None:
    message = spoil(own)
    assert run("evaluate", *guess, "--data", own, "--out", tmp_path / "report") == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert message in stderr
    assert not (tmp_path / "report").exists()


def test_holes_and_sizes_that_may_be_are_scored(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    nan_in_a_prediction(own)
    assert run("evaluate", *guess, "--data", own, "--holes", "skip") == 0
    a_prediction_too_small(own)
    call = ("evaluate", *guess, "--data", own, "--holes", "skip", "--fit", "resize")
    assert run(*call) == 0
    assert (
        "2 pictures, holes skipped: 1.6% of the valid pixels not scored" in capsys.readouterr().out
    )


def refused(calls: dict[tuple[object, ...], str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each call ends with code 2 and one line, which says so."""
    for arguments, message in calls.items():
        assert run(*arguments) == 2, arguments
        stdout, stderr = capsys.readouterr()
        assert stdout == "", arguments
        assert stderr.count("\n") == 1, stderr
        assert message in stderr


def test_bad_calls_are_one_line(
    own: Path,
    guess: tuple[object, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cards, "HOME", tmp_path)  # no model ships
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    normals = onnx_files.normals_of_colour(tmp_path / "normals.onnx")
    theirs = onnx_files.foreign(tmp_path / "theirs.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(model.read_bytes()[:50])
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    data = ("--data", own)
    none = tmp_path / "none"
    calls: dict[tuple[object, ...], str] = {
        ("evaluate",): "--data, the folder of the dataset, is needed",
        ("evaluate", *data): "no model ships with this version; name a checkpoint folder",
        ("evaluate", *data, "--scale", "0.1"): "--scale is for --predictions; leave it out",
        ("evaluate", *data, *guess, "--precision", "bf16"): "--precision is for networks; leave",
        ("evaluate", *data, *guess, "--size", "64x64"): "--size is for networks; leave",
        ("evaluate", *data, *guess, "--device", "cuda"): "--device is for networks; leave it out",
        ("evaluate", *data, "--onnx", model, "--precision", "bf16"): "model.onnx computes",
        ("evaluate", *guess, "--onnx", model, *data): "only one of --weights, --onnx and --pred",
        ("evaluate", *guess): "--data, the folder of the dataset, is needed",
        ("evaluate", *guess, "--data", none): "none' does not exist",
        ("evaluate", "--predictions", none, *data): "none: no such folder of predictions",
        ("evaluate", *guess[:2], *data): "guess/1.png: what is one unit of it? Pass --scale",
        ("evaluate", "--weights", none, *data): "none: not there",
        ("evaluate", "--weights", own, *data): "own: no config.json in it",
        ("evaluate", "--onnx", tmp_path / "no.onnx", *data): "no.onnx: no such file",
        ("evaluate", "--onnx", cut, *data): "cut.onnx: not readable as ONNX",
        ("evaluate", "--onnx", theirs, *data): "theirs.onnx: not an export of ours",
        ("evaluate", "--onnx", normals, *data): "no camera is known, which normals",
        ("evaluate", *guess, *data, "--dataset", "kity"): "did you mean kitti",
        ("evaluate", *guess, *data, "--dataset", "kitti:papre"): "did you mean paper",
        ("evaluate", *guess, *data, "--dataset", "nyu"): "own: no manifest.jsonl in it",
        ("evaluate", *guess, *data, "--list", empty): "empty.txt: an empty list",
        ("evaluate", *guess, *data, "--list", none): "none: no such list file",
        ("evaluate", *guess, *data, "--protocol", "papr"): "did you mean paper",
        ("evaluate", *guess, *data, "--set", "averaging=pixels"): "'pixels' is not one of image",
        ("evaluate", *guess, *data, "--set", "avraging=pixel"): "did you mean averaging",
        ("evaluate", *guess, *data, "--clouds"): "no camera known, so no point cloud",
        ("evaluate", *guess, *data, "--out", own): "own: exists already",
        ("evaluate", *guess, *data, "--set", "max_depth=0.02"): "no valid pixel",
    }
    refused(calls, capsys)
    assert not none.exists()


def test_bad_submissions_are_one_line(
    own: Path, guess: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, none = onnx_files.depth_of_brightness(tmp_path / "model.onnx"), tmp_path / "none"
    submission = ("evaluate", "--kitti-submission", own / "images")
    calls: dict[tuple[object, ...], str] = {
        (*submission, "--out", none, "--data", own): "--data is for scoring, not for --kitti-sub",
        (*submission, "--onnx", model): "--kitti-submission needs a network and --out",
        (*submission, "--out", none, "--protocol", "bts"): "--protocol is for scoring, not for",
        (*submission, "--out", none, "--set", "cap=none"): "--set is for scoring, not for",
        (*submission, "--out", none, "--size", "48x64"): "--size is for scoring, not for",
        (*submission, *guess, "--out", none): "needs a network and --out",
        (*submission, "--onnx", model, "--out", none): "0.png: 24x32 pixels; the benchmark's",
    }
    refused(calls, capsys)
    assert not none.exists()
