"""Checks of pairs: does this depth belong to this image, and is it aligned with it?

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
from idisc.data.doctor.alignment import REACH, Edges
from idisc.data.doctor.findings import Finding, Severity
from idisc.data.doctor.inspection import Evidence, Inspection
from idisc.sizes import size_text

_ASPECT = 0.02  # in log: 640x480 with 641x480 is no mistake
_STAMP = 10**6  # larger numbers in names are time stamps, which differ between sensors
_LEAST = 4  # pairs, below which nothing is systematic
_MOST = 0.8  # of the pairs, which have to agree on an explanation
_BETTER = 0.05  # in correlation; an explanation by chance is 0.01 better, a true one 0.2 to 0.3
_NO_EDGES, _NO_EDGES_LEAST = 0.05, 12  # median correlation; it is 0.22 at least in real data
_MANY = 1 / 3  # of the pairs with another partner: the whole list is mixed up
_OTHERS = 8  # images to compare with, at least
_NOISE = 0.03  # deviation of correlations with any other image
_STANDS_OUT = 5.0  # deviations of a partner from all other images; chance has 3 to 4
_OFF = 2  # cells, each 4 pixels of an image with 640 columns
_PEAK = 1.5  # deviations at the best shift, mean over pairs; real data 3.4 to 5, chance 0.6
_FLIPS = {(2,): "mirrored left to right", (1,): "upside down", (1, 2): "rotated by 180 degrees"}

Scores = NDArray[np.float64]


def check_pairs(evidence: Evidence) -> Iterator[Finding]:
    """Pairs of different aspect ratios, with different numbers in their names, or repeated."""
    sizes = {
        each.record.image: (each.image_size, each.target_size)
        for each in evidence.inspections
        if each.image_size and each.target_size
    }
    if odd := {
        name: f"{name}: {size_text(image)} and {size_text(depth)}"
        for name, (image, depth) in sizes.items()
        if abs(math.log(image[0] * depth[1] / (image[1] * depth[0]))) > _ASPECT
    }:
        yield Finding("shape", tuple(odd), examples=tuple(odd.values()))
    named = {(r.image, r.target): None for r in evidence.source.records if r.target}
    if apart := [pair for pair in named if not _belong(*map(_numbers, pair))]:
        examples = tuple(f"{image} with {target}" for image, target in apart)
        yield Finding("names", tuple(image for image, _ in apart), examples=examples)
    if again := tuple(evidence.source.prepared.get("repeated", ())):
        yield Finding("repeated", again)


def check_alignment(evidence: Evidence) -> Iterator[Finding]:
    """Check over all pairs together that the edges of depth are edges of the image."""
    inspections = [each for each in evidence.inspections if each.edges is not None]
    if len(inspections) < _LEAST:
        return
    pairs = [each.edges for each in inspections if each.edges is not None]
    scores = alignment.cross_correlations(pairs)
    own = np.diag(scores)
    partners = _partners(scores)
    many = len(partners) >= _MANY * len(pairs)
    mixed = None
    if partners:
        severity: Severity | None = "error" if many else None
        mixed = _fitting("pairs", inspections, list(partners.items()), len(pairs), severity)
    finding = (
        _find_flip(inspections, pairs, own)
        or _find_offset(inspections, scores)
        or (mixed if many else None)
        or _find_shift(inspections, pairs)
    )
    if finding is None and len(own) >= _NO_EDGES_LEAST and np.median(own) < _NO_EDGES:
        finding = Finding("edges", _targets(inspections, own < _NO_EDGES), len(own))
    if finding := finding or mixed:
        yield finding


def _belong(one: list[int], other: list[int]) -> bool:
    """Return whether the numbers of two names agree; True if one of them has none."""
    if not one or not other:
        return True
    return one == other if len(one) == len(other) else bool(set(one) & set(other))


def _numbers(path: str) -> list[int]:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return [number for text in re.findall(r"\d+", stem) if (number := int(text)) < _STAMP]


def _targets(inspections: Sequence[Inspection], where: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(inspections[index].record.target for index in np.flatnonzero(where).tolist())


def _fitting(
    code: str,
    inspections: Sequence[Inspection],
    fits: Sequence[tuple[int, int]],
    total: int,
    severity: Severity | None = None,
    **details: float,
) -> Finding:
    """A finding about depth maps (first index) that fit another image (second index)."""
    examples = tuple(
        f"{inspections[row].record.target} fits {inspections[column].record.image}"
        for row, column in fits
    )
    names = tuple(inspections[row].record.target for row, _ in fits)
    return Finding(code, names, total, examples, details, severity)


def _find_flip(
    inspections: Sequence[Inspection], pairs: Sequence[Edges], own: Scores
) -> Finding | None:
    scores = {
        what: np.array([alignment.flipped_correlation(pair, axes) for pair in pairs])
        for axes, what in _FLIPS.items()
    }
    what = max(scores, key=lambda name: float(np.median(scores[name])))
    if not _explains(scores[what], own):
        return None
    return Finding(
        "turned", _targets(inspections, scores[what] > own), len(own), details={"flip": what}
    )


def _find_offset(inspections: Sequence[Inspection], scores: Scores) -> Finding | None:
    """Depth that fits the image some places further on in the list, also in a slow video."""
    place = {(each.record.split, each.index): row for row, each in enumerate(inspections)}
    for step in (1, -1, 2, -2):
        steps = [(row, place.get((split, at + step))) for (split, at), row in place.items()]
        pairs = [(row, to) for row, to in steps if to is not None and not np.isnan(scores[row, to])]
        rows, columns = np.array(pairs, dtype=int).reshape(-1, 2).T
        other, own = scores[rows, columns], scores[rows, rows]
        if len(pairs) >= _LEAST and _explains(other, own, better=_BETTER / 2):
            fits = [pairs[index] for index in np.flatnonzero(other > own).tolist()]
            return _fitting("offset", inspections, fits, len(pairs), offset=step)
    return None


def _partners(scores: Scores) -> dict[int, int]:
    """Depth -> the image that fits it much better than its own, and than all other images."""
    found = {}
    for row, all_scores in enumerate(scores):
        others = np.where(np.arange(len(scores)) == row, np.nan, all_scores)
        known = others[~np.isnan(others)]
        if len(known) < _OTHERS:
            continue
        level = np.median(known)
        noise = max(1.4826 * np.median(np.abs(known - level)), _NOISE)  # robust deviation
        best = int(np.nanargmax(others))
        if others[best] > max(scores[row, row] + 2 * _BETTER, level + _STANDS_OUT * noise):
            found[row] = best
    return found


def _find_shift(inspections: Sequence[Inspection], pairs: Sequence[Edges]) -> Finding | None:
    surfaces = np.stack([alignment.shift_correlations(pair) for pair in pairs])  # (N, down, across)
    mean = surfaces.mean(axis=0)
    row, column = (int(place) for place in np.unravel_index(mean.argmax(), mean.shape))
    down, right = row - REACH, column - REACH
    better = surfaces[:, row, column] > surfaces[:, REACH, REACH]
    enough = _PEAK + 3 / math.sqrt(len(pairs))  # the highest of many shifts stands out by chance
    if max(abs(down), abs(right)) < _OFF or better.mean() < _MOST or mean[row, column] < enough:
        return None
    pixels = float(np.median([pair.pixels_per_cell for pair in pairs]))
    details = {"right_px": round(right * pixels), "down_px": round(down * pixels)}
    return Finding("shift", _targets(inspections, better), len(pairs), details=details)


def _explains(other: Scores, own: Scores, better: float = _BETTER) -> bool:
    """Better in most pairs, and by more than chance."""
    return bool((other > own).mean() >= _MOST and np.median(other - own) > better)
