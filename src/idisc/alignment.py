"""Relative depth becomes metres: a scale and a shift of the inverse, fitted to known values.

Many networks are trained on data without a scale. Their answer is 1 / depth up to an unknown factor
and an unknown constant (affine-invariant disparity), so two numbers for each picture turn it into
metres. They follow from ground truth by least squares, or from two known distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.errors import InputError

FloatArray = NDArray[np.floating[Any]]
FURTHEST_M = 1000.0  # greater depth, and depth beyond infinity after a fit, is set to this
_SHIFTS = np.geomspace(1e-4, 1e4, 2000)  # searched, in units of the smallest inverse depth
_MIN_DEPTH = np.float32(1e-9)  # of relative depth, as files may hold 0
_HALVINGS = 60  # of the interval of a shift


@dataclass(frozen=True, kw_only=True)
class InverseFit:
    """1 / metres = scale / relative depth + shift."""

    scale: float
    shift: float  # 1/m

    def metres(self, depth: FloatArray, furthest: float = FURTHEST_M) -> NDArray[np.float32]:
        """Convert relative depth of any shape to metres, at most `furthest`."""
        inverse = self.scale / np.maximum(depth, _MIN_DEPTH) + self.shift
        return (1 / np.maximum(inverse, 1 / furthest)).astype(np.float32)


class Span(NamedTuple):
    """Two points of a picture with relative depth, and their true distance."""

    rays: NDArray[np.float64]  # (2, 3) through the points, z = 1
    depth: NDArray[np.float64]  # (2,) relative
    metres: float


def fit_inverse(depth: FloatArray, target: FloatArray) -> InverseFit:
    """Return the least-squares fit of 1 / depth to 1 / target, both (P,) and above 0."""
    if not len(target):
        return InverseFit(scale=1.0, shift=0.0)
    ours, true = (
        1 / np.maximum(values, _MIN_DEPTH).astype(np.float64) for values in (depth, target)
    )
    spread = ours - ours.mean()
    total = float(spread @ spread)
    scale = float(spread @ (true - true.mean())) / total if total > 0 else 0.0
    return InverseFit(scale=scale, shift=float(true.mean() - scale * ours.mean()))


def fit_spans(first: Span, second: Span) -> InverseFit:
    """Return the fit that gives two pairs of points their true distances.

    With 1 / metres = scale (1 / depth + offset), the ratio of both distances depends on the offset
    alone: it is searched, and the scale follows. InputError if no offset gives this ratio.
    """
    inverse = 1 / np.stack([first.depth, second.depth])  # (2, 2)
    rays = np.stack([first.rays, second.rays])  # (2, 2, 3)
    wanted = np.log([first.metres, second.metres])

    def lengths(offset: float) -> NDArray[np.float64]:
        """Return the logarithms of both distances (2,) for a scale of 1."""
        points = rays / (inverse + offset)[..., None]
        apart: NDArray[np.float64] = np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
        return np.log(apart + 1e-12)

    def misfit(offset: float) -> float:
        found = lengths(offset)
        return float(found[0] - found[1] - wanted[0] + wanted[1])

    least = float(inverse.min())
    offsets = np.concatenate([least * (_SHIFTS[_SHIFTS < 1] - 1), [0.0], least * _SHIFTS])
    values = np.array([misfit(offset) for offset in offsets])
    changes = np.flatnonzero(np.diff(np.sign(values)) != 0)
    if not len(changes):
        raise InputError(
            "known distances",
            "no scale and shift fit both",
            "measure one thing that is near and one that is far, and check their points",
        )
    # The offset nearest to 0 changes the shape least.
    place = min(changes, key=lambda index: abs(offsets[index]))
    low, high = offsets[place], offsets[place + 1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        same = np.sign(misfit(middle)) == np.sign(misfit(low))
        low, high = (middle, high) if same else (low, middle)
    scale = float(np.exp((lengths(low) - wanted).mean()))
    return InverseFit(scale=scale, shift=scale * float(low))
