"""Linear layers by oneDNN compute the same as those of torch, with the same gradients."""

import copy

import pytest
import torch
from torch import nn

from idisc.model import linear

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="torch is built without oneDNN"
)


@pytest.fixture
def faster(monkeypatch):
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(100, 32), (4, 50, 32), (2, 3, 40, 32)])
def test_result_and_gradients_are_those_of_torch(faster, shape, bias):
    usual = nn.Linear(32, 48, bias=bias)
    layer = copy.deepcopy(usual)
    linear.prefer_onednn(layer)
    found = []
    for module in (usual, layer):
        x = torch.linspace(-1, 1, 32).expand(shape).clone().requires_grad_()
        y = module(x)
        (y * torch.linspace(0, 1, 48)).sum().backward()
        found.append([y.detach(), x.grad, *(p.grad for p in module.parameters())])
    for by_torch, by_onednn in zip(*found, strict=True):
        torch.testing.assert_close(by_onednn, by_torch, rtol=1e-5, atol=1e-4)


def test_frozen_weights_get_no_gradient(faster):
    layer = nn.Linear(8, 8)
    linear.prefer_onednn(layer)
    layer.weight.requires_grad_(False)
    x = torch.ones(100, 8, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert x.grad is not None
    assert layer.bias.grad is not None


@pytest.mark.parametrize(
    "x",
    [torch.ones(100, 8, dtype=torch.float64), torch.ones(2, 8), torch.ones(0, 8)],
    ids=["float64", "few rows", "no rows"],
)
def test_other_inputs_take_the_usual_path(faster, monkeypatch, x):
    layer = nn.Linear(8, 4).to(x.dtype)
    expected = layer(x)
    linear.prefer_onednn(layer)
    monkeypatch.setattr(linear._Product, "apply", None)
    assert torch.equal(layer(x), expected)


def test_half_precision_of_autocast_is_kept(faster):
    layer = nn.Linear(8, 4)
    linear.prefer_onednn(layer)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.ones(100, 8)).dtype == torch.bfloat16


def test_names_of_parameters_and_special_layers_stay():
    class Special(nn.Linear):
        """Not a plain linear layer."""

    network = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"inner": Special(2, 2)}))
    names = list(network.state_dict())
    linear.prefer_onednn(network)
    assert list(network.state_dict()) == names
    assert type(network[0]) is linear.OneDnnLinear
    assert type(network[1]["inner"]) is Special
