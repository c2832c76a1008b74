"""`idisc evaluate` as a user meets it: every dataset from its raw files to a report."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from tests.fakes import indoor, onnx_files, pairs, road
from tests.fakes.called import run

import idisc
from idisc import paper, recipes
from idisc.data import catalog
from idisc.data.dataset import open_dataset
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.predictor import adapted
from idisc.zoo import cards

DATASETS = ["nyu", "nyu_labelled", "nyu_normals", "sunrgbd", "diode", "kitti", "argoverse", "ddad"]


def repaint(raw: Path, pattern: str, size: tuple[int, int]) -> None:
    """Another picture in each file; the fakes of the road are all grey."""
    for seed, path in enumerate(sorted(raw.glob(pattern))):
        indoor.save(path, indoor.picture(seed, size))


def raw_nyu(raw: Path) -> None:
    indoor.nyu(raw, {"kitchen_0004": 2, "test/office_0001": 2}, indoor.VGA)


def raw_nyu_labelled(raw: Path) -> None:
    indoor.nyu_matrices(raw)


def raw_nyu_normals(raw: Path) -> None:
    indoor.nyu_normals(raw)
    repaint(raw, "*/img/**/*.png", indoor.VGA)
    for seed, path in enumerate(sorted(raw.glob("*/norm/**/*.png"))):
        indoor.save(path, indoor.normal_pixels(seed, indoor.VGA))


def raw_sunrgbd(raw: Path) -> None:
    indoor.sunrgbd(raw)
    for path in raw.rglob("intrinsics.txt"):
        path.write_text("27 0 16\n0 27 12\n0 0 1\n")  # of the small pictures


def raw_diode(raw: Path) -> None:
    indoor.diode(raw)


def raw_kitti(raw: Path) -> None:
    road.kitti(raw, raw)
    repaint(raw, "*/*/image_02/data/*.png", road.KITTI_SIZE)
    for path in sorted((raw / "train").rglob("*.png")):
        slope = np.linspace(70, 5, road.KITTI_SIZE[0])[:, None] + np.zeros(road.KITTI_SIZE)
        slope[:150], slope[:, 1::2] = 0, 0
        indoor.save(path, (256 * slope).astype(np.uint16))


def raw_argoverse(raw: Path) -> None:
    road.argoverse(raw, sweeps=1)
    repaint(raw, "*/*/ring_*/*.jpg", road.ARGOVERSE_SIZE)


def raw_ddad(raw: Path) -> None:
    road.ddad(raw, samples=1, suffix="jpg")
    repaint(raw, "*/rgb/*/*.jpg", road.DDAD_SIZE)


RAW: dict[str, Callable[[Path], None]] = {name: globals()[f"raw_{name}"] for name in DATASETS}


CHOICES = {"argoverse": ("--set", "cameras=ring_front_center,ring_side_left")}  # two of seven


def predict(data: Path, name: str, out: Path, factor: float = 1.1) -> Path:
    """Predictions that are a tenth too far; normals are exact. Full frames of KITTI as PNG."""
    dataset = open_dataset(data, name, "test")
    for index, record in enumerate(dataset.records):
        path = out / Path(record.image).relative_to("rgb")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "nyu_normals":
            indoor.save(path.with_suffix(".png"), indoor.load(data / record.target))
        elif name == "kitti":
            stored = indoor.load(data / record.target)
            wrong = np.where(stored > 0, stored * factor, 1000).round()
            indoor.save(path.with_suffix(".png"), wrong.astype(np.uint16))
        else:
            target = dataset[index].target
            np.save(path.with_suffix(".npy"), np.where(target > 0, target * factor, 5))
    return out


@pytest.mark.parametrize("name", DATASETS)
def test_the_tour_from_raw_files_to_a_report(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, data, out = tmp_path / "raw", tmp_path / name, tmp_path / "report"
    RAW[name](raw)
    assert run("prepare", name, "--raw", raw, "--out", data, *CHOICES.get(name, ())) == 0
    assert run("doctor", data) == 0, capsys.readouterr().out
    predictions = predict(data, name, tmp_path / "predictions")
    capsys.readouterr()
    scale = ("--scale", 1 / 256) if name == "kitti" else ()
    call = ("evaluate", "--predictions", predictions, "--data", data, *scale)
    assert run(*call, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    spec = catalog.find(name)
    tested = [
        recipe.name
        for recipe in recipes.RECIPES.values()
        if recipe.data.test == spec.published_as and recipe.name in paper.RESULTS
    ]
    assert tested, "the paper has numbers for each of them"
    for network in tested:
        assert f"{network} (" in stdout
    assert f"{spec.title}, " in stdout
    assert "protocol paper" in stdout
    assert f"report: {out / 'report.html'}" in stdout
    record = json.loads((out / "report.json").read_text())
    assert set(record["paper"]) == set(tested)
    assert record["dataset"]["name"] == name
    if name == "nyu_normals":
        assert record["totals"]["mean_deg"] == pytest.approx(0, abs=1e-3)
    elif name == "diode":  # rescaled to the mean of the ground truth, as the paper does
        assert record["totals"]["abs_rel"] == pytest.approx(0, abs=1e-6)
    else:
        assert record["totals"]["abs_rel"] == pytest.approx(0.1, abs=1e-3)
        assert record["totals"]["d1"] == 1
    assert sorted(path.name for path in out.iterdir()) == [
        "images.csv",
        "report.html",
        "report.json",
    ]
    lines = (out / "images.csv").read_text().splitlines()
    assert len(lines) == 1 + record["dataset"]["scored"] + record["dataset"]["skipped"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Two pairs of one's own, in millimetres, with predictions a tenth too far."""
    root = tmp_path / "own"
    for number in range(2):
        depth = indoor.millimetres(number)
        indoor.save(root / f"images/{number}.png", indoor.picture(number))
        indoor.save(root / f"depth/{number}.png", depth)
        indoor.save(tmp_path / f"guess/{number}.png", np.maximum(depth * 1.1, 9).astype(np.uint16))
    return root


@pytest.fixture
def guess(own: Path) -> tuple[object, ...]:
    """The options of a call that works."""
    return ("--predictions", own.parent / "guess", "--scale", 0.001)


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


def test_rendered_rooms_are_scored_like_any_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "rooms"
    choices = ("--set", "count=2", "--set", "size=48x64")
    assert run("prepare", "synthetic", *choices, "--out", data) == 0
    assert run("doctor", data) == 0
    predictions = predict(data, "synthetic", tmp_path / "guess")
    assert run("evaluate", "--predictions", predictions, "--data", data) == 0
    assert "rendered rooms and streets, 1 picture; protocol paper" in capsys.readouterr().out


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
    said = "tiny: sees pictures at 64x64, as in training, each in its own shape; or --size"
    assert said in capsys.readouterr().err
    shape = "x".join(map(str, adapted((64, 64), (24, 32))))
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


def test_pairs_that_come_again_count_once_and_it_is_said(
    own: Path, guess: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "list.txt").write_text("images/1.png depth/1.png\n" * 2)
    assert run("evaluate", *guess, "--data", own) == 0
    stdout, stderr = capsys.readouterr()
    assert "your own pictures, 1 picture;" in stdout
    assert "own: 1 pair named more than once, each counts once, first images/1.png\n" in stderr


def test_a_changed_or_incomplete_preparation_is_not_passed_off_as_the_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, data, out = tmp_path / "raw", tmp_path / "data", tmp_path / "report"
    indoor.nyu(raw, {"test/office_0001": 3}, indoor.VGA)
    (raw / "test/office_0001/sync_depth_00002.png").unlink()
    assert run("prepare", "nyu", "--raw", raw, "--out", data) == 2
    predictions = predict(data, "nyu", tmp_path / "guess")
    capsys.readouterr()
    call = ("evaluate", "--predictions", predictions, "--data", data)
    assert run(*call, "--out", out) == 0
    assert (
        "NYU-Depth v2, 2 of the 654 pictures, preparation incomplete, 1 fault; protocol paper"
        in capsys.readouterr().out
    )
    assert json.loads((out / "report.json").read_text())["dataset"]["prepared"]["faults"] == 1
    path = data / "depth/test/office_0001/rgb_00000.png"
    indoor.save(path, indoor.load(path) // 2)
    assert run(*call) == 2
    stderr = capsys.readouterr().err
    assert "rgb_00000.jpg: it or depth/test/office_0001/rgb_00000.png was changed since" in stderr
    assert stderr.endswith("prepare the dataset again or run idisc doctor\n")


def test_a_title_follows_the_choice_of_depth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, data, out = tmp_path / "raw", tmp_path / "data", tmp_path / "report"
    indoor.nyu_matrices(raw)
    choice = ("--set", "nyu_depth=raw")
    assert run("prepare", "nyu_labelled", "--raw", raw, "--out", data, *choice) == 0
    predictions = predict(data, "nyu_labelled", tmp_path / "guess")
    assert run("evaluate", "--predictions", predictions, "--data", data, "--out", out) == 0
    title = "NYU-Depth v2, labelled set (the sensor's depth, with holes)"
    assert f"{title}, 2 of the 654 pictures" in capsys.readouterr().out
    record = json.loads((out / "report.json").read_text())
    assert record["dataset"]["title"] == title
    assert record["dataset"]["prepared"]["choices"]["nyu_depth"] == "raw"
    assert run("doctor", data) == 0
    assert f"nyu_labelled: {title}" in capsys.readouterr().out


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
        ("evaluate", *data, *guess, "--device", "cuda"): "--device is for networks; leave it out",
        ("evaluate", *data, "--onnx", model, "--precision", "bf16"): "an .onnx file decides for",
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
        ("evaluate", "--onnx", normals, *data): "predicts normals, folder holds depth",
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


def test_a_prepared_folder_knows_which_dataset_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "out"
    indoor.nyu(tmp_path / "raw", {"test/office_0001": 1}, indoor.VGA)
    assert run("prepare", "nyu", "--raw", tmp_path / "raw", "--out", data) == 0
    predictions = predict(data, "nyu", tmp_path / "guess")
    capsys.readouterr()
    call = ("evaluate", "--predictions", predictions, "--data", data)
    assert run(*call, "--dataset", "kitti") == 2
    assert capsys.readouterr().err == f"idisc: {data}: holds nyu, not kitti\n"
    assert run(*call, "--split", "train") == 2
    assert "no picture of split 'train'; splits there: test" in capsys.readouterr().err
    assert run(*call, "--dataset", "nyu:paper") == 0
    assert "NYU-Depth v2, 1 of the 654 pictures; protocol paper" in capsys.readouterr().out


def test_the_example_of_the_documentation_scores_a_foreign_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = tmp_path / "nyu", tmp_path / "predictions"
    indoor.nyu_matrices(tmp_path / "raw")
    assert run("prepare", "nyu_labelled", "--raw", tmp_path / "raw", "--out", data) == 0
    model = onnx_files.foreign(tmp_path / "theirs.onnx")
    script = Path(__file__).parents[2] / "docs" / "examples" / "score_fastdepth.py"
    options = ["--data", str(data), "--weights", str(model), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [str(script), *options])
    runpy.run_path(str(script), run_name="__main__")
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.npy"))
    assert names == ["rgb/0000.npy", "rgb/0001.npy"]  # those of the test
    depth = np.load(out / "rgb/0000.npy")
    rows, columns = np.flatnonzero(depth.any(axis=1)), np.flatnonzero(depth.any(axis=0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (21, 459, 27, 611)
    brightness = indoor.load(data / "rgb/0000.png").mean(axis=2) / 255
    assert np.abs(depth - brightness)[40:440, 50:590].max() < 0.02
    call = ("evaluate", "--predictions", out, "--data", data, "--protocol", "bts")
    assert run(*call) == 2
    assert "pass --holes skip" in capsys.readouterr().err
    assert run(*call, "--holes", "skip") == 0
    assert (
        "in-painted depth), 2 of the 654 pictures, holes skipped: 2.6%" in capsys.readouterr().out
    )


WITHOUT_TORCH = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "torchvision", "timm", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from idisc.cli.main import main

for call in CALLS:
    try:
        main(call)
    except SystemExit as end:
        assert end.code == 0, call
assert "torch" not in sys.modules
"""


def test_nothing_of_the_tour_needs_torch(tmp_path: Path) -> None:
    raw, data, predictions = tmp_path / "raw", tmp_path / "data", tmp_path / "guess"
    indoor.nyu(raw, {"kitchen_0004": 1, "test/office_0001": 1}, indoor.VGA)
    predictions.mkdir()
    np.save(predictions / "rgb_00000.npy", np.ones(indoor.VGA))
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    images = tmp_path / "image"
    images.mkdir()
    Image.new("RGB", (1216, 352)).save(images / "0.png")
    calls: list[list[object]] = [
        ["prepare", "nyu", "--raw", raw, "--out", data],
        ["doctor", data],
        ["evaluate", "--predictions", predictions, "--data", data, "--out", tmp_path / "one"],
        ["evaluate", "--onnx", model, "--data", data, "--out", tmp_path / "two"],
        ["evaluate", "--onnx", model, "--kitti-submission", images, "--out", tmp_path / "three"],
    ]
    texts = [[str(argument) for argument in call] for call in calls]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH.replace("CALLS", repr(texts))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("one", "two"):
        assert "torch" not in json.loads((tmp_path / name / "report.json").read_text())["versions"]
