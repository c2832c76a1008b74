"""Seeding: independent random generators for each purpose, all derived from the seed of the run.

No draw depends on how many numbers another purpose has drawn, so a run is the same for any number
of workers, processes and interruptions.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Draw(IntEnum):
    """A purpose of random numbers; its value is part of the seed, so it must never change."""

    FOLDER = 1  # the folder of each sample
    ORDER = 2  # the order of a folder's pictures in an epoch
    AUGMENT = 3  # the augmentation of a sample
    DROP_PATH = 4  # paths that a step drops, and everything else torch draws in it
    VIEW = 5  # the augmentation of a view that is cached with its features


def generator(seed: int, draw: Draw, *numbers: int) -> np.random.Generator:
    """Return the generator of one draw; `numbers` identify it: the sample, the epoch."""
    return np.random.default_rng((seed, int(draw), *numbers))


def torch_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of torch for a step of one process."""
    return int(np.random.SeedSequence((int(Draw.DROP_PATH), seed, step, rank)).generate_state(1)[0])
