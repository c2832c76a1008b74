"""`idisc export` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes import exported, onnx_files, shipped
from tests.fakes.called import run

from idisc.export import graph, parity
from idisc.export import onnx as onnx_export
from idisc.model.states import read_onnx
from idisc.predict.engine import open_engine
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.settings import FilePrecision
from idisc.zoo import cards


def test_it_writes_one_measured_file_and_says_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for shade in (40, 200):
        Image.linear_gradient("L").convert("RGB").resize((90, 70 + shade // 4)).save(
            photos / f"{shade}.png"
        )
    out = tmp_path / "room.onnx"
    folder = exported.bins()
    assert run("export", folder, "-o", out, "--size", "48x64", "--pictures", photos) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["file"].startswith(f"{out}, ")
    assert lines["takes"] == "pictures of 48x64"
    assert lines["on"] == "2 pictures (photos) at 48x64 to 48x64 and 48x64 to 37x49"
    assert "m at most" in lines["parity"]
    engine = OnnxEngine(out)
    assert engine.fixed_size == (48, 64)
    assert json.loads(engine.origin["parity"])["pictures_from"] == "photos"
    image = np.random.default_rng(0).integers(0, 256, (1, 48, 64, 3), dtype=np.uint8)
    for result in (None, (20, 31)):  # for one size, with results of any
        eager = TorchEngine.load(folder)(image, result)
        np.testing.assert_allclose(engine(image, result), eager, atol=2e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "room.onnx"]


def test_a_file_that_differs_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = exported.any_size()  # made before its maker is replaced

    def other(*_: object, **__: object) -> object:  # made from other weights
        model = read_onnx(sound)
        weights = max(model.graph.initializer, key=lambda item: len(item.raw_data))
        weights.raw_data = bytes(len(weights.raw_data))
        return model

    monkeypatch.setattr(onnx_export, "build", other)
    assert run("export", exported.checkpoint(), "-o", tmp_path / "room.onnx") == 3
    printed = capsys.readouterr()
    assert "idisc: room.onnx: differs from the network by" in printed.err
    assert "fp32 allows 0.001 m at most" in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("precision", "arithmetic", "storage"),
    [("fp16-weights", "fp32", "fp16"), ("fp16", "fp16", "fp16"), ("int8", "int8", "int8")],
)
def test_reduced_precision_lies_beside_the_checkpoint_with_its_loss(
    precision: FilePrecision,
    arithmetic: str,
    storage: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lenient = parity.Tolerance(largest=9.0, mean=9.0, d1=0.0)  # the weights are random
    monkeypatch.setitem(parity.TOLERANCES, precision, lenient)
    sound = exported.any_size()  # made before its maker is replaced
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: read_onnx(sound))
    assert run("export", exported.checkpoint(), "--precision", precision) == 0
    path = exported.place() / f"small-{precision}.onnx"
    assert f"precision {precision}" in capsys.readouterr().out
    engine = OnnxEngine(path)
    assert (engine.origin["precision"], engine.origin["storage"]) == (arithmetic, storage)
    assert open_engine(path, precision=arithmetic).name == path.name  # type: ignore[arg-type]
    found = json.loads(engine.origin["parity"])
    assert found["mean"] > 0
    assert found["spread"] > 0
    # Real photos; of int8 those that it was not calibrated on.
    assert (found["pictures_from"], found["pictures"]) == (
        "examples",
        2 if precision == "int8" else 4,
    )
    assert path.stat().st_size < exported.any_size().stat().st_size


def test_the_checkpoint_of_a_shipped_model_goes_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped.make(tmp_path / "zoo" / "rooms", checkpoint=exported.checkpoint())
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")
    sound = exported.any_size()  # made before its maker is replaced
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: read_onnx(sound))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert run("export", "rooms") == 0  # beside the checkpoint would be within the package
    assert f"{here / 'rooms.onnx'}, " in capsys.readouterr().out
    assert OnnxEngine(here / "rooms.onnx").origin["weights"] == "rooms"
    assert run("export", "room") == 2
    assert "room: not there, nor a shipped model; did you mean rooms" in capsys.readouterr().err


def test_bad_calls_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = exported.checkpoint()
    empty, single = tmp_path / "empty", tmp_path / "single"
    empty.mkdir()
    single.mkdir()
    Image.new("RGB", (8, 6)).save(single / "a.png")
    taken = empty / "note.txt"
    taken.write_text("a file, no folder")
    calls = {
        ("export",): "Missing argument 'CHECKPOINT'",
        ("export", tmp_path / "none"): "none: not there",
        ("export", single): "single: no config.json in it, so not a checkpoint folder",
        ("export", single / "a.png"): "a.png: neither a checkpoint folder nor an .onnx file",
        (
            "export",
            onnx_files.depth_of_brightness(tmp_path / "room.onnx"),
        ): "room.onnx: exported already; name the checkpoint it was made from",
        ("export", folder, "-o", tmp_path / "room.pt"): "a file for onnx ends in .onnx",
        ("export", folder, "--size", "big"): "'big' is not a size; write 480x640, or dynamic",
        ("export", folder, "--size", "480"): "'480' is not a size",
        (
            *("export", folder, "--format", "pt2"),
            *("-o", tmp_path / "x.pt2"),
        ): "a program is for one size; give --size 480x640",
        ("export", folder, "--precision", "fp8"): "'fp8' is not one of",
        (
            *("export", folder, "--format", "pt2", "--size", "48x64"),
            *("--precision", "fp16", "-o", tmp_path / "x.pt2"),
        ): "--precision fp16: for --format onnx only",
        (
            *("export", folder, "--pictures", empty),
            *("-o", tmp_path / "x.onnx"),
        ): "empty: no pictures in it",
        (
            *("export", folder, "--pictures", single, "--precision", "int8"),
            *("-o", tmp_path / "x.onnx"),
        ): "single: one picture; int8 needs one to calibrate on, and another to measure on",
        ("export", folder, "-o", taken / "x.onnx"): "x.onnx: cannot be written",
        ("export", folder, "--size", "9000x9000"): "'9000x9000' is more than 8.4 million pixels",
    }
    for arguments, message in calls.items():
        assert run(*arguments) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.out == ""
        assert "Traceback" not in printed.err
        assert "tracing" not in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "room.onnx", "single"]


def test_an_encoder_that_cannot_be_followed_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, image: object, canvas: object, *rulers: object) -> None:
        raise ValueError("a branch on data\nand a page of advice")

    monkeypatch.setattr(graph.BytesToMetres, "forward", refuse)
    assert run("export", exported.checkpoint(), "-o", tmp_path / "x.onnx") == 2
    printed = capsys.readouterr().err
    assert "torch.export cannot follow encoder timm:test_efficientnet (a branch on data)" in printed
    assert "--size with one size may work" in printed
    assert list(tmp_path.iterdir()) == []
