"""Rendered rooms and streets (`data.synthetic`) as a dataset; only a seed is needed.

Every image has its own scene and generator, (seed, number), so that any worker renders the same
bytes. The last of each ten images is for testing. Depth is stored up to 60 m, which 16-bit
millimetres can hold; anything farther counts as sky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from idisc.data.catalog import MILLIMETRES
from idisc.data.decode import NormalMap
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import Frame, Preparation, Scene, in_millimetres, stem_of
from idisc.data.synthetic import Kind, make_shot
from idisc.errors import InputError

FARTHEST = 60.0  # metres
_BLOCK = 20  # images that a worker renders at once


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of rendered datasets."""

    count: int = 600
    size: tuple[int, ...] = (240, 320)
    streets: float = 0.0  # share of streets; the rest are rooms
    seed: int = 13

    def __post_init__(self) -> None:
        for name, is_possible, remedy in (
            ("count", self.count >= 2, "2 are needed, one to train and one to test"),
            ("size", len(self.size) == 2 and min(self.size) >= 32, "(H, W) of 32 or more"),
            ("streets", 0 <= self.streets <= 1, "a share from 0 to 1 is needed"),
            ("seed", self.seed >= 0, "0 or more is needed"),
        ):
            if not is_possible:
                raise InputError(name, f"{getattr(self, name)}", remedy)


def _scenes(raw: Path, options: Options, lines: Sequence[ListLine] | None) -> list[Scene]:
    """Blocks of images of one split each; `raw` is not read."""
    if lines is not None:
        raise InputError("synthetic", "no list names its pictures", "leave out --list")
    test = list(range(9, options.count, 10)) or [options.count - 1]
    train = sorted(set(range(options.count)) - set(test))
    return [
        Scene(
            name=f"{split}_{start // _BLOCK:04d}",
            split=split,
            source=raw,
            lines=tuple(
                ListLine(f"{number:06d}.png", "", split)
                for number in numbers[start : start + _BLOCK]
            ),
        )
        for split, numbers in (("train", train), ("test", test))
        for start in range(0, len(numbers), _BLOCK)
    ]


def _frames(scene: Scene, options: Options, *, normals: bool) -> Iterator[Frame]:
    height, width = options.size
    for line in scene.lines or ():
        name = stem_of(line)
        generator = np.random.default_rng((options.seed, int(name)))
        kind: Kind = "street" if generator.random() < options.streets else "room"
        shot = make_shot(generator, kind, (height, width))
        depth = shot.rendered.depth
        near = in_millimetres(np.where(depth <= FARTHEST, depth, 0))
        target = shot.rendered.normals if normals else near
        yield Frame(name=name, image=shot.rendered.image, target=target, camera=shot.camera)


def _preparation(stored: NormalMap | None) -> Preparation:
    return Preparation(
        options=Options,
        scenes=_scenes,
        frames=partial(_frames, normals=stored is not None),
        stored=stored or MILLIMETRES,
        needs="nothing but a seed",
        raw=False,
    )


DEPTH, NORMALS = _preparation(None), _preparation(NormalMap())
