"""The losses, by hand and against the published code's numbers."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.golden.store import SHARED

from idisc.tasks import TASKS
from idisc.train.losses import LOSSES, angular_loss, gradient_loss, idr_loss, silog_loss


def test_silog_of_three_pixels_computed_by_hand():
    prediction = torch.tensor([1.0, 2.0, 4.0]).view(1, 1, 1, 3)
    target = torch.tensor([1.0, 1.0, 2.0]).view(1, 1, 1, 3)
    valid = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    # errors 0, ln 2, ln 2: mean 2/3 ln 2, unbiased variance ln(2)^2 / 3
    expected = math.sqrt(math.log(2) ** 2 / 3 + 0.15 * (2 / 3 * math.log(2)) ** 2 + 1e-6)
    assert silog_loss(prediction, target, valid).item() == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx(0.4383857, abs=1e-6)


def test_silog_uses_valid_pixels_only():
    target = torch.rand(2, 1, 4, 5) + 1
    prediction = target * 1.5
    valid = torch.zeros_like(target, dtype=torch.bool)
    valid[0, :, 1:3] = True
    spoiled = torch.where(valid, prediction, torch.tensor(float("nan")))
    assert torch.equal(silog_loss(spoiled, target, valid), silog_loss(prediction, target, valid))
    assert silog_loss(prediction, target, torch.zeros_like(valid)).isnan()


def test_the_gradient_loss_is_the_height_of_a_missed_step_at_each_scale():
    target = torch.ones(1, 1, 1, 5)
    target[..., 4:] = math.e  # a step of 1 in log depth, between the last pixels of each scale
    valid = torch.ones_like(target, dtype=torch.bool)
    assert gradient_loss(1.3 * target, target, valid).item() == pytest.approx(0, abs=1e-5)
    loss = gradient_loss(torch.ones_like(target), target, valid)
    assert loss.item() == pytest.approx((1 / 4 + 1 / 2 + 1) / 3, abs=1e-4)  # of 4, 2, 1 slopes
    valid[..., 4] = False
    assert gradient_loss(torch.ones_like(target), target, valid).item() == pytest.approx(0)


def test_the_idr_loss_is_lowest_if_each_pixel_has_one_idr_and_each_idr_its_pixels():
    one_each = torch.eye(4).view(1, 1, 1, 4, 2, 2)  # (B, R, K, N, H, W)
    assert idr_loss([one_each]).item() == pytest.approx(-1, abs=1e-5)
    assert idr_loss([torch.full_like(one_each, 1 / 4)]).item() == pytest.approx(0, abs=1e-5)
    all_in_one = torch.zeros_like(one_each)
    all_in_one[:, :, :, 0] = 1
    assert idr_loss([all_in_one]).item() == pytest.approx(0, abs=1e-5)
    in_pairs = torch.eye(2).repeat_interleave(2, 0).repeat_interleave(2, 1).view_as(one_each) / 2
    assert idr_loss([in_pairs, one_each]).item() == pytest.approx(-(1 / 2 + 1) / 2, abs=1e-5)


def test_angular_loss_of_two_right_angles_computed_by_hand():
    normals = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1).expand(1, 3, 1, 2)
    target = torch.tensor([0.0, 0.0, 1.0]).view(1, 3, 1, 1).expand(1, 3, 1, 2)
    kappa = torch.tensor([2.0, 0.5]).view(1, 1, 1, 2)
    valid = torch.ones(1, 1, 1, 2, dtype=torch.bool)
    by_hand = [
        -math.log(k * k + 1) + k * math.pi / 2 + math.log1p(math.exp(-k * math.pi))
        for k in (2, 0.5)
    ]
    loss = angular_loss(normals, kappa, target, valid).item()
    assert loss == pytest.approx(sum(by_hand) / 2, rel=1e-6)
    assert loss == pytest.approx(1.1425707, abs=1e-6)


def test_angular_loss_leaves_out_parallel_normals():
    target = F.normalize(torch.randn(1, 3, 2, 2), dim=1)
    normals = target.clone().requires_grad_()
    other = torch.roll(target, 1, dims=1).detach()
    mixed = torch.cat((normals, other), dim=3)
    loss = angular_loss(
        mixed,
        torch.ones(1, 1, 2, 4),
        torch.cat((target, target), dim=3),
        torch.ones(1, 1, 2, 4) > 0,
    )
    (gradient,) = torch.autograd.grad(loss, normals)
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_every_loss_of_a_task_exists():
    assert {name for task in TASKS.values() for name in task.losses} == set(LOSSES)


def cases(loss):
    if not SHARED.is_dir():
        return []
    facts = json.loads((SHARED / "losses_metrics.json").read_text())[loss]
    return [
        name for name, entry in facts.items() if entry["value"] is not None and entry["grad_finite"]
    ]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the larger golden set is not beside this checkout")
@pytest.mark.parametrize(("loss", "name"), [(k, n) for k in ("silog", "angular") for n in cases(k)])
def test_value_and_gradient_agree_with_the_published_loss(loss, name):
    facts = json.loads((SHARED / "losses_metrics.json").read_text())[loss][name]
    data = np.load(SHARED / "losses.npz")
    raw = torch.from_numpy(data[f"{loss}.{name}.input"]).requires_grad_()
    target = torch.from_numpy(data[f"{loss}.{name}.target"])
    key = f"{loss}.{name}.mask"
    shape = (len(target), 1, *target.shape[2:])
    valid = torch.from_numpy(data[key]).view(shape) != 0 if key in data else torch.ones(shape) > 0
    value = loss_at_target_size(raw, target, valid)
    assert value.item() == pytest.approx(facts["value"], rel=2e-5)
    value.backward()
    golden = data[f"{loss}.{name}.grad"]
    assert np.abs(raw.grad.numpy() - golden).max() <= 2e-5 * max(np.abs(golden).max(), 1e-12)


def loss_at_target_size(raw, target, valid):
    """The published loss resizes its input; ours gets it from the network at the right size."""
    if raw.shape[2:] != target.shape[2:]:
        raw = F.interpolate(raw, target.shape[2:], mode="bilinear", align_corners=True)
    if raw.shape[1] == 1:
        return silog_loss(raw, target, valid)
    return angular_loss(raw[:, :3], raw[:, 3:], target, valid)
