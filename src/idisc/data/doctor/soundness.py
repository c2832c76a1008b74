"""Checks of the doctor on single files: there, whole, of the right kind, with plausible content."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from idisc.data import manifest
from idisc.data.doctor.evidence import Case, DepthFacts, Finding, Severity, listed, told
from idisc.errors import counted

_SPARSE = 0.001  # share of valid pixels; DDAD's LiDAR, the thinnest of the seven, fills 0.002
_INVERTED_SHARE, _INVERTED_FALL, _INVERTED_LEAST = 0.85, 0.3, 8
# Of NYU and KITTI 5 % grow nearer upwards, by a mean rank correlation of -0.5 and -0.96; of
# Taskonomy, which looks anywhere, half do: 0.06.


def missing(case: Case) -> Iterator[Finding]:
    """Files that are not there; lines of a published list are left out then, as the field does."""
    if case.absent:
        from_list = "list" in case.source.prepared
        names = sorted(case.absent)
        todo = {
            "list": "they are left out",
            "own": "put them there, or take their pairs out",
            "prepared": "get them again, or prepare the dataset again",
        }[case.kind]
        yield Finding(
            "warning" if from_list else "error",
            "missing",
            f"{counted(len(names), 'file')} not there or empty: {listed(names)}; {todo}",
            tuple(names),
        )
    bare = [record.image for record in case.source.records if not record.target]
    if bare:
        yield Finding(
            "warning",
            "missing",
            f"{told(len(bare), 'picture', 'have no ground truth')}: {listed(bare)}; nothing can be"
            " learnt from that or scored on it",
            tuple(bare),
        )


_FAULTS: dict[str, tuple[str, str]] = {  # check -> what is wrong, what to do
    "damaged": ("cannot be read", "get them again"),
    "changed": (
        "differ from the hash in the manifest",
        "they were changed since the preparation: prepare the dataset again",
    ),
    "swapped": (
        "have picture and depth the wrong way round",
        "swap the two columns of the list, or the names of the two folders",
    ),
    "picture": ("are not in 8 bits a channel", "save them as RGB"),
    "bits": (
        "hold depth in 8 bits or as colours",
        "its metres are lost: save depth again as 16-bit PNG in millimetres, or as NPY in metres",
    ),
    "framing": ("do not fit the crop of the dataset", "pass the --dataset they belong to"),
    "size": (
        "have another size than the manifest says",
        "their intrinsics are of another picture: prepare the dataset again",
    ),
    "centre": (
        "have the principal point outside the picture",
        "give intrinsics of the stored size, in pixels: fx, fy, cx, cy",
    ),
    "angle": (
        "have an implausible field of view",
        "give intrinsics of the stored size, in pixels: fx, fy, cx, cy",
    ),
}
_DOUBTFUL = ("angle",)  # possible, so only a warning


def faulty(case: Case) -> Iterator[Finding]:
    """What went wrong when files were read."""
    for check, (what, todo) in _FAULTS.items():
        if faults := case.faults(check):
            if check in ("centre", "angle") and case.kind == "list":
                todo = "correct NAME_intrinsics.json beside the list, or pass another --dataset"
            names = [fault.file for fault in faults]
            yield Finding(
                "warning" if check in _DOUBTFUL else "error",
                check,
                f"{told(len(names), 'file', what)}: {listed(names)} ({faults[0].text}); {todo}",
                tuple(names),
            )


def _map_check(
    severity: Severity, check: str, what: str, todo: str, is_bad: Callable[[DepthFacts], bool]
) -> Callable[[Case], Iterator[Finding]]:
    def run(case: Case) -> Iterator[Finding]:
        names = [
            look.record.target
            for look in case.looks
            if look.depth is not None and is_bad(look.depth)
        ]
        if names:
            text = f"{told(len(names), 'depth map', what)}: {listed(names)}; {todo}"
            yield Finding(severity, check, text, tuple(names))

    return run


MAPS = (
    _map_check(
        "error",
        "empty",
        "have no valid pixel",
        "remove the pairs, or see whether the depth scale is right",
        lambda depth: depth.valid == 0,
    ),
    _map_check(
        "warning",
        "sparse",
        "have fewer than 0.1 % valid pixels",
        "look at them; they hardly count",
        lambda depth: 0 < depth.valid < _SPARSE,
    ),
    _map_check(
        "error",
        "constant",
        "have one value everywhere",
        "write the real depth, or remove the pairs",
        lambda depth: depth.constant and depth.valid >= _SPARSE,
    ),
    _map_check(
        "warning",
        "undefined",
        "hold NaN or infinite values",
        "they count as no value; write 0 for none",
        lambda depth: depth.undefined > 0,
    ),
    _map_check(
        "warning",
        "negative",
        "hold negative values",
        "they count as no value; depth is metres along the optical axis, 0 for none",
        lambda depth: depth.negative > 0,
    ),
)
"""Checks that look at one depth map at a time."""


def inverted(case: Case) -> Iterator[Finding]:
    """Floors are near at the foot of a picture; where values grow downwards, they are disparity."""
    falls = [look.depth.fall for look in case.looks if look.depth and look.depth.valid >= _SPARSE]
    if not falls:
        return
    few = len(falls) < _INVERTED_LEAST
    share = float(np.mean([fall > 0 for fall in falls]))
    if share >= _INVERTED_SHARE and np.mean(falls) > _INVERTED_FALL:
        yield Finding(
            "warning",
            "inverted",
            f"values grow towards the foot of the picture in {share:.0%} of"
            f" {counted(len(falls), 'depth map')}:"
            f" {'too few to tell, but they may be' if few else 'they look like'} disparity or"
            f" inverse depth;{' if near is large in them,' if few else ''} convert them to"
            " metres",
        )


_CAMERAS = {  # by what can be changed
    "own": "point clouds (evaluate --clouds) need fx, fy, cx, cy, columns of a CSV",
    "list": "point clouds (evaluate --clouds) need them, from NAME_intrinsics.json beside the list"
    " NAME_test.txt",
    "prepared": "point clouds (evaluate --clouds) need fx, fy, cx, cy",
}


def without_camera(case: Case) -> Iterator[Finding]:
    """Pictures of which nothing says how wide they see."""
    records = {record.image: record for record in case.source.records}.values()
    names = [
        record.image
        for record in records
        if record.intrinsics is None and manifest.intrinsics_of(record, case.spec) is None
    ]
    if names:
        yield Finding(
            "warning",
            "camera",
            f"{told(len(names), 'picture', 'have no intrinsics', len(records))}: {listed(names)};"
            f" {_CAMERAS[case.kind]}",
            tuple(names),
        )
