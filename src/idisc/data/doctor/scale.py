"""Check the unit of depth against the usual depth of rooms and roads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idisc.data.catalog import DatasetSpec
from idisc.data.decode import DepthMap
from idisc.data.doctor.findings import Finding
from idisc.data.doctor.inspection import DepthStats, Evidence
from idisc.data.units import UNITS, nearest_unit


class Domain(NamedTuple):
    """Bounds of the median over all depth maps, and a usual median, in metres."""

    low: float
    high: float
    usual: float

    def contains(self, median: float) -> bool:
        """Return whether a median is plausible."""
        return self.low <= median <= self.high


DOMAINS = {
    "indoor": Domain(0.3, 15.0, 2.5),  # NYU 2.6 and 2.8, SUN RGB-D 2.4, DIODE 5.4
    "road": Domain(3.0, 100.0, 14.0),  # KITTI 13.4
    "any": Domain(0.1, 200.0, 3.0),  # only gross errors
}
OWN_PAIRS = Domain(0.8, 10.0, 3.0)
"""The median in a user's own images, whose domain is unknown; a median outside is a warning.

Rooms of TUM, stored in 1/5000 m, have 11 m when they are read as millimetres.
"""
_OWN_RANGE = 0.05, 150.0  # metres; 98 % of the depth in the proposed unit
# Bounds of the 95th percentile, in shares of a dataset's range: NYU has 0.42 of its 10 m, KITTI
# 0.57 of 80 m; in a unit 3.9 times larger or smaller it is 1.6 and 2.2, or 0.11 and 0.15.
_MIN_FAR, _MAX_FAR = 1 / 6, 1.25
_LIDAR = 0.3  # share of valid pixels below which depth comes from LiDAR, on a road: median 13 m
_MAX_RATIO = 30.0  # between the medians of one map and of all: more is no far view
_STEPS = sorted(
    {max(a, b) / min(a, b) for a in UNITS.values() for b in UNITS.values()} - {1.0, 2.0}
)  # ratios of two units: 2.56, 3.9, 5, 10, ...
# A single map is suspected if it is off by this ratio and by so many robust deviations, and if the
# ratio is that of two units up to a factor, in a folder with enough maps.
_MIN_RATIO, _DEVIATIONS, _STEP_TOLERANCE, _MIN_MAPS = 3.0, 3.0, 1.6, 8


def check_scale(evidence: Evidence) -> Iterator[Finding]:
    """Check the unit of all depth maps, then of single ones that differ from the others."""
    maps = {name: depth for name, depth in evidence.depths().items() if depth.median > 0}
    stated = evidence.source.target
    if not maps or not isinstance(stated, DepthMap):
        return
    scales = {one.record.target: one.record.scale for one in evidence.inspections}
    middle = float(np.median([depth.median for depth in maps.values()]))
    used = scales[next(iter(maps))] or stated.metres_per_unit
    yield from _check_all(evidence.spec, maps, middle, used)
    odd = tuple(
        name
        for name, depth in maps.items()
        if not middle / _MAX_RATIO <= depth.median <= middle * _MAX_RATIO
    )
    if odd:
        yield Finding("unit", odd, len(maps))
    if evidence.spec.name == "folder":
        yield from _check_each({name: maps[name] for name in maps if name not in odd})


def _check_all(
    spec: DatasetSpec, maps: dict[str, DepthStats], middle: float, used: float
) -> Iterator[Finding]:
    depths = list(maps.values())
    far = float(np.median([depth.far for depth in depths]))
    domain = DOMAINS[spec.domain]
    details: dict[str, float | str] = {"median_m": middle}
    if not domain.contains(middle):
        code = "scale"
        details["plausible_m"] = f"{domain.low:g} to {domain.high:g}"
    elif spec.max_depth and not _MIN_FAR <= far / spec.max_depth <= _MAX_FAR:
        code = "range"
        details |= {"percentile_95_m": far, "range_m": spec.max_depth}
    elif spec.name == "folder" and not spec.max_depth and _is_unlikely(depths, middle, used):
        code, domain = "unlikely", OWN_PAIRS
    else:
        return
    unit = nearest_unit(domain.usual * used / middle)
    factor = UNITS[unit] / used
    details |= {"used_scale": used, "likely_unit": "none that is known"}
    if domain.contains(middle * factor) and abs(factor - 1) > 0.01:
        details |= {"likely_unit": unit, "likely_scale": UNITS[unit]}
    yield Finding(code, tuple(maps), details=details)


def _is_unlikely(depths: list[DepthStats], middle: float, used: float) -> bool:
    """Return whether another unit makes a likelier scene of a user's own pairs."""
    sparse = float(np.median([depth.valid for depth in depths])) < _LIDAR
    if OWN_PAIRS.contains(middle) or (sparse and middle > OWN_PAIRS.high):
        return False
    factor = UNITS[nearest_unit(OWN_PAIRS.usual * used / middle)] / used
    low, high = np.percentile(np.concatenate([depth.values for depth in depths]), [1, 99]) * factor
    return OWN_PAIRS.contains(middle * factor) and bool(
        low >= _OWN_RANGE[0] and high <= _OWN_RANGE[1]
    )


def _check_each(maps: dict[str, DepthStats]) -> Iterator[Finding]:
    """Find maps that are off by about the ratio of two units, and by more than scenes differ."""
    if len(maps) < _MIN_MAPS:
        return
    logs = np.log([depth.median for depth in maps.values()])
    offsets = np.abs(logs - np.median(logs))
    suspicious = max(math.log(_MIN_RATIO), _DEVIATIONS * 1.4826 * float(np.median(offsets)))
    odd = {
        name: math.exp(offset)
        for name, offset in zip(maps, offsets, strict=True)
        if offset > suspicious
        and min(abs(offset - math.log(step)) for step in _STEPS) < math.log(_STEP_TOLERANCE)
    }
    if odd:
        examples = tuple(f"{name}: {ratio:.3g} times off" for name, ratio in odd.items())
        yield Finding("unit", tuple(odd), len(maps), examples, own_severity="warning")
