"""Preparations of raw datasets: `PREPARATIONS` states how the files of each are read."""

from idisc.data.prepare import (
    argoverse,
    ddad,
    diode,
    kitti,
    nyu,
    nyu_labelled,
    sunrgbd,
    synthetic,
)
from idisc.data.prepare.frames import Preparation

PREPARATIONS: dict[str, Preparation] = {
    "nyu": nyu.DEPTH,
    "nyu_labelled": nyu_labelled.PREPARATION,
    "nyu_normals": nyu.NORMALS,
    "sunrgbd": sunrgbd.PREPARATION,
    "diode": diode.PREPARATION,
    "kitti": kitti.PREPARATION,
    "argoverse": argoverse.PREPARATION,
    "ddad": ddad.PREPARATION,
    "synthetic": synthetic.DEPTH,
    "synthetic_normals": synthetic.NORMALS,
}
