"""Checks of single files: present, readable, of the right kind, with plausible content."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from idisc.data.doctor.findings import RULES, Finding, Severity
from idisc.data.doctor.inspection import DepthStats, Evidence
from idisc.data.units import is_inverse

_MIN_VALID = 0.001  # share of the pixels; DDAD, the sparsest LiDAR of the seven, fills 0.002
_PROBLEMS: dict[str, Callable[[DepthStats], bool]] = {
    "empty": lambda depth: depth.valid == 0,
    "sparse": lambda depth: 0 < depth.valid < _MIN_VALID,
    "constant": lambda depth: depth.constant and depth.valid >= _MIN_VALID,
    "undefined": lambda depth: depth.undefined > 0,
    "negative": lambda depth: depth.negative > 0,
}


def check_missing(evidence: Evidence) -> Iterator[Finding]:
    """Find files that do not exist; in published lists, it is usual that some are missing."""
    if names := tuple(sorted(evidence.absent)):
        severity: Severity = "warning" if "list" in evidence.source.prepared else "error"
        yield Finding("missing", names, own_severity=severity)
    if images := tuple(record.image for record in evidence.source.records if not record.target):
        yield Finding("no_target", images)


def check_faults(evidence: Evidence) -> Iterator[Finding]:
    """Report the problems that occurred when files were read."""
    found = [fault for inspection in evidence.inspections for fault in inspection.faults]
    for code in RULES:
        if faults := [fault for fault in found if fault.code == code]:
            names = tuple(fault.file for fault in faults)
            yield Finding(code, names, details={"first": faults[0].reason})


def check_depth_maps(evidence: Evidence) -> Iterator[Finding]:
    """Find depth maps whose values are useless or not depth."""
    for code, has_problem in _PROBLEMS.items():
        if names := tuple(name for name, d in evidence.depths().items() if has_problem(d)):
            yield Finding(code, names)


def check_inverted(evidence: Evidence) -> Iterator[Finding]:
    """Find disparity, which grows towards the bottom of an image, where floors are near."""
    slopes = {name: d.slope for name, d in evidence.depths().items() if d.valid >= _MIN_VALID}
    if is_inverse([-slope for slope in slopes.values()]):
        rising = tuple(name for name, slope in slopes.items() if slope > 0)
        yield Finding("inverted", rising, len(slopes))


def check_cameras(evidence: Evidence) -> Iterator[Finding]:
    """Find images whose field of view is unknown."""
    intrinsics = {record.image: record.intrinsics for record in evidence.source.records}
    unknown = tuple(
        image
        for image, stated in intrinsics.items()
        if stated is None and evidence.spec.camera_of(image) is None
    )
    if unknown:
        yield Finding("camera", unknown, len(intrinsics))
