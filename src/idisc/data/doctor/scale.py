"""Check the unit of depth against the usual depth of rooms and roads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idisc.data.decode import DepthMap
from idisc.data.doctor.findings import Finding
from idisc.data.doctor.inspection import DepthStats, Evidence
from idisc.data.units import UNITS, nearest_unit


class Domain(NamedTuple):
    """Bounds of the median over all depth maps, and a usual median, in metres."""

    low: float
    high: float
    usual: float


DOMAINS = {
    "indoor": Domain(0.3, 15.0, 2.5),  # NYU 2.6 and 2.8, SUN RGB-D 2.4, DIODE 5.4
    "road": Domain(3.0, 100.0, 14.0),  # KITTI 13.4
    "any": Domain(0.1, 200.0, 3.0),  # only gross errors
}
OWN = Domain(0.8, 10.0, 3.0)
"""The median in a user's own images, whose domain is unknown; a median outside is a warning.

Rooms of TUM, stored in 1/5000 m, have 11 m when they are read as millimetres.
"""
_FAR_HIGH, _FAR_LOW = 1.25, 1 / 6
# Of a dataset's range, for the 95th percentile: between the right unit and one 256/1000 off.
# NYU has 0.42 of its 10 m, KITTI 0.57 of 80 m; 3.9 times that is 1.6 and 2.2, a 3.9th 0.11, 0.15.
_OTHERS = 30.0  # times the median of the others: not a far view but another unit
_OWN_RANGE = 0.05, 150.0  # metres; 98 % of the depth in the proposed unit
_LIDAR = 0.3  # share of valid pixels below which depth comes from LiDAR, on a road: median 13 m
_STEPS = sorted(
    {max(a, b) / min(a, b) for a in UNITS.values() for b in UNITS.values()} - {1.0, 2.0}
)  # between two units: 2.56, 3.9, 5, 10, ...
_APART, _LIKE_STEP, _DEVIATIONS, _LEAST = 3.0, 1.6, 3.0, 8
# A single map: times off the others, times off a step, robust deviations off, of so many maps.


def check_scale(evidence: Evidence) -> Iterator[Finding]:
    """Check the unit of all depth maps, then of single ones that differ from the rest."""
    found = [each for each in evidence.inspections if each.depth and each.depth.median > 0]
    maps = {each.record.target: each.depth for each in found if each.depth}
    stated = evidence.source.target
    if not maps or not isinstance(stated, DepthMap):
        return
    used = found[0].record.scale or stated.metres_per_unit
    yield from _all_maps(evidence, maps, used)
    middle = float(np.median([depth.median for depth in maps.values()]))
    odd = tuple(
        name
        for name, depth in maps.items()
        if not middle / _OTHERS <= depth.median <= middle * _OTHERS
    )
    if odd:
        yield Finding("unit", odd, len(maps))
    if evidence.spec.name == "folder":
        yield from _single_maps({name: maps[name] for name in maps if name not in odd})


def _all_maps(evidence: Evidence, maps: dict[str, DepthStats], used: float) -> Iterator[Finding]:
    spec, depths = evidence.spec, list(maps.values())
    middle = float(np.median([depth.median for depth in depths]))
    far = float(np.median([depth.far for depth in depths]))
    domain = DOMAINS[spec.domain]
    details: dict[str, float | str] = {"median_m": middle}
    if not domain.low <= middle <= domain.high:
        code = "scale"
        details["plausible_m"] = f"{domain.low:g} to {domain.high:g}"
    elif spec.max_depth and not _FAR_LOW <= far / spec.max_depth <= _FAR_HIGH:
        code = "range"
        details |= {"percentile_95_m": far, "range_m": spec.max_depth}
    elif spec.name == "folder" and not spec.max_depth and _is_unlikely(depths, middle, used):
        code, domain = "unlikely", OWN
    else:
        return
    unit = nearest_unit(domain.usual * used / middle)
    factor = UNITS[unit] / used
    details |= {"used_scale": used, "likely_unit": "none that is known"}
    if domain.low <= middle * factor <= domain.high and abs(factor - 1) > 0.01:
        details |= {"likely_unit": unit, "likely_scale": UNITS[unit]}
    yield Finding(code, tuple(maps), details=details)


def _is_unlikely(depths: list[DepthStats], middle: float, used: float) -> bool:
    """Return whether another unit makes a likelier scene of a user's own pairs."""
    sparse = float(np.median([depth.valid for depth in depths])) < _LIDAR
    if OWN.low <= middle <= OWN.high or (sparse and middle > OWN.high):
        return False
    factor = UNITS[nearest_unit(OWN.usual * used / middle)] / used
    low, high = np.percentile(np.concatenate([depth.values for depth in depths]), [1, 99]) * factor
    return bool(
        OWN.low <= middle * factor <= OWN.high and low >= _OWN_RANGE[0] and high <= _OWN_RANGE[1]
    )


def _single_maps(maps: dict[str, DepthStats]) -> Iterator[Finding]:
    """Maps that are off by about the step between two units, and by more than scenes differ."""
    if len(maps) < _LEAST:
        return
    logs = np.log([depth.median for depth in maps.values()])
    offsets = np.abs(logs - np.median(logs))
    apart = max(math.log(_APART), _DEVIATIONS * 1.4826 * float(np.median(offsets)))
    odd = {
        name: math.exp(offset)
        for name, offset in zip(maps, offsets, strict=True)
        if offset > apart
        and min(abs(offset - math.log(step)) for step in _STEPS) < math.log(_LIKE_STEP)
    }
    if odd:
        examples = tuple(f"{name}: {times:.3g} times off" for name, times in odd.items())
        yield Finding("unit", tuple(odd), len(maps), examples, own_severity="warning")
