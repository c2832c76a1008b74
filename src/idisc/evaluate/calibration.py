"""Calibration: whether the error of a network grows with the standard deviation of its levels.

This deviation, `level_std`, does not bound the error, because the levels share an encoder and can
be wrong together. The curve shows how informative it is on a dataset: pixels are sorted by their
deviation into ten parts of equal size, and each part has its mean error. The curve is flat if the
deviation carries no information.

Pixels are counted in bins of 8 % width, so that memory does not grow with the dataset; the rank of
a pixel is the mean rank of its bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
MEANING = (
    "Pixels are put in ten parts of equal number by the standard deviation of the network's"
    " predictions at its levels; each part has its mean |error|. The deviation ranks pixels by"
    " reliability; it is no error bound."
)
PARTS = 10
_FIRST_EDGE, _LAST_EDGE, _BINS = 1e-4, 1e3, 210  # metres, metres; 30 bins per decade


@dataclass(frozen=True)
class Part:
    """Pixels with a similar deviation of the levels."""

    level_std: float  # mean, metres
    abs_error: float  # mean |error|, metres
    abs_rel: float
    pixels: int


@dataclass(frozen=True)
class Calibration:
    """The curve, from the smallest deviation to the largest."""

    parts: tuple[Part, ...]
    rank_correlation: float  # Spearman's, of level_std and |error| over all pixels
    error_per_std: float  # mean |error| / mean level_std


class CalibrationSums:
    """Sums over pictures: `add` each of them, then take the `result`."""

    def __init__(self) -> None:
        self.joint = np.zeros((_BINS + 2, _BINS + 2))  # pixels by bin of level_std and of error
        self.sums = np.zeros((3, _BINS + 2))  # level_std, |error|, |error| / truth; by level_std

    def add(self, level_std: FloatArray, error: FloatArray, target: FloatArray) -> None:
        """Add the pixels (P,) of a picture: deviation, prediction - truth and truth, in metres."""
        error = np.abs(error.astype(np.float64))
        rows, columns = _bins(level_std), _bins(error)
        size = len(self.joint)
        counts = np.bincount(rows * size + columns, minlength=size * size)
        self.joint += counts.reshape(size, size)
        for sums, values in zip(self.sums, (level_std, error, error / target), strict=True):
            sums += np.bincount(rows, values, minlength=size)

    def merge(self, other: CalibrationSums) -> None:
        """Add the sums over other pictures."""
        self.joint += other.joint
        self.sums += other.sums

    def result(self) -> Calibration | None:
        """Return the curve; None without a pixel."""
        pixels = self.joint.sum(axis=1)
        if not pixels.any():
            return None
        std, error = self.sums[0].sum(), self.sums[1].sum()
        return Calibration(
            parts=tuple(self._parts(pixels)),
            rank_correlation=_spearman(self.joint),
            error_per_std=float(error / std) if std else float("nan"),
        )

    def _parts(self, pixels: NDArray[np.float64]) -> list[Part]:
        """Return the bins joined to ten parts of about equal size; no bin is divided."""
        middle = np.cumsum(pixels) - pixels / 2
        numbers = np.minimum((middle * PARTS / pixels.sum()).astype(int), PARTS - 1)
        parts = []
        for number in range(PARTS):
            count = pixels[numbers == number].sum()
            if count:
                std, error, rel = (self.sums[:, numbers == number].sum(1) / count).tolist()
                parts.append(Part(std, error, rel, int(count)))
        return parts


def _bins(metres: FloatArray) -> NDArray[np.intp]:
    """Return the bin of each length; 0 below the first edge, the last beyond the last edge."""
    decades = np.log(_LAST_EDGE / _FIRST_EDGE)
    steps = np.log(np.maximum(metres, _FIRST_EDGE / 2) / _FIRST_EDGE) * (_BINS / decades)
    bins: NDArray[np.intp] = np.clip(np.floor(steps).astype(np.intp) + 1, 0, _BINS + 1)
    return bins


def _spearman(joint: NDArray[np.float64]) -> float:
    """Return the correlation of mean ranks from counts; NaN if one of the two is constant."""
    deviations = []
    for axis in (1, 0):
        counts = joint.sum(axis=axis)
        ranks = np.cumsum(counts) - counts / 2  # of the middle of each bin
        deviations.append(ranks - joint.sum() / 2)
    rows, columns = deviations
    variances = (joint.sum(1) @ rows**2) * (joint.sum(0) @ columns**2)
    return float(rows @ joint @ columns / np.sqrt(variances)) if variances > 0 else float("nan")
