"""`idisc evaluate` of one's own pictures: files and networks are scored, wrong calls refused."""

import json
import zipfile

import numpy as np
import onnxruntime
import pytest
import torch
from tests.fakes import indoor, onnx_files, pairs
from tests.fakes.called import run
from tests.fakes.scored import own_pairs, scored_by

import idisc
from idisc.data.dataset import open_dataset
from idisc.evaluate.run import evaluate
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc


@pytest.fixture
def own(tmp_path):
    return own_pairs(tmp_path)


@pytest.fixture
def guess(own):
    return scored_by(own)


# Predictions on disk


def test_a_folder_of_ones_own_is_scored_without_preparation(own, guess, capsys):
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    assert "your own pictures, 2 pictures; protocol paper" in stdout
    (line,) = (line for line in stdout.splitlines() if line.startswith("  abs_rel"))
    assert line.split()[1:] == ["0.100", "[0.100,", "0.100]"]
    assert "95 % intervals by bootstrap over pictures" in stdout


def test_two_protocols_are_two_tables_and_two_reports(own, guess, tmp_path, capsys):
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


def test_a_list_in_ones_own_folder_is_named_and_its_repeated_pairs_count_once(own, guess, capsys):
    (own / "list.txt").write_text("images/1.png depth/1.png\n" * 2)
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert "your own pictures, 1 picture;" in stdout
    assert stderr.splitlines() == [
        f"{own}: pairs are those of list.txt",
        f"{own}: 1 pair named more than once, each counts once, first images/1.png",
    ]


def test_a_wrong_scale_is_pointed_out_with_the_right_one(own, guess, capsys):
    assert run("evaluate", *guess[:2], "--data", own, "--scale", 1 / 256) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr.count("\n") == 1
    assert "--scale 0.001" in stderr
    assert "Predictions are 4.3 times the ground truth" in stdout


def test_holes_and_other_sizes_are_scored_on_request(own, guess, capsys):
    (own.parent / "guess/0.png").unlink()
    np.save(own.parent / "guess/0.npy", np.where(np.eye(24, 32) > 0, np.nan, 3000))
    indoor.save(own.parent / "guess/1.png", np.full((12, 16), 3000, np.uint16))
    call = ("evaluate", *guess, "--data", own, "--holes", "skip", "--fit", "resize")
    assert run(*call) == 0
    stdout, stderr = capsys.readouterr()
    assert "2 pictures, holes skipped: 1.6% of the valid pixels not scored" in stdout
    assert "predictions of another size, by their aspect: 1 to the scored crop" in stderr


# Networks


def test_an_exported_file_is_scored_and_pinned_by_its_hash(own, tmp_path, capsys):
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    onnx_files.describe(model, licence="CC BY-NC 4.0", non_commercial="true")
    onnx_files.sealed(model)
    call = ("--onnx", model, "--data", own, "--size", "24x32", "--out", tmp_path / "report")
    assert run("evaluate", *call) == 0
    terms = "CC BY-NC 4.0; not for commercial use"
    stdout, stderr = capsys.readouterr()
    assert stderr == f"model model.onnx, licence {terms}\n"
    assert "licence of the model: CC BY-NC 4.0; commercial use: excluded" in stdout
    assert "licence of the dataset: yours" in stdout
    record = json.loads((tmp_path / "report/report.json").read_text())
    assert (record["about"]["weights"], record["about"]["licence"]) == ("model.onnx", terms)
    assert len(record["about"]["weights_sha256"]) == 64
    assert record["versions"]["onnxruntime"] == onnxruntime.__version__
    errors = []
    for number in range(2):
        truth = indoor.load(own / f"depth/{number}.png") / 1000
        predicted, valid = indoor.picture(number).mean(axis=2) / 50 + 0.5, truth > 0.01
        errors.append(np.mean(np.abs(predicted - truth)[valid] / truth[valid]))
    assert record["totals"]["abs_rel"] == pytest.approx(np.mean(errors), rel=1e-5)


def test_python_and_the_command_line_give_the_same_numbers_as_prediction(tmp_path, capsys):
    torch.manual_seed(0)
    tiny, data = tmp_path / "tiny", tmp_path / "own"
    save_checkpoint(tiny, pairs.TINY, IDisc(pairs.TINY).state_dict(), {"training_size": [64, 64]})
    predictor, errors = idisc.load(tiny), []
    for number, size in enumerate([(36, 64), (64, 36), (20, 90)]):
        depth = indoor.millimetres(number, size)
        indoor.save(data / f"images/{number}.png", indoor.picture(number, size))
        indoor.save(data / f"depth/{number}.png", depth)
        metres = depth / 1000
        error = predictor.predict(data / f"images/{number}.png").metres - metres
        errors.append(float(np.sqrt((error[metres > 0.01] ** 2).mean())))
    call = ("evaluate", "--weights", tiny, "--data", data, "--out", tmp_path / "report")
    assert run(*call) == 0
    note = "tiny: sees pictures at 64x64 (height x width), as in training"
    assert note in capsys.readouterr().err
    record = json.loads((tmp_path / "report/report.json").read_text())
    (result,) = evaluate(open_dataset(data, None, "test"), predictor)
    assert record["totals"] == result.totals
    assert record["about"] == result.about
    assert [row.numbers["rmse"] for row in result.rows] == pytest.approx(errors, rel=1e-4)


def test_a_submission_to_kitti_is_written_and_counted(tmp_path, capsys):
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    images, out = tmp_path / "image", tmp_path / "out"
    for number in range(2):
        indoor.save(images / f"{number:010d}.png", indoor.picture(number, (352, 1216)))
    assert run("evaluate", "--onnx", model, "--kitti-submission", images, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"submission: {out / 'submission.zip'}, 2 pictures\n"
    assert stderr.splitlines() == [
        "model model.onnx, unverified: there is no checksum in its file",
        f"{images}: 2 pictures; the benchmark has 500",
    ]
    with zipfile.ZipFile(out / "submission.zip") as archive:
        assert archive.namelist() == ["0000000000.png", "0000000001.png"]


# Refusals


def test_a_wrong_file_is_one_line_that_names_it_and_no_report_is_written(
    own, guess, tmp_path, refusal
):
    indoor.save(own / "depth/1.png", np.full((24, 32), 200, np.uint8))
    indoor.save(own.parent / "guess/0.png", np.zeros((24, 32), np.uint16))
    stderr = refusal("evaluate", *guess, "--data", own, "--out", tmp_path / "report")
    for name in ("2 of 2 pictures", "own/depth/1.png", "guess/0.png"):
        assert name in stderr
    assert not (tmp_path / "report").exists()


def test_bad_calls_are_one_line(own, guess, model, tmp_path, refusal):
    normals = onnx_files.sealed(onnx_files.normals_of_colour(tmp_path / "normals.onnx"))
    data, none = ("--data", own), tmp_path / "none"
    submission = ("--kitti-submission", own / "images")
    calls = {
        guess: "--data, the folder of the dataset, is needed",
        (*data, "--scale", "0.1"): "--scale is for --predictions; leave it out",
        (*data, *guess, "--size", "64x64"): "--size is for networks; leave",
        (*data, *guess, "--device", "cuda"): "--device is for networks; leave it out",
        (*guess, "--onnx", model, *data): "only one of --weights, --onnx and --pred",
        (*guess, "--data", none): "none' does not exist",
        ("--weights", none, *data): "none: no such file, folder or shipped model",
        ("--onnx", normals, *data): "no camera is known, but normals",
        (*guess, *data, "--protocol", "papr"): "did you mean paper",
        (*guess, *data, "--set", "name=mine"): "a protocol is named after",
        (*guess, *data, "--out", own): "own: exists already",
        (*submission, "--onnx", model): "--kitti-submission needs a network and --out",
        (*submission, *guess, "--out", none): "needs a network and --out",
        (*submission, "--out", none, "--protocol", "bts"): "--protocol is for scoring, not for",
        (*submission, "--out", none, "--set", "cap=none"): "--set is for scoring, not for",
        (*submission, "--onnx", model, "--out", none): "0.png: 24x32 pixels; the benchmark's",
    }
    for arguments, message in calls.items():
        assert message in refusal("evaluate", *arguments)
    assert not none.exists()
