"""Schedule, groups, freezing and the moving average."""

from __future__ import annotations

import pytest
import torch
from tests.fakes import pairs
from torch import nn

from idisc.configs.schema import TrainConfig
from idisc.errors import InputError
from idisc.model.network import IDisc
from idisc.train import optimizer


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 2e-4), (29, 2e-4), (30, 1.9991e-4), (50, 1.6290e-4), (64, 1.1e-4), (99, 2e-5)],
)
def test_the_rate_follows_one_cycle(step: int, rate: float) -> None:
    phase = optimizer.schedule(step, TrainConfig(iterations=100))
    assert 2e-4 * phase.rate == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize(("step", "beta1"), [(0, 0.95), (29, 0.85), (64, 0.9), (99, 0.95)])
def test_beta1_falls_and_rises_again(step: int, beta1: float) -> None:
    assert optimizer.schedule(step, TrainConfig(iterations=100)).beta1 == pytest.approx(beta1)


def test_the_paper_keeps_beta1_constant() -> None:
    train = TrainConfig(iterations=100, momentum="constant")
    assert {optimizer.schedule(step, train).beta1 for step in range(100)} == {0.9}


@pytest.mark.parametrize("iterations", [1, 2, 3, 4, 10])
def test_short_runs_have_a_schedule_too(iterations: int) -> None:
    train = TrainConfig(iterations=iterations)
    rates = [optimizer.schedule(step, train).rate for step in range(iterations)]
    assert all(0.1 <= rate <= 1 for rate in rates)
    assert rates[-1] == pytest.approx(0.1)


def test_every_part_has_its_rate() -> None:
    train = TrainConfig(lr=2e-4, lr_encoder=5e-5)
    made = optimizer.make_optimizer(IDisc(pairs.TINY), train)
    optimizer.set_phase(made, optimizer.Phase(0.5, 0.9), factor=0.5)
    rates = {group["part"]: group["lr"] for group in made.param_groups}
    assert rates == pytest.approx(
        {"decoder": 5e-5, "afp": 5e-5, "isd": 5e-5, "heads": 5e-5, "encoder": 1.25e-5}
    )
    assert {group["weight_decay"] for group in made.param_groups} == {0.02}


def test_all_parameters_are_in_one_group_each() -> None:
    network = IDisc(pairs.TINY)
    made = optimizer.make_optimizer(network, TrainConfig())
    grouped = [parameter for group in made.param_groups for parameter in group["params"]]
    assert len(grouped) == len(set(grouped)) == len(list(network.parameters()))


def test_frozen_parts_are_left_out_and_stay_in_eval_mode() -> None:
    network = IDisc(pairs.TINY)
    optimizer.freeze(network, ["encoder", "isd.0"])
    optimizer.train_mode(network, ["encoder", "isd.0"])
    made = optimizer.make_optimizer(network, TrainConfig())
    assert "encoder" not in {group["part"] for group in made.param_groups}
    assert not any(module.training for module in network.encoder.modules())
    assert not network.isd[0].training
    assert network.isd[1].training
    assert network.decoder.training


def test_a_part_that_does_not_exist_cannot_be_frozen() -> None:
    with pytest.raises(InputError) as caught:
        optimizer.freeze(IDisc(pairs.TINY), ["enc"])
    assert "encoder, decoder" in caught.value.remedy


@pytest.mark.parametrize(("step", "decay"), [(0, 0.1), (2, 0.25), (1000, 0.5)])
def test_the_average_follows_the_weights_and_a_young_one_follows_faster(
    step: int, decay: float
) -> None:
    network = nn.Linear(2, 3)
    average = optimizer.moving_average(network, decay=0.5)  # type: ignore[arg-type]
    before = [parameter.detach().clone() for parameter in network.parameters()]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    average.update(network, step + 2)
    for value, old in zip(average.module.parameters(), before, strict=True):
        torch.testing.assert_close(value, old + 1 - decay)
