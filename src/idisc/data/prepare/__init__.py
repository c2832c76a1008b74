"""Raw datasets -> frames. `STEPS` has, by dataset, how its raw files are listed and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from idisc.data.decode import DepthMap, NormalMap, Target
from idisc.data.manifest import ListLine
from idisc.data.prepare import (
    argoverse,
    ddad,
    diode,
    kitti,
    nyu,
    nyu_labelled,
    nyu_normals,
    sunrgbd,
    synthetic,
)
from idisc.data.prepare.frames import Fault, Frame, PrepareConfig, Scene

MILLIMETRES = DepthMap(metres_per_unit=1 / 1000)
UNITS_OF_KITTI = DepthMap(metres_per_unit=1 / 256)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How one raw format becomes frames."""

    scenes: Callable[[Path, PrepareConfig, Sequence[ListLine] | None], list[Scene]]
    frames: Callable[[Scene, PrepareConfig], Iterator[Frame | Fault]]
    stored: Target  # how the prepared targets are stored
    needs: str  # what the raw folder has to hold, for people who have the wrong one
    raw: bool = True  # False: it is made here, and needs no raw folder


STEPS: dict[str, Steps] = {
    "nyu": Steps(scenes=nyu.scenes, frames=nyu.frames, stored=MILLIMETRES, needs=nyu.NEEDS),
    "nyu_labelled": Steps(
        scenes=nyu_labelled.scenes,
        frames=nyu_labelled.frames,
        stored=MILLIMETRES,
        needs=nyu_labelled.NEEDS,
    ),
    "nyu_normals": Steps(
        scenes=nyu_normals.scenes,
        frames=nyu_normals.frames,
        stored=NormalMap(),
        needs=nyu_normals.NEEDS,
    ),
    "sunrgbd": Steps(
        scenes=sunrgbd.scenes, frames=sunrgbd.frames, stored=MILLIMETRES, needs=sunrgbd.NEEDS
    ),
    "diode": Steps(
        scenes=diode.scenes, frames=diode.frames, stored=UNITS_OF_KITTI, needs=diode.NEEDS
    ),
    "kitti": Steps(
        scenes=kitti.scenes, frames=kitti.frames, stored=UNITS_OF_KITTI, needs=kitti.NEEDS
    ),
    "argoverse": Steps(
        scenes=argoverse.scenes,
        frames=argoverse.frames,
        stored=UNITS_OF_KITTI,
        needs=argoverse.NEEDS,
    ),
    "ddad": Steps(scenes=ddad.scenes, frames=ddad.frames, stored=UNITS_OF_KITTI, needs=ddad.NEEDS),
    "synthetic": Steps(
        scenes=synthetic.scenes,
        frames=synthetic.depth_frames,
        stored=MILLIMETRES,
        needs=synthetic.NEEDS,
        raw=False,
    ),
    "synthetic_normals": Steps(
        scenes=synthetic.scenes,
        frames=synthetic.normal_frames,
        stored=NormalMap(),
        needs=synthetic.NEEDS,
        raw=False,
    ),
}
