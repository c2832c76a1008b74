"""`idisc evaluate` as a user meets it: one's own pictures, scored by files and by networks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from tests.fakes import indoor, onnx_files, pairs
from tests.fakes.called import run
from tests.fakes.scored import own_pairs, scored_by

import idisc
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.predictor import fit_aspect


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return own_pairs(tmp_path)


@pytest.fixture
def guess(own: Path) -> tuple[object, ...]:
    return scored_by(own)


# Predictions on disk


def test_a_folder_of_ones_own_is_scored_without_preparation(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    assert "your own pictures, 2 pictures; protocol paper" in stdout
    (line,) = (line for line in stdout.splitlines() if line.startswith("  abs_rel"))
    assert line.split()[1:] == ["0.100", "[0.100,", "0.100]"]
    assert "95 % intervals by bootstrap over pictures" in stdout


def test_a_table_brings_intrinsics_and_so_points_in_space(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"images/{number}.png,depth/{number}.png,test,27,27,16,12" for number in range(2)]
    (own / "pairs.csv").write_text("\n".join(["image,depth,split,fx,fy,cx,cy", *rows]))
    assert run("evaluate", *guess, "--data", own, "--clouds") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    totals = {line[0]: float(line[1]) for line in lines if line[0] in ("chamfer", "f1_0.75")}
    # A tenth too far along rays of 0.6 to 9.9 m: off by some decimetres, none by a metre.
    assert 0.05 < totals["chamfer"] < 0.75 < totals["f1_0.75"] < 1


def test_two_protocols_are_two_tables_and_two_reports(
    own: Path, guess: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    protocols = ("--protocol", "paper", "--protocol", "published-code", "--set", "batch_size=2")
    assert run("evaluate", *guess, "--data", own, *protocols, "--out", out) == 0
    stdout = capsys.readouterr().out
    assert "protocol paper with batch_size=2" in stdout
    assert "protocol published-code with batch_size=2" in stdout
    assert "depend on the batch size, here N = 2" in stdout
    assert sorted(path.name for path in out.iterdir()) == [
        "paper-with-batch_size-2",
        "published-code-with-batch_size-2",
    ]
    record = json.loads((out / "published-code-with-batch_size-2/report.json").read_text())
    assert record["protocol"]["applied"]["batch_size"] == 2
    assert len(record["about"].pop("predictions_sha256")) == 64
    assert record["about"] == {
        "predictions": "guess",
        "holes": "error",
        "fit": "error",
        "scale": "0.001 m",
    }


def test_a_list_of_the_field_is_read_as_it_is(
    own: Path, guess: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "some_test.txt"
    listing.write_text("images/1.png depth/1.png 518.8579\n")
    assert run("evaluate", *guess, "--data", own, "--list", listing) == 0
    assert "your own pictures, 1 picture;" in capsys.readouterr().out


def test_a_list_in_ones_own_folder_is_found_and_said(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "list.txt").write_text("images/1.png depth/1.png 518.8579\n")
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert "your own pictures, 1 picture;" in stdout
    assert stderr == f"{own}: pairs are those of list.txt\n"


def test_pairs_that_come_again_count_once_and_it_is_said(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "list.txt").write_text("images/1.png depth/1.png\n" * 2)
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert "your own pictures, 1 picture;" in stdout
    assert "own: 1 pair named more than once, each counts once, first images/1.png\n" in stderr


def test_a_unit_that_cannot_be_is_pointed_out(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (own.parent / "guess").glob("*.png"):
        np.save(path.with_suffix(".npy"), indoor.load(path).astype(np.float32))  # millimetres
        path.unlink()
    assert run("evaluate", *guess[:2], "--data", own) == 0
    stderr = capsys.readouterr().err
    assert stderr.startswith(
        "predictions are 1.1e+03 times the ground truth: another unit? --scale"
    )
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    (line,) = (line for line in stdout.splitlines() if line.startswith("  abs_rel"))
    assert line.split()[1] == "0.100"


# Networks


def test_an_exported_file_is_scored_and_pinned_by_its_hash(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    call = ("--onnx", model, "--data", own, "--size", "24x32", "--out", tmp_path / "report")
    assert run("evaluate", *call) == 0
    record = json.loads((tmp_path / "report/report.json").read_text())
    assert record["about"]["weights"] == "model.onnx"
    assert len(record["about"]["weights_sha256"]) == 64
    assert record["versions"]["onnxruntime"] == onnxruntime.__version__
    depths = [indoor.load(own / f"depth/{number}.png") / 1000 for number in range(2)]
    guesses = [indoor.picture(number).mean(axis=2) / 50 + 0.5 for number in range(2)]
    errors = [np.abs(p - t)[t > 0.01] / t[t > 0.01] for p, t in zip(guesses, depths, strict=True)]
    expected = np.mean([error.mean() for error in errors])
    assert record["totals"]["abs_rel"] == pytest.approx(expected, rel=1e-5)


def test_a_checkpoint_is_scored_at_the_size_that_is_asked_for(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "tiny", pairs.TINY, IDisc(pairs.TINY).state_dict(), {})
    call = ("evaluate", "--weights", tmp_path / "tiny", "--data", own)
    assert run(*call, "--size", "64x64", "--out", tmp_path / "report") == 0
    record = json.loads((tmp_path / "report/report.json").read_text())
    assert record["about"]["weights"] == "tiny"
    assert record["dataset"]["scored"] == 2
    assert "torch" in record["versions"]


@pytest.mark.parametrize(("trained", "told"), [([64, 64], True), ([480, 640], False)])
def test_a_network_of_another_size_sees_a_dataset_as_it_sees_photos(
    trained: list[int], told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, data = tmp_path / "raw", tmp_path / "data"
    indoor.nyu_matrices(raw)
    assert run("prepare", "nyu_labelled", "--raw", raw, "--out", data) == 0
    torch.manual_seed(0)
    state = IDisc(pairs.TINY).state_dict()
    save_checkpoint(tmp_path / "tiny", pairs.TINY, state, {"training_size": trained})
    assert run("evaluate", "--weights", tmp_path / "tiny", "--data", data) == 0
    assert ("tiny: sees pictures at 64x64, as in training" in capsys.readouterr().err) == told


def test_own_pictures_are_scored_at_the_size_of_the_training(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    state = IDisc(pairs.TINY).state_dict()
    save_checkpoint(tmp_path / "tiny", pairs.TINY, state, {"training_size": [64, 64]})
    call = ("evaluate", "--weights", tmp_path / "tiny", "--data", own)
    assert run(*call, "--out", tmp_path / "usual") == 0
    assert "tiny: sees pictures at 64x64, as in training" in capsys.readouterr().err
    shape = "x".join(map(str, fit_aspect((64, 64), (24, 32))))
    assert run(*call, "--size", shape, "--out", tmp_path / "asked") == 0
    assert "as in training" not in capsys.readouterr().err
    usual, asked = (
        json.loads((tmp_path / name / "report.json").read_text())["totals"]
        for name in ("usual", "asked")
    )
    assert usual == asked


@pytest.mark.parametrize("origin", [{}, {"training_size": [64, 64]}])
def test_own_pictures_are_scored_as_they_are_predicted_whatever_their_shape(
    origin: dict[str, object], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    tiny, data = tmp_path / "tiny", tmp_path / "own"
    save_checkpoint(tiny, pairs.TINY, IDisc(pairs.TINY).state_dict(), origin)
    errors = []
    for number, size in enumerate([(36, 64), (64, 36), (20, 90)]):
        depth = indoor.millimetres(number, size)
        indoor.save(data / f"images/{number}.png", indoor.picture(number, size))
        indoor.save(data / f"depth/{number}.png", depth)
        metres = depth / 1000
        error = idisc.load(tiny).predict(data / f"images/{number}.png").depth - metres
        there = metres > 0.001
        errors.append(float(np.sqrt((error[there] ** 2).mean())))
    call = ("evaluate", "--weights", tiny, "--data", data, "--out", tmp_path / "report")
    assert run(*call) == 0
    rows = (tmp_path / "report/images.csv").read_text().splitlines()
    place = rows[0].split(",").index("rmse")
    scored = [float(row.split(",")[place]) for row in rows[1:]]
    assert scored == pytest.approx(errors, rel=1e-4)


def test_a_submission_to_kitti_is_written_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    images, out = tmp_path / "image", tmp_path / "out"
    for number in range(2):
        indoor.save(images / f"{number:010d}.png", indoor.picture(number, (352, 1216)))
    assert run("evaluate", "--onnx", model, "--kitti-submission", images, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"submission: {out / 'submission.zip'}, 2 pictures\n"
    assert stderr == f"{images}: 2 pictures; the benchmark has 500\n"
    with zipfile.ZipFile(out / "submission.zip") as archive:
        assert archive.namelist() == ["0000000000.png", "0000000001.png"]
