"""A training step of the whole network against the published code: loss and every gradient."""

import numpy as np
import pytest
import torch
from tests.golden import rule, store

from idisc.model.convert import rename
from idisc.train.losses import angular_loss, silog_loss

CASES = store.cases("gradients")
if not CASES:
    pytest.skip("the larger golden set is not beside this checkout", allow_module_level=True)


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_agree_with_the_published_network(case):
    meta = case.meta
    network = store.network_of(case).double()
    rgb = torch.from_numpy(rule.normalised(case.rgb().numpy())).double()  # float32, then promoted
    network.mean.zero_()
    network.std.fill_(1)
    network.train(meta["mode"] == "train")
    for module in network.encoder.modules():
        if type(module).__name__ == "DropPath":  # the only random part
            module.eval()
    loss = loss_of(network, rgb, case)
    assert loss.item() == pytest.approx(meta["loss_weighted64"], rel=1e-12)
    loss.backward()

    parameters = dict(network.named_parameters())
    compared = 0
    for name, facts in meta["gradients"].items():
        ours = rename(name, case.name)
        if facts is None or ours is None or name in meta["vanishing"]:
            continue
        gradient = parameters[ours].grad
        assert gradient is not None, ours
        size = facts["norm64"] / gradient.numel() ** 0.5
        assert float(gradient.norm()) == pytest.approx(facts["norm64"], rel=1e-9), name
        probe = rule.probe(f"grad/{name}", gradient.numpy())
        assert probe == pytest.approx(facts["probe64"], abs=1e-9 * size), name
        compared += 1
    assert compared > 150
    for name, golden in case.arrays.items():  # whole gradients, stored from float32
        if name.startswith("grad."):
            gradient = parameters[str(rename(name.removeprefix("grad."), case.name))].grad
            tolerance = 5e-3 if meta["mode"] == "train" else 2e-4  # the stored ones' own rounding
            store.assert_close(gradient.numpy(), golden, f"{case.name} {name}", tolerance)


def loss_of(network, rgb, case):
    """The weighted loss, with targets by rule."""
    meta = case.meta
    size = (meta["gt_height"], meta["gt_width"])
    masks = np.stack([rule.mask_for(name, size, 0.6, meta["salt"]) for name in meta["images"]])
    assert masks.sum() == meta["mask_sum"]
    valid = torch.from_numpy(masks)[:, None]
    out = network(rgb, size=size)
    if meta["loss_name"] == "SILog":
        depth = np.stack([rule.depth_for(name, size, meta["salt"]) for name in meta["images"]])
        target = torch.from_numpy(depth)[:, None].double()
        loss = silog_loss(out.prediction, target, valid)
    else:
        normals = np.stack([rule.normals_for(name, size, meta["salt"]) for name in meta["images"]])
        assert out.concentration is not None
        target = torch.from_numpy(normals).double()
        loss = angular_loss(out.prediction, out.concentration, target, valid)
    return loss * float(meta["loss"]["weight"])
