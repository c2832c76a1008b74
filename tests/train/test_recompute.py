"""Gradient checkpointing: the same gradients from less memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import same
from torch.utils import checkpoint

from idisc.model.network import IDisc
from idisc.train import recompute


def gradients(network: IDisc) -> dict[str, Any]:
    torch.manual_seed(0)
    network(torch.rand(1, 3, *pairs.SIZE)).prediction.mean().backward()
    return {name: value.grad for name, value in network.named_parameters()}


def test_layers_computed_twice_have_the_gradients_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Callable[..., Any]] = []

    def counted(act: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        calls.append(act)
        return checkpoint.checkpoint(act, *arguments, **more)

    monkeypatch.setattr(recompute, "checkpoint", counted)
    torch.manual_seed(0)
    plain = IDisc(pairs.TINY).train()
    twice = copy.deepcopy(plain)
    recompute.recompute(twice)
    layers = [m for m in twice.modules() if isinstance(m, recompute.LAYERS)]
    assert all(isinstance(layer.forward, partial) for layer in layers)
    assert same(gradients(twice), gradients(plain))
    assert len(calls) == len(layers) == 4  # one of MSDA, three of ISD
    assert list(twice.state_dict()) == list(plain.state_dict())
