"""Runs: they learn, stop, resume bit for bit, and lose nothing if a file or the disk fails."""

from __future__ import annotations

from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE, losses, same, saved_step, start, stop_after

from idisc import configs, files, load_network
from idisc.configs.schema import AugmentConfig, Recipe
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import Options
from idisc.errors import CheckpointError, IdiscError
from idisc.train import launch, log, state
from idisc.train.trainer import Step

NO_CHANGE = AugmentConfig(flip=0, colour=0, gamma=0, rotation_deg=0, zoom=0, translation=0)


def test_a_network_can_overfit_one_batch(tmp_path: Path) -> None:
    recipe = pairs.recipe(
        iterations=150, batch_size=2, lr=3e-3, lr_encoder=3e-3, weight_decay=0.0, validate_every=150
    )
    recipe = replace(recipe, data=replace(recipe.data, augment=NO_CHANGE))
    small = pairs.make(tmp_path / "data", train=2, test=1)
    start(recipe, small, tmp_path / "run").train()
    assert losses(tmp_path / "run")[0] > 2
    assert min(losses(tmp_path / "run")[-10:]) < 0.5


def test_a_run_writes_everything_into_its_folder(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    summary = start(pairs.recipe(), data, out).train()
    assert summary.finished
    assert summary.step == 6
    assert 0 < summary.best["abs_rel"] <= summary.metrics["abs_rel"]
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


@pytest.mark.parametrize("changes", [{}, {"ema": 0.9, "accumulate": 2, "freeze": ("encoder",)}])
def test_a_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    recipe = pairs.recipe(**changes)
    start(recipe, data, tmp_path / "whole").train()
    assert not stop_after(start(recipe, data, tmp_path / "parts"), 3).finished
    launch.resume(tmp_path / "parts", ALONE).train()
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")
    assert log.read(tmp_path / "whole", "validation") == log.read(tmp_path / "parts", "validation")
    assert same(state.read_training(tmp_path / "whole"), state.read_training(tmp_path / "parts"))


def test_lines_of_the_log_after_the_checkpoint_are_removed(data: Path, tmp_path: Path) -> None:
    recipe = pairs.recipe(save_every=2)
    start(recipe, data, tmp_path / "run").train()
    whole = losses(tmp_path / "run")
    stop_after(start(recipe, data, tmp_path / "other"), 2)
    earlier = (tmp_path / "other" / "last" / "training.pt").read_bytes()
    (tmp_path / "run" / "last" / "training.pt").write_bytes(earlier)
    with (tmp_path / "run" / "log.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # the line of a killed process
    launch.resume(tmp_path / "run", ALONE).train()
    assert losses(tmp_path / "run") == whole


def test_a_training_picture_that_vanishes_stops_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data")
    run = start(pairs.recipe(iterations=50, save_every=50), data, tmp_path / "run")

    def on_step(step: Step) -> None:
        if step.step == 3:
            for path in (data / "train" / "images").iterdir():
                path.unlink()

    with pytest.raises(IdiscError) as caught:
        run.train(on_step)
    assert Path(caught.value.subject).parent == data / "train" / "images"
    assert saved_step(tmp_path / "run") == log.read(tmp_path / "run", "step")[-1]["step"] == 3


def test_a_validation_that_failed_is_repeated_by_resuming(tmp_path: Path) -> None:
    recipe = pairs.recipe(iterations=4, validate_every=2, save_every=4)
    data = pairs.make(tmp_path / "data")
    start(recipe, data, tmp_path / "whole").train()
    picture = data / "test" / "images" / "1.png"
    run = start(recipe, data, tmp_path / "run")
    picture.rename(tmp_path / "1.png")
    with pytest.raises(IdiscError) as caught:
        run.train()
    assert caught.value.subject == str(picture)
    assert saved_step(tmp_path / "run") == 2
    (tmp_path / "1.png").rename(picture)
    launch.resume(tmp_path / "run", ALONE).train()
    assert log.read(tmp_path / "run", "validation") == log.read(tmp_path / "whole", "validation")
    assert same(state.read_training(tmp_path / "run"), state.read_training(tmp_path / "whole"))


@pytest.mark.parametrize("owner", [torch, log.Log])
def test_a_full_disk_stops_the_run_and_nothing_is_lost(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any
) -> None:
    run = start(pairs.recipe(), data, tmp_path / "run")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def on_step(step: Step) -> None:
        if step.step == 3:
            monkeypatch.setattr(owner, "save" if owner is torch else "write", full)

    with pytest.raises(CheckpointError) as caught:
        run.train(on_step)
    assert "No space left" in caught.value.reason
    assert "make room and resume" in caught.value.remedy
    monkeypatch.undo()
    assert launch.resume(tmp_path / "run", ALONE).train().finished


@pytest.mark.parametrize(
    "changes",
    [{"precision": "bf16"}, {"channels_last": True}, {"checkpoint_gradients": True}],
)
def test_options_of_the_computation_hardly_change_the_loss(
    data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    start(pairs.recipe(iterations=2), data, tmp_path / "plain").train()
    start(pairs.recipe(iterations=2, **changes), data, tmp_path / "other").train()
    assert losses(tmp_path / "other") == pytest.approx(losses(tmp_path / "plain"), rel=0.02)


@pytest.mark.parametrize("changes", [{"freeze": ("encoder",)}, {"checkpoint_gradients": True}])
def test_a_compiled_encoder_gives_the_same_losses_under_the_same_names(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    # Trace, but do not spend minutes on generating machine code.
    traced = partialmethod(torch.nn.Module.compile, backend="aot_eager")
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    for out, compiled in ((tmp_path / "plain", False), (tmp_path / "other", True)):
        start(pairs.recipe(iterations=2, compile=compiled, **changes), data, out).train()
    assert losses(tmp_path / "other") == pytest.approx(losses(tmp_path / "plain"), rel=1e-3)
    plain, other = (state.read_training(tmp_path / name) for name in ("plain", "other"))
    assert list(other["network"]) == list(plain["network"])


def test_normals_are_learnt_by_the_angular_loss(tmp_path: Path) -> None:
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
