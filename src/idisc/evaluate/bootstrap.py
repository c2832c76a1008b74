"""95 % intervals of totals, by resampling the pictures.

Every resample is averaged as the protocol averages: by image, by pixel or by batch. Pictures
without a valid pixel are not drawn. There is no interval for numbers without terms to pool (the
median, unless averaged by image) and for numbers that are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from idisc.evaluate.protocols import Protocol
from idisc.metrics import METRICS, PUBLISHED, TEXTBOOK, Double, Metric, Terms

RESAMPLES, SEED = 1000, 13


def bootstrap_intervals(
    terms: Sequence[Terms],
    numbers: Sequence[Mapping[str, float]],
    protocol: Protocol,
    batch_size: int,
) -> dict[str, tuple[float, float]]:
    """Return intervals by metric from the terms and numbers of each picture, in the same order."""
    pairs = [pair for pair in zip(terms, numbers, strict=True) if pair[0].pixels]
    if len(pairs) < 2:
        return {}
    terms, numbers = zip(*pairs, strict=True)
    names, averaging = list(numbers[0]), protocol.averaging
    picks = np.random.default_rng(SEED).integers(len(pairs), size=(RESAMPLES, len(pairs)))
    if averaging == "batch":  # roots and deviations by image, with the released formulas
        numbers = [{**values, **image.metrics(PUBLISHED)} for image, values in pairs]
    intervals = {}
    for name in names:
        metric = METRICS.get(name)
        if name == "median_deg" and averaging != "image":
            continue  # it has no terms to pool
        if not metric or averaging == "image" or (averaging == "batch" and metric.kind != "mean"):
            totals = np.array([values[name] for values in numbers])[picks].mean(axis=1)
        elif averaging == "batch":
            totals = _by_batch(terms, metric, picks, batch_size)
        else:
            totals = _by_pixel(terms, metric, picks)
        if not np.isnan(totals).any():
            low, high = np.percentile(totals, [2.5, 97.5])
            intervals[name] = (float(low), float(high))
    return intervals


def _by_pixel(terms: Sequence[Terms], metric: Metric, picks: NDArray[np.int64]) -> Double:
    """Return resampled totals (R,) over all pixels."""
    pixels, mean, squares = _columns(terms, metric)
    n, m, s = pixels[picks], mean[picks], squares[picks]  # (R, images)
    total = n.sum(axis=1)
    pooled = (n * m).sum(axis=1) / total
    if metric.kind == "mean":
        return np.asarray(metric.factor * pooled)
    variance = (s.sum(axis=1) + (n * (m - pooled[:, None]) ** 2).sum(axis=1)) / total
    inside = variance if metric.kind == "deviation" else pooled**2 + variance + TEXTBOOK.epsilon
    return np.asarray(metric.factor * np.sqrt(inside))


def _by_batch(
    terms: Sequence[Terms], metric: Metric, picks: NDArray[np.int64], batch_size: int
) -> Double:
    """Return resampled totals (R,) of a metric that the released code pools in a batch."""
    pixels, mean, _ = _columns(terms, metric)
    starts = np.arange(0, picks.shape[1], batch_size)
    n, weighted = pixels[picks], (pixels * mean)[picks]
    batches = np.add.reduceat(weighted, starts, axis=1) / np.add.reduceat(n, starts, axis=1)
    sizes = np.diff([*starts, picks.shape[1]])
    return np.asarray(metric.factor * (batches @ sizes) / picks.shape[1])


def _columns(terms: Sequence[Terms], metric: Metric) -> tuple[Double, Double, Double]:
    """Return pixels, mean and squares of each picture, (images,)."""
    rows = [(image.pixels, *image.moments[metric.quantity]) for image in terms]
    pixels, mean, squares = np.array(rows, np.float64).T
    return pixels, mean, squares
