"""What changes from frame to frame of a clip: flicker, smoothing, cuts.

Pictures are compared at about 160 pixels. `change` is how much a pixel differs from the frame
before, 0 to 1, without the median difference, which a camera's exposure explains.

- **Flicker** is the mean over frames of F_t = median over still pixels of |log d_t - log d_(t-1)|;
  still: change < 0.02. So 0.03 says that depth jumps by 3 % from frame to frame where nothing
  moves. The first frame of a scene, and those with 2 % of still pixels or less, do not count.
- **Smoothing** over T seconds is exponential, in log depth, with w = 1 - exp(-step / T). A frame's
  scale, a = median over still pixels of (log d_t - s_(t-1)), and its shape are smoothed apart:

      s_t = s_(t-1) + w a + k (log d_t - a - s_(t-1)),

  where k is w at still pixels and rises to 1 where the picture changes by a tenth: what moves is
  taken as it is now, at the scale of the rest. No motion is estimated: an even wall lags behind a
  camera that moves along it. Each scene starts anew.
- A **cut** is where pixels (mean change above 0.12) and colours (more than a fifth of a histogram
  of 64) differ both: 99 % of pairs of 19 photos do; none of them and itself moved by a tenth of
  its width, enlarged by a fifth or brightened by a third.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from idisc.predict.prediction import FloatMap, Prediction
from idisc.sizes import Size, resize_map, resize_smooth
from idisc.visualize import Picture

FLICKER = "mean over frames of the median over still pixels of |log d_t - log d_(t-1)|"
_LOOK = 160  # px: longer side of the pictures that are compared
_STILL, _MOVED = 0.02, 0.1  # change of a pixel that counts as none, and as something else
_CUT_CHANGE, _CUT_COLOURS = 0.12, 0.2
_FEWEST_STILL = 0.02  # share of pixels from which something can be said


@dataclass(frozen=True)
class Frame:
    """One picture of a clip."""

    index: int  # in the clip, from 0
    seconds: float  # since the first one
    image: Picture  # (H, W, 3) RGB, upright


def _changed(now: Picture, before: Picture | None) -> FloatMap | None:
    """How much each pixel of a reduced picture changed (h, w); None in a new scene."""
    if before is None:
        return None
    moved = (now.astype(np.float32) - before) / np.float32(255)
    change: FloatMap = np.abs(moved - np.median(moved, axis=(0, 1))).max(axis=2)
    kept = np.minimum(_colours(now), _colours(before)).sum()
    return None if change.mean() > _CUT_CHANGE and kept < 1 - _CUT_COLOURS else change


def _look_size(shape: tuple[int, ...]) -> Size:
    shrink = max(1.0, max(shape[:2]) / _LOOK)
    return max(1, round(shape[0] / shrink)), max(1, round(shape[1] / shrink))


def _colours(image: Picture) -> NDArray[np.float64]:
    """Shares of 64 colours."""
    levels = (image >> 6).astype(np.intp)
    return np.bincount((levels @ [16, 4, 1]).ravel(), minlength=64) / (image.size / 3)


def look(values: FloatMap) -> FloatMap:
    """A map (H, W) at the size at which pictures are compared."""
    rows, columns = (
        ((np.arange(count) + 0.5) * length / count).astype(int)
        for count, length in zip(_look_size(values.shape), values.shape, strict=True)
    )
    return values[np.ix_(rows, columns)]


def _log(depth: FloatMap) -> FloatMap:
    return np.log(np.maximum(depth, np.float32(1e-4)))


class Flicker:
    """How much depth changes where the picture does not; the formula is above."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0
        self.before: FloatMap | None = None

    def add(self, depth: FloatMap, change: FloatMap | None) -> None:
        """The next frame: depth (H, W), and how its picture changed."""
        now = _log(look(depth))
        before, self.before = self.before, now
        if before is None or change is None or np.mean(change < _STILL) < _FEWEST_STILL:
            return
        self.total += float(np.median(np.abs(now - before)[change < _STILL]))
        self.count += 1

    @property
    def value(self) -> float | None:
        """Of all frames so far; None if none could be compared with the one before."""
        return self.total / self.count if self.count else None


class Smoother:
    """Depth evened out over some seconds; the formula is above."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.state: FloatMap | None = None  # (H, W), log of metres
        self.time = 0.0

    def next(self, depth: FloatMap, change: FloatMap | None, seconds: float) -> FloatMap:
        """The depth to show for a frame (H, W); `change` is None in a new scene."""
        now, past = _log(depth), self.state
        step, self.time = seconds - self.time, seconds
        if change is None or past is None:
            self.state = now
            return depth
        weight = 1 - math.exp(-max(step, 1e-3) / self.seconds)
        still, difference = change < _STILL, now - past
        scale = 0.0
        if still.mean() >= _FEWEST_STILL:
            scale = float(np.median(look(difference)[still]))
        moved = np.clip((change - _STILL) / (_MOVED - _STILL), 0, 1)
        share = resize_map((weight + (1 - weight) * moved).astype(np.float32), depth.shape)
        self.state = past + np.float32(weight * scale) + share * (difference - np.float32(scale))
        return np.exp(self.state)


class Course:
    """What the frames of a clip have to do with each other: scenes, smoothing, flicker."""

    def __init__(self, smooth: float | None) -> None:
        self.before: Picture | None = None  # the picture, reduced
        self.cuts: list[int] = []
        self.smoother = None if smooth is None else Smoother(smooth)
        self.predicted, self.shown = Flicker(), Flicker()

    def follow(self, frame: Frame, prediction: Prediction) -> Prediction:
        """The prediction to show for the next frame."""
        before = self.before
        self.before = resize_smooth(frame.image, _look_size(frame.image.shape))
        change = _changed(self.before, before)
        if change is None and frame.index:
            self.cuts.append(frame.index)
        self.predicted.add(prediction.depth, change)
        facts = {**prediction.facts, "frame": f"{frame.index}, at {frame.seconds:.3f} s"}
        if self.smoother is None:
            return replace(prediction, facts=facts)
        facts["smoothing"] = f"over {self.smoother.seconds:g} s in log depth, anew at scene cuts"
        depth = self.smoother.next(prediction.depth, change, frame.seconds)
        self.shown.add(depth, change)
        return replace(prediction, depth=depth, facts=facts)
