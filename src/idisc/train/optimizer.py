"""AdamW with a rate for each part of the network, the one-cycle schedule, freezing, an average."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn

from idisc.errors import InputError
from idisc.model.network import IDisc
from idisc.settings import TrainConfig

BETA1_HIGH, BETA1_LOW, BETA1_PAPER, BETA2 = 0.95, 0.85, 0.9, 0.999
HELD = 0.3  # share of the run with a constant rate, while beta1 falls
END_RATE = 0.1  # of the rate, at the last step


class Phase(NamedTuple):
    """What the schedule has for a step."""

    rate: float  # times the largest one
    beta1: float


def schedule(step: int, train: TrainConfig) -> Phase:
    """One cycle: the rate stays, then falls by a cosine to a tenth; beta1 falls and rises again.

    Step 0 is the first. The paper's text has a constant beta1 instead.
    """
    top, end = HELD * train.iterations - 1, train.iterations - 1
    if step <= top:
        rate, beta1 = 1.0, _between(BETA1_LOW, BETA1_HIGH, step / top if top > 0 else 1.0)
    else:
        share = (step - top) / (end - top)
        rate, beta1 = _between(END_RATE, 1.0, share), _between(BETA1_HIGH, BETA1_LOW, share)
    return Phase(rate, beta1 if train.momentum == "cycled" else BETA1_PAPER)


def _between(last: float, first: float, share: float) -> float:
    """From `first` to `last` along half a cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2


def freeze(network: nn.Module, prefixes: Iterable[str]) -> None:
    """Parameters whose names begin so get no gradient, modules of theirs stay in eval mode."""
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
    """Train mode, but for what is frozen: its batch norms must not drift, nor its paths drop."""
    network.train()
    for prefix in prefixes:
        for name, module in network.named_modules():
            if f"{name}.".startswith(f"{prefix}."):
                module.eval()


def make_optimizer(network: nn.Module, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW with the decay on every parameter, biases and norms included, as released."""
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


def set_phase(optimizer: torch.optim.Optimizer, phase: Phase, slower: float = 1.0) -> None:
    """Rates and beta1 of the step to come; `slower` is what roll-backs left of the rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * phase.rate * slower
        group["betas"] = (phase.beta1, BETA2)


class Average:
    """Exponential moving average of a network; what is not a float is copied."""

    def __init__(self, network: IDisc, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, network: IDisc, step: int) -> None:
        """After an optimizer step; young averages forget faster, or they would keep the start."""
        decay = min(self.decay, (1 + step) / (10 + step))
        theirs = network.state_dict()
        for name, value in self.network.state_dict().items():
            if value.is_floating_point():
                value.lerp_(theirs[name], 1 - decay)
            else:
                value.copy_(theirs[name])
