"""Execution times of several functions within one run.

Machines are noisy: a slow moment should affect everything that is compared. Therefore the functions
run in turns, and the results are medians and their ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from idisc.predict.engine import Engine
from idisc.sizes import Size

Runs = Mapping[str, Callable[[], object]]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The median time of one function, beside the others of the same run."""

    name: str
    seconds: float
    times_faster: float | None  # than the reference; None if that was not measured


def median_seconds(
    runs: Runs, repeats: int, now: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median seconds of each function; a first call of each is not counted."""
    for run in runs.values():
        run()  # compiles, allocates, fills the caches
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = now()
            run()
            seconds[name].append(now() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def compare(
    runs: Runs, repeats: int, reference: str, now: Callable[[], float] = time.perf_counter
) -> list[Timing]:
    """Return the median times of all functions, the fastest first, relative to one of them."""
    medians = sorted(median_seconds(runs, repeats, now).items(), key=lambda item: item[1])
    slowest = dict(medians).get(reference)
    return [
        Timing(name=name, seconds=value, times_faster=slowest / value if slowest else None)
        for name, value in medians
    ]


def predicting(engine: Engine, size: Size) -> Callable[[], object]:
    """Return a function that predicts one image of noise; the time does not depend on it."""
    image = np.random.default_rng(0).integers(0, 256, (1, *size, 3), dtype=np.uint8)
    return partial(engine.run, image)
