"""The whole network against the numbers of the published code, stage by stage."""

import copy
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from tests.golden import rule, store

from idisc.model import sampling, tokens
from idisc.model.heads import fuse_depth, fuse_normals

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=store.cases("cases"))
def loaded(request):
    """A case and its network; both tests of one case follow each other."""
    return request.param, store.network_of(request.param)


def test_every_stage_agrees_with_the_published_network(loaded):
    case, network = loaded
    rgb, meta, golden = case.rgb(), case.meta, case.arrays
    with torch.no_grad(), tokens.whole_sequences(), recorded(network) as stages:
        out = network(rgb, explain=True)
    stages |= stages_of(network, out)
    wanted = {name: facts for name, facts in meta["stages"].items() if "select" in facts}
    assert wanted.keys() <= stages.keys()
    for name, facts in wanted.items():
        ours = stages[name].numpy()
        store.assert_close(rule.select(ours, facts["select"]), golden[name], f"{case.name} {name}")
        rms = np.hypot(facts["mean"], facts["std"])
        allowed = 20 * facts["floor_rms_rel"] * rms  # rounding, with room, of the whole array
        assert abs(rule.probe(name, ours) - facts["probe"]) <= allowed, f"{case.name} {name}: probe"

    # What users run, in chunks of tokens and by the sampler of their machine, is the same network.
    for sampler in ("plain", "accelerated") if sampling.kernel_available() else ("plain",):
        with torch.no_grad(), sampling.using(sampler):
            pred = rule.select(network(rgb).prediction.numpy(), meta["stages"]["pred"]["select"])
        store.assert_close(pred, golden["pred"], f"{case.name} pred, {sampler}")


def test_in_double_precision_the_prediction_agrees_to_rounding(loaded):
    """Shows a wrong epsilon in any norm, which float32 hides."""
    case, network = loaded
    if case.meta["height"] * case.meta["width"] > 60_000 or case.meta["parameters"] > 60e6:
        pytest.skip("large picture or network: the other cases show the same, faster")
    network = copy.deepcopy(network).double()
    # The golden run normalised in float32, then promoted.
    rgb = torch.from_numpy(rule.normalised(case.rgb().numpy())).double()
    network.mean.zero_()
    network.std.fill_(1)
    with torch.no_grad():
        pred = network(rgb).prediction.numpy()
    stored = rule.select(pred, case.meta["stages"]["pred"]["select"])
    store.assert_close(stored, case.arrays["pred.f64"], f"{case.name} pred.f64", tolerance=1e-12)


@contextmanager
def recorded(network):
    """Keep the outputs of the modules under the golden names of the stages."""
    stages = {}
    hooks = []

    def keep(module, named):
        """Record what `named` makes of the module, its arguments and its output."""
        hooks.append(module.register_forward_hook(lambda *call: stages.update(named(*call))))

    def places(number, attention, args, out):
        locations, weights = attention.sampling_locations(args[0], args[1], args[3])
        values = {"loc": locations, "weight": weights, "attn_out": out}
        return {f"msda.{number}.{name}": value for name, value in values.items()}

    def memory(_, args, out):
        parts = out.split([height * width for height, width in args[1]], dim=1)
        maps = [tokens.to_map(part, size) for part, size in zip(parts, args[1], strict=True)]
        return numbered("mem", maps)

    def iteration(level, _, args, out):
        number = sum(name.startswith(f"idr.{level}.") for name in stages) + 1
        return {f"idr.{level}.it{number}": args[0] + out}

    decoder = network.decoder
    keep(network.encoder, lambda _m, _a, out: numbered("enc", out, first=0))
    keep(decoder, lambda _m, _a, out: numbered("dec", out[0]) | numbered("fpn", out[1]))
    if network.config.decoder.msda:
        for level, adapter in enumerate(decoder.adapters, 1):
            keep(adapter, lambda _m, _a, out, n=level: {f"adapter.{n}": out.clone()})
        for number, layer in enumerate(decoder.msda.layers, 1):
            keep(layer.attention, partial(places, number))
            keep(layer, lambda _m, _a, out, n=number: {f"msda.{n}.out": out.clone()})
        keep(decoder.msda, memory)
    for level, afp in enumerate(network.afp, 1):
        if network.config.afp.iterations:
            keep(afp.mlp, partial(iteration, level))
    try:
        yield stages
    finally:
        for hook in hooks:
            hook.remove()


def numbered(name, values, first=1):
    return {f"{name}.{number}": value for number, value in enumerate(values, first)}


def stages_of(network, out):
    """Return the stages that are part of the output of the network."""
    stages = {"pred": out.prediction}
    for level, raw in enumerate(out.levels, 1):
        stages[f"out.{level}"] = raw
    for level, partition in enumerate(out.partition, 1):
        for number, weights in enumerate(partition.unbind(1), 1):  # (B, K, N, H, W)
            applied = weights.flatten(3) + 1e-6
            applied = applied / applied.sum(-1, keepdim=True)
            stages[f"afp_attn.{level}.it{number}"] = applied.flatten(0, 1)  # (BK, N, M)
    for level, attention in enumerate(out.attention, 1):
        for number, weights in enumerate(attention.unbind(1), 1):
            by_pixel = weights.flatten(3).mT  # (B, K, M, N)
            stages[f"isd_attn.{level}.l{number}"] = by_pixel.flatten(0, 1)
    fuse = fuse_depth if network.config.task == "depth" else fuse_normals
    stages["mean_quarter"] = fuse(out.levels, tuple(out.levels[-1].shape[2:]))
    return stages
