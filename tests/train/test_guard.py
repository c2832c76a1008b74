"""Steps that are not finite: skipped, counted, recorded, and rolled back."""

import math

import numpy as np
import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE, losses, same, saved_step, spoil, start, stop_after

from idisc import load_network
from idisc.errors import DataError
from idisc.train import launch, log
from idisc.train.guard import MAX_ROLLBACKS, Guard
from idisc.train.loader import batches


def test_failed_steps_in_a_row_lead_to_a_roll_back():
    guard = Guard(patience=2)
    verdicts = [guard.judge(loss, 1.0) for loss in (math.nan, 1.0, math.inf, math.nan)]
    assert verdicts == ["skip", "step", "skip", "roll back"]
    assert guard.skipped == 3
    guard.roll_back(["a.png"])
    assert (guard.rate_factor, guard.in_a_row) == (0.5, 0)


def test_an_overflow_with_a_gradient_scale_does_not_count_towards_a_roll_back():
    guard = Guard(patience=1)
    assert guard.judge(1.0, math.inf, scale=2.0) == "skip"
    assert guard.judge(1.0, math.inf, scale=1.0) == "roll back"
    assert guard.judge(math.nan, 1.0, scale=2.0) == "roll back"


def test_too_many_roll_backs_name_the_pictures():
    guard = Guard(patience=1, rollbacks=MAX_ROLLBACKS)
    with pytest.raises(DataError) as caught:
        guard.roll_back([f"{n}.png" for n in range(10)])
    assert caught.value.subject.startswith("0.png, 1.png")
    assert caught.value.subject.endswith("and 2 more")
    assert "train.lr" in caught.value.remedy


def test_a_skipped_step_changes_neither_weights_nor_statistics(data, tmp_path):
    run = start(pairs.recipe(), data, tmp_path / "run")
    spoil(run, {2})
    states = {}

    def on_step(step):
        states[step.step] = {n: v.clone() for n, v in run.stepper.network.state_dict().items()}

    guard = run.train(on_step).guard
    assert same(states[2], states[3])  # the third step, number 2 from 0
    assert not same(states[3], states[4])
    assert (guard.skipped, guard.rollbacks) == (1, 0)
    assert losses(tmp_path / "run")[2] is None  # JSON has no NaN


def test_a_roll_back_continues_from_the_last_checkpoint_and_keeps_the_batches(data, tmp_path):
    run = start(pairs.recipe(patience=2, accumulate=2), data, tmp_path / "run")
    spoil(run, {3, 4}, until_rolled_back=True)
    steps = []
    assert run.train(lambda step: steps.append(step.step)).finished
    assert steps == [1, 2, 3, 4, 3, 4, 5, 6]  # the fifth step fails as well: back to step 2
    assert run.stepper.guard.rollbacks == 1
    files = [np.load(path) for path in sorted((tmp_path / "run" / "failed").iterdir())]
    assert [file["image"].shape for file in files] == [(2, 3, *pairs.SIZE)] * 2
    (row,) = log.read(tmp_path / "run", "rollback")
    assert row["pictures"] == [name for file in files for name in file["names"].tolist()]
    assert (row["after"], row["step"]) == (4, 2)


def test_weights_that_are_not_finite_are_never_saved(data, tmp_path):
    out = tmp_path / "run"
    recipe = pairs.recipe(iterations=12, lr=1e30, lr_encoder=1e30, save_every=3, patience=4)
    with pytest.raises(DataError):
        start(recipe, data, out).train()
    assert saved_step(out) == 0
    for value in load_network(out / "last").state_dict().values():
        assert value.isfinite().all()
    with pytest.raises(DataError):
        launch.resume(out, ALONE).train()


def test_stopping_while_steps_fail_keeps_the_previous_checkpoint(data, tmp_path):
    run = start(pairs.recipe(patience=5), data, tmp_path / "run")
    spoil(run, {2, 3, 4, 5})
    assert stop_after(run, 4).step == saved_step(tmp_path / "run") == 2


def test_batches_without_a_valid_pixel_are_counted(data, tmp_path):
    run = start(pairs.recipe(iterations=3), data, tmp_path / "run")
    before = [parameter.detach().clone() for parameter in run.stepper.parameters]
    batch = next(batches(run.stream, 0, rank=0, share=2, workers=0))
    outcome = run.stepper.take(0, [batch], [0])
    assert (outcome.verdict, run.stepper.guard.empty) == ("skip", 1)
    assert same(before, run.stepper.parameters)
    assert run.stepper.take(0, [batch, batch], [0, 9]).verdict == "step"


def test_an_overflow_in_half_precision_changes_neither_weights_nor_average(
    data, tmp_path, monkeypatch
):
    run = start(pairs.recipe(iterations=4, patience=1, ema=0.5), data, tmp_path / "run")
    run.stepper.scaler = torch.amp.GradScaler("cpu")  # as on a GPU
    original = torch.nn.utils.clip_grad_norm_

    def overflow(parameters, most):
        if run.progress.step in (1, 2):
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, torch.inf)
        return original(parameters, most)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", overflow)
    averages = {}

    def on_step(step):
        averages[step.step] = {n: v.clone() for n, v in run.stepper.result.state_dict().items()}

    assert run.train(on_step).guard.skipped == 2
    assert same(averages[1], averages[3])
    assert not same(averages[3], averages[4])
