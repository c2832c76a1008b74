"""A run that is killed again and again, each time at a random moment.

    python -m tests.fakes.killed DATA WHOLE OUT

trains WHOLE without interruption, and OUT in many processes of which each but the last ends by
SIGKILL: somewhere in the start, in a resumption, a step, a checkpoint, a validation. All processes
are forks of this one, so that packages are imported once; they announce what they do in a pipe.
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


def train_to_the_end(data, out):
    """Train from the last checkpoint, or from the beginning."""
    if (out / state.LAST / state.TRAINING).is_file():
        run = launch.resume(out, ALONE)
    else:
        run = launch.start(RECIPE, [str(data)], out, ALONE)
    run.train()


def announcing(name, function, pipe):
    """A function that writes to the pipe when it begins and ends."""

    def announced(*arguments, **more):
        os.write(pipe, f"{name}\n".encode())
        result = function(*arguments, **more)
        os.write(pipe, f"end of {name}\n".encode())
        return result

    return announced


def fork(data, out):
    """Start a process that trains; return its id and the messages that it writes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading)
    code = 1
    try:
        for name, owner in PATCHED.items():
            setattr(owner, name, announcing(name, getattr(owner, name), writing))
        train_to_the_end(data, out)
        code = 0
    finally:
        os._exit(code)


def exit_code(child):
    """Wait for a process and return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def measure_durations(data, out):
    """Return the seconds that each function takes in an uninterrupted run."""
    child, messages = fork(data, out)
    began, longest = {}, {}
    for line in messages:
        name = line.strip().removeprefix("end of ")
        if line.startswith("end"):
            longest[name] = time.monotonic() - began[name]
        else:
            began[name] = time.monotonic()
    assert exit_code(child) == 0
    return longest


def kill_during(data, out, wanted, delay):
    """Kill a process `delay` seconds after it has begun the function `wanted`."""
    child, messages = fork(data, out)
    # A start that was killed late has left a checkpoint; then it is resumed.
    awaited = {wanted, "resume"} if wanted == "start" else {wanted}
    assert any(line.strip() in awaited for line in messages), f"{wanted}: never begun"
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    assert exit_code(child) == -signal.SIGKILL, f"{wanted}: the run was over"
    if (out / state.LAST / state.TRAINING).is_file():  # then whole, at every moment
        state.read_training(out)
    if (out / state.LAST / CONFIG).is_file():
        load_network(out / state.LAST)


def main(data, whole, out):
    """Exit code 0: every process ended as expected."""
    torch.set_num_threads(1)
    measure_durations(data, whole.with_name("warm"))  # compiles what the others find compiled
    seconds = measure_durations(data, whole)
    seconds["resume"] = seconds["start"]
    generator = random.Random(7)
    for wanted, times in KILLS.items():
        if wanted == "resume":  # there must be something to resume
            kill_during(data, out, "take", 0.0)
        for _ in range(times):
            kill_during(data, out, wanted, generator.uniform(0, seconds[wanted]))
    train_to_the_end(data, out)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
