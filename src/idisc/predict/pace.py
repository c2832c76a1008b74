"""How long engines take on this machine, always beside one another and in turns.

Machines are noisy: a slow moment should meet all that are compared, so each runs once, then each
again, and medians count.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import numpy as np

from idisc.errors import CheckpointError
from idisc.predict.engine import Engine
from idisc.sizes import Size

EXAMPLE = "kitchen.jpg"  # the photo of `time_to_predict`
Runs = Mapping[str, Callable[[], object]]


def medians(
    runs: Runs, repeats: int, now: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each run; a first one of each is not counted."""
    for run in runs.values():
        run()  # warm: compiled, allocated, in the cache
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = now()
            run()
            seconds[name].append(now() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def asking(engine: Engine, size: Size) -> Callable[[], object]:
    """One picture of that size, bytes to metres; noise: the time does not depend on it."""
    image = np.random.default_rng(0).integers(0, 256, (1, *size, 3), dtype=np.uint8)
    return partial(engine, image)


@dataclass(frozen=True)
class Start:
    """What one photo costs on the command line."""

    seconds: float  # from the call to the files
    network: float  # of these, what the network takes once it runs

    @property
    def beyond(self) -> float:
        """Seconds for everything else: Python, reading the file, pictures."""
        return self.seconds - self.network


def time_to_predict(model: Path, size: Size, repeats: int) -> Start:
    """A whole `idisc predict` of an example photo with an .onnx file, in a process of its own.

    Not the first, which may have to fetch its files from the disk; medians of the others.
    """
    from idisc.predict.onnx_engine import OnnxEngine

    image = np.zeros((1, *size, 3), np.uint8)
    engine = OnnxEngine(model)
    sized = [] if engine.fixed_size else ["--size", f"{size[0]}x{size[1]}"]
    photo = resources.files("idisc").joinpath("assets", "examples", EXAMPLE)
    with resources.as_file(photo) as path, tempfile.TemporaryDirectory() as out:
        call = [sys.executable, "-m", "idisc", "predict", str(path), "-o", out, *sized]
        runs: Runs = {
            "whole": partial(_run, [*call, "--weights", str(model)]),
            "network": partial(engine.with_spread, image),
        }
        found = medians(runs, repeats)
    return Start(found["whole"], found["network"])


def _run(call: list[str]) -> None:
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckpointError(f"idisc predict: {done.stderr.strip().rpartition(chr(10))[2]}")
