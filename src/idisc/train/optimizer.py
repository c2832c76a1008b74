"""AdamW with a rate for each part, the one-cycle schedule, freezing, the moving average."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from timm.utils import ModelEmaV3
from torch import nn

from idisc.configs.schema import TrainConfig
from idisc.errors import InputError
from idisc.model.network import IDisc

BETA1_HIGH, BETA1_LOW, BETA1_PAPER, BETA2 = 0.95, 0.85, 0.9, 0.999
CONSTANT_SHARE = 0.3  # share of the run with a constant rate, while beta1 falls
END_RATE = 0.1  # of the rate, at the last step


class Phase(NamedTuple):
    """The settings of the optimizer for one step."""

    rate: float  # factor of the largest rate
    beta1: float


def schedule(step: int, train: TrainConfig) -> Phase:
    """Return the phase of a step (from 0) in the one-cycle schedule.

    The rate is constant, then falls along a cosine to a tenth; beta1 falls and rises. The text of
    the paper has a constant beta1 instead.
    """
    top, end = CONSTANT_SHARE * train.iterations - 1, train.iterations - 1
    if step <= top:
        rate, beta1 = 1.0, _interpolate(BETA1_LOW, BETA1_HIGH, step / top if top > 0 else 1.0)
    else:
        share = (step - top) / (end - top)
        rate, beta1 = _interpolate(END_RATE, 1.0, share), _interpolate(BETA1_HIGH, BETA1_LOW, share)
    return Phase(rate, beta1 if train.momentum == "cycled" else BETA1_PAPER)


def _interpolate(last: float, first: float, share: float) -> float:
    """Interpolate from `first` to `last` along half a cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def freeze(network: nn.Module, prefixes: Iterable[str]) -> None:
    """Freeze the parameters whose names begin with one of the prefixes."""
    for prefix in prefixes:
        found = [
            parameter
            for name, parameter in network.named_parameters()
            if f"{name}.".startswith(f"{prefix}.")
        ]
        if not found:
            parts = ", ".join(dict(network.named_children()))
            raise InputError(
                "train.freeze", f"no parameter begins with '{prefix}'", f"parts: {parts}"
            )
        for parameter in found:
            parameter.requires_grad_(False)


def train_mode(network: nn.Module, prefixes: Iterable[str]) -> None:
    """Set train mode, but eval mode for frozen parts: no batch norm drifts, no path is dropped."""
    network.train()
    for prefix in prefixes:
        for name, module in network.named_modules():
            if f"{name}.".startswith(f"{prefix}."):
                module.eval()


def make_optimizer(network: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """Return AdamW; the decay applies to all parameters, also biases and norms, as released."""
    groups = []
    for part, module in network.named_children():
        parameters = [p for p in module.parameters() if p.requires_grad]
        rate = train.lr_encoder if part == "encoder" else train.lr
        if parameters:
            groups.append({"params": parameters, "lr": rate, "peak": rate, "part": part})
    if not groups:
        raise InputError("train.freeze", "nothing is left to train")
    return torch.optim.AdamW(
        groups, betas=(BETA1_HIGH, BETA2), eps=1e-8, weight_decay=train.weight_decay
    )


def set_phase(optimizer: torch.optim.Optimizer, phase: Phase, factor: float = 1.0) -> None:
    """Set rates and beta1 of the next step; `factor` is the reduction of rates by roll-backs."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * phase.rate * factor
        group["betas"] = (phase.beta1, BETA2)


def moving_average(network: IDisc, decay: float) -> ModelEmaV3:
    """Return an exponential moving average of the weights and statistics of a network.

    The decay is smaller at first, because the average would keep the initial weights for long:
    after step n, counted from 0, it is at most (1 + n) / (10 + n). `update` of timm counts from 2.
    """
    average = ModelEmaV3(network, decay, use_warmup=True, warmup_gamma=9.0, warmup_power=1.0)
    average.requires_grad_(False)
    return average
