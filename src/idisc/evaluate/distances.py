"""Errors by the distance of the ground truth, in bins that fit the data.

Pixels are counted in fine slots, so that memory does not grow with the dataset; at the end the
slots are joined to bins with round edges. Slots become ten times as wide when a distance does not
fit, so the result does not depend on the order of the pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from idisc.metrics import FloatArray

MAX_BINS = 16
NEAR_SHARE = 0.995  # of the pixels are in bins of equal width; those further away share one bin
_SLOTS, _SLOTS_PER_METRE = 2000, 1000.0  # at first, up to 2 m
_ROUNDING = 2e-4  # slots: float32 stores 1.9 m as a little less, and 1.9 m begins a slot


@dataclass(frozen=True)
class Bin:
    """Errors of all pixels whose ground truth is between two distances."""

    start: float  # metres
    stop: float
    pixels: int
    abs_rel: float
    abs_error: float  # metres
    bias: float  # mean of prediction - ground truth, metres


class Distances:
    """Sums over all pixels by distance."""

    def __init__(self) -> None:
        self.per_metre = _SLOTS_PER_METRE
        self.sums = np.zeros((4, _SLOTS))  # pixels, abs_rel, abs_error, bias

    def add(self, prediction: FloatArray, target: FloatArray) -> None:
        """Add pixels (P,) in metres."""
        p, t = prediction.astype(np.float64), target.astype(np.float64)
        while t.size and t.max() * self.per_metre + _ROUNDING >= _SLOTS:
            self._widen()
        slots, error = (t * self.per_metre + _ROUNDING).astype(int), p - t
        values = (np.ones_like(t), np.abs(error) / t, np.abs(error), error)
        for sums, weights in zip(self.sums, values, strict=True):
            sums += np.bincount(slots, weights, minlength=_SLOTS)

    def merge(self, other: Distances) -> None:
        """Add the sums over other pictures, whose slots may become wider."""
        while self.per_metre > other.per_metre:
            self._widen()
        while other.per_metre > self.per_metre:
            other._widen()
        self.sums += other.sums

    def bins(self) -> tuple[Bin, ...]:
        """Return at most MAX_BINS of equal width, and one for all that is further away."""
        pixels = self.sums[0]
        (filled,) = pixels.nonzero()
        if not filled.size:
            return ()
        share = np.cumsum(pixels) / pixels.sum()
        first, end, last = filled[0], int(np.argmax(share >= NEAR_SHARE)) + 1, filled[-1] + 1
        round_numbers = (digit * 10**power for power in count() for digit in (1, 2, 5))
        width = next(n for n in round_numbers if -(-end // n) - first // n <= MAX_BINS)
        far = -(-end // width) * width
        edges = [*range(first // width * width, far + 1, width)]
        if last > far:
            edges.append(-(-last // width) * width)
        bins = (self._bin(start, stop) for start, stop in pairwise(edges))
        return tuple(bin_ for bin_ in bins if bin_.pixels)

    def _bin(self, start: int, stop: int) -> Bin:
        pixels, *sums = self.sums[:, start:stop].sum(axis=1).tolist()
        means = [total / max(pixels, 1) for total in sums]
        return Bin(start / self.per_metre, stop / self.per_metre, int(pixels), *means)

    def _widen(self) -> None:
        joined: NDArray[np.float64] = self.sums.reshape(4, -1, 10).sum(axis=2)
        self.sums = np.pad(joined, ((0, 0), (0, _SLOTS - joined.shape[1])))
        self.per_metre /= 10
