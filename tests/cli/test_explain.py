"""`idisc explain` on the command line."""

import json
from dataclasses import replace
from functools import cache

import pytest
from PIL import Image
from tests.fakes import explained, exported, onnx_files, pairs, shipped
from tests.fakes.called import run

from idisc.cli import explain
from idisc.explain import grid
from idisc.model.checkpoint import save_checkpoint
from idisc.predict import inputs
from idisc.predict.torch_engine import TorchEngine
from idisc.zoo import cards


@pytest.fixture(autouse=True)
def _small_figures(monkeypatch):
    monkeypatch.setattr(grid, "DPI", 30)  # faster


@cache
def checkpoint(name="tiny", seed=0):
    folder = exported.place() / f"explained_{seed}" / name
    state = explained.network(seed=seed).state_dict()
    origin = {"training_size": [48, 64], "licence": "CC BY-NC 4.0", "non_commercial": True}
    save_checkpoint(folder, pairs.TINY, state, origin)
    return folder


def photo(folder, name, seed=0):
    folder.mkdir(exist_ok=True)
    Image.fromarray(explained.picture(seed, (60, 80))).save(folder / name)
    return folder / name


pytest.importorskip("matplotlib")
PER_PHOTO = ["idrs_level0", "idrs_level1", "idrs_level2", "levels", "similarity"]
PER_PHOTO += ["muting_level0", "muting_level1", "muting_level2", "partition"]


@pytest.mark.slow
def test_photos_become_figures_and_numbers(tmp_path, capsys):
    photo(tmp_path / "in", "a.png")
    out = tmp_path / "out"
    assert run("explain", tmp_path / "in", "-o", out, "--weights", checkpoint()) == 0
    expected = {f"a_{figure}.png" for figure in PER_PHOTO}
    assert {path.name for path in out.iterdir()} == expected | {"idrs.png", "idrs.json"}
    printed = capsys.readouterr()
    terms = "CC BY-NC 4.0; not for commercial use"
    assert printed.err.startswith(f"model tiny, licence {terms}\n")
    assert "training" not in printed.err  # the size needs no note
    lines = printed.out.splitlines()
    assert len(lines) == 2
    written = expected | {"idrs.png", "idrs.json"}
    assert all(str(out / name) in "".join(lines) for name in written)
    record = json.loads((out / "idrs.json").read_text())
    assert [row["name"] for row in record["pictures"]] == ["a"]
    assert (record["format"], record["model"]) == ("idisc/1", "tiny")
    assert record["licence"] == terms
    assert all(inputs.is_result(path) for path in out.glob("*.png"))  # not explained again


def normals_checkpoint(place):
    config = replace(pairs.TINY, task="normals")
    state = explained.normals_network().state_dict()
    save_checkpoint(place / "normals", config, state, {"training_size": [48, 64]})
    return place / "normals"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["depth", "normals"])
def test_idrs_levels_size_and_format_are_selected(tmp_path, capsys, task):
    weights = checkpoint() if task == "depth" else normals_checkpoint(tmp_path)
    picture, out = photo(tmp_path, "a.png"), tmp_path / "out"
    what = ("--idrs", "6,2", "--level", 0, "--mute", "0:3", "--mute", "2:1,4", "--format", "pdf")
    call = ("explain", picture, "-o", out, "--weights", weights, *what, "--size", "32x32")
    assert run(*call) == 0
    notes = capsys.readouterr().err
    assert "32x32, 48x64 in training" in notes
    assert "60x80 squeezed" in notes
    names = ["idrs_level0", "levels", "muted", "muting_level0", "partition", "similarity"]
    written = {f"a_{name}.pdf" for name in names} | {"idrs.pdf", "idrs.json"}
    assert {path.name for path in out.iterdir()} == written
    assert (out / "a_levels.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_a_dataset_becomes_a_report_and_panels(tmp_path, capsys):
    data, out = pairs.make(tmp_path / "data", train=1, test=3), tmp_path / "out"
    both = ("--weights", checkpoint(), "--weights", checkpoint(seed=1))
    assert run("explain", "--data", data, "-o", out, *both, "--limit", 2) == 0
    names = {"usage.html", "usage.json", "similarity.png", "panels.png", "worst.png"}
    assert {path.name for path in out.iterdir()} == names
    printed, noted = capsys.readouterr()
    assert "48x64" in noted  # the size of training, as in `idisc evaluate`
    assert "level 2 (stride 4)" in printed
    assert all(f"written: {out / name}" in printed for name in names)
    record = json.loads((out / "usage.json").read_text())
    assert len(record["pictures"]) == 2


def test_networks_are_told_apart_by_their_folders():
    assert explain.name_networks([]) == {"default": None}
    one, other = checkpoint(), checkpoint(seed=1)
    named = explain.name_networks([one, other])
    assert named == {"explained_0/tiny": one, "explained_1/tiny": other}


def test_networks_and_datasets_have_the_same_task(tmp_path, capsys):
    data = pairs.make(tmp_path / "data", train=1, test=1)
    call = ("explain", "--data", data, "-o", tmp_path / "out")
    assert run(*call, "--weights", normals_checkpoint(tmp_path)) == 2
    assert "predicts normals" in capsys.readouterr().err.splitlines()[-1]  # after a note


def test_the_default_is_the_network_beside_the_shipped_export(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "HOME", tmp_path)
    shipped.make(tmp_path / "rooms", checkpoint=checkpoint())
    for model in (None, "rooms"):
        opened = explain.open_predictor(model, "cpu")
        assert opened.model.name == "rooms"
        assert isinstance(opened.engine, TorchEngine)


@pytest.mark.slow
def test_what_fails_is_named_and_the_rest_is_done(tmp_path, capsys):
    good, bad, out = photo(tmp_path / "in", "a.png"), tmp_path / "bad.png", tmp_path / "out"
    bad.write_bytes(b"no picture")
    none = tmp_path / "none.png"
    arguments = ("explain", good, bad, none, "-o", out, "--level", 0)
    assert run(*arguments, "--weights", checkpoint()) == 2
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert "failed: " in printed.err
    assert printed.err.splitlines()[-1].startswith(f"idisc: {none}, {bad}: 2 of 3 ")
    assert (out / "a_levels.png").is_file()


TINY_ONLY = {  # options that fit another network
    ("--idrs", "8"): "IDRs 0 to 7",
    ("--level", "3"): "levels 0 to 2",
    ("--mute", "4:0"): "levels 0 to 2",
    ("--mute", "0:3,99"): "IDRs 0 to 7",
    ("--mute", "0:0,1,2,3,4,5,6,7"): "all 8 IDRs of level 0",
}
FOR_DATA = {("--limit", "3"): "--limit", ("--split", "train"): "--split", ("--dataset", "a"): "--d"}
MALFORMED = {("--idrs", "3;4"): "--idrs 3;4"}
MALFORMED |= {("--mute", text): f"--mute {text}" for text in ("3", "²:3", "0:x", "0:3:4")}


def test_a_bad_call_is_one_line_that_names_the_option(tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(cards, "HOME", tmp_path)  # without shipped models
    edd = tmp_path / "edd"
    config = replace(pairs.TINY, discretization="edd")
    save_checkpoint(edd, config, explained.network(config).state_dict(), {})
    exported = onnx_files.depth_of_brightness(tmp_path / "room.onnx")
    picture, tiny = photo(tmp_path / "in", "a.png"), ("--weights", checkpoint())
    calls = {
        (): "--data",
        (picture, "--data", tmp_path): "--data",
        (picture,): "no model ships",
        (tmp_path / "x.png",): "x.png: no such file",
        (picture, "--weights", tmp_path / "none"): "none: ",
        (picture, "--weights", exported): "room.onnx: an exported file",
        (picture, "--weights", edd): "discretization=edd",
        (picture, *tiny, "--weights", edd): "--weights",
        ("--data", tmp_path, "--idrs", "3"): "--idrs",
        **{(picture, *how): told for how, told in (FOR_DATA | MALFORMED).items()},
        **{(picture, *tiny, *how): told for how, told in TINY_ONLY.items()},
    }
    for arguments, named in calls.items():
        assert named in refusal("explain", *arguments, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()
