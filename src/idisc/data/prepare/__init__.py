"""Raw datasets -> frames. `STEPS` has, by dataset, how its raw files are listed and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from idisc.data.catalog import KITTI_UNITS, MILLIMETRES
from idisc.data.decode import NormalMap, Target
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

_OF_SWEEPS = (
    *("keyframes", "train_metres", "test_metres", "surface", "motion", "cameras", "pictures"),
)
_OF_RENDERING = ("count", "size", "streets", "seed")


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How one raw format becomes frames."""

    scenes: Callable[[Path, PrepareConfig, Sequence[ListLine] | None], list[Scene]]
    frames: Callable[[Scene, PrepareConfig], Iterator[Frame | Fault]]
    stored: Target  # how the prepared targets are stored
    needs: str  # what the raw folder has to hold, for people who have the wrong one
    choices: tuple[str, ...] = ("pictures",)  # fields of PrepareConfig that change something
    cameras: tuple[str, ...] = ()  # that may be chosen, in any case of letters
    raw: bool = True  # False: it is made here, and needs no raw folder


STEPS: dict[str, Steps] = {
    "nyu": Steps(scenes=nyu.scenes, frames=nyu.frames, stored=MILLIMETRES, needs=nyu.NEEDS),
    "nyu_labelled": Steps(
        scenes=nyu_labelled.scenes,
        frames=nyu_labelled.frames,
        stored=MILLIMETRES,
        needs=nyu_labelled.NEEDS,
        choices=("nyu_depth", "pictures"),
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
        scenes=diode.scenes,
        frames=diode.frames,
        stored=KITTI_UNITS,
        needs=diode.NEEDS,
        choices=("diode_part", "pictures"),
    ),
    "kitti": Steps(
        scenes=kitti.scenes,
        frames=kitti.frames,
        stored=KITTI_UNITS,
        needs=kitti.NEEDS,
        choices=("depth", "surface", "cameras", "pictures"),
        cameras=kitti.CAMERAS,
    ),
    "argoverse": Steps(
        scenes=argoverse.scenes,
        frames=argoverse.frames,
        stored=KITTI_UNITS,
        needs=argoverse.NEEDS,
        choices=(*_OF_SWEEPS, "distortion"),
        cameras=(*argoverse.CAMERAS, *argoverse.STEREO),
    ),
    "ddad": Steps(
        scenes=ddad.scenes,
        frames=ddad.frames,
        stored=KITTI_UNITS,
        needs=ddad.NEEDS,
        choices=_OF_SWEEPS,
        cameras=(*ddad.CAMERAS, *ddad.OTHERS),
    ),
    "synthetic": Steps(
        scenes=synthetic.scenes,
        frames=synthetic.depth_frames,
        stored=MILLIMETRES,
        needs=synthetic.NEEDS,
        choices=_OF_RENDERING,
        raw=False,
    ),
    "synthetic_normals": Steps(
        scenes=synthetic.scenes,
        frames=synthetic.normal_frames,
        stored=NormalMap(),
        needs=synthetic.NEEDS,
        choices=_OF_RENDERING,
        raw=False,
    ),
}
