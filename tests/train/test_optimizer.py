"""Schedule, groups, freezing and the moving average."""

import pytest
import torch
from tests.fakes import pairs
from torch import nn

from idisc.configs.schema import TrainConfig
from idisc.model.network import IDisc
from idisc.train import optimizer


@pytest.mark.parametrize(
    ("step", "rate", "beta1"),
    [(0, 2e-4, 0.95), (29, 2e-4, 0.85), (50, 1.6290e-4, None), (64, 1.1e-4, 0.9), (99, 2e-5, 0.95)],
)
def test_rate_and_beta1_follow_one_cycle(step, rate, beta1):
    phase = optimizer.schedule(step, TrainConfig(iterations=100))
    assert 2e-4 * phase.rate == pytest.approx(rate, rel=1e-4)
    assert beta1 is None or phase.beta1 == pytest.approx(beta1)
    paper = TrainConfig(iterations=100, momentum="constant")
    assert optimizer.schedule(step, paper).beta1 == 0.9


@pytest.mark.parametrize("iterations", [1, 2, 4, 10])
def test_short_runs_have_a_schedule_too(iterations):
    train = TrainConfig(iterations=iterations)
    rates = [optimizer.schedule(step, train).rate for step in range(iterations)]
    assert all(0.1 <= rate <= 1 for rate in rates)
    assert rates[-1] == pytest.approx(0.1)


def test_every_parameter_is_in_one_group_with_the_rate_of_its_part():
    network = IDisc(pairs.TINY)
    made = optimizer.make_optimizer(network, TrainConfig(lr=2e-4, lr_encoder=5e-5))
    optimizer.set_phase(made, optimizer.Phase(0.5, 0.9), factor=0.5)
    rates = {group["part"]: group["lr"] for group in made.param_groups}
    assert rates == pytest.approx(
        {"decoder": 5e-5, "afp": 5e-5, "isd": 5e-5, "heads": 5e-5, "encoder": 1.25e-5}
    )
    assert {group["weight_decay"] for group in made.param_groups} == {0.02}
    grouped = [parameter for group in made.param_groups for parameter in group["params"]]
    assert len(grouped) == len(set(grouped)) == len(list(network.parameters()))


def test_frozen_parts_are_left_out_and_stay_in_eval_mode():
    network = IDisc(pairs.TINY)
    optimizer.freeze(network, ["encoder", "isd.0"])
    optimizer.train_mode(network, ["encoder", "isd.0"])
    made = optimizer.make_optimizer(network, TrainConfig())
    assert "encoder" not in {group["part"] for group in made.param_groups}
    assert not any(module.training for module in network.encoder.modules())
    assert not network.isd[0].training
    assert network.isd[1].training
    assert network.decoder.training


@pytest.mark.parametrize(("step", "decay"), [(0, 0.1), (2, 0.25), (1000, 0.5)])
def test_a_young_moving_average_follows_the_weights_faster(step, decay):
    network = nn.Linear(2, 3)
    average = optimizer.moving_average(network, decay=0.5)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    average.update(network, step + 2)
    for value, old in zip(average.module.parameters(), before, strict=True):
        torch.testing.assert_close(value, old + 1 - decay)
