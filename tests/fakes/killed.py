"""A run that is killed again and again, each time at a moment that was drawn for it.

    python -m tests.fakes.killed DATA WHOLE OUT

trains WHOLE without interruption, and OUT in many processes of which each but the last ends by
SIGKILL: somewhere in the start, in a resumption, a step, a checkpoint, a validation. All processes
are forks of this one, so that packages are imported once; they tell it what they are about to do.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE

from idisc import load_network
from idisc.model.checkpoint import CONFIG
from idisc.train import launch, state, step, trainer, validation

RECIPE = pairs.recipe(iterations=12, save_every=1, validate_every=2, ema=0.9)
KILLS = {  # while what is done, how often
    "start": 2,
    "resume": 2,
    "take": 2,
    "save": 3,
    "validate": 2,
    "write_pictures": 1,  # a validation is in the log, but not in the checkpoint
}
PATCHED = {
    "start": launch,
    "resume": launch,
    "take": step.Stepper,
    "save": trainer.Trainer,
    "validate": validation,
    "write_pictures": validation,
}


def trained(data, out):
    """To the end: from the last checkpoint, or from the beginning."""
    if (out / state.LAST / state.TRAINING).is_file():
        run = launch.resume(out, ALONE)
    else:
        run = launch.start(RECIPE, [str(data)], out, ALONE)
    run.train()


def telling(name, act, pipe):
    """The function, which says when it begins and ends."""

    def told(*arguments, **more):
        os.write(pipe, f"{name}\n".encode())
        result = act(*arguments, **more)
        os.write(pipe, f"end of {name}\n".encode())
        return result

    return told


def forked(data, out):
    """A process that trains, and what it tells."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading)
    code = 1
    try:
        for name, owner in PATCHED.items():
            setattr(owner, name, telling(name, getattr(owner, name), writing))
        trained(data, out)
        code = 0
    finally:
        os._exit(code)


def ended(child):
    """How a process ended: 0, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def durations(data, out):
    """Seconds that each of them takes, in an uninterrupted run."""
    child, said = forked(data, out)
    began, longest = {}, {}
    for line in said:
        name = line.strip().removeprefix("end of ")
        if line.startswith("end"):
            longest[name] = time.monotonic() - began[name]
        else:
            began[name] = time.monotonic()
    assert ended(child) == 0
    return longest


def killed(data, out, wanted, delay):
    """Train until `delay` seconds after something was begun."""
    child, said = forked(data, out)
    # A start that was killed late has left a checkpoint; then it is resumed.
    awaited = {wanted, "resume"} if wanted == "start" else {wanted}
    assert any(line.strip() in awaited for line in said), f"{wanted}: never begun"
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL, f"{wanted}: the run was over"
    if (out / state.LAST / state.TRAINING).is_file():  # then whole, at every moment
        state.read_training(out)
    if (out / state.LAST / CONFIG).is_file():
        load_network(out / state.LAST)


def main(data, whole, out):
    """Exit code 0: all ended as they should."""
    torch.set_num_threads(1)
    durations(data, whole.with_name("warm"))  # compiles what the others find compiled
    seconds = durations(data, whole)
    seconds["resume"] = seconds["start"]
    generator = random.Random(7)
    for wanted, times in KILLS.items():
        if wanted == "resume":  # there must be something to resume
            killed(data, out, "take", 0.0)
        for _ in range(times):
            killed(data, out, wanted, generator.uniform(0, seconds[wanted]))
    trained(data, out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
