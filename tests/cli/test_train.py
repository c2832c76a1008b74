"""The command line of `idisc train`: options, messages, exit codes."""

import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fakes import exported, pairs, shipped
from tests.fakes.called import run

from idisc import load_network
from idisc.cli import train
from idisc.data import catalog
from idisc.model.network import IDisc
from idisc.train.distributed import World
from idisc.train.guard import Guard
from idisc.train.trainer import Summary
from idisc.zoo import cards


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return pairs.make(tmp_path_factory.mktemp("data"))


@pytest.mark.slow
def test_it_ends_with_a_table_beside_the_paper(data, tmp_path, capsys):
    assert run(*pairs.command(data, tmp_path / "run")) == 0
    said = capsys.readouterr()
    assert "nyu_swint on your own pictures, 2 pictures" in said.out
    assert "the paper" in said.out
    assert "0.894" in said.out
    assert f"best checkpoint: {tmp_path / 'run' / 'best'}" in said.out
    load_network(tmp_path / "run" / "best")
    assert run("train", "--resume", tmp_path / "run") == 0  # finished: reports again
    assert "best checkpoint" in capsys.readouterr().out


def test_several_folders_are_mixed(data, tmp_path):
    other = pairs.make(tmp_path / "other")
    more = ("--data", other, "--set", "data.mix=3,1", "--set", "train.iterations=1")
    assert run(*pairs.command(f"folder={data}", tmp_path / "run", *more)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "either RECIPE, --data and --out, or --resume RUN"),
        (["train", "nyu_swint", "--out", "x"], "either RECIPE, --data and --out"),
        (["train", "--resume", "nowhere"], "nowhere"),
        (["train", "--resume", "x", "--set", "a=b"], "--resume"),
        (["train", "nyu_swint", "--data", "gone", "--out", "x"], "--data gone"),
        (["train", "nyu_swint", "--data", "kiti=gone", "--out", "x"], "kitti"),
        (["train", "nyu_swint", "--data", ".", "--out", "x", "--device", "cuda:7"], "cuda:7"),
        (["train", "nyu_swint", "--data", ".", "--out", "x", "--weights", "."], "checkpoint"),
        ([*pairs.command(".", "x"), "--weights", "."], "--set model"),
    ],
)
def test_a_wrong_call_is_one_line(arguments, message, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(*arguments)
    assert not (tmp_path / "x").exists()


def test_notes_mention_random_weights_held_out_pictures_and_skipped_batches(tmp_path, capsys):
    data = pairs.make(tmp_path / "data", train=3)
    Image.fromarray(np.zeros(pairs.SIZE, np.uint16)).save(data / "train" / "depth" / "1.png")
    changes = {"train.batch_size": 1, "data.holdout": 0.3, "train.validate_images": 1}
    assert run(*pairs.command(data, tmp_path / "run", **changes)) == 0
    said = capsys.readouterr()
    assert "--weights imagenet" in said.err
    assert "1 picture, whole scenes, held out; 2 for training" in said.err
    assert "batches without a valid pixel: 2" in said.err
    assert "your own pictures, 1 picture\n" in said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_step_leaves_nothing_behind(
    data, tmp_path, monkeypatch, capsys, number
):
    monkeypatch.setattr(IDisc, "extract", lambda *_: signal.raise_signal(number))
    frozen = {"train.freeze": "encoder", "train.cache_features": tmp_path / "features"}
    assert run(*pairs.command(data, tmp_path / "run", **frozen)) == 128 + number
    assert "nothing is trained yet" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def report(size, **summary):
    """Report the end of a run on several processes."""
    run = SimpleNamespace(
        world=World(torch.device("cpu"), size=size),
        out=Path("run"),
        recipe=SimpleNamespace(name="indoor"),
        testing=SimpleNamespace(spec=catalog.FOLDER),
    )
    train.report(run, Summary(step=30, pictures=2, guard=Guard(1), **summary))


def test_several_processes_are_resumed_as_several(capsys):
    report(2, finished=False, metrics={}, best={}, start={})
    said = capsys.readouterr().out
    assert "resume with: torchrun as before, with -m idisc train --resume run" in said


def test_fine_tuning_ends_with_a_table_of_before_and_after(capsys):
    metrics, best = {"abs_rel": 0.15}, {"abs_rel": 0.125, "step": 20}
    report(1, finished=True, metrics=metrics, best=best, start={"abs_rel": 0.25})
    rows = [line.split()[-1] for line in capsys.readouterr().out.splitlines()[4:7]]
    assert rows == ["0.250", "0.125", "-0.125"]


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """The checkpoint of the only model that ships."""
    known = exported.save_network(tmp_path / "known", pairs.TINY)
    shipped.make(tmp_path / "zoo" / "rooms", checkpoint=known)
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")
    return known


def test_a_model_that_ships_is_named_and_trained_on(data, tmp_path, rooms):
    changes = ("train.iterations=1", "train.batch_size=2", "data.size=48x64")
    flags = [part for change in changes for part in ("--set", change)]
    call = ("train", "nyu_swint", "--weights", "rooms", "--data", data, "--workers", 0)
    assert run(*call, "--out", tmp_path / "run", *flags) == 0
    before, after = (load_network(path).state_dict() for path in (rooms, tmp_path / "run" / "best"))
    for name, value in before.items():
        if name.startswith("isd."):  # no running statistics
            assert torch.allclose(after[name], value, atol=0.001), name
