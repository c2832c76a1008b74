"""What a run draws by lot, each from random numbers of its own that follow from the run's seed.

So nothing that is drawn depends on how much of something else was: a run is the same for any
number of workers, processes and interruptions.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Draw(IntEnum):
    """Which lot; the number goes into its seed, so it may never change."""

    FOLDER = 1  # of each sample of the run
    ORDER = 2  # of a folder's pictures in an epoch
    AUGMENT = 3  # a sample
    PATHS = 4  # that a step drops, and whatever else torch draws in it
    VIEW = 5  # a picture's augmentation, kept with its features


def generator(seed: int, draw: Draw, *numbers: int) -> np.random.Generator:
    """For one draw of a run with this seed; `numbers` say which: a sample's, an epoch's."""
    return np.random.default_rng((seed, int(draw), *numbers))


def torch_seed(seed: int, step: int, rank: int) -> int:
    """For what torch draws by itself in a step of one process."""
    return int(np.random.SeedSequence((int(Draw.PATHS), seed, step, rank)).generate_state(1)[0])
