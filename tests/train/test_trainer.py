"""Runs: they learn, stop, go on bit for bit, and lose nothing when something is amiss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.fakes import pairs
from tests.fakes.training import ALONE, losses, same, saved_step, spoil, start, stopped_after

from idisc import config, files, load_network
from idisc.data.prepare.runner import prepare
from idisc.data.prepare.synthetic import Options
from idisc.errors import CheckpointError, DataError, InputError
from idisc.settings import AugmentConfig, Recipe
from idisc.train import launch, log, state

NO_CHANGE = AugmentConfig(flip=0, colour=0, gamma=0, rotation_deg=0, zoom=0, translation=0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pairs.make(tmp_path_factory.mktemp("data"))


def test_one_batch_is_learnt_by_heart(tmp_path: Path) -> None:
    recipe = pairs.recipe(
        iterations=150, batch_size=2, lr=3e-3, lr_encoder=3e-3, weight_decay=0.0, validate_every=150
    )
    recipe = replace(recipe, data=replace(recipe.data, augment=NO_CHANGE))
    small = pairs.make(tmp_path / "data", train=2, test=1)
    start(recipe, small, tmp_path / "run").train()
    assert losses(tmp_path / "run")[0] > 2
    assert min(losses(tmp_path / "run")[-10:]) < 0.5


def test_a_run_leaves_everything_in_its_folder(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    summary = start(pairs.recipe(), data, out).train()
    assert summary.finished
    assert summary.step == 6
    assert 0 < summary.best["abs_rel"] <= summary.metrics["abs_rel"]
    record = files.read_json(out / "config.json")
    assert config.from_json(Recipe, record["recipe"], "record") == pairs.recipe()
    steps = log.read(out, "step")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert {"loss", "lr", "images_per_s", "eta_s", "memory_gb", "wait_share"} <= set(steps[0])
    assert [row["step"] for row in log.read(out, "validation")] == [3, 6]
    assert list((out / "events").iterdir())
    assert [path.name for path in sorted((out / "pictures").iterdir())] == [
        "step_000003.jpg",
        "step_000006.jpg",
    ]
    for name in ("last", "best"):
        assert load_network(out / name).config == pairs.TINY
    assert not list(out.rglob("*.part"))


@pytest.mark.parametrize("changes", [{}, {"ema": 0.9, "accumulate": 2, "freeze": ("encoder",)}])
def test_a_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    recipe = pairs.recipe(**changes)
    start(recipe, data, tmp_path / "whole").train()
    first = stopped_after(start(recipe, data, tmp_path / "parts"), 3)
    assert not first.finished
    launch.resume(tmp_path / "parts", ALONE).train()
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")
    assert log.read(tmp_path / "whole", "validation") == log.read(tmp_path / "parts", "validation")
    assert same(state.read_training(tmp_path / "whole"), state.read_training(tmp_path / "parts"))


def test_a_checkpoint_older_than_the_log_cuts_the_log(data: Path, tmp_path: Path) -> None:
    recipe = pairs.recipe(save_every=2)
    run = start(recipe, data, tmp_path / "run")
    run.train()
    whole = losses(tmp_path / "run")
    other = start(recipe, data, tmp_path / "other")
    stopped_after(other, 2)
    (tmp_path / "run" / "last" / "training.pt").write_bytes(
        (tmp_path / "other" / "last" / "training.pt").read_bytes()
    )
    with (tmp_path / "run" / "log.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # a killed process was writing
    launch.resume(tmp_path / "run", ALONE).train()
    assert losses(tmp_path / "run") == whole


def test_what_cannot_be_resumed_says_why(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not the folder of a run"):
        launch.resume(tmp_path, ALONE)
    out = tmp_path / "run"
    own = pairs.make(tmp_path / "data")
    stopped_after(start(pairs.recipe(), own, out), 1)
    (own / "train" / "images" / "0.png").rename(own / "train" / "images" / "9.png")
    (own / "train" / "depth" / "0.png").rename(own / "train" / "depth" / "9.png")
    with pytest.raises(DataError, match="its data have changed"):
        launch.resume(out, ALONE)


def test_a_run_does_not_start_where_something_is(data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        start(pairs.recipe(), data, tmp_path / "run")


def test_fine_tuning_starts_from_any_checkpoint(data: Path, tmp_path: Path) -> None:
    start(pairs.recipe(), data, tmp_path / "first").train()
    tuned = start(
        pairs.recipe(iterations=1),
        data,
        tmp_path / "tuned",
        weights=str(tmp_path / "first" / "best"),
    )
    theirs = load_network(tmp_path / "first" / "best").state_dict()
    assert same(dict(tuned.stepper.network.state_dict()), dict(theirs))


def test_a_step_that_is_not_finite_is_skipped_and_counted(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(), data, tmp_path / "run")
    spoil(run, {2})
    parameters: dict[int, list[torch.Tensor]] = {}

    def tell(step: Any) -> None:
        parameters[step.step] = [parameter.detach().clone() for parameter in run.stepper.parameters]

    assert run.train(tell).finished
    assert same(parameters[2], parameters[3])  # the third step, number 2 from 0, did nothing
    assert not same(parameters[3], parameters[4])
    assert (run.stepper.guard.skipped, run.stepper.guard.rollbacks) == (1, 0)


def test_several_in_a_row_roll_back_to_the_last_checkpoint(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(patience=2), data, tmp_path / "run")
    spoil(run, {3, 4}, until_rolled_back=True)
    steps: list[int] = []
    assert run.train(lambda step: steps.append(step.step)).finished
    assert steps == [1, 2, 3, 4, 3, 4, 5, 6]  # the fifth failed, too: back to step 2
    assert run.stepper.guard.rollbacks == 1
    assert run.stepper.guard.slower == 0.5
    kept = np.load(next((tmp_path / "run" / "failed").iterdir()))
    assert kept["image"].shape == (2, 3, *pairs.SIZE)
    assert len(kept["names"]) == 2


def test_endless_roll_backs_end_with_the_name_of_a_picture(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(patience=1), data, tmp_path / "run")
    spoil(run, set(range(100)))
    with pytest.raises(DataError, match=r"images/\d\.png: loss or gradient not finite again"):
        run.train()


def test_batches_without_a_valid_pixel_are_skipped(tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data", train=3)
    for name in ("0.png", "1.png"):
        Image.fromarray(np.zeros(pairs.SIZE, np.uint16)).save(data / "train" / "depth" / name)
    out = tmp_path / "run"
    summary = start(pairs.recipe(iterations=3, batch_size=1), data, out).train()
    assert summary.trouble == "2 batches without a valid pixel"
    assert losses(out).count(None) == 2  # JSON has no NaN
    assert log.read(out, "step")[-1]["empty"] == 2


def test_a_file_that_vanishes_is_a_clear_stop_and_nothing_is_lost(tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data")
    run = start(pairs.recipe(iterations=50, save_every=50), data, tmp_path / "run")

    def tell(step: Any) -> None:
        if step.step == 3:
            for path in (data / "train" / "images").iterdir():
                path.unlink()

    with pytest.raises(DataError, match=r"\d\.png: no such file"):
        run.train(tell)
    assert saved_step(tmp_path / "run") == log.read(tmp_path / "run", "step")[-1]["step"] == 3


def test_a_test_picture_that_vanishes_loses_nothing_either(tmp_path: Path) -> None:
    recipe = pairs.recipe(iterations=4, validate_every=2, save_every=4)
    data = pairs.make(tmp_path / "data")
    start(recipe, data, tmp_path / "whole").train()
    picture = data / "test" / "images" / "1.png"
    run = start(recipe, data, tmp_path / "run")
    picture.rename(tmp_path / "1.png")
    with pytest.raises(DataError, match=r"1\.png: no such file"):
        run.train()
    assert saved_step(tmp_path / "run") == 2
    (tmp_path / "1.png").rename(picture)
    launch.resume(tmp_path / "run", ALONE).train()  # the validation that failed is not forgotten
    assert log.read(tmp_path / "run", "validation") == log.read(tmp_path / "whole", "validation")
    assert same(state.read_training(tmp_path / "run"), state.read_training(tmp_path / "whole"))


def test_a_full_disk_is_a_clear_stop_and_nothing_is_lost(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(pairs.recipe(), data, tmp_path / "run")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def tell(step: Any) -> None:
        if step.step == 3:
            monkeypatch.setattr(torch, "save", full)

    with pytest.raises(CheckpointError, match=r"No space left.*make room and resume"):
        run.train(tell)
    monkeypatch.undo()
    assert launch.resume(tmp_path / "run", ALONE).train().finished


@pytest.mark.parametrize(
    "changes",
    [{"precision": "bf16"}, {"channels_last": True}, {"checkpoint_gradients": True}],
)
def test_the_other_ways_to_compute_give_nearly_the_same_loss(
    data: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    start(pairs.recipe(iterations=2), data, tmp_path / "plain").train()
    start(pairs.recipe(iterations=2, **changes), data, tmp_path / "other").train()
    assert losses(tmp_path / "other") == pytest.approx(losses(tmp_path / "plain"), rel=0.02)


@pytest.mark.parametrize("changes", [{"freeze": ("encoder",)}, {"checkpoint_gradients": True}])
def test_a_compiled_encoder_gives_the_same_losses_under_the_same_names(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    # What is traced, without the minutes that a compiler takes for machine code.
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


def test_normals_from_depth_need_a_camera(data: Path, tmp_path: Path) -> None:
    made = pairs.recipe(loss_weight=1.0)
    made = replace(made, model=replace(made.model, task="normals"))
    with pytest.raises(DataError, match="no camera is known"):
        start(made, data, tmp_path / "run")
