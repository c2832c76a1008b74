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


def intervals(
    terms: Sequence[Terms],
    numbers: Sequence[Mapping[str, float]],
    protocol: Protocol,
    batch_size: int,
) -> dict[str, tuple[float, float]]:
    """Return intervals by metric from the terms and numbers of each picture, in the same order."""
    there = [index for index, each in enumerate(terms) if each.pixels]
    if len(there) < 2:
        return {}
    terms, numbers = [terms[i] for i in there], [numbers[i] for i in there]
    picks = np.random.default_rng(SEED).integers(len(there), size=(RESAMPLES, len(there)))
    found = {}
    for name in numbers[0]:
        metric = METRICS.get(name)
        if protocol.averaging == "image" or (metric is None and name != "median_deg"):
            means = _by_image(np.array([each[name] for each in numbers]), picks)
        elif metric is None:
            continue
        elif protocol.averaging == "batch":
            means = _by_batch(terms, metric, picks, batch_size)
        else:
            means = _by_pixel(terms, metric, picks)
        if not np.isnan(means).any():
            low, high = np.percentile(means, [2.5, 97.5])
            found[name] = (float(low), float(high))
    return found


def _by_image(values: Double, picks: NDArray[np.int64]) -> Double:
    means: Double = values[picks].mean(axis=1)
    return means


def _by_pixel(terms: Sequence[Terms], metric: Metric, picks: NDArray[np.int64]) -> Double:
    """Return resampled totals (R,) over all pixels."""
    pixels, mean, squares = _columns(terms, metric)
    n, m, s = pixels[picks], mean[picks], squares[picks]  # (R, images)
    total = n.sum(axis=1)
    pooled = (n * m).sum(axis=1) / total
    variance = (s.sum(axis=1) + (n * (m - pooled[:, None]) ** 2).sum(axis=1)) / total
    return _finished(metric, pooled, variance, TEXTBOOK.epsilon)


def _by_batch(
    terms: Sequence[Terms], metric: Metric, picks: NDArray[np.int64], batch_size: int
) -> Double:
    """Return resampled totals (R,) of the released code: means by batch, roots by image."""
    pixels, mean, squares = _columns(terms, metric)
    if metric.kind != "mean":
        freedom = np.where(pixels > 1, pixels - PUBLISHED.unbiased, np.nan)
        variance = squares / (freedom if metric.kind == "deviation" else pixels)
        return _by_image(_finished(metric, mean, variance, PUBLISHED.epsilon), picks)
    starts = np.arange(0, picks.shape[1], batch_size)
    n, weighted = pixels[picks], (pixels * mean)[picks]
    batches = np.add.reduceat(weighted, starts, axis=1) / np.add.reduceat(n, starts, axis=1)
    sizes = np.diff([*starts, picks.shape[1]])
    totals: Double = metric.factor * (batches @ sizes) / picks.shape[1]
    return totals


def _columns(terms: Sequence[Terms], metric: Metric) -> tuple[Double, Double, Double]:
    moments = [each.moments[metric.quantity] for each in terms]
    return (
        np.array([float(each.pixels) for each in terms]),
        np.array([each.mean for each in moments]),
        np.array([each.squares for each in moments]),
    )


def _finished(metric: Metric, mean: Double, variance: Double, epsilon: float) -> Double:
    if metric.kind == "mean":
        return metric.factor * mean
    inside = variance if metric.kind == "deviation" else mean**2 + variance + epsilon
    result: Double = metric.factor * np.sqrt(inside)
    return result
