"""Checks of the doctor on pairs: does this depth belong to this picture, and lie on it?

Names and shapes first; then edges (`alignment`): a pairing that another picture, a shift or a
turn explains better, in most of the pairs, is a mistake in the data and not in a pixel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from idisc.data.doctor.alignment import REACH, Edges, crosswise, shifted, turned
from idisc.data.doctor.evidence import Case, Finding, Look, Severity, listed, told
from idisc.errors import counted
from idisc.sizes import size_text

_ASPECT = 0.02  # in log: 640x480 beside 641x480 is no mistake
_STAMP = 10**6  # larger numbers in names are time stamps, which differ between sensors
_LEAST = 4  # pairs, below which nothing is systematic
_MOST = 0.8  # of the pairs, which have to agree on an explanation
_BETTER = 0.05  # in correlation; an explanation by chance is 0.01 better, a true one 0.2 to 0.3
_NO_EDGES, _NO_EDGES_LEAST = 0.05, 12  # median correlation; it is 0.22 at least in real data
_MANY = 1 / 3  # of the pairs with another partner: a list is mixed up, not a picture
_OTHERS = 8  # pictures to compare with, at least
_NOISE = 0.03  # deviation of correlations with any other picture
_STANDS_OUT = 5.0  # deviations of a partner from all other pictures; chance has 3 to 4
_OFF = 2  # cells, each 4 pixels of a picture with 640 columns
_PEAK = 1.5  # deviations at the best shift, mean over pairs; real data 3.4 to 5, chance 0.6
_FLIPS = {(2,): "mirrored left to right", (1,): "upside down", (1, 2): "turned by 180 degrees"}


def aspects(case: Case) -> Iterator[Finding]:
    """Picture and target of another shape."""
    odd = [
        (look.record.image, look.image_size, look.target_size)
        for look in case.looks
        if look.image_size and look.target_size and not _same_shape(look)
    ]
    if odd:
        _, image, target = odd[0]
        names = [name for name, *_ in odd]
        yield Finding(
            "error",
            "shape",
            f"{told(len(odd), 'pair', 'have another shape of picture and depth')}: {listed(names)}"
            f" ({size_text(image)} and {size_text(target)}); crop or turn them alike",
            tuple(names),
        )


def names(case: Case) -> Iterator[Finding]:
    """Numbers in the two names that disagree."""
    odd = [
        record
        for record in {(r.image, r.target): r for r in case.source.records}.values()
        if record.target and not _belong(record.image, record.target)
    ]
    if odd:
        pairs = listed([f"{record.image} with {record.target}" for record in odd])
        yield Finding(
            "warning",
            "names",
            f"{told(len(odd), 'pair', 'have different numbers in the names')}: {pairs}; see whether"
            " the list is off by a line",
            tuple(record.image for record in odd),
        )


def repeated(case: Case) -> Iterator[Finding]:
    """Pairs that a list or a table names again."""
    if again := case.source.prepared.get("repeated"):
        yield Finding(
            "warning",
            "repeated",
            f"{counted(len(again), 'pair')} named more than once: {listed(again)}; each counts"
            " once, remove the other lines",
            tuple(again),
        )


def edges(case: Case) -> Iterator[Finding]:
    """Whether depth lies on its picture, judged by all pairs together."""
    looks = [look for look in case.looks if look.edges is not None]
    pairs = [look.edges for look in looks if look.edges is not None]
    if len(pairs) < _LEAST:
        return
    scores = crosswise(pairs)
    own = np.diag(scores)
    partners = _partners(scores)
    finding = _turned(pairs, own) or _off_by(looks, scores)
    if finding is None and len(partners) >= _MANY * len(looks):
        finding = _mixed_up(looks, partners, "error")
    finding = finding or _shifted(pairs) or _unexplained(looks, own)
    if finding is None and partners:
        finding = _mixed_up(looks, partners, "warning")
    if finding is not None:
        yield finding


def _same_shape(look: Look) -> bool:
    if look.image_size is None or look.target_size is None:
        return True
    (height, width), (rows, columns) = look.image_size, look.target_size
    return abs(math.log(height * columns / (width * rows))) <= _ASPECT


def _belong(image: str, target: str) -> bool:
    one, other = _numbers(image), _numbers(target)
    if not one or not other:
        return True
    return one == other if len(one) == len(other) else bool(set(one) & set(other))


def _numbers(path: str) -> list[int]:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return [number for text in re.findall(r"\d+", stem) if (number := int(text)) < _STAMP]


def _turned(pairs: Sequence[Edges], own: NDArray[np.float64]) -> Finding | None:
    turns = {
        what: np.array([turned(pair, axes) for pair in pairs]) for axes, what in _FLIPS.items()
    }
    what = max(turns, key=lambda name: float(np.median(turns[name])))
    if not _explains(turns[what], own):
        return None
    return Finding(
        "error",
        "turned",
        f"depth is {what} in {int((turns[what] > own).sum())} of {len(own)} pairs; turn it back"
        " (or the pictures)",
    )


def _off_by(looks: Sequence[Look], scores: NDArray[np.float64]) -> Finding | None:
    """Depth that fits the picture some places further on in the list: also in a slow video."""
    place = {(look.record.split, look.index): row for row, look in enumerate(looks)}
    for step in (1, -1, 2, -2):
        there = [
            (row, place[split, index + step])
            for (split, index), row in place.items()
            if (split, index + step) in place
        ]
        rows, columns = np.array(there, dtype=int).reshape(-1, 2).T
        other, own = scores[rows, columns], scores[rows, rows]
        both = ~np.isnan(other)
        if both.sum() >= _LEAST and _explains(other[both], own[both], better=_BETTER / 2):
            row, column = next(pair for pair, ok in zip(there, both, strict=True) if ok)
            return Finding(
                "error",
                "pairs",
                f"pictures and depth are off by {abs(step)}: {looks[row].record.target} fits"
                f" {looks[column].record.image}, not {looks[row].record.image} (so in"
                f" {int((other[both] > own[both]).sum())} of {int(both.sum())} pairs looked at);"
                " pair them again",
                tuple(look.record.target for look in looks),
            )
    return None


def _partners(scores: NDArray[np.float64]) -> dict[int, int]:
    """Depth -> the picture that fits it much better than its own, and stands out of all others."""
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


def _mixed_up(looks: Sequence[Look], partners: dict[int, int], severity: Severity) -> Finding:
    targets = tuple(looks[row].record.target for row in partners)
    fits = [f"{looks[a].record.target} fits {looks[b].record.image}" for a, b in partners.items()]
    return Finding(
        severity,
        "pairs",
        f"{told(len(partners), 'depth map', 'fit another picture better', len(looks))}:"
        f" {listed(fits)}; pair them again",
        targets,
    )


def _unexplained(looks: Sequence[Look], own: NDArray[np.float64]) -> Finding | None:
    if len(own) < _NO_EDGES_LEAST or np.median(own) >= _NO_EDGES:
        return None
    return Finding(
        "warning",
        "edges",
        f"edges of depth do not lie on edges of the picture in most of {len(own)} pairs, e.g."
        f" {looks[0].record.image} with {looks[0].record.target}; look whether they belong"
        " together",
        tuple(look.record.image for look in looks),
    )


def _shifted(pairs: Sequence[Edges]) -> Finding | None:
    surfaces = np.stack([shifted(pair) for pair in pairs])  # (N, shifts down, shifts across)
    mean = surfaces.mean(axis=0)
    row, column = (int(place) for place in np.unravel_index(mean.argmax(), mean.shape))
    down, right = row - REACH, column - REACH
    agree = float((surfaces[:, row, column] > surfaces[:, REACH, REACH]).mean())
    enough = _PEAK + 3 / math.sqrt(len(pairs))  # the highest of many shifts stands out by chance
    if max(abs(down), abs(right)) < _OFF or agree < _MOST or mean[row, column] < enough:
        return None
    pixels = float(np.median([pair.pixels_per_cell for pair in pairs]))
    ways = [f"{abs(right) * pixels:.0f} px {'right' if right > 0 else 'left'}"] if right else []
    ways += [f"{abs(down) * pixels:.0f} px {'down' if down > 0 else 'up'}"] if down else []
    return Finding(
        "error",
        "shift",
        f"depth is shifted by about {' and '.join(ways)} against the picture in {agree:.0%} of"
        f" {len(pairs)} pairs; crop both alike, or project depth with the camera's calibration",
    )


def _explains(
    other: NDArray[np.float64], own: NDArray[np.float64], better: float = _BETTER
) -> bool:
    """Better in most pairs, and by more than chance."""
    return bool((other > own).mean() >= _MOST and np.median(other - own) > better)
