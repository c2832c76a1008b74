"""Rendered rooms and streets (`data.synthetic`) as a dataset: nothing is needed but a seed.

Every picture has a scene and a generator of its own, (seed, number), so that any worker makes the
same bytes. The last of each ten pictures is for testing. Depth is stored up to 60 m, which leaves
16-bit millimetres room; what is farther counts as sky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from idisc.data.decode import StoredDepth
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import Frame, PrepareConfig, Scene, in_millimetres, stem_of
from idisc.data.synthetic import Kind, Shot, make_shot
from idisc.errors import InputError

NEEDS = "nothing but a seed"
FARTHEST = 60.0  # metres
_BLOCK = 20  # pictures that a worker makes in one go


def scenes(raw: Path, choices: PrepareConfig, lines: Sequence[ListLine] | None) -> list[Scene]:
    """Blocks of pictures of one split each; `raw` is not read."""
    if lines is not None:
        raise InputError("synthetic: no list names its pictures; leave out --list")
    tests = set(range(9, choices.count, 10)) or {choices.count - 1}
    numbers = {
        "train": [number for number in range(choices.count) if number not in tests],
        "test": sorted(tests),
    }
    return [
        Scene(
            name=f"{split}_{start // _BLOCK:04d}",
            split=split,
            source=raw,
            wanted=tuple(
                ListLine(f"{number:06d}.png", "", split) for number in own[start : start + _BLOCK]
            ),
        )
        for split, own in numbers.items()
        for start in range(0, len(own), _BLOCK)
    ]


def depth_frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame]:
    """Pictures with their depth."""
    for name, shot in _shots(scene, choices):
        depth = shot.rendered.depth
        yield _frame(name, shot, in_millimetres(np.where(depth <= FARTHEST, depth, 0)))


def normal_frames(scene: Scene, choices: PrepareConfig) -> Iterator[Frame]:
    """The same pictures with their normals."""
    for name, shot in _shots(scene, choices):
        yield _frame(name, shot, shot.rendered.normals)


def _frame(name: str, shot: Shot, target: StoredDepth) -> Frame:
    return Frame(name=name, image=shot.rendered.image, target=target, camera=shot.camera)


def _shots(scene: Scene, choices: PrepareConfig) -> Iterator[tuple[str, Shot]]:
    height, width = choices.size
    for line in scene.wanted or ():
        name = stem_of(line)
        generator = np.random.default_rng((choices.seed, int(name)))
        kind: Kind = "street" if generator.random() < choices.streets else "room"
        yield name, make_shot(generator, kind, (height, width))
