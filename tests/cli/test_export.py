"""`idisc export` as a user calls it."""

import json

import pytest
from PIL import Image
from tests.fakes import exported, onnx_files, shipped
from tests.fakes.called import run

from idisc.export import onnx as onnx_export
from idisc.export import parity, tracing
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.open import open_model
from idisc.zoo import cards


@pytest.fixture
def traced(monkeypatch):
    """The small network is not traced again: its graph is that of the file made once."""
    exported.any_size()  # made before its maker is replaced
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: exported.model())


@pytest.mark.slow
def test_it_writes_one_compared_file_and_describes_it(tmp_path, capsys):
    photos = tmp_path / "photos"
    photos.mkdir()
    for shade in (40, 200):
        Image.linear_gradient("L").convert("RGB").resize((90, 70 + shade // 4)).save(
            photos / f"{shade}.png"
        )
    out = tmp_path / "room.onnx"
    assert run("export", exported.bins(), "-o", out, "--size", "48x64", "--pictures", photos) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["file"].startswith(f"{out}, ")
    assert lines["takes"] == "pictures of 48x64 (height x width)"
    assert lines["on"] == "2 pictures (photos) at 48x64 to 48x64 and 48x64 to 37x49"
    assert "m at most" in lines["parity"]
    engine = OnnxEngine(out)
    assert engine.fixed_size == (48, 64)
    assert json.loads(engine.origin["parity"])["pictures_from"] == "photos"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "room.onnx"]


@pytest.mark.slow
def test_a_file_that_differs_is_not_kept(tmp_path, capsys, monkeypatch):
    model = exported.model()
    weights = max(model.graph.initializer, key=lambda item: len(item.raw_data))
    weights.raw_data = bytes(len(weights.raw_data))
    monkeypatch.setattr(onnx_export, "build", lambda *_, **__: model)
    assert run("export", exported.checkpoint(), "-o", tmp_path / "room.onnx") == 3
    printed = capsys.readouterr()
    assert "idisc: room.onnx: differs from the network by" in printed.err
    assert "fp32 allows 0.001 m at most" in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("precision", "arithmetic", "storage", "pictures"),
    [
        ("fp16-weights", "fp32", "fp16", 4),
        ("int8", "int8", "int8", 2),  # the other two are for calibration
    ],
)
def test_reduced_precision_is_saved_beside_the_checkpoint(
    precision, arithmetic, storage, pictures, monkeypatch
):
    lenient = parity.Tolerance(mean=9.0, d1=0.0)  # the weights are random
    monkeypatch.setitem(parity.TOLERANCES, precision, lenient)
    assert run("export", exported.checkpoint(), "--precision", precision) == 0
    path = exported.place() / f"small-{precision}.onnx"
    engine = OnnxEngine(path)
    assert (engine.origin["precision"], engine.origin["storage"]) == (arithmetic, storage)
    assert open_model(path, precision=arithmetic).name == path.name
    found = json.loads(engine.origin["parity"])
    assert found["mean"] > 0
    assert found["level_std"] > 0
    assert (found["pictures_from"], found["pictures"]) == ("examples", pictures)
    assert path.stat().st_size < exported.any_size().stat().st_size


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_shipped_model_is_exported_by_name_to_the_current_folder(tmp_path, capsys, monkeypatch):
    shipped.make(tmp_path / "zoo" / "rooms", checkpoint=exported.checkpoint())
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert run("export", "rooms") == 0
    assert f"{here / 'rooms.onnx'}, " in capsys.readouterr().out
    assert OnnxEngine(here / "rooms.onnx").origin["weights"] == "rooms"
    assert run("export", "room") == 2
    assert "did you mean rooms" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ([], "CHECKPOINT"),
        (["{folder}/none"], "none: "),
        (["{folder}/single"], "single: "),  # no checkpoint in it
        (["{folder}/single/a.png"], "a.png: "),
        (["{folder}/room.onnx"], "room.onnx: "),  # exported already
        (["{checkpoint}", "-o", "{folder}/room.pt"], "room.pt: "),
        (["{checkpoint}", "--size", "big"], "'big'"),
        (["{checkpoint}", "-o", "{folder}/x.onnx", "--pictures", "{folder}/empty"], "empty: "),
        (
            ["{checkpoint}", "--pictures", "{folder}/single", "--precision", "int8"],
            "single: ",  # one picture
        ),
    ],
)
def test_a_bad_call_is_one_line_and_writes_nothing(arguments, subject, tmp_path, refusal):
    for name in ("empty", "single"):
        (tmp_path / name).mkdir()
    Image.new("RGB", (8, 6)).save(tmp_path / "single" / "a.png")
    (tmp_path / "empty" / "note.txt").write_text("a file, not a folder")
    onnx_files.depth_of_brightness(tmp_path / "room.onnx")
    before = sorted(tmp_path.rglob("*"))
    places = {"folder": tmp_path, "checkpoint": exported.checkpoint()}
    assert subject in refusal("export", *(each.format(**places) for each in arguments))
    assert sorted(tmp_path.rglob("*")) == before


def test_an_encoder_that_cannot_be_traced_is_named(tmp_path, capsys, monkeypatch):
    def refuse(self, image, output_size, *sizes):
        raise ValueError("a branch on data\nand a page of advice")

    monkeypatch.setattr(tracing.BytesToMetres, "forward", refuse)
    assert run("export", exported.checkpoint(), "-o", tmp_path / "x.onnx") == 2
    printed = capsys.readouterr().err
    assert "encoder timm:test_efficientnet" in printed
    assert "--size" in printed
    assert list(tmp_path.iterdir()) == []
