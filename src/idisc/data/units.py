"""UNITS: the units in which depth is stored, shared by the doctor and by evaluation."""

from __future__ import annotations

import math

UNITS = {  # metres of one unit
    "metres": 1.0,
    "millimetres": 1 / 1000,
    "1/256 m (KITTI)": 1 / 256,
    "centimetres": 1 / 100,
    "1/5000 m (TUM)": 1 / 5000,
    "tenths of a millimetre": 1 / 10_000,
}


def nearest_unit(metres: float) -> str:
    """Return the name of the unit whose length is nearest to `metres`, by their ratio."""
    return min(UNITS, key=lambda unit: abs(math.log(metres / UNITS[unit])))
