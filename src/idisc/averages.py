"""Averages of metrics over a dataset: by image, by pixel, and by batch as in the published code.

The three give different numbers, and papers seldom state which one they use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Protocol

import numpy as np

from idisc.errors import DataError, InputError, lookup
from idisc.metrics import (
    METRICS,
    NO_PIXEL,
    PUBLISHED,
    TEXTBOOK,
    Formula,
    Terms,
    pool,
    weighted_mean,
)

_BINS_PER_DEGREE = 1000  # of the histogram of all angles of a dataset


class Average(Protocol):
    """Averages metrics over a dataset; images are added in order, also empty ones."""

    def add(self, terms: Terms) -> None: ...

    def result(self) -> dict[str, float]:
        """Return the metrics of all images so far."""
        ...


class ImageAverage:
    """The mean over the images with valid pixels, for each metric.

    With an unbiased variance an image of one pixel has no silog (NaN), which the mean leaves out.
    """

    def __init__(self, formula: Formula = TEXTBOOK) -> None:
        self.formula = formula
        self._rows: list[dict[str, float]] = []

    def add(self, terms: Terms) -> None:
        if terms.pixels:
            self._rows.append(terms.metrics(self.formula))

    def result(self) -> dict[str, float]:
        if not self._rows:
            raise DataError(*NO_PIXEL)
        columns = {name: [row[name] for row in self._rows] for name in self._rows[0]}
        return {name: _mean_of_numbers(values) for name, values in columns.items()}


class PixelAverage:
    """The metrics of all pixels of the dataset, as if they belonged to one image.

    Keeping every angle would take gigabytes, so their median is read from a histogram with bins of
    0.001 degrees; its error is at most half of that.
    """

    def __init__(self, formula: Formula = TEXTBOOK) -> None:
        self.formula = formula
        self._pool = Terms()
        self._counts = np.zeros(180 * _BINS_PER_DEGREE + 1, np.int64)

    def add(self, terms: Terms) -> None:
        self._pool = pool((self._pool, replace(terms, angles_deg=None)))
        if terms.angles_deg is not None:
            bins = np.rint(terms.angles_deg * _BINS_PER_DEGREE).astype(np.int64)
            self._counts += np.bincount(bins, minlength=len(self._counts))

    def result(self) -> dict[str, float]:
        values = self._pool.metrics(self.formula)
        if self._counts.any():
            values["median_deg"] = self._median_deg()
        return values

    def _median_deg(self) -> float:
        pixels = self._pool.pixels
        lower, upper = (pixels + 1) // 2, pixels // 2 + 1  # counted from 1
        ranks = [lower] if self.formula.lower_median else [lower, upper]
        return fmean(np.searchsorted(np.cumsum(self._counts), ranks) / _BINS_PER_DEGREE)


class BatchAverage:
    """The average of the published code, which depends on the batch size.

    Within a batch, means (shares, relative errors) and the median are taken over all pixels; roots
    and deviations over each image, then over the images with valid pixels. The weight of a batch is
    its number of images, including those without valid pixels. One image of a single pixel makes
    silog NaN.
    """

    def __init__(self, batch_size: int) -> None:
        if batch_size < 1:
            raise InputError(f"batch size {batch_size}", "averages by batch need 1 or more")
        self.batch_size = batch_size
        self._rows: list[dict[str, float]] = []  # of full batches
        self._open: list[Terms] = []  # the images of the batch that is not full yet

    def add(self, terms: Terms) -> None:
        self._open.append(terms)
        if len(self._open) == self.batch_size:
            self._rows.append(self._metrics_of_batch())
            self._open = []

    def result(self) -> dict[str, float]:
        rows, weights = list(self._rows), [self.batch_size] * len(self._rows)
        if self._open or not rows:
            rows.append(self._metrics_of_batch())
            weights.append(len(self._open))
        return {name: weighted_mean([row[name] for row in rows], weights) for name in rows[0]}

    def _metrics_of_batch(self) -> dict[str, float]:
        images = [terms for terms in self._open if terms.pixels]
        if not images:
            raise DataError(
                f"batch {len(self._rows) + 1} of {self.batch_size} images",
                "no valid pixel, so its average is undefined",
                "use larger batches, or average by image or by pixel",
            )
        values = pool(images).metrics(PUBLISHED)
        each = [image.metrics(PUBLISHED) for image in images]
        for name in values:
            if name in METRICS and METRICS[name].kind != "mean":
                values[name] = fmean(row[name] for row in each)
        return values


AVERAGES: dict[str, Callable[[int], Average]] = {
    "image": lambda _: ImageAverage(),
    "pixel": lambda _: PixelAverage(),
    "batch": BatchAverage,
}


def average(name: str, batch_size: int = 1) -> Average:
    """Return a new average by name: image, pixel or batch; `batch_size` matters to batch only."""
    return lookup(AVERAGES, name, "average")(batch_size)


def _mean_of_numbers(values: Sequence[float]) -> float:
    numbers = [value for value in values if not math.isnan(value)]
    return fmean(numbers) if numbers else math.nan
