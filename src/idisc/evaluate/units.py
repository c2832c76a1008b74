"""A hint for predictions that are stored in another unit, or are inverse depth.

The hint is a value with a code; `tables.describe_hint` has the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from idisc.data.decode import FloatArray
from idisc.data.units import UNITS, is_inverse, nearest_unit, rank_correlation

_PLAUSIBLE = 2.0  # a network may be wrong by this factor
_IMPLAUSIBLE = 100.0  # no network is wrong by this factor
_NEAR = 1.4  # times the ratio of a unit; the two units that are nearest to each other differ by 2
_FEWEST = 16  # pixels for which a correlation is meaningful
_ENOUGH = 4096  # pixels; a correlation of more takes longer and says the same


@dataclass(frozen=True)
class UnitHint:
    """A likely reason why predictions and ground truth differ by a large factor."""

    code: Literal["unit", "inverse_depth", "ratio"]
    details: Mapping[str, float | str] = field(default_factory=dict)


def check_unit(
    ratio: float, correlations: Sequence[float], metres_per_unit: float | None = None
) -> UnitHint | None:
    """Return a hint if predictions seem to be stored in another unit than `metres_per_unit`.

    `ratio` is that of prediction to ground truth, `correlations` those of their ranks for each
    picture. `metres_per_unit` is None for a network, whose output is always in metres.
    """
    if not 0 < ratio < math.inf:
        return UnitHint("ratio")
    factor = max(ratio, 1 / ratio)
    if metres_per_unit is not None:
        if is_inverse(correlations):
            return UnitHint("inverse_depth", {"correlation": float(np.mean(correlations))})
        unit = nearest_unit(metres_per_unit / ratio)
        apart = abs(math.log(metres_per_unit / ratio / UNITS[unit]))
        if factor > _PLAUSIBLE and apart < math.log(_NEAR):
            return UnitHint("unit", {"unit": unit, "scale": UNITS[unit], "used": metres_per_unit})
    return UnitHint("ratio") if factor > _IMPLAUSIBLE else None


def correlation_with(target: FloatArray, prediction: FloatArray) -> float:
    """Return the rank correlation of pixels (P,); NaN if they are few or all alike."""
    if len(target) < _FEWEST:
        return math.nan
    step = max(1, len(target) // _ENOUGH)
    return rank_correlation(prediction[::step], target[::step])
