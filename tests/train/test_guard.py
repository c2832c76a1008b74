"""Runs that are on their way to ruin: nothing ruined is kept, and all of it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE, losses, same, saved_step, spoil, start

from idisc import load_network
from idisc.errors import DataError
from idisc.train import launch, log
from idisc.train.trainer import Step, Trainer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pairs.make(tmp_path_factory.mktemp("data"))


def test_a_ruined_network_never_takes_the_place_of_a_good_one(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = pairs.recipe(iterations=12, lr=1e30, lr_encoder=1e30, save_every=3, patience=4)
    with pytest.raises(
        DataError, match=r"png, .*png: .*not finite again and again.*lower train\.lr"
    ):
        start(recipe, data, out).train()
    assert saved_step(out) == 0
    for value in load_network(out / "last").state_dict().values():
        assert value.isfinite().all()
    with pytest.raises(DataError, match="not finite again and again"):
        launch.resume(out, ALONE).train()


def test_a_signal_while_steps_fail_keeps_the_checkpoint_before(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(patience=5), data, tmp_path / "run")
    spoil(run, {2, 3, 4, 5})

    def tell(step: Any) -> None:
        run.stop = step.step == 4

    assert run.train(tell).step == 2
    assert saved_step(tmp_path / "run") == 2


def test_a_skipped_step_leaves_no_trace_in_batch_norms(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(), data, tmp_path / "run")
    spoil(run, {2})
    statistics: dict[int, list[torch.Tensor]] = {}

    def tell(step: Any) -> None:
        statistics[step.step] = [buffer.clone() for buffer in run.stepper.network.buffers()]

    assert run.train(tell).trouble == "1 steps skipped, their loss or gradient not finite"
    assert same(statistics[2], statistics[3])
    assert not same(statistics[3], statistics[4])


def test_all_passes_of_a_failed_step_are_written_and_named(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = start(pairs.recipe(patience=1, accumulate=2), data, out)
    spoil(run, {1}, until_rolled_back=True)
    assert run.train().finished
    names = [np.load(path)["names"].tolist() for path in sorted((out / "failed").iterdir())]
    assert [len(each) for each in names] == [2, 2]
    (row,) = log.read(out, "rollback")
    assert row["pictures"] == names[0] + names[1]
    assert (row["after"], row["step"]) == (1, 0)


def test_half_precision_goes_on_after_a_skipped_step(data: Path, tmp_path: Path) -> None:
    run = start(pairs.recipe(iterations=4), data, tmp_path / "run")
    run.stepper.scaler = torch.amp.GradScaler("cpu")  # as on a GPU
    spoil(run, {1})
    assert run.train().finished
    assert losses(tmp_path / "run")[1] is None


def overflowing(run: Trainer, steps: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if some steps had gradients beyond half precision, their losses finite."""
    original = torch.nn.utils.clip_grad_norm_

    def overflowed(parameters: list[torch.Tensor], most: float) -> torch.Tensor:
        if run.progress.step in steps:
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, torch.inf)
        return original(parameters, most)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", overflowed)


def test_an_overflow_under_a_scale_is_counted_and_moves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(pairs.recipe(iterations=4, patience=1, ema=0.5), data, tmp_path / "run")
    run.stepper.scaler = torch.amp.GradScaler("cpu")
    overflowing(run, {1, 2}, monkeypatch)
    kept: dict[int, Any] = {}

    def tell(step: Step) -> None:
        kept[step.step] = {n: v.clone() for n, v in run.stepper.kept.state_dict().items()}

    assert run.train(tell).trouble == "2 steps skipped, their loss or gradient not finite"
    assert same(kept[1], kept[3])  # nor is the average
    assert not same(kept[3], kept[4])


def test_gradients_that_no_scale_makes_finite_roll_back(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(pairs.recipe(patience=2), data, tmp_path / "run")
    run.stepper.scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    run.save()  # its state belongs to the checkpoint
    overflowing(run, set(range(100)), monkeypatch)
    with pytest.raises(DataError, match="not finite again and again, after 3 roll-backs"):
        run.train()
