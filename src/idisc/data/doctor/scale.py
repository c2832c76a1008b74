"""Is depth in metres? The doctor's check of the unit, against what rooms and roads look like."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idisc.data.decode import DepthMap
from idisc.data.doctor.evidence import Case, Finding, Look, listed, told


class Domain(NamedTuple):
    """Metres that the median over all depth maps may have, and what is usual."""

    low: float
    high: float
    usual: float


DOMAINS = {
    "indoor": Domain(0.3, 15.0, 2.5),  # NYU 2.6 and 2.8, SUN RGB-D 2.4, DIODE 5.4
    "road": Domain(3.0, 100.0, 14.0),  # KITTI 13.4
    "any": Domain(0.1, 200.0, 3.0),  # only what is grossly wrong
}
UNITS = {
    "metres": 1.0,
    "millimetres": 1 / 1000,
    "1/256 m (KITTI)": 1 / 256,
    "centimetres": 1 / 100,
    "1/5000 m (TUM)": 1 / 5000,
    "tenths of a millimetre": 1 / 10_000,
}
_FAR_HIGH, _FAR_LOW = 1.25, 1 / 6
# Of a dataset's range, for the 95th percentile: between the right unit and one 256/1000 off.
# NYU has 0.42 of its 10 m, KITTI 0.57 of 80 m; 3.9 times that is 1.6 and 2.2, a 3.9th 0.11, 0.15.
_OTHERS = 30.0  # times the median of the others: not a far view, another unit
OWN = Domain(0.8, 10.0, 3.0)
"""The median of pictures of rooms and yards; only where nothing is known, and only to warn.

Rooms of TUM, in 1/5000 m, have 11 m when they are read as millimetres.
"""
_OWN_RANGE = 0.05, 150.0  # metres; 98 % of the depth in the unit that is proposed
_LIDAR = 0.3  # share of valid pixels below which depth is a sweep's, of a road: median 13 m
_STEPS = sorted(
    {max(a, b) / min(a, b) for a in UNITS.values() for b in UNITS.values()} - {1.0, 2.0}
)  # between two units: 2.56, 3.9, 5, 10, ...
_APART, _LIKE_STEP, _DEVIATIONS, _LEAST = 3.0, 1.6, 3.0, 8
# A single map: times off the others, times off a step, robust deviations off, of so many maps.


def scale(case: Case) -> Iterator[Finding]:
    """The unit of all depth maps, then of single ones that differ from the rest."""
    looks = [look for look in case.looks if look.depth and look.depth.median > 0]
    if not looks or not isinstance(case.source.target, DepthMap):
        return
    medians = np.array([look.depth.median for look in looks if look.depth])
    middle = float(np.median(medians))
    domain = DOMAINS[case.spec.domain]
    if not domain.low <= middle <= domain.high:
        yield Finding(
            "error",
            "scale",
            f"the median depth is {middle:.4g} m, {domain.low:g} to {domain.high:g} m is possible"
            f" ({_where(case)}), e.g. {looks[0].record.target};"
            f" {_remedy(looks, middle, domain, case)}",
            tuple(look.record.target for look in looks),
        )
    else:
        yield from _range(case, looks, domain)
        if case.spec.name == "folder" and case.spec.max_depth is None:
            yield from _own(case, looks, middle)
    odd = [
        look.record.target
        for look, median in zip(looks, medians, strict=True)
        if not middle / _OTHERS <= median <= middle * _OTHERS
    ]
    if odd:
        yield Finding(
            "error",
            "scale",
            f"{told(len(odd), 'depth map', 'are in another unit than the others', len(looks))}:"
            f" {listed(odd)}; their medians are {_OTHERS:g} times off; write all in one unit",
            tuple(odd),
        )
    if case.spec.name == "folder":
        yield from _single([look for look in looks if look.record.target not in odd])


def _own(case: Case, looks: list[Look], middle: float) -> Iterator[Finding]:
    """Of a user's own pairs nothing is stated: is there a unit that makes a likelier scene?"""
    depths = [look.depth for look in looks if look.depth]
    sparse = float(np.median([depth.valid for depth in depths])) < _LIDAR
    if OWN.low <= middle <= OWN.high or (sparse and middle > OWN.high):
        return
    low, high = np.percentile(np.concatenate([depth.values for depth in depths]), [1, 99])
    used = _used(looks, case)
    name = _likeliest(middle / used, OWN)
    factor = UNITS[name] / used
    fits = OWN.low <= middle * factor <= OWN.high
    nearest, farthest = _OWN_RANGE
    if not fits or low * factor < nearest or high * factor > farthest:
        return
    yield Finding(
        "warning",
        "scale",
        f"the median depth is {middle:.3g} m, 98 % is between {low:.3g} and {high:.3g} m, e.g."
        f" {looks[0].record.target}; if that is not so, {_in_unit(name, used, case)}, which makes"
        f" the median {middle * factor:.3g} m",
        tuple(look.record.target for look in looks),
    )


def _single(looks: list[Look]) -> Iterator[Finding]:
    """Maps that are off by about the step between two units, and by more than scenes differ."""
    if len(looks) < _LEAST:
        return
    logs = np.log([look.depth.median for look in looks if look.depth])
    off = logs - np.median(logs)
    spread = 1.4826 * float(np.median(np.abs(off)))
    apart = max(math.log(_APART), _DEVIATIONS * spread)
    odd = {
        look.record.target: math.exp(abs(each))
        for look, each in zip(looks, off, strict=True)
        if abs(each) > apart
        and min(abs(abs(each) - math.log(step)) for step in _STEPS) < math.log(_LIKE_STEP)
    }
    if odd:
        names = [f"{name} ({times:.3g} times off)" for name, times in odd.items()]
        yield Finding(
            "warning",
            "scale",
            f"{len(odd)} of {len(looks)} depth maps may be in another unit than the others:"
            f" {listed(names)}; look at them, and write all in one unit",
            tuple(odd),
        )


def _range(case: Case, looks: list[Look], domain: Domain) -> Iterator[Finding]:
    """The finer test, where a dataset states its range: 1/256 m for millimetres is only x3.9."""
    longest = case.spec.max_depth
    if longest is None:
        return
    far = float(np.median([look.depth.far for look in looks if look.depth]))
    if not _FAR_LOW * longest <= far <= _FAR_HIGH * longest:
        middle = float(np.median([look.depth.median for look in looks if look.depth]))
        yield Finding(
            "warning",
            "scale",
            f"95 % of the depth is below {far:.3g} m, the range of {case.spec.name} is"
            f" {longest:g} m, e.g. {looks[0].record.target};"
            f" {_remedy(looks, middle, domain, case)}",
            tuple(look.record.target for look in looks),
        )


def _remedy(looks: list[Look], middle: float, domain: Domain, case: Case) -> str:
    """What the stored numbers look like, by the unit that brings them nearest to what is usual."""
    used = _used(looks, case)
    stored = middle / used
    name = _likeliest(stored, domain)
    unit = UNITS[name]
    if not domain.low <= stored * unit <= domain.high or math.isclose(unit, used, rel_tol=0.01):
        return f"read with {used:.6g} m per unit, which fits no unit known; look at the files"
    return _in_unit(name, used, case)


def _used(looks: list[Look], case: Case) -> float:
    """Metres of one unit, as the files are read."""
    target = case.source.target
    stated = target.metres_per_unit if isinstance(target, DepthMap) else 1.0
    return looks[0].record.scale or stated


def _likeliest(stored: float, domain: Domain) -> str:
    return min(UNITS, key=lambda unit: abs(math.log(stored * UNITS[unit] / domain.usual)))


def _in_unit(name: str, used: float, case: Case) -> str:
    """What to change, by what can be changed: a table has the unit, a list has not."""
    unit = UNITS[name]
    if case.kind == "own":
        return f"values look like {name}: set depth_scale {unit:.6g}, not {used:.6g}, in a CSV"
    text = f"values look like {name}, {unit:.6g} m per unit, not {used:.6g}"
    if case.kind == "list":
        return f"{text}: pass the --dataset they belong to, or list the pairs in a CSV with it"
    return f"{text}: prepare the dataset again"


def _where(case: Case) -> str:
    return "anywhere" if case.spec.domain == "any" else case.spec.domain
