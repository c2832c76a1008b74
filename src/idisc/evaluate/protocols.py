"""PROTOCOLS: window, range, clamp, rescaling and averaging of an evaluation under one name.

The same predictions have other scores under each of them, so every result carries the name of its
protocol and the changes that were made to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idisc import averages
from idisc.alignment import FURTHEST_M, fit_inverse
from idisc.data import masks
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Sample, has_value, seen
from idisc.data.decode import FloatArray
from idisc.errors import InputError

Mask = NDArray[np.bool_]
WindowName = Literal["dataset", "full_frame", "eigen", "garg", "none"]
ZOEDEPTH_CAPS = {"sunrgbd": 8.0, "ddad": 80.0}  # metres; elsewhere the paper's


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How predictions and ground truth become numbers."""

    name: str
    averaging: Literal["image", "pixel", "batch"] = "image"  # averages.AVERAGES says what they are
    batch_size: int = 0  # of averaging=batch; 0: the dataset's `published_batch`
    # Scored pixels: the dataset's window on its crop; KITTI's on the full frame; KITTI's of Eigen
    # et al. instead of Garg's, on the crop as in the released code; Garg's for pictures of one's
    # own; all.
    window: WindowName = "dataset"
    min_depth: float = 0.0  # metres, ground truth must be above it; 0: the dataset's
    # Largest ground truth: where the code has a bound, where the paper states one, ZoeDepth's.
    cap: Literal["code", "paper", "zoedepth", "none"] = "code"
    max_depth: float = 0.0  # metres, another bound instead; 0: as `cap` says
    clamp: bool = False  # predictions into the range of ground truth
    # Predictions times one number per picture; paper: the mean of the ground truth for DIODE;
    # inverse: scale and shift of 1 / depth by least squares, as relative depth needs it.
    rescale: Literal["none", "median", "mean", "paper", "inverse"] = "none"
    numbers: Literal["all", "kitti_benchmark"] = "all"  # which metrics to report
    source: str = ""  # who uses it

    def __post_init__(self) -> None:
        for name in ("batch_size", "min_depth", "max_depth"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError("protocol", f"{name} {value}", "0 or more is needed")

    def average(self, spec: DatasetSpec) -> averages.Average:
        """Return a new average over the images of a dataset."""
        return averages.average(self.averaging, self.batch_of(spec))

    def batch_of(self, spec: DatasetSpec) -> int:
        """Return the number of pictures in a batch when averaging by batch."""
        return self.batch_size or spec.published_batch

    def cap_of(self, spec: DatasetSpec) -> float | None:
        """Return the depth in metres from which ground truth is ignored; None: no limit."""
        if self.max_depth:
            return self.max_depth
        if self.cap == "none" or (self.cap == "code" and not spec.capped):
            return None
        bounds = ZOEDEPTH_CAPS if self.cap == "zoedepth" else {}
        return bounds.get(spec.name, spec.max_depth)

    def least_of(self, spec: DatasetSpec) -> float:
        """Return the depth in metres up to which ground truth is ignored."""
        return self.min_depth or spec.min_depth

    def rescale_of(self, spec: DatasetSpec) -> Literal["none", "median", "mean", "inverse"]:
        """Return the statistic by which a prediction is scaled to the ground truth."""
        if self.rescale == "paper":
            return "mean" if spec.mean_rescaled else "none"
        return self.rescale

    def window_of(self, spec: DatasetSpec) -> WindowName:
        """Return the window that applies to a dataset, which may have only one, or none."""
        if self.window in ("garg", "none"):
            return self.window
        if spec.window is None:
            return "none"
        possible = {"full_frame": spec.window_of_frame, "eigen": spec.eigen_window is not None}
        return self.window if possible.get(self.window) else "dataset"

    def window_rule(self, spec: DatasetSpec) -> masks.WindowRule | None:
        """Return the window in which ground truth counts; None: everywhere."""
        others = {"garg": masks.garg, "eigen": spec.eigen_window, "none": None}
        return others.get(self.window_of(spec), spec.window)

    def valid(self, sample: Sample, spec: DatasetSpec) -> Mask:
        """Return the mask (H, W) of the ground truth that counts."""
        target = sample.target
        size = target.shape[0], target.shape[1]
        valid = has_value(target, self.least_of(spec))
        valid &= seen(size, spec, sample.record.sensor)
        cap = self.cap_of(spec)
        if cap is not None and sample.task.metric:
            valid &= target < cap
        rule = self.window_rule(spec)
        if rule is not None:
            top, left, full = sample.place
            on_frame = self.window_of(spec) == "full_frame"
            window = masks.shifted(rule(full), top, left) if on_frame else rule(size)
            valid &= masks.inside(size, window)
        return valid

    def adjusted(
        self, prediction: FloatArray, target: FloatArray, valid: Mask, spec: DatasetSpec
    ) -> FloatArray:
        """Return a depth prediction (H, W) rescaled by its valid pixels, then clamped."""
        if self.rescale_of(spec) == "inverse":
            fit = fit_inverse(prediction[valid], target[valid])
            prediction = fit.metres(prediction, self.cap_of(spec) or FURTHEST_M)
        else:
            factor = self._factor(prediction[valid], target[valid], spec)
            prediction = prediction * np.float32(factor)
        if self.clamp:
            prediction = prediction.clip(self.least_of(spec), self.cap_of(spec))
        return prediction

    def _factor(self, prediction: FloatArray, target: FloatArray, spec: DatasetSpec) -> float:
        kind = self.rescale_of(spec)
        if kind in ("none", "inverse") or not len(target):
            return 1.0
        middle = np.median if kind == "median" else np.mean
        ours = float(middle(prediction.astype(np.float64)))
        if not ours > 0:
            raise InputError("prediction", f"its {kind} is {ours:g} m, so it cannot be rescaled")
        return float(middle(target.astype(np.float64))) / ours


PAPER = Protocol(
    name="paper",
    cap="paper",
    rescale="paper",
    source="the paper's text, which leaves the averaging open",
)

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        PAPER,
        Protocol(
            name="published-code",
            averaging="batch",
            source="the released code",
        ),
        Protocol(
            name="bts",
            window="full_frame",
            min_depth=1e-3,
            cap="paper",
            clamp=True,
            source="BTS and AdaBins",
        ),
        Protocol(
            name="zoedepth",
            min_depth=1e-3,
            cap="zoedepth",
            clamp=True,
            source="ZoeDepth and Depth Anything",
        ),
        Protocol(
            name="affine",
            min_depth=1e-3,
            cap="paper",
            clamp=True,
            rescale="inverse",
            source="MiDaS and Depth Anything, for relative depth",
        ),
        Protocol(
            name="kitti-devkit",
            window="none",
            cap="none",
            numbers="kitti_benchmark",
            source="KITTI's development kit",
        ),
    )
}


def changed(protocol: Protocol, result: Protocol) -> Protocol:
    """Return `result` under a name that states how it differs from `protocol`."""
    differing = [
        f"{name}={getattr(result, name)}"
        for name in Protocol.__dataclass_fields__
        if name != "name" and getattr(result, name) != getattr(protocol, name)
    ]
    if not differing:
        return protocol
    return replace(result, name=f"{protocol.name} with {', '.join(differing)}")
