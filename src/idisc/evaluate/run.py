"""A dataset, a predictor and a protocol -> one row for each picture, totals with intervals.

The predictor is anything that maps a sample to a prediction at the size of its ground truth: an
engine, or files on disk. Pictures are taken one by one and in order, so that no result depends on
batches or processes unless the protocol itself does (averaging by batch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from idisc import geometry, metrics
from idisc.data import manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset, Sample
from idisc.data.decode import FloatArray
from idisc.errors import DataError, IdiscError, InputError, MissingExtra
from idisc.evaluate import bootstrap, calibration
from idisc.evaluate.calibration import Calibration
from idisc.evaluate.protocols import Mask, Protocol
from idisc.metrics import Terms
from idisc.predict import reliability
from idisc.predict.engine import Engine
from idisc.predict.model_info import read_model_info

Predictor = Callable[[Sample], FloatArray]
Progress = Callable[[int, int], None]
KEPT = 8  # worst pictures kept for the report


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Metrics of whole depth maps, which are computed on request; means over pictures."""

    clouds: bool = False  # F1 and chamfer distance of point clouds, for which a camera is needed
    boundaries: bool = False  # F1 of depth edges, for ground truth with exact edges


@dataclass(frozen=True)
class Row:
    """One picture's numbers."""

    name: str
    pixels: int  # valid ones
    numbers: dict[str, float]  # empty without a valid pixel
    holes: int = 0  # pixels that would count, had the prediction a value there


@dataclass(frozen=True)
class Case:
    """A picture with its prediction, kept to be looked at."""

    row: Row
    sample: Sample
    prediction: FloatArray  # at the ground truth's size, rescaled and clamped by the protocol
    valid: Mask  # pixels that count


@dataclass(frozen=True)
class Bin:
    """Errors of all pixels whose ground truth is between two distances."""

    start: float  # metres
    stop: float
    pixels: int
    abs_rel: float
    abs_error: float  # metres
    bias: float  # mean of prediction - ground truth, metres


@dataclass(frozen=True, kw_only=True)
class Result:
    """What an evaluation found."""

    spec: DatasetSpec
    split: str
    protocol: Protocol
    manifest_sha256: str
    prepared: Mapping[str, Any] = field(default_factory=dict)  # how the dataset came about
    totals: dict[str, float]
    intervals: dict[str, tuple[float, float]]  # 95 %, by bootstrap over pictures
    rows: tuple[Row, ...]
    by_distance: tuple[Bin, ...]  # depth only
    worst: tuple[Case, ...]  # worst first
    calibration: Calibration | None = None  # of depth with a spread
    skipped: int  # pictures without a valid pixel
    holes: float = 0.0  # share of the pixels that count which predictions leave out
    ratio: float = 1.0  # median over pictures of mean prediction / mean ground truth; depth
    about: dict[str, str] = field(default_factory=dict)  # what made the predictions


class EnginePredictor:
    """An engine asked for the size of the ground truth, which it reaches in one step."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.model = engine, read_model_info(engine)

    def about(self) -> dict[str, str]:
        """What made the predictions, for the report."""
        about = {"weights": self.engine.name, "weights_sha256": self.engine.sha256}
        if (precision := self.engine.origin.get("precision", "fp32")) != "fp32":
            about["precision"] = str(precision)
        return about

    def __call__(self, sample: Sample) -> FloatArray:
        return self.with_spread(sample)[0]

    def with_spread(self, sample: Sample) -> tuple[FloatArray, FloatArray | None]:
        """The prediction and, if the engine has one, its spread in metres."""
        size = sample.target.shape[0], sample.target.shape[1]
        predictions, spreads = self.engine.with_spread(sample.image[None], size)
        if np.isnan(predictions).any():  # only files may have holes
            raise InputError(sample.record.image, f"{self.engine.name} predicts NaN")
        factor = np.float32(self._factor(sample))
        return factor * predictions[0], None if spreads is None else factor * spreads[0]

    def _factor(self, sample: Sample) -> float:
        """From the canonical camera to the sample's; published networks are scored as they are."""
        if not self.model.canonical or sample.camera is None or not self.engine.task.metric:
            return 1.0
        return reliability.camera_correction(self.model, sample.camera).factor


def evaluate(
    dataset: Dataset,
    predictor: Predictor,
    protocols: Sequence[Protocol],
    *,
    extras: Extras = Extras(),
    progress: Progress | None = None,
) -> list[Result]:
    """Score a predictor on a dataset, the same predictions under each of the protocols.

    Pictures that cannot be scored are named
    together in one error: a total over the others would pass for a total over all.
    """
    _check_task(dataset.spec, protocols, extras)
    tallies = [_Tally(dataset, protocol, extras) for protocol in protocols]
    failures: list[str] = []
    for index, coming in enumerate(_read_ahead(dataset)):
        try:
            sample = coming.result()
            prediction, spread = _asked(predictor, sample)
            for tally in tallies:
                tally.add(sample, prediction, spread)
        except MissingExtra:
            raise  # the same for every picture
        except IdiscError as error:
            failures.append(str(error))
        if progress:
            progress(index + 1, len(dataset))
    if failures:
        raise InputError(_summed_up(failures, len(dataset)))
    return [tally.result() for tally in tallies]


def _asked(predictor: Predictor, sample: Sample) -> tuple[FloatArray, FloatArray | None]:
    if isinstance(predictor, EnginePredictor):
        return predictor.with_spread(sample)
    return predictor(sample), None


def _check_task(spec: DatasetSpec, protocols: Sequence[Protocol], extras: Extras) -> None:
    """Refuse what needs distances before anything is read, if the task has none."""
    if spec.task.metric:
        return
    if extras != Extras():
        option = "--clouds" if extras.clouds else "--boundaries"
        raise InputError(
            option, f"{spec.name} holds {spec.task.name}, and this metric compares depth"
        )
    for protocol in protocols:
        if protocol.numbers != "all":
            raise InputError(
                f"--protocol {protocol.name}",
                f"its numbers are of depth, {spec.name} holds {spec.task.name}",
                "choose another protocol",
            )


class _Tally:
    """Rows and sums of one protocol."""

    def __init__(self, dataset: Dataset, protocol: Protocol, extras: Extras) -> None:
        self.dataset, self.protocol, self.extras = dataset, protocol, extras
        self.average = protocol.average(dataset.spec)
        self.distances = _Distances(dataset.spec)
        self.calibration = calibration.CalibrationSums()
        self.rows: list[Row] = []
        self.terms: list[Terms] = []
        self.worst: list[Case] = []
        self.ratios: list[float] = []

    def add(self, sample: Sample, prediction: FloatArray, spread: FloatArray | None) -> None:
        case, terms = score(sample, prediction, self.protocol, self.dataset.spec, self.extras)
        self.average.add(terms)
        if spread is not None and terms.pixels:
            valid, adjusted = case.valid, case.prediction[case.valid]
            factor = np.median(adjusted / prediction[valid])  # of a protocol that rescales
            target = sample.target[valid]
            self.calibration.add(factor * spread[valid], adjusted - target, target)
        self.distances.add(case)
        self.rows.append(case.row)
        if case.row.pixels and sample.task.metric:  # before any rescaling
            self.ratios.append(
                float(prediction[case.valid].mean() / sample.target[case.valid].mean())
            )
        self.terms.append(replace(terms, angles_deg=None))  # a million of them for each picture
        self.worst = sorted([*self.worst, case], key=_badness, reverse=True)[:KEPT]

    def result(self) -> Result:
        numbers = [row.numbers for row in self.rows]
        batch_size = self.protocol.batch_of(self.dataset.spec)
        holes = sum(row.holes for row in self.rows)
        pixels = holes + sum(row.pixels for row in self.rows)
        return Result(
            spec=self.dataset.spec,
            split=self.dataset.split,
            protocol=self.protocol,
            manifest_sha256=self.dataset.source.sha256,
            prepared=self.dataset.source.prepared,
            totals=reported(self.average.result(), self.protocol) | _mean_of_extras(self.rows),
            intervals=bootstrap.intervals(self.terms, numbers, self.protocol, batch_size),
            rows=tuple(self.rows),
            by_distance=self.distances.bins(),
            worst=tuple(self.worst),
            calibration=self.calibration.result(),
            skipped=sum(not row.pixels for row in self.rows),
            holes=holes / max(pixels, 1),
            ratio=float(np.median(self.ratios)) if self.ratios else 1.0,
        )


def _read_ahead(dataset: Dataset) -> Iterator[Future[Sample]]:
    """The samples in order; the next is read while the present one is being predicted."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(_unchanged, dataset, 0)
        for index in range(len(dataset)):
            present = coming
            if index + 1 < len(dataset):
                coming = pool.submit(_unchanged, dataset, index + 1)
            yield present


def _unchanged(dataset: Dataset, index: int) -> Sample:
    """A sample whose files are those that the manifest pins: a result states its hash."""
    sample, root = dataset[index], dataset.source.root
    if manifest.is_changed(root, sample.record):
        raise DataError(
            root / sample.record.image,
            f"it or {sample.record.target} was changed since the preparation",
            "prepare the dataset again or run idisc doctor",
        )
    return sample


def score(
    sample: Sample,
    prediction: FloatArray,
    protocol: Protocol,
    spec: DatasetSpec,
    extras: Extras = Extras(),
) -> tuple[Case, Terms]:
    """One picture under a protocol: its row with what was compared, and its terms to average."""
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
            there = ~np.isnan(prediction)  # holes that the reader of the files let pass
            holes = int((valid & ~there).sum())
            valid &= there
            prediction = protocol.adjusted(prediction, target, valid, spec)
        terms = spec.task.terms(prediction[valid], target[valid])
    except InputError as error:
        raise InputError(f"{sample.record.image}: {error}") from None
    numbers = reported(terms.metrics(), protocol) if terms.pixels else {}
    if extras.clouds and terms.pixels:
        numbers |= _cloud_numbers(sample, prediction, valid)
    if extras.boundaries and terms.pixels:
        numbers["boundary_f1"] = metrics.boundary_f1(prediction, target, valid)
    row = Row(sample.record.image, terms.pixels, numbers, holes)
    return Case(row, sample, prediction, valid), terms


def _cloud_numbers(sample: Sample, prediction: FloatArray, valid: Mask) -> dict[str, float]:
    """F1 and chamfer distance of the valid pixels as points in space."""
    if sample.camera is None:
        raise DataError(sample.record.image, "no camera known, so no point cloud (--clouds)")
    camera = sample.camera.resized((sample.target.shape[0], sample.target.shape[1]))
    return metrics.cloud_metrics(
        geometry.unproject(prediction, camera)[valid],
        geometry.unproject(sample.target, camera)[valid],
    )


def reported(numbers: dict[str, float], protocol: Protocol) -> dict[str, float]:
    """The metrics a protocol reports; those of KITTI's benchmark only where they are asked for."""
    benchmark = set(metrics.KITTI_BENCHMARK)
    if protocol.numbers == "kitti_benchmark":
        return {name: value for name, value in numbers.items() if name in benchmark}
    return {
        name: value for name, value in numbers.items() if name == "silog" or name not in benchmark
    }


def _mean_of_extras(rows: list[Row]) -> dict[str, float]:
    """Means over the pictures that have the metric, under every protocol."""
    names = dict.fromkeys(n for row in rows for n in row.numbers if metrics.is_of_maps(n))
    found = {name: [row.numbers.get(name, np.nan) for row in rows] for name in names}
    return {name: float(np.nanmean(v)) for name, v in found.items() if not np.isnan(v).all()}


def _badness(case: Case) -> float:
    numbers = case.row.numbers
    return next((numbers[name] for name in case.sample.task.ranking if name in numbers), -1.0)


def _summed_up(failures: list[str], total: int) -> str:
    """The first failures; those of one cause, which differ in the file's name, stand together."""
    causes: dict[str, list[str]] = {}
    for failure in failures:
        name, _, reason = failure.partition(": ")
        causes.setdefault(reason, []).append(name)
    parts = [
        f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}: {reason}"
        for reason, names in causes.items()
    ]
    more = f"; and {len(parts) - 5} more causes" if len(parts) > 5 else ""
    return f"{len(failures)} of {total} pictures cannot be scored: {'; '.join(parts[:5])}{more}"


class _Distances:
    """Errors by the distance of the ground truth, over all pixels."""

    def __init__(self, spec: DatasetSpec) -> None:
        self.metric = spec.task.metric
        far = spec.max_depth or 100.0
        self.width = 1.0 if far <= 20 else 10.0  # metres of one bin
        self.sums = np.zeros((4, 26))  # pixels, abs_rel, abs_error, bias; none is further away

    def add(self, case: Case) -> None:
        if not self.metric:
            return
        p = case.prediction[case.valid].astype(np.float64)
        t = case.sample.target[case.valid].astype(np.float64)
        near = t < self.width * self.sums.shape[1]
        p, t = p[near], t[near]
        index, error = (t // self.width).astype(int), p - t
        for sums, values in zip(
            self.sums, (np.ones_like(t), np.abs(error) / t, np.abs(error), error), strict=True
        ):
            sums += np.bincount(index, values, minlength=len(sums))

    def bins(self) -> tuple[Bin, ...]:
        return tuple(
            Bin(i * self.width, (i + 1) * self.width, int(n), rel / n, error / n, bias / n)
            for i, (n, rel, error, bias) in enumerate(self.sums.T.tolist())
            if n
        )
