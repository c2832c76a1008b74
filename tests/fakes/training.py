"""Runs of a tiny network in this process, and what they leave in their folders."""

from dataclasses import replace

import numpy as np
import torch

from idisc.train import launch, log, state
from idisc.train.distributed import World

ALONE = World(torch.device("cpu"))


def start(recipe, data, out, **more):
    return launch.start(recipe, [str(data)], out, ALONE, **more)


def stop_after(run, steps):
    def on_step(step):
        run.stop = step.step == steps

    return run.train(on_step)


def losses(run):
    return [row["loss"] for row in log.read(run, "step")]


def saved_step(run):
    return int(state.read_training(run)["step"])


def same(one, other):
    """Whether two states are equal, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))


def spoil(run, numbers, *, until_rolled_back=False):
    """Make the loss of some steps infinite, by the target."""
    original = run.stream.folders[0].__class__.__getitem__

    def spoiled(self, index):
        sample = original(self, index)
        healed = until_rolled_back and run.stepper.guard.rollbacks
        if run.progress.step in numbers and not healed:
            sample = replace(sample, target=np.full_like(sample.target, np.inf))
        return sample

    run.stream.folders[0].__class__ = type(
        "Spoiled", (run.stream.folders[0].__class__,), {"__getitem__": spoiled}
    )
