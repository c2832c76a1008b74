"""A small network with three levels of eight IDRs, and what it makes of a small picture."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch
from tests.fakes.pairs import TINY

from idisc.explain.idrs import explain
from idisc.model.network import IDisc

SIZE = (48, 64)
LEVELS, IDRS = 3, TINY.afp.idrs


@cache
def network(config=TINY, seed=0):
    """Random weights, larger than usual where attention is made: maps that are not all alike."""
    torch.manual_seed(seed)
    made = IDisc(config).eval().requires_grad_(False)
    for name, weight in made.named_parameters():
        if name.startswith(("afp", "isd")) and ".query.weight" in name:
            weight.mul_(12)
    return made


@cache
def normals_network():
    """The same for normals."""
    return network(replace(TINY, task="normals"))


def picture(seed=0, size=SIZE):
    """A gradient with a bright square somewhere."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[: size[0], : size[1]]
    image = np.stack([rows * 3, columns * 2, (rows + columns)], axis=-1) % 256
    top, left = generator.integers(0, size[0] // 2), generator.integers(0, size[1] // 2)
    image[top : top + size[0] // 3, left : left + size[1] // 3] = [250, 240, 200]
    return image.astype(np.uint8)


@cache
def explanation(seed=0):
    """Of one of the pictures."""
    return explain(network(), picture(seed))
