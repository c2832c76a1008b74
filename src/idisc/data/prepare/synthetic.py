"""Rendered rooms and streets (`data.synthetic`) as a dataset; only a seed is needed.

Every image has its own scene and generator, (seed, number), so that any worker renders the same
bytes. The last of each ten images is for testing. Depth is stored up to 60 m, which 16-bit
millimetres can hold; anything farther counts as sky.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from idisc.data.catalog import MILLIMETRES
from idisc.data.decode import NormalMap
from idisc.data.manifest import ListLine
from idisc.data.prepare import frames
from idisc.data.synthetic import Kind, make_shot
from idisc.errors import InputError

FARTHEST = 60.0  # metres
_BLOCK = 20  # images; a worker renders those of one split together


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


def _scenes(raw: Path, options: Options, lines: Sequence[ListLine] | None) -> list[frames.Scene]:
    """Return blocks of images of one split each; `raw` is not read."""
    if lines is not None:
        raise InputError("synthetic", "rendered images have no lists", "leave out --list")
    test = set(range(9, options.count, 10)) or {options.count - 1}
    splits = ("test" if number in test else "train" for number in range(options.count))
    lines = [ListLine(f"{number:06d}.png", "", split) for number, split in enumerate(splits)]
    return frames.by_scene(lines, raw, lambda line: f"{line.split}_{int(line.stem) // _BLOCK:04d}")


def _frames(scene: frames.Scene, options: Options, *, normals: bool) -> frames.Frames:
    return frames.frame_by_frame(partial(_frame, options, normals), scene.lines or ())


def _frame(options: Options, normals: bool, line: ListLine) -> frames.Frame:
    generator = np.random.default_rng((options.seed, int(line.stem)))
    kind: Kind = "street" if generator.random() < options.streets else "room"
    shot = make_shot(generator, kind, (options.size[0], options.size[1]))
    near = frames.in_millimetres(np.where(shot.depth <= FARTHEST, shot.depth, 0))
    return frames.Frame(
        name=line.stem,
        image=shot.image,
        camera=lambda _: shot.camera,
        target=lambda: shot.normals if normals else near,
    )


DEPTH = frames.Preparation(
    options=Options,
    scenes=_scenes,
    frames=partial(_frames, normals=False),
    stored=MILLIMETRES,
    needs="nothing but a seed",
    raw=False,
)
NORMALS = replace(DEPTH, frames=partial(_frames, normals=True), stored=NormalMap())
