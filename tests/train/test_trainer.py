"""Training runs: learning, stopping, resuming bit for bit, missing files and a full disk."""

from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.refusals import refused
from tests.fakes.training import ALONE, losses, same, saved_step, start, stop_after

from idisc import configs, files, load_network
from idisc.configs.schema import AugmentConfig, Recipe
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import Options
from idisc.errors import CheckpointError, IdiscError, InputError
from idisc.train import launch, log, state

NO_CHANGE = AugmentConfig(flip=0, colour=0, gamma=0, rotation_deg=0, zoom=0, translation=0)


def test_a_network_can_overfit_one_batch(tmp_path):
    recipe = pairs.recipe(
        iterations=80, lr=3e-3, lr_encoder=3e-3, weight_decay=0.0, validate_every=80, save_every=80
    )
    recipe = replace(recipe, data=replace(recipe.data, augment=NO_CHANGE))
    small = pairs.make(tmp_path / "data", train=2, test=1)
    start(recipe, small, tmp_path / "run").train()
    first, *_ = found = losses(tmp_path / "run")
    assert first > 2
    assert min(found[-10:]) < first / 3


def test_a_run_writes_everything_into_its_folder(finished):
    out = finished
    record = files.read_json(out / "config.json")
    assert configs.from_json(Recipe, record["recipe"], "record") == pairs.recipe()
    steps = log.read(out, "step")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert {"loss", "lr", "images_per_s", "eta_s", "memory_gb", "wait_share"} <= set(steps[0])
    assert [row["step"] for row in log.read(out, "validation")] == [3, 6]
    assert list((out / "events").iterdir())
    pictures = [path.name for path in sorted((out / "pictures").iterdir())]
    assert pictures == ["step_000003.jpg", "step_000006.jpg"]
    for name in ("last", "best"):
        assert load_network(out / name).config == pairs.TINY
    assert not list(out.rglob("*.part"))


def test_a_resumed_run_equals_an_uninterrupted_one(data, tmp_path):
    recipe = pairs.recipe(ema=0.9, accumulate=2, freeze=("encoder",))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    start(recipe, data, whole).train()
    assert not stop_after(start(recipe, data, parts), 3).finished
    with (parts / "log.jsonl").open("a") as file:  # lines of a process killed after the checkpoint
        file.write('{"kind": "step", "step": 4, "loss": 0}\n{"kind": "step", "st')
    summary = launch.resume(parts, ALONE).train()
    assert (summary.finished, summary.step) == (True, 6)
    assert 0 < summary.best["abs_rel"] <= summary.metrics["abs_rel"]
    assert losses(whole) == losses(parts)
    assert log.read(whole, "validation") == log.read(parts, "validation")
    assert same(state.read_training(whole), state.read_training(parts))


def test_a_training_picture_that_vanishes_stops_the_run_and_nothing_is_lost(tmp_path):
    data = pairs.make(tmp_path / "data")
    run = start(pairs.recipe(iterations=50, save_every=50), data, tmp_path / "run")

    def on_step(step):
        if step.step == 3:
            for path in (data / "train" / "images").iterdir():
                path.unlink()

    with pytest.raises(IdiscError) as caught:
        run.train(on_step)
    assert Path(caught.value.subject).parent == data / "train" / "images"
    assert saved_step(tmp_path / "run") == log.read(tmp_path / "run", "step")[-1]["step"] == 3


def test_a_validation_that_failed_is_repeated_by_resuming(tmp_path):
    recipe = pairs.recipe(iterations=4, validate_every=2, save_every=4)
    data = pairs.make(tmp_path / "data")
    start(recipe, data, tmp_path / "whole").train()
    picture = data / "test" / "images" / "1.png"
    run = start(recipe, data, tmp_path / "run")
    picture.rename(tmp_path / "1.png")
    with refused(InputError, picture):
        run.train()
    assert saved_step(tmp_path / "run") == 2
    (tmp_path / "1.png").rename(picture)
    launch.resume(tmp_path / "run", ALONE).train()
    assert log.read(tmp_path / "run", "validation") == log.read(tmp_path / "whole", "validation")
    assert same(state.read_training(tmp_path / "run"), state.read_training(tmp_path / "whole"))


@pytest.mark.parametrize("owner", [torch, log.Log])
def test_a_full_disk_stops_the_run_and_nothing_is_lost(data, tmp_path, monkeypatch, owner):
    run = start(pairs.recipe(), data, tmp_path / "run")

    def full(*_):
        raise OSError(28, "No space left on device")

    def on_step(step):
        if step.step == 3:
            monkeypatch.setattr(owner, "save" if owner is torch else "write", full)

    with pytest.raises(CheckpointError) as caught:
        run.train(on_step)
    assert "No space left" in caught.value.reason
    assert "make room and resume" in caught.value.remedy
    monkeypatch.undo()
    assert launch.resume(tmp_path / "run", ALONE).train().finished


def test_options_of_the_computation_hardly_change_the_loss(data, tmp_path, monkeypatch):
    # Trace, but do not spend minutes on generating machine code.
    traced = partialmethod(torch.nn.Module.compile, backend="aot_eager")
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    for name, changes in {
        "plain": {},
        "bf16": {"precision": "bf16"},
        "channels_last": {"channels_last": True},
        "recomputed": {"checkpoint_gradients": True},
        "compiled": {"compile": True, "checkpoint_gradients": True},
    }.items():
        start(pairs.recipe(iterations=2, **changes), data, tmp_path / name).train()
        close = 1e-3 if name in ("recomputed", "compiled") else 2e-2
        assert losses(tmp_path / name) == pytest.approx(losses(tmp_path / "plain"), rel=close)
        names = [list(state.read_training(tmp_path / n)["network"]) for n in ("plain", name)]
        assert names[0] == names[1]


def test_a_network_for_normals_learns_by_the_angular_loss(tmp_path):
    options = Options(count=20, size=pairs.SIZE)
    prepare("synthetic_normals", None, tmp_path / "data", options)
    made = pairs.recipe(iterations=20, loss_weight=1.0, lr=1e-3, lr_encoder=1e-3)
    made = replace(
        made,
        model=replace(made.model, task="normals"),
        data=replace(made.data, train="synthetic_normals", test="synthetic_normals"),
    )
    summary = start(made, tmp_path / "data", tmp_path / "run").train()
    first, *_, last = log.read(tmp_path / "run", "validation")
    assert last["mean_deg"] < first["mean_deg"]
    assert summary.best["mean_deg"] <= summary.metrics["mean_deg"]
