"""Metrics of depth, normals, the KITTI benchmark and 3D points: pure functions of arrays.

The caller masks, crops, caps and clamps. One image becomes `Terms`: its number of pixels and, for
each pixel quantity, the mean and the sum of squared deviations. `pool` combines the terms of
several images into those of all their pixels. Every metric is a mean, a root mean square or a
standard deviation of one quantity (METRICS). `averages` computes those of a dataset.

Depth is in metres, angles are in degrees, shares are between 0 and 1. Computations use float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.errors import DataError, InputError, require

FloatArray = NDArray[np.floating[Any]]
Double = NDArray[np.float64]

RATIOS = {"d05": 1.25**0.5, "d1": 1.25, "d2": 1.25**2, "d3": 1.25**3}
"""Shares of pixels whose ratio to the target, whichever is above 1, stays below the number."""
ANGLES_DEG = (5.0, 7.5, 11.25, 11.5, 22.5, 30.0)
"""Shares of pixels with a smaller angular error: a5 to a30. 11.5 is the paper's, 11.25 usual."""
KITTI_BENCHMARK = ("silog", "sq_rel_percent", "abs_rel_percent", "irmse")
"""The four columns of the KITTI depth prediction benchmark, which averages by image."""
CLOUD_DISTANCES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)
"""Distances in metres of the paper's F1 scores: f1_0.05 to f1_0.75."""
BOUNDARY_PERCENTS = tuple(np.linspace(5, 25, 10).tolist())
"""Relative steps of depth that `boundary_f1` takes for edges, in percent."""
_BLOCK = 1 << 15  # pixels whose quantities fit into the cache: five times faster
NO_PIXEL = ("ground truth", "no valid pixel", "check masks, crop and depth range")


class Metric(NamedTuple):
    """How a metric is computed from a pixel quantity."""

    quantity: str
    kind: Literal["mean", "root", "deviation"]  # root: root mean square
    factor: float = 1.0


METRICS = {
    **{name: Metric(name, "mean") for name in RATIOS},
    "abs_rel": Metric("abs_rel", "mean"),
    "sq_rel": Metric("sq_rel", "mean"),
    "rmse": Metric("error", "root"),
    "rmse_log": Metric("log_error", "root"),
    "log10": Metric("log10", "mean"),
    "silog": Metric("log_error", "deviation", 100.0),
    "sq_rel_percent": Metric("relative_square", "mean", 100.0),
    "abs_rel_percent": Metric("abs_rel", "mean", 100.0),
    "irmse": Metric("inverse_error_km", "root"),
    **{f"a{angle:g}": Metric(f"a{angle:g}", "mean") for angle in ANGLES_DEG},
    "mean_deg": Metric("angle_deg", "mean"),
    "rmse_deg": Metric("angle_deg", "root"),
}
"""All metrics except `median_deg`, which needs every error; names as in `paper`."""


@dataclass(frozen=True, kw_only=True)
class Formula:
    """Details of a root, a deviation and a median that implementations differ in."""

    epsilon: float = 0.0  # added to the mean square inside a root
    unbiased: bool = False  # variance over P - 1 instead of P pixels; NaN for a single pixel
    lower_median: bool = False  # the lower of two middle values instead of their mean


TEXTBOOK = Formula()
PUBLISHED = Formula(epsilon=1e-6, unbiased=True, lower_median=True)


class Moments(NamedTuple):
    """Mean of a pixel quantity, and the sum of squared deviations from it."""

    mean: float
    squares: float


@dataclass(frozen=True, eq=False)
class Terms:
    """All quantities that the metrics need of an image, or of several pooled images."""

    pixels: int = 0
    moments: Mapping[str, Moments] = field(default_factory=dict)  # by quantity
    angles_deg: Double | None = None  # (P,) of normals: the median needs each of them

    def metrics(self, formula: Formula = TEXTBOOK) -> dict[str, float]:
        """Return all metrics that can be computed from these terms, by name."""
        if not self.pixels:
            raise DataError(*NO_PIXEL)
        values = {
            name: self._value(metric, formula)
            for name, metric in METRICS.items()
            if metric.quantity in self.moments
        }
        if self.angles_deg is not None:
            values["median_deg"] = _median(self.angles_deg, formula)
        return values

    def _value(self, metric: Metric, formula: Formula) -> float:
        mean, squares = self.moments[metric.quantity]
        if metric.kind == "mean":
            return metric.factor * mean
        if metric.kind == "root":
            mean_square = mean * mean + squares / self.pixels
            return metric.factor * math.sqrt(mean_square + formula.epsilon)
        freedom = self.pixels - formula.unbiased
        return metric.factor * math.sqrt(squares / freedom) if freedom else math.nan


def depth_terms(prediction: FloatArray, target: FloatArray) -> Terms:
    """Return the terms of one image; both arrays are valid pixels (P,) in metres above 0."""
    if prediction.ndim != 1 or prediction.shape != target.shape:
        raise InputError(
            f"depth of shapes {prediction.shape} and {target.shape}", "(P,) twice is needed"
        )
    p, t = prediction.astype(np.float64), target.astype(np.float64)
    for name, depth in (("prediction", p), ("target", t)):
        if len(depth) and not 0 < depth.min() <= depth.max() < math.inf:  # NaN compares false
            raise InputError(
                name,
                f"depth from {depth.min():g} to {depth.max():g} m among the valid pixels",
                ("only finite numbers above 0 have a logarithm, so mask or clamp the others"),
            )
    blocks = [slice(first, first + _BLOCK) for first in range(0, len(p), _BLOCK)]
    return pool(_depth_terms(p[block], t[block]) for block in blocks)


def _depth_terms(p: Double, t: Double) -> Terms:
    error, log_error, ratio = p - t, np.log(p) - np.log(t), np.maximum(p / t, t / p)
    relative = error / t
    return _terms(
        {
            **{name: ratio < bound for name, bound in RATIOS.items()},
            "error": error,
            "log_error": log_error,
            "abs_rel": np.abs(relative),
            "sq_rel": error * relative,
            "log10": np.abs(log_error) / math.log(10.0),
            "relative_square": relative * relative,
            "inverse_error_km": 1000.0 / p - 1000.0 / t,
        }
    )


def normal_terms(prediction: FloatArray, target: FloatArray) -> Terms:
    """Return the terms of one image; both arrays are normals (P, 3) of any length."""
    angles = angular_error_deg(prediction, target)
    shares = {f"a{bound:g}": angles < bound for bound in ANGLES_DEG}
    return replace(_terms({**shares, "angle_deg": angles}), angles_deg=angles)


def angular_error_deg(prediction: FloatArray, target: FloatArray) -> Double:
    """Return angles (P,) between normals (P, 3) of any length; 90 degrees for length 0."""
    if prediction.ndim != 2 or prediction.shape[1] != 3 or prediction.shape != target.shape:
        raise InputError(
            f"normals of shapes {prediction.shape} and {target.shape}", "(P, 3) twice is needed"
        )
    p, t = prediction.astype(np.float64), target.astype(np.float64)
    lengths = [np.maximum(np.linalg.norm(normals, axis=1), 1e-8) for normals in (p, t)]
    cosine = np.einsum("pc,pc->p", p, t) / (lengths[0] * lengths[1])
    if not np.isfinite(cosine).all():
        raise InputError("normals", "some of the valid pixels' are not finite", "mask those pixels")
    angles: Double = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return angles


def pool(parts: Iterable[Terms]) -> Terms:
    """Combine the terms of several images by Chan's formula, which avoids cancellation."""
    parts = [part for part in parts if part.pixels]
    if len(parts) < 2:
        return parts[0] if parts else Terms()
    weights = [part.pixels for part in parts]
    moments = {
        name: _pooled(weights, [part.moments[name] for part in parts]) for name in parts[0].moments
    }
    angles = [part.angles_deg for part in parts if part.angles_deg is not None]
    return Terms(sum(weights), moments, np.concatenate(angles) if angles else None)


def _pooled(weights: Sequence[int], parts: Sequence[Moments]) -> Moments:
    mean = weighted_mean([part.mean for part in parts], weights)
    between = (n * (part.mean - mean) ** 2 for n, part in zip(weights, parts, strict=True))
    return Moments(mean, math.fsum(part.squares for part in parts) + math.fsum(between))


def _terms(quantities: Mapping[str, NDArray[Any]]) -> Terms:
    pixels = len(next(iter(quantities.values())))
    if not pixels:
        return Terms()
    return Terms(pixels, {name: _moments(values) for name, values in quantities.items()})


def _moments(values: NDArray[Any]) -> Moments:
    mean = values.mean(dtype=np.float64)
    # no dot product, whose rounding and time depend on the number of BLAS threads
    return Moments(float(mean), float(np.square(values - mean).sum()))


def _median(values: Double, formula: Formula) -> float:
    if not formula.lower_median:
        return float(np.median(values))
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def cloud_metrics(prediction: FloatArray, target: FloatArray) -> dict[str, float]:
    """Return F1 scores and chamfer distance of two point clouds (P, 3) and (Q, 3) in metres.

    f1_D is the harmonic mean of precision, the share of predicted points within D metres of a
    target point, and recall, the share of target points within D of a predicted point. chamfer is
    (mean distance from predicted points to the nearest target point + mean distance the other way)
    / 2; the paper reports 0.131 m without its formula.
    """
    for cloud in (prediction, target):
        if cloud.ndim != 2 or cloud.shape[1] != 3 or not len(cloud):
            raise InputError(f"point cloud of shape {cloud.shape}", "(P, 3) and P > 0 are needed")
        if not np.isfinite(cloud).all():
            raise InputError(
                "point cloud", "some coordinates are not finite", "leave those points out"
            )
    to_target, to_prediction = _nearest(prediction, target), _nearest(target, prediction)
    scores = {
        f"f1_{distance:g}": _f1((to_target < distance).mean(), (to_prediction < distance).mean())
        for distance in CLOUD_DISTANCES
    }
    return {**scores, "chamfer": float(to_target.mean() + to_prediction.mean()) / 2}


def boundary_f1(prediction: FloatArray, target: FloatArray, valid: NDArray[np.bool_]) -> float:
    """Return the agreement of depth edges of two depth maps (H, W), 0 to 1; for exact targets.

    This is the boundary F1 of Depth Pro (Bochkovskii et al. 2024): neighbouring pixels form an edge
    if one is more than t percent farther than the other. F1 of predicted and true edges, each in
    the direction of the step, is averaged over thresholds t from 5 to 25, weighted by t. NaN if the
    target has no edge.
    """
    scores = []
    steps = [
        _directed_steps(np.log(np.where(valid, depth, 1)), valid) for depth in (prediction, target)
    ]
    for percent in BOUNDARY_PERCENTS:
        ours, theirs = (np.abs(each) > math.log1p(percent / 100) for each in steps)
        if not theirs.any():
            continue
        both = (ours & theirs & (steps[0] * steps[1] > 0)).sum()
        scores.append((percent, _f1(both / max(ours.sum(), 1), both / theirs.sum())))
    if not scores:
        return math.nan
    return float(np.average([score for _, score in scores], weights=[each[0] for each in scores]))


def _directed_steps(log_depth: Double, valid: NDArray[np.bool_]) -> Double:
    """Return the steps of log depth to the right and lower neighbours; 0 if invalid."""
    parts = []
    for axis in (0, 1):
        both = np.logical_and(*(np.delete(valid, end, axis) for end in (0, -1)))
        parts.append(np.where(both, np.diff(log_depth, axis=axis), 0.0).ravel())
    return np.concatenate(parts)


def compares_maps(name: str) -> bool:
    """Tell whether a metric compares whole depth maps instead of single pixels."""
    return name == "boundary_f1" or compares_clouds(name)


def compares_clouds(name: str) -> bool:
    """Tell whether a metric compares points in space."""
    return name == "chamfer" or name.startswith("f1_")


def _nearest(points: FloatArray, cloud: FloatArray) -> Double:
    """Return the exact distance (P,) from each point to the nearest point of the cloud."""
    require("scipy", extra="data")
    from scipy.spatial import cKDTree

    # Splitting cells in the middle is twice as fast to build as at the median, and no slower to ask
    distances: Double = cKDTree(cloud, balanced_tree=False, compact_nodes=False).query(
        points, workers=-1
    )[0]
    return distances


def _f1(precision: float, recall: float) -> float:
    both = precision + recall
    return float(2 * precision * recall / both) if both else 0.0


def weighted_mean(values: Sequence[float], weights: Sequence[int]) -> float:
    """Return the mean of values, each with a weight."""
    return math.fsum(n * value for n, value in zip(weights, values, strict=True)) / sum(weights)
