"""`idisc explain` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from PIL import Image
from tests.fakes import explained, exported, onnx_files, pairs, shipped
from tests.fakes.called import run

from idisc.cli import explain
from idisc.model.checkpoint import save_checkpoint
from idisc.predict.torch_engine import TorchEngine
from idisc.zoo import cards


@cache
def checkpoint(name: str = "tiny", seed: int = 0) -> Path:
    folder = exported.place() / f"explained_{seed}" / name
    state = explained.network(seed=seed).state_dict()
    save_checkpoint(folder, pairs.TINY, state, {"training_size": [48, 64], "data": "nothing"})
    return folder


def photo(folder: Path, name: str, seed: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    Image.fromarray(explained.picture(seed, (60, 80))).save(folder / name)
    return folder / name


PER_PHOTO = ["idrs_level0", "idrs_level1", "idrs_level2", "levels", "likeness"]
PER_PHOTO += ["muting_level0", "muting_level1", "muting_level2", "partition"]


def test_photos_become_figures_and_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo(tmp_path / "in", "a.png"), photo(tmp_path / "in", "b.png", 1)
    out = tmp_path / "out"
    assert run("explain", tmp_path / "in", "-o", out, "--weights", checkpoint()) == 0
    expected = {f"{name}_{figure}.png" for name in "ab" for figure in PER_PHOTO}
    assert {path.name for path in out.iterdir()} == expected | {"idrs.png", "idrs.json"}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "IDRs in effect at levels 0 to 2 -> " in lines[0]
    assert lines[2] == f"all: {out / 'idrs.png'}, {out / 'idrs.json'}"
    assert all(str(out / name) in "".join(lines) for name in expected)
    record = json.loads((out / "idrs.json").read_text())
    assert [row["name"] for row in record["pictures"]] == ["a", "b"]
    assert (record["format"], record["model"]) == ("idisc/1", "tiny")


def test_results_of_last_time_are_not_explained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo(tmp_path, "a.png")
    for _ in range(2):
        arguments = ("explain", tmp_path, "-o", tmp_path, "--weights", checkpoint(), "--level", "1")
        assert run(*arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    names = {path.name for path in tmp_path.iterdir()}
    assert {"a_idrs_level1.png", "a_muting_level1.png"} <= names
    assert not any("level0" in name or "level2" in name for name in names)


def test_some_idrs_are_shown_and_some_muted(tmp_path: Path) -> None:
    picture, out = photo(tmp_path / "in", "a.png"), tmp_path / "out"
    what = ("--idrs", "6,2", "--level", 0, "--mute", "0:3", "--mute", "2:1,4")
    assert run("explain", picture, "-o", out, "--weights", checkpoint(), *what) == 0
    assert (out / "a_muted.png").is_file()
    with Image.open(out / "a_muting_level0.png") as sheet, Image.open(out / "idrs.png") as grid:
        assert sheet.width == 1400
        assert grid.height > grid.width / 2  # pictures and two rows


def test_pdf_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture, out = photo(tmp_path / "in", "a.png"), tmp_path / "out"
    what = ("--weights", checkpoint(), "--format", "pdf", "--level", "0")
    assert run("explain", picture, "-o", out, *what) == 0
    assert (out / "a_levels.pdf").read_bytes().startswith(b"%PDF")
    assert not list(out.glob("*.png"))


def test_a_dataset_becomes_a_report_and_panels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = pairs.make(tmp_path / "data", train=1, test=3), tmp_path / "out"
    both = ("--weights", checkpoint(), "--weights", checkpoint(seed=1))
    assert run("explain", "--data", data, "-o", out, *both, "--limit", 2) == 0
    names = {"usage.html", "usage.json", "likeness.png", "panels.png", "worst.png"}
    assert {path.name for path in out.iterdir()} == names
    printed, noted = capsys.readouterr()
    assert "sees pictures at 48x64, as in training" in noted  # as when it is evaluated
    assert "2 pictures" in printed
    assert "level 2 (stride 4), dealt out by AFP" in printed
    assert all(f"written: {out / name}" in printed for name in names)
    record = json.loads((out / "usage.json").read_text())
    assert len(record["pictures"]) == 2
    assert "usage of IDRs" in (out / "usage.html").read_text("utf-8")


def test_networks_are_told_apart_by_their_folders() -> None:
    assert explain.name_networks([]) == {"default": None}
    one, other = checkpoint(), checkpoint(seed=1)
    named = explain.name_networks([one, other])
    assert named == {"explained_0/tiny": one, "explained_1/tiny": other}


def test_a_folder_without_a_dataset_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1, "empty": 0}\n')
    assert run("explain", "--data", tmp_path, "-o", tmp_path / "out") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no dataset: neither manifest.jsonl nor pairs (log.jsonl lists none)" in line


def test_a_dataset_of_normals_needs_a_network_for_normals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "normals"
    config = replace(pairs.TINY, task="normals")
    save_checkpoint(folder, config, explained.normals_network().state_dict(), {})
    data = pairs.make(tmp_path / "data", train=1, test=1)
    assert run("explain", "--data", data, "-o", tmp_path / "out", "--weights", folder) == 2
    told = capsys.readouterr().err
    assert told.endswith("idisc: normals: predicts normals, folder holds depth\n")


def test_normals_of_a_photo_are_explained_in_degrees(tmp_path: Path) -> None:
    folder, out = tmp_path / "normals", tmp_path / "out"
    config = replace(pairs.TINY, task="normals")
    origin = {"training_size": [48, 64]}
    save_checkpoint(folder, config, explained.normals_network().state_dict(), origin)
    picture = photo(tmp_path / "in", "a.png")
    options = ["--weights", folder, "--level", 0, "--idrs", "1,2", "--mute", "0:3"]
    assert run("explain", picture, "-o", out, *options) == 0
    names = {path.stem.removeprefix("a_") for path in out.glob("a_*")}
    assert names == {"idrs_level0", "partition", "likeness", "levels", "muting_level0", "muted"}


def test_the_default_is_the_network_beside_the_shipped_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "HOME", tmp_path)
    shipped.make(tmp_path / "rooms", checkpoint=checkpoint())
    for model in (None, "rooms"):
        opened = explain.open_predictor(model, "cpu")
        assert opened.facts.name == "rooms"
        assert isinstance(opened.engine, TorchEngine)


def test_a_size_far_from_training_and_a_squeezed_picture_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, out = photo(tmp_path / "in", "a.png"), tmp_path / "out"
    arguments = ("explain", picture, "-o", out, "--weights", checkpoint(), "--level", 0)
    assert run(*arguments, "--size", "32x32") == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("tiny: size 32x32, 48x64 in training, which moves metres" in line for line in lines)
    assert any("sees 60x80 squeezed into 32x32" in line for line in lines)
    assert run(*arguments, "--size", "48x64") == 0
    assert "training" not in capsys.readouterr().err


def test_what_fails_is_named_and_the_rest_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, out = photo(tmp_path / "in", "a.png"), tmp_path / "bad.png", tmp_path / "out"
    bad.write_bytes(b"no picture")
    none = tmp_path / "none.png"
    arguments = ("explain", good, bad, none, "-o", out, "--level", 0)
    assert run(*arguments, "--weights", checkpoint()) == 2
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert "failed: " in printed.err
    assert printed.err.splitlines()[-1] == f"idisc: 2 of 3 failed: {none}, {bad}"
    assert (out / "a_levels.png").is_file()


def test_bad_calls_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "HOME", tmp_path)  # no model ships
    picture, tiny = photo(tmp_path / "in", "a.png"), checkpoint()
    edd = tmp_path / "edd"
    config = replace(pairs.TINY, discretization="edd")
    save_checkpoint(edd, config, explained.network(config).state_dict(), {})
    room = onnx_files.depth_of_brightness(tmp_path / "room.onnx")
    out = ("-o", tmp_path / "out")
    calls = {
        ("explain", *out): "name pictures, or a dataset with --data",
        ("explain", picture, "--data", tmp_path, *out): "name pictures, or a dataset with --data",
        ("explain", picture): "Missing option '-o'",
        ("explain", picture, *out): "no model ships with this version",
        ("explain", tmp_path / "x.png", *out): "x.png: no such file",
        ("explain", picture, *out, "--weights", tmp_path / "none"): "none: not there",
        (
            *("explain", picture, *out, "--weights", room),
        ): "room.onnx: an exported file gives depth and no more; name the checkpoint folder",
        ("explain", picture, *out, "--weights", edd): "discretization=edd has no IDRs",
        ("explain", picture, *out, "--weights", tiny, "--weights", edd): "are for --data",
        (
            "explain",
            "--data",
            tmp_path,
            *out,
            "--idrs",
            "3",
        ): "--idrs is for pictures, not for --data; leave it out",
        ("explain", picture, *out, "--limit", "3"): "--limit is for --data; leave it out",
        ("explain", picture, *out, "--split", "train"): "--split is for --data; leave it out",
        ("explain", picture, *out, "--dataset", "nyu"): "--dataset is for --data; leave it out",
        ("explain", picture, *out, "--idrs", "3;4"): "--idrs 3;4: write numbers of IDRs as 3,7,12",
        ("explain", picture, *out, "--mute", "3"): "--mute 3: write it as LEVEL:IDR",
        ("explain", picture, *out, "--mute", "²:3"): "--mute ²:3: write it as LEVEL:IDR",
        ("explain", picture, *out, "--mute", "0:x"): "--mute 0:x: write it as LEVEL:IDR",
        ("explain", picture, *out, "--mute", "0:3:4"): "--mute 0:3:4: write it as LEVEL:IDR",
        ("explain", picture, *out, "--weights", tiny, "--idrs", "8"): "has IDRs 0 to 7",
        ("explain", picture, *out, "--weights", tiny, "--level", "3"): "has levels 0 to 2",
        (
            *("explain", picture, *out, "--weights", tiny, "--mute", "4:0"),
        ): "--mute 4:0: this network has levels 0 to 2",
        (
            *("explain", picture, *out, "--weights", tiny, "--mute", "0:3,99"),
        ): "--mute 0:3,99: this network has IDRs 0 to 7",
        (
            *("explain", picture, *out, "--weights", tiny),
            *("--mute", "0:0,1,2,3,4,5,6,7"),
        ): "--mute: all 8 IDRs of level 0; one must be left",
    }
    for arguments, message in calls.items():
        assert run(*arguments) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert len(printed.err.splitlines()) == 1
        assert printed.out == ""
    assert not (tmp_path / "out").exists()
