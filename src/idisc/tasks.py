"""TASKS: what a network predicts at each pixel, one value for each dense task.

Everything that differs between depth and normals and needs no torch is a field of `Task`. The other
parts are looked up under the name of the task: how a network fuses its levels in
`model.heads.FUSIONS`, how ground truth is stored in `data.decode.TARGETS`. Losses have names of
their own in `train.losses.LOSSES`. A new task is a new row here and one in each of these tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc import metrics, visualize
from idisc.metrics import Terms
from idisc.visualize import FloatArray, Picture

AGREE_DEG = 11.25  # two normals agree if the angle between them is at most this
Limits = tuple[float, float]
Mask = NDArray[np.bool_]


def _unchanged(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return values


@dataclass(frozen=True, kw_only=True)
class Task:
    """A dense task. A map of its values is (H, W), or (H, W, C) with several components."""

    name: str  # in configurations, files and messages
    components: int  # C, of a value
    channels: int  # of a head of the network: the components, and more if the loss needs more
    unit: str  # of a value
    error_unit: str  # of an error
    metric: bool = False  # values are metres along the optical axis, so cameras and ranges matter
    directions: bool = False  # values are vectors x right, y down, z forward: they turn and mirror
    losses: tuple[str, ...]  # names of the losses that train it, the usual one first
    formats: tuple[str, ...]  # names of the output formats that are written by default
    headlines: tuple[str, ...]  # metrics to show first
    ranking: tuple[str, ...]  # metrics, small is good; the first known one ranks pictures
    terms: Callable[[FloatArray, FloatArray], Terms]  # prediction and target (P,) or (P, C)
    # From the output of the network to final values.
    finish: Callable[[NDArray[np.float32]], NDArray[np.float32]] = _unchanged
    agree: Callable[[FloatArray, FloatArray], Mask]  # whether two maps are practically the same
    colour_limits: Callable[..., Limits] | None = None  # of some maps; None: colours have no scale
    draw: Callable[[FloatArray, Limits | None, int | None], Picture]  # map, limits, largest width
    error: Callable[[FloatArray, FloatArray], FloatArray]  # absolute ones (P,), as for `terms`
    error_limit: Callable[..., float]  # of the colours of errors, by domain and ground truth

    def draw_error(
        self,
        prediction: FloatArray,
        target: FloatArray,
        valid: Mask,
        limit: float,
        width: int | None = None,
    ) -> Picture:
        """Errors of a map: 0 is blue, `limit` and beyond red, pixels that are not valid grey."""
        errors = np.full(valid.shape, np.nan)
        errors[valid] = self.error(prediction[valid], target[valid])
        return visualize.map_picture(errors, 0.0, limit, visualize.ERROR_COLOURS, width)


def _ratios_agree(maps: FloatArray, expected: FloatArray) -> Mask:
    low, high = np.minimum(maps, expected), np.maximum(maps, expected)
    agree: Mask = (high < metrics.RATIOS["d1"] * low) | (high == low)
    return agree


def _draw_depth(depth: FloatArray, limits: Limits | None, width: int | None) -> Picture:
    low, high = limits or visualize.depth_limits(depth)
    return visualize.depth_picture(depth, low, high, width=width)


def _absolute_error(prediction: FloatArray, target: FloatArray) -> FloatArray:
    return np.abs(prediction - target)


DEPTH = Task(
    name="depth",
    components=1,
    channels=1,
    unit="m",
    error_unit="m",
    metric=True,
    losses=("silog",),
    formats=("png", "png16"),
    headlines=("d1", "rmse", "abs_rel", "silog"),
    ranking=("abs_rel", "abs_rel_percent"),
    terms=metrics.depth_terms,
    agree=_ratios_agree,
    colour_limits=visualize.depth_limits,
    draw=_draw_depth,
    error=_absolute_error,
    error_limit=visualize.error_limit_m,
)


def _unit_length(normals: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = normals / np.maximum(length, np.float32(1e-6))
    return unit


def _directions_agree(maps: FloatArray, expected: FloatArray) -> Mask:
    lengths = np.linalg.norm(maps, axis=-1) * np.linalg.norm(expected, axis=-1)
    agree: Mask = (maps * expected).sum(-1) >= np.cos(np.radians(AGREE_DEG)) * lengths
    return agree


def _draw_normals(normals: FloatArray, _: Limits | None, width: int | None) -> Picture:
    return visualize.normals_picture(normals, width)


def _angle_limit(_domain: str, *_targets: Any) -> float:
    return visualize.ERROR_LIMIT_DEG


NORMALS = Task(
    name="normals",
    components=3,
    channels=4,  # and a concentration
    unit="of a unit vector",
    error_unit="deg",
    directions=True,
    losses=("angular",),
    formats=("normals",),
    headlines=("a11.5", "mean_deg", "median_deg"),
    ranking=("mean_deg",),
    terms=metrics.normal_terms,
    finish=_unit_length,
    agree=_directions_agree,
    draw=_draw_normals,
    error=metrics.angular_error_deg,
    error_limit=_angle_limit,
)

TASKS: dict[str, Task] = {task.name: task for task in (DEPTH, NORMALS)}
