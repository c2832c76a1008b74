"""What a prediction owes to a level or to an IDR: take it away and look at the difference.

Differences of depth are signed, in metres, without minus with: positive where depth grows when the
part is gone, that is, where the part pulled it nearer. Normals turn by degrees. What is measured is
the network's own answer, not its error: a part without which nothing changes is not used, and one
without which much changes is not therefore right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from idisc import metrics
from idisc.explain.idrs import Explanation, FloatMaps


@dataclass(frozen=True)
class Effect:
    """What taking something away does to the prediction."""

    name: str
    prediction: FloatMaps = field(repr=False)  # without it: (H, W) metres, or normals (H, W, 3)
    change: FloatMaps = field(repr=False)  # (H, W): metres, signed; of normals degrees, 0 or more

    @property
    def mean(self) -> float:
        """Mean of the change's size over the picture; metres or degrees."""
        return float(np.abs(self.change).mean())

    @property
    def largest(self) -> float:
        """Its 99th percentile: the largest but for single pixels."""
        return float(np.quantile(np.abs(self.change), 0.99))


def alone(explanation: Explanation) -> list[Effect]:
    """The answer of each level by itself, all others taken away; the prediction is their mean."""
    return [
        effect(explanation, f"{level.name} alone", explanation.fused({level.index}))
        for level in explanation.levels
    ]


def leave_one_out(explanation: Explanation) -> list[Effect]:
    """For each level, the mean of the others; empty if there is only one."""
    every = {level.index for level in explanation.levels}
    if len(every) == 1:
        return []
    return [
        effect(explanation, f"without {level.name}", explanation.fused(every - {level.index}))
        for level in explanation.levels
    ]


def mute_each(explanation: Explanation, level: int, idrs: Iterable[int]) -> list[Effect]:
    """For each of some IDRs of a level, the prediction without it alone."""
    return [
        effect(explanation, f"level {level}, IDR {idr}", explanation.muted({level: {idr}}))
        for idr in idrs
    ]


def mute(explanation: Explanation, idrs: Mapping[int, Collection[int]]) -> Effect:
    """The prediction without all of these IDRs at once, {level: their numbers}."""
    parts = [
        f"{level}:{','.join(map(str, sorted(numbers)))}" for level, numbers in sorted(idrs.items())
    ]  # as --mute takes them
    return effect(explanation, f"without {' and '.join(parts)}", explanation.muted(idrs))


def effect(explanation: Explanation, name: str, prediction: FloatMaps) -> Effect:
    """Another prediction of the same picture, beside the network's own."""
    whole = explanation.prediction
    if whole.ndim == 2:
        return Effect(name, prediction, prediction - whole)
    angles = metrics.angular_error_deg(prediction.reshape(-1, 3), whole.reshape(-1, 3))
    return Effect(name, prediction, angles.astype(np.float32).reshape(whole.shape[:2]))
