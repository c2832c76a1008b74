"""A hint for predictions that are stored in another unit or as inverse depth.

The hint is a value with a code; `tables.describe_hint` renders it as a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from idisc.data.decode import FloatArray
from idisc.data.units import UNITS, is_inverse, nearest_unit, rank_correlation

_PLAUSIBLE_FACTOR = 2.0  # a network may be wrong by this factor
_IMPLAUSIBLE_FACTOR = 100.0  # no network is wrong by this factor
_UNIT_TOLERANCE = 1.4  # factor around the length of a unit; the two most similar units differ by 2
_MIN_PIXELS = 16  # a correlation of fewer is meaningless
_MAX_PIXELS = 4096  # a correlation of more takes longer and says the same


@dataclass(frozen=True)
class UnitHint:
    """A likely reason why predictions and ground truth differ by a large factor."""

    code: Literal["unit", "inverse_depth", "ratio"]
    details: Mapping[str, float | str] = field(default_factory=dict)


def check_unit(
    ratio: float, correlations: Sequence[float], metres_per_unit: float | None = None
) -> UnitHint | None:
    """Return a hint if predictions seem to be stored in another unit than `metres_per_unit`.

    `ratio` is prediction over ground truth; `correlations` has the rank correlation of the two for
    each picture. `metres_per_unit` is None for a network, whose output is always in metres.
    """
    if not 0 < ratio < math.inf:
        return UnitHint("ratio")
    factor = max(ratio, 1 / ratio)
    if metres_per_unit is not None:
        if is_inverse(correlations):
            return UnitHint("inverse_depth", {"correlation": float(np.mean(correlations))})
        unit = nearest_unit(metres_per_unit / ratio)
        distance = abs(math.log(metres_per_unit / ratio / UNITS[unit]))
        if factor > _PLAUSIBLE_FACTOR and distance < math.log(_UNIT_TOLERANCE):
            return UnitHint("unit", {"unit": unit, "scale": UNITS[unit], "used": metres_per_unit})
    return UnitHint("ratio") if factor > _IMPLAUSIBLE_FACTOR else None


def correlation_with(target: FloatArray, prediction: FloatArray) -> float:
    """Return the rank correlation of pixels (P,); NaN if they are too few or all equal."""
    if len(target) < _MIN_PIXELS:
        return math.nan
    step = max(1, len(target) // _MAX_PIXELS)
    return rank_correlation(prediction[::step], target[::step])
