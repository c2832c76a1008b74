"""`idisc evaluate` of datasets: of normals, with a scale, of a road, from raw files to a report."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes import indoor, onnx_files, road
from tests.fakes.called import BLOCK, fresh, run
from tests.fakes.scored import a_tenth_too_far

from idisc.configs import paper
from idisc.data import catalog


def repaint(raw, pattern, size):
    """Another picture in each file; the fakes of the road are all grey."""
    for seed, path in enumerate(sorted(raw.glob(pattern))):
        indoor.save(path, indoor.picture(seed, size))


def raw_nyu_normals(raw):
    indoor.nyu_normals(raw)
    repaint(raw, "*/img/**/*.png", indoor.VGA)
    for seed, path in enumerate(sorted(raw.glob("*/norm/**/*.png"))):
        indoor.save(path, indoor.normal_pixels(seed, indoor.VGA))


def raw_kitti(raw):
    road.kitti(raw, raw)
    repaint(raw, "*/*/image_02/data/*.png", road.KITTI_SIZE)
    for path in sorted((raw / "train").rglob("*.png")):
        slope = np.linspace(70, 5, road.KITTI_SIZE[0])[:, None] + np.zeros(road.KITTI_SIZE)
        slope[:150], slope[:, 1::2] = 0, 0
        indoor.save(path, (256 * slope).astype(np.uint16))


RAW = {"nyu_normals": raw_nyu_normals, "kitti": raw_kitti}


@pytest.mark.slow
@pytest.mark.parametrize("name", RAW)
def test_the_tour_from_raw_files_to_a_report(name, tmp_path, capsys):
    raw, data, out = tmp_path / "raw", tmp_path / name, tmp_path / "report"
    RAW[name](raw)
    assert run("prepare", name, "--raw", raw, "--out", data) == 0
    assert run("doctor", data) == 0, capsys.readouterr().out
    predictions = a_tenth_too_far(data, name, tmp_path / "predictions")
    capsys.readouterr()
    scale = ("--scale", 1 / 256) if name == "kitti" else ()
    call = ("evaluate", "--predictions", predictions, "--data", data, *scale)
    assert run(*call, "--out", out) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    assert f"{catalog.find(name).title}, " in stdout
    assert f"report: {out / 'report.html'}" in stdout
    record = json.loads((out / "report.json").read_text())
    assert record["paper"].keys() <= paper.RESULTS.keys()
    assert all(f"{network} (" in stdout for network in record["paper"])
    metric, expected = {"nyu_normals": ("mean_deg", 0), "kitti": ("abs_rel", 0.1)}[name]
    assert record["totals"][metric] == pytest.approx(expected, abs=1e-3)
    assert sorted(path.name for path in out.iterdir()) == [
        "images.csv",
        "report.html",
        "report.json",
    ]


def test_an_incomplete_preparation_is_not_reported_as_the_dataset(tmp_path, capsys):
    raw, data = tmp_path / "raw", tmp_path / "data"
    indoor.nyu(raw, {"test/office_0001": 3}, indoor.VGA)
    (raw / "test/office_0001/sync_depth_00002.png").unlink()
    assert run("prepare", "nyu", "--raw", raw, "--out", data) == 2
    predictions = a_tenth_too_far(data, "nyu", tmp_path / "guess")
    capsys.readouterr()
    assert run("evaluate", "--predictions", predictions, "--data", data) == 0
    title = "NYU-Depth v2, 2 of the 654 pictures, preparation incomplete, 1 fault; protocol paper"
    assert title in capsys.readouterr().out


def test_the_example_of_the_documentation_scores_a_foreign_network(tmp_path, capsys, monkeypatch):
    data, out = tmp_path / "nyu", tmp_path / "predictions"
    indoor.nyu_matrices(tmp_path / "raw")
    assert run("prepare", "nyu_labelled", "--raw", tmp_path / "raw", "--out", data) == 0
    model = onnx_files.foreign(tmp_path / "theirs.onnx")
    script = Path(__file__).parents[2] / "docs" / "examples" / "score_fastdepth.py"
    options = ["--data", str(data), "--model", str(model), "--out", str(out)]
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
    assert "2 of the 654 pictures, holes skipped: 2.6%" in capsys.readouterr().out


CALLS = """
from idisc.cli.main import main

for call in CALLS:
    try:
        main(call)
    except SystemExit as end:
        assert end.code == 0, call
assert "torch" not in sys.modules
"""


@pytest.mark.slow
def test_nothing_of_the_tour_needs_torch(tmp_path):
    raw, data, predictions = tmp_path / "raw", tmp_path / "data", tmp_path / "guess"
    indoor.nyu(raw, {"kitchen_0004": 1, "test/office_0001": 1}, indoor.VGA)
    predictions.mkdir()
    np.save(predictions / "rgb_00000.npy", np.ones(indoor.VGA))
    model = onnx_files.depth_of_brightness(tmp_path / "model.onnx")
    images = tmp_path / "image"
    images.mkdir()
    Image.new("RGB", (1216, 352)).save(images / "0.png")
    calls = [
        ["prepare", "nyu", "--raw", raw, "--out", data],
        ["doctor", data],
        ["evaluate", "--predictions", predictions, "--data", data, "--out", tmp_path / "one"],
        ["evaluate", "--onnx", model, "--data", data, "--out", tmp_path / "two"],
        ["evaluate", "--onnx", model, "--kitti-submission", images, "--out", tmp_path / "three"],
    ]
    texts = [[str(argument) for argument in call] for call in calls]
    blocked = BLOCK.format(packages={"torch", "torchvision", "timm", "safetensors"})
    done = fresh(blocked + CALLS.replace("CALLS", repr(texts)))
    assert done.returncode == 0, done.stderr
    for name in ("one", "two"):
        assert "torch" not in json.loads((tmp_path / name / "report.json").read_text())["versions"]
