"""The score of one picture under one protocol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idisc import geometry, metrics
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Sample
from idisc.data.decode import FloatArray
from idisc.errors import DataError, InputError
from idisc.evaluate.protocols import Mask, Protocol
from idisc.metrics import Terms


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Metrics of whole depth maps, which are computed on request and averaged over pictures."""

    clouds: bool = False  # F1 and chamfer distance of point clouds; a camera is needed
    boundaries: bool = False  # F1 of depth edges, for ground truth with exact edges


NO_EXTRAS = Extras()


@dataclass(frozen=True)
class Row:
    """The metrics of one picture."""

    name: str
    pixels: int  # that were scored
    numbers: dict[str, float]  # by metric; empty without a valid pixel
    holes: int = 0  # pixels that were not scored because the prediction has no value there


@dataclass(frozen=True)
class Case:
    """A scored picture with its prediction, for figures and reports."""

    row: Row
    sample: Sample
    prediction: FloatArray  # at the ground truth's size, rescaled and clamped by the protocol
    valid: Mask  # pixels that count


def score(
    sample: Sample,
    prediction: FloatArray,
    protocol: Protocol,
    spec: DatasetSpec,
    extras: Extras = NO_EXTRAS,
) -> tuple[Case, Terms]:
    """Score one picture under a protocol: return what was compared, and the terms to average."""
    target = sample.target
    if prediction.shape != target.shape:
        raise DataError(
            sample.record.image,
            f"prediction of shape {prediction.shape}, ground truth of {target.shape}",
            f"a network for {spec.task.name} is needed",
        )
    valid, holes = protocol.valid(sample, spec), 0
    try:
        if spec.task.metric:
            is_hole = np.isnan(prediction)  # files may have holes
            holes = int((valid & is_hole).sum())
            valid &= ~is_hole
            prediction = protocol.adjusted(prediction, target, valid, spec)
        terms = spec.task.terms(prediction[valid], target[valid])
    except InputError as error:
        raise error.within(sample.record.image) from None
    numbers = reported(terms.metrics(), protocol) if terms.pixels else {}
    if extras.clouds and terms.pixels:
        numbers |= _cloud_numbers(sample, prediction, valid)
    if extras.boundaries and terms.pixels:
        numbers["boundary_f1"] = metrics.boundary_f1(prediction, target, valid)
    row = Row(sample.record.image, terms.pixels, numbers, holes)
    return Case(row, sample, prediction, valid), terms


def _cloud_numbers(sample: Sample, prediction: FloatArray, valid: Mask) -> dict[str, float]:
    """Return F1 and chamfer distance of the valid pixels as points in space."""
    if sample.camera is None:
        raise DataError(sample.record.image, "no camera known, so no point cloud (--clouds)")
    camera = sample.camera.resized((sample.target.shape[0], sample.target.shape[1]))
    return metrics.cloud_metrics(
        geometry.unproject(prediction, camera)[valid],
        geometry.unproject(sample.target, camera)[valid],
    )


def reported(numbers: dict[str, float], protocol: Protocol) -> dict[str, float]:
    """Return the metrics that a protocol reports; KITTI's benchmark has its own."""
    benchmark = set(metrics.KITTI_BENCHMARK)
    names = set(numbers) - benchmark | {"silog"}
    if protocol.numbers == "kitti_benchmark":
        names = benchmark
    return {name: value for name, value in numbers.items() if name in names}
