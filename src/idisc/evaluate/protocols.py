"""PROTOCOLS: window, depth range, clamping, rescaling and averaging under one name.

The same predictions have different scores under each protocol, so every result carries the name of
its protocol, including any changes that were made to it.
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
from idisc.data.dataset import Sample, has_value, scene_mask
from idisc.data.decode import FloatArray
from idisc.errors import InputError

Mask = NDArray[np.bool_]
WindowName = Literal["dataset", "full_frame", "eigen", "garg", "none"]
ZOEDEPTH_CAPS = {"sunrgbd": 8.0, "ddad": 80.0}  # metres; elsewhere the paper's


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How predictions and ground truth become numbers."""

    name: str
    averaging: Literal["image", "pixel", "batch"] = "image"  # see averages.AVERAGES
    batch_size: int = 0  # for averaging=batch; 0: the dataset's `published_batch`
    # The part of the picture that is scored. dataset: the dataset's window, on its crop. none: all.
    # full_frame: KITTI's window, on the full frame. eigen: KITTI's window of Eigen et al. (not Garg
    # et al.), on the crop as in the released code. garg: that of Garg et al. for any pictures.
    window: WindowName = "dataset"
    min_depth: float = 0.0  # metres; ground truth must be above it; 0: the dataset's
    # The upper bound of ground truth: that of the released code (which some datasets lack), that of
    # the paper's text, ZoeDepth's, or none.
    cap: Literal["code", "paper", "zoedepth", "none"] = "code"
    max_depth: float = 0.0  # metres; replaces the bound of `cap`; 0: that of `cap`
    clamp: bool = False  # clamp predictions to the range of ground truth
    # How a prediction is aligned to its ground truth. median, mean: one factor. paper: `mean` for
    # DIODE, else `none`. inverse: for relative depth, scale and shift of 1 / depth (least squares).
    rescale: Literal["none", "median", "mean", "paper", "inverse"] = "none"
    numbers: Literal["all", "kitti_benchmark"] = "all"  # which metrics to report
    source: str = ""  # who uses it

    def __post_init__(self) -> None:
        for name in ("batch_size", "min_depth", "max_depth"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise InputError("protocol", f"{name} {value}", "0 or more is needed")

    def average(self, spec: DatasetSpec) -> averages.Average:
        """Return a new average over the pictures of a dataset."""
        return averages.average(self.averaging, self.batch_size_of(spec))

    def batch_size_of(self, spec: DatasetSpec) -> int:
        """Return the number of pictures in a batch when averaging by batch."""
        return self.batch_size or spec.published_batch

    def cap_of(self, spec: DatasetSpec) -> float | None:
        """Return the depth in metres below which ground truth counts; None: no limit."""
        if self.max_depth:
            return self.max_depth
        if self.cap == "none" or (self.cap == "code" and not spec.capped):
            return None
        bounds = ZOEDEPTH_CAPS if self.cap == "zoedepth" else {}
        return bounds.get(spec.name, spec.max_depth)

    def min_depth_of(self, spec: DatasetSpec) -> float:
        """Return the depth in metres that ground truth must exceed."""
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
        valid = has_value(target, self.min_depth_of(spec))
        valid &= scene_mask(size, spec, sample.record.sensor)
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
        rescale = self.rescale_of(spec)
        if rescale == "inverse":
            fit = fit_inverse(prediction[valid], target[valid])
            prediction = fit.metres(prediction, self.cap_of(spec) or FURTHEST_M)
        elif rescale != "none" and valid.any():
            statistic = np.median if rescale == "median" else np.mean
            ours, true = (
                float(statistic(m[valid].astype(np.float64))) for m in (prediction, target)
            )
            if not ours > 0:
                raise InputError(
                    "prediction", f"its {rescale} is {ours:g} m, so it cannot be rescaled"
                )
            prediction = prediction * np.float32(true / ours)
        if self.clamp:
            prediction = prediction.clip(self.min_depth_of(spec), self.cap_of(spec))
        return prediction


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
    changes = [
        f"{name}={getattr(result, name)}"
        for name in Protocol.__dataclass_fields__
        if name != "name" and getattr(result, name) != getattr(protocol, name)
    ]
    return (
        replace(result, name=f"{protocol.name} with {', '.join(changes)}") if changes else protocol
    )
