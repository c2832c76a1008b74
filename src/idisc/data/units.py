"""Units in which depth is stored, and signs of inverse depth; for the doctor and evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNITS = {  # metres of one unit
    "metres": 1.0,
    "millimetres": 1 / 1000,
    "1/256 m (KITTI)": 1 / 256,
    "centimetres": 1 / 100,
    "1/5000 m (TUM)": 1 / 5000,
    "tenths of a millimetre": 1 / 10_000,
}
# Maps are inverse depth if at least this share of them falls where depth should grow, and if the
# mean of their rank correlations is below this number. Correlated with the height in the image
# (floors are near at the bottom), 5 % of the maps of NYU and KITTI fall, and the means are 0.5 and
# 0.96; in Taskonomy, whose cameras point anywhere, half of them fall, and the mean is -0.06.
_INVERSE_SHARE, _INVERSE_MEAN = 0.85, -0.3


def nearest_unit(metres: float) -> str:
    """Return the name of the unit whose length is nearest to `metres`, by their ratio."""
    return min(UNITS, key=lambda unit: abs(math.log(metres / UNITS[unit])))


def rank_correlation(values: ArrayLike, others: ArrayLike) -> float:
    """Return Spearman's correlation of two arrays of one size; NaN if one is constant.

    It is the same for inverse depth and for disparity with any scale and shift, and noise near zero
    disparity does not dominate it.
    """
    first, second = _ranks(values), _ranks(others)
    norm = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / norm if norm > 0 else math.nan


def is_inverse(correlations: Sequence[float]) -> bool:
    """Return whether maps, by their correlation with what depth should be, are inverse depth.

    Single maps of bad depth may fall where the depth grows, but not most maps of a dataset.
    """
    falling = sum(correlation < 0 for correlation in correlations)
    return falling > 0 and bool(
        falling >= _INVERSE_SHARE * len(correlations) and np.mean(correlations) < _INVERSE_MEAN
    )


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return ranks around 0; equal values have the mean of their ranks."""
    _, places, counts = np.unique(np.ravel(values), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return np.asarray(ranks - ranks.mean()) if ranks.size else ranks
