"""Check pairs: whether a depth map belongs to its image, and whether it is aligned with it.

Names and aspect ratios come first, then edges (`alignment`). If another image, a shift or a flip
explains most of the pairs better, the data are wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from idisc.data.doctor import alignment
from idisc.data.doctor.alignment import MAX_SHIFT, Edges
from idisc.data.doctor.findings import Finding, Severity
from idisc.data.doctor.inspection import Evidence, Inspection
from idisc.sizes import size_text

_MAX_LOG_ASPECT = 0.02  # difference: 640x480 with 641x480 is no mistake
_MIN_TIME_STAMP = 10**6  # numbers in names from here on are times, which differ between sensors
_MIN_PAIRS = 4  # below which nothing is systematic
_MAJORITY = 0.8  # of the pairs, which have to agree on an explanation
_MIN_GAIN = 0.05  # in correlation; a wrong explanation is 0.01 better, a true one 0.2 to 0.3
_NO_EDGES, _NO_EDGES_PAIRS = 0.05, 12  # median correlation, which is above 0.22 in real data
_MIXED_UP = 1 / 3  # of the pairs with another partner: the whole list is mixed up
_MIN_OTHERS = 8  # images to compare with
_MIN_NOISE = 0.03  # deviation of correlations with any other image
_OUTLIER = 5.0  # deviations of a partner from all other images; chance has 3 to 4
_MIN_SHIFT = 2  # cells, each 4 pixels of an image with 640 columns
_MIN_PEAK = 1.5  # deviations at the best shift, mean over pairs; real data 3.4 to 5, chance 0.6
_FLIPS = {(2,): "mirrored left to right", (1,): "upside down", (1, 2): "rotated by 180 degrees"}

Scores = NDArray[np.float64]


def check_pairs(evidence: Evidence) -> Iterator[Finding]:
    """Find pairs of different aspect ratios, with different numbers in their names, or repeated."""
    misshapen = {
        one.record.image: f"{one.record.image}: {size_text(image)} and {size_text(depth)}"
        for one in evidence.inspections
        if (image := one.image_size)
        and (depth := one.target_size)
        and abs(math.log(image[0] * depth[1] / (image[1] * depth[0]))) > _MAX_LOG_ASPECT
    }
    if misshapen:
        yield Finding("shape", tuple(misshapen), examples=tuple(misshapen.values()))
    pairs = dict.fromkeys((r.image, r.target) for r in evidence.source.records if r.target)
    if unlike := [pair for pair in pairs if not _numbers_agree(*pair)]:
        examples = tuple(f"{image} with {target}" for image, target in unlike)
        yield Finding("names", tuple(image for image, _ in unlike), examples=examples)
    if repeated := tuple(evidence.source.prepared.get("repeated", ())):
        yield Finding("repeated", repeated)


def check_alignment(evidence: Evidence) -> Iterator[Finding]:
    """Check over all pairs together that the edges of depth are edges of the image."""
    inspections = [one for one in evidence.inspections if one.edges is not None]
    pairs = [one.edges for one in inspections if one.edges is not None]
    if len(pairs) < _MIN_PAIRS:
        return
    scores = alignment.cross_correlations(pairs)
    own = np.diag(scores)
    partners = _find_partners(scores)
    is_mixed_up = len(partners) >= _MIXED_UP * len(pairs)
    mixed = None
    if partners:
        severity: Severity | None = "error" if is_mixed_up else None
        mixed = _fitting("pairs", inspections, list(partners.items()), len(pairs), severity)
    finding = (
        _find_flip(inspections, pairs, own)
        or _find_offset(inspections, scores)
        or (mixed if is_mixed_up else None)
        or _find_shift(inspections, pairs)
    )
    if finding is None and len(own) >= _NO_EDGES_PAIRS and np.median(own) < _NO_EDGES:
        finding = Finding("edges", _targets(inspections, own < _NO_EDGES), len(own))
    if finding := finding or mixed:
        yield finding


def _numbers_agree(image: str, target: str) -> bool:
    """Return whether the numbers in two file names agree; True if one has none."""
    first, second = _numbers(image), _numbers(target)
    if not first or not second:
        return True
    return first == second if len(first) == len(second) else bool(set(first) & set(second))


def _numbers(path: str) -> list[int]:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    numbers = map(int, re.findall(r"\d+", stem))
    return [number for number in numbers if number < _MIN_TIME_STAMP]


def _targets(inspections: Sequence[Inspection], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(inspections[index].record.target for index in np.flatnonzero(mask).tolist())


def _fitting(
    code: str,
    inspections: Sequence[Inspection],
    fits: Sequence[tuple[int, int]],
    total: int,
    severity: Severity | None = None,
    **details: float,
) -> Finding:
    """Return a finding about depth maps (first index) that fit another image (second index)."""
    records = [(inspections[i].record, inspections[j].record) for i, j in fits]
    examples = tuple(f"{record.target} fits {other.image}" for record, other in records)
    targets = tuple(record.target for record, _ in records)
    return Finding(code, targets, total, examples, details, severity)


def _find_flip(
    inspections: Sequence[Inspection], pairs: Sequence[Edges], own: Scores
) -> Finding | None:
    scores = {
        flip: np.array([alignment.flipped_correlation(pair, axes) for pair in pairs])
        for axes, flip in _FLIPS.items()
    }
    flip = max(scores, key=lambda name: float(np.median(scores[name])))
    if not _explains(scores[flip], own):
        return None
    targets = _targets(inspections, scores[flip] > own)
    return Finding("turned", targets, len(own), details={"flip": flip})


def _find_offset(inspections: Sequence[Inspection], scores: Scores) -> Finding | None:
    """Find depth that fits the image some lines further on in the list, also in a slow video."""
    rows = {(one.record.split, one.index): row for row, one in enumerate(inspections)}
    for step in (1, -1, 2, -2):
        steps = [(row, rows.get((split, index + step))) for (split, index), row in rows.items()]
        fits = [(row, to) for row, to in steps if to is not None and not np.isnan(scores[row, to])]
        depths, images = np.array(fits, dtype=int).reshape(-1, 2).T
        other, own = scores[depths, images], scores[depths, depths]
        if len(fits) >= _MIN_PAIRS and _explains(other, own, _MIN_GAIN / 2):
            better = [fits[index] for index in np.flatnonzero(other > own).tolist()]
            return _fitting("offset", inspections, better, len(fits), offset=step)
    return None


def _find_partners(scores: Scores) -> dict[int, int]:
    """Map depth to an image that fits it much better than its own and than all other images."""
    found = {}
    for row, own in enumerate(np.diag(scores)):
        others = scores[row].copy()
        others[row] = np.nan
        known = others[~np.isnan(others)]
        if len(known) < _MIN_OTHERS:
            continue
        middle = np.median(known)
        noise = max(1.4826 * np.median(np.abs(known - middle)), _MIN_NOISE)  # robust deviation
        best = int(np.nanargmax(others))
        if others[best] > max(own + 2 * _MIN_GAIN, middle + _OUTLIER * noise):
            found[row] = best
    return found


def _find_shift(inspections: Sequence[Inspection], pairs: Sequence[Edges]) -> Finding | None:
    surfaces = np.stack([alignment.shift_correlations(pair) for pair in pairs])  # (N, down, across)
    mean = surfaces.mean(axis=0)
    row, column = (int(place) for place in np.unravel_index(mean.argmax(), mean.shape))
    down, right = row - MAX_SHIFT, column - MAX_SHIFT
    better = surfaces[:, row, column] > surfaces[:, MAX_SHIFT, MAX_SHIFT]
    peak = _MIN_PEAK + 3 / math.sqrt(len(pairs))  # the highest of many shifts stands out by chance
    if max(abs(down), abs(right)) < _MIN_SHIFT or better.mean() < _MAJORITY:
        return None
    if mean[row, column] < peak:
        return None
    pixels = float(np.median([pair.pixels_per_cell for pair in pairs]))
    details = {"right_px": round(right * pixels), "down_px": round(down * pixels)}
    return Finding("shift", _targets(inspections, better), len(pairs), details=details)


def _explains(other: Scores, own: Scores, min_gain: float = _MIN_GAIN) -> bool:
    """Return whether the other scores are better in most pairs, and by more than chance."""
    return bool((other > own).mean() >= _MAJORITY and np.median(other - own) > min_gain)
