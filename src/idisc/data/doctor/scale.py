"""Is depth in metres? The doctor's check of the unit, against what rooms and roads look like."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from idisc.data.decode import DepthMap
from idisc.data.doctor.evidence import Case, Finding, Look, listed


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
    odd = [
        look.record.target
        for look, median in zip(looks, medians, strict=True)
        if not middle / _OTHERS <= median <= middle * _OTHERS
    ]
    if odd:
        yield Finding(
            "error",
            "scale",
            f"{len(odd)} of {len(looks)} depth maps are in another unit than the others:"
            f" {listed(odd)}; their medians are {_OTHERS:g} times off; write all in one unit",
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
    target = case.source.target
    stated = target.metres_per_unit if isinstance(target, DepthMap) else 1.0
    used = looks[0].record.scale or stated
    stored = middle / used
    name = min(UNITS, key=lambda unit: abs(math.log(stored * UNITS[unit] / domain.usual)))
    unit = UNITS[name]
    if not domain.low <= stored * unit <= domain.high or math.isclose(unit, used, rel_tol=0.01):
        return f"read with {used:.6g} m per unit, which fits no unit known; look at the files"
    return f"values look like {name}: pass depth_scale {unit:.6g}, not {used:.6g}"


def _where(case: Case) -> str:
    return "anywhere" if case.spec.domain == "any" else case.spec.domain
