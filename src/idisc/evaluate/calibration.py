"""Does a network know where it is wrong? The error of all pixels against the spread it states.

Spread is the deviation of the network's own answers at its resolutions. It bounds no error: the
resolutions share an encoder, and can be wrong together. What it is worth on a dataset, this curve
says: pixels in ten parts of equal number by their spread, and the mean error of each part. Where
spread tells nothing, the curve is flat.

Counted in classes of 8 % width, so that memory does not grow with the dataset; a rank within a
class is the class's mean rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
MEANING = (
    "Pixels in ten parts of equal number by the spread of the network's answers at its resolutions,"
    " and the mean |error| of each part. Spread orders pixels by how far to trust them; it is no"
    " error bound."
)
PARTS = 10
_NEAR, _FAR, _STEPS = 1e-4, 1e3, 210  # metres of the first and last class; 30 to a decade


@dataclass(frozen=True)
class Part:
    """Pixels of similar spread."""

    spread: float  # mean, metres
    abs_error: float  # mean |error|, metres
    abs_rel: float
    pixels: int


@dataclass(frozen=True)
class Calibration:
    """The curve, from the least spread to the most."""

    parts: tuple[Part, ...]
    rank_correlation: float  # Spearman's, of spread and |error| over all pixels; 0: no help
    error_per_spread: float  # mean |error| over mean spread

    def __str__(self) -> str:
        first, last = self.parts[0], self.parts[-1]
        return (
            f"rank correlation of spread and |error| {self.rank_correlation:.2f}; mean |error|"
            f" {first.abs_error:.3f} m where spread is least ({first.spread:.3f} m),"
            f" {last.abs_error:.3f} m where it is most ({last.spread:.3f} m)"
        )


class Tally:
    """Sums over pictures; `add` each, then ask for the curve."""

    def __init__(self) -> None:
        self.joint = np.zeros((_STEPS + 2, _STEPS + 2))  # pixels by class of spread and of error
        self.sums = np.zeros((3, _STEPS + 2))  # of spread, |error| and |error| / truth, by spread

    def add(self, spread: FloatArray, error: FloatArray, target: FloatArray) -> None:
        """Pixels (P,) of a picture: spread, prediction - truth, and truth, in metres."""
        error = np.abs(error.astype(np.float64))
        rows, columns = _classes(spread), _classes(error)
        size = len(self.joint)
        counts = np.bincount(rows * size + columns, minlength=size * size)
        self.joint += counts.reshape(size, size)
        for sums, values in zip(self.sums, (spread, error, error / target), strict=True):
            sums += np.bincount(rows, values, minlength=size)

    def result(self) -> Calibration | None:
        """None without a pixel."""
        pixels = self.joint.sum(axis=1)
        total = float(pixels.sum())
        if not total:
            return None
        spread, error = self.sums[0].sum(), self.sums[1].sum()
        return Calibration(
            parts=tuple(self._parts(pixels)),
            rank_correlation=_spearman(self.joint),
            error_per_spread=float(error / spread) if spread else float("nan"),
        )

    def _parts(self, pixels: NDArray[np.float64]) -> list[Part]:
        """Classes joined to about ten parts; a class is never divided."""
        middle = np.cumsum(pixels) - pixels / 2
        numbers = np.minimum((middle * PARTS / pixels.sum()).astype(int), PARTS - 1)
        found = []
        for number in range(PARTS):
            count = pixels[numbers == number].sum()
            if count:
                spread, error, rel = (self.sums[:, numbers == number].sum(1) / count).tolist()
                found.append(Part(spread, error, rel, int(count)))
        return found


def _classes(metres: FloatArray) -> NDArray[np.intp]:
    """Class of each length; 0 for less than the first, the last for more."""
    steps = np.log(np.maximum(metres, _NEAR / 2) / _NEAR) * (_STEPS / np.log(_FAR / _NEAR))
    found: NDArray[np.intp] = np.clip(np.floor(steps).astype(np.intp) + 1, 0, _STEPS + 1)
    return found


def _spearman(joint: NDArray[np.float64]) -> float:
    """Correlation of mean ranks from a table of counts; NaN if one of both is the same always."""
    total = joint.sum()
    deviations = []
    for axis in (1, 0):
        counts = joint.sum(axis=axis)
        ranks = np.cumsum(counts) - counts / 2  # of the middle of each class
        deviations.append(ranks - total / 2)
    rows, columns = deviations
    variances = (joint.sum(1) @ rows**2) * (joint.sum(0) @ columns**2)
    return float(rows @ joint @ columns / np.sqrt(variances)) if variances > 0 else float("nan")
