"""Ablation of one picture: how the prediction changes without a level or without some IDRs.

Changes of depth are signed, in metres: the ablated prediction minus the whole one. Changes of
normals are angles in degrees. They measure the influence of a part on the prediction, not on its
error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from idisc.explain.idrs import Explanation, FloatMaps


@dataclass(frozen=True)
class Effect:
    """An ablated prediction, and how it differs from the whole one."""

    name: str
    prediction: FloatMaps = field(repr=False)  # (H, W) metres, or normals (H, W, 3)
    change: FloatMaps = field(repr=False)  # (H, W): signed metres, or degrees of 0 or more

    @property
    def mean(self) -> float:
        """The mean of the absolute change; metres or degrees."""
        return float(np.abs(self.change).mean())

    @property
    def largest(self) -> float:
        """The 99th percentile of the absolute change, which ignores single outliers."""
        return float(np.quantile(np.abs(self.change), 0.99))


def levels_alone(explanation: Explanation) -> list[Effect]:
    """Return the prediction of each level alone; the whole prediction is their mean."""
    return [
        effect(explanation, f"{level.name} alone", explanation.fused({level.index}))
        for level in explanation.levels
    ]


def leave_one_out(explanation: Explanation) -> list[Effect]:
    """Return the prediction without each of the levels; empty if there is only one."""
    every = {level.index for level in explanation.levels}
    if len(every) == 1:
        return []
    return [
        effect(explanation, f"without {level.name}", explanation.fused(every - {level.index}))
        for level in explanation.levels
    ]


def mute(explanation: Explanation, idrs: Mapping[int, Collection[int]]) -> Effect:
    """Return the prediction without all of the IDRs {level: their numbers}."""
    parts = [  # written as in --mute
        f"{level}:{','.join(map(str, sorted(numbers)))}" for level, numbers in sorted(idrs.items())
    ]
    return effect(explanation, f"without {' and '.join(parts)}", explanation.muted(idrs))


def effect(explanation: Explanation, name: str, prediction: FloatMaps) -> Effect:
    """Return an ablated prediction of the same picture with its change."""
    whole, task = explanation.prediction, explanation.task
    if task.metric:
        return Effect(name, prediction, prediction - whole)
    flat = (-1, *whole.shape[2:])
    change = task.error(prediction.reshape(flat), whole.reshape(flat))
    return Effect(name, prediction, change.astype(np.float32).reshape(whole.shape[:2]))
