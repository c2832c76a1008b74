"""Evaluation: a dataset, predictions and protocols give rows for each picture, and totals.

Predictions come from a `Predictor`, from files (`PredictionFiles`) or from any function of a
sample. Pictures are scored one by one and in order, so that no result depends on batches or
processes unless the protocol itself does (averaging by batch).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from idisc import geometry, metrics
from idisc.ancestry import UNKNOWN
from idisc.data import manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset, Sample
from idisc.data.decode import FloatArray
from idisc.errors import DataError, IdiscError, InputError, MissingExtra
from idisc.evaluate import bootstrap, calibration, units
from idisc.evaluate.calibration import Calibration
from idisc.evaluate.distances import Bin, Distances
from idisc.evaluate.predictions import PredictionFiles
from idisc.evaluate.protocols import PAPER, Mask, Protocol
from idisc.evaluate.units import UnitHint
from idisc.executors import HERE, Executor, Outcome, in_order
from idisc.metrics import Terms
from idisc.predict.engine import Output
from idisc.predict.predictor import Predictor
from idisc.provenance import Unit
from idisc.provenance_text import describe_licence
from idisc.tasks import Task

SamplePredictor = Callable[[Sample], FloatArray]
"""Maps a sample to depth (Hg, Wg) in metres or normals (Hg, Wg, 3), in the size of its target."""
Progress = Callable[[int, int], None]
KEPT = 8  # worst pictures kept for the report
_NAMED = 5  # pictures of one cause, and causes, that an error names


@dataclass(frozen=True, kw_only=True)
class Extras:
    """Metrics of whole depth maps, which are computed on request; means over pictures."""

    clouds: bool = False  # F1 and chamfer distance of point clouds, for which a camera is needed
    boundaries: bool = False  # F1 of depth edges, for ground truth with exact edges


@dataclass(frozen=True)
class Row:
    """The metrics of one picture."""

    name: str
    pixels: int  # valid ones
    numbers: dict[str, float]  # empty without a valid pixel
    holes: int = 0  # pixels that would count if the prediction had a value there


@dataclass(frozen=True)
class Case:
    """A scored picture with its prediction, for figures and reports."""

    row: Row
    sample: Sample
    prediction: FloatArray  # at the ground truth's size, rescaled and clamped by the protocol
    valid: Mask  # pixels that count


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of an evaluation under one protocol."""

    spec: DatasetSpec
    split: str
    protocol: Protocol
    manifest_sha256: str
    prepared: Mapping[str, Any] = field(default_factory=dict)  # how the dataset was made
    totals: dict[str, float]
    intervals: dict[str, tuple[float, float]]  # 95 %, by bootstrap over pictures
    rows: tuple[Row, ...]
    by_distance: tuple[Bin, ...]  # depth only
    worst: tuple[Case, ...]  # worst first
    calibration: Calibration | None = None  # of depth with a standard deviation of levels
    skipped: int  # pictures without a valid pixel
    holes: float = 0.0  # share of the pixels that count which predictions leave out
    # Of prediction / ground truth over the pixels of a picture, then over the pictures; before any
    # rescaling. None for normals and relative depth.
    median_ratio: float | None = None
    unit_hint: UnitHint | None = None  # if the ratio suggests another unit
    about: Mapping[str, str] = field(default_factory=dict)  # what made the predictions


class ScoringError(InputError):
    """Some pictures cannot be scored; `failures` has the error of each."""

    failures: tuple[IdiscError, ...] = ()

    def __str__(self) -> str:
        """Render the first causes, each with the first subjects that have it."""
        causes: dict[tuple[str, str], list[str]] = {}
        for error in self.failures:
            causes.setdefault((error.reason, error.remedy), []).append(error.subject)
        parts = [
            str(InputError(_first(", ", subjects, ""), *cause))
            for cause, subjects in causes.items()
        ]
        return ": ".join(filter(None, [super().__str__(), _first("; ", parts, " causes")]))


def _first(separator: str, texts: Sequence[str], noun: str) -> str:
    more = f"{separator}and {len(texts) - _NAMED} more{noun}" if len(texts) > _NAMED else ""
    return separator.join(texts[:_NAMED]) + more


def evaluate(
    dataset: Dataset,
    predictor: Predictor | PredictionFiles | SamplePredictor,
    protocols: Sequence[Protocol] = (PAPER,),
    *,
    extras: Extras = Extras(),
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Score predictions on a dataset, the same predictions under each of the protocols.

    A network sees the pictures at the size that `Predictor.size_rule` chooses, unless the dataset
    was opened with a size. If pictures cannot be scored, a ScoringError names all of them: totals
    over the others would be mistaken for totals over all.

    Pictures are scored in this process, or by the workers of `executor`, which need the files of
    the dataset at the same paths; results are summed up in the order of the dataset either way.
    """
    dataset, source = _open(dataset, predictor)
    _check_extras(dataset.spec, protocols, extras)
    if isinstance(predictor, Predictor):
        _check_unit(predictor, dataset.spec, protocols)
    sums = [_Sums(dataset, protocol) for protocol in protocols]
    failures: list[IdiscError] = []
    scoring = _Scoring(dataset, source.predict, tuple(protocols), extras)
    outcomes: Generator[Outcome[Any, list[_Scored]], None, None]
    if executor is None:
        outcomes = HERE.map(scoring.score_read, _read_ahead(dataset))
    else:
        outcomes = executor.map(scoring, range(len(dataset)))
    with closing(outcomes):
        for done, outcome in enumerate(in_order(outcomes), start=1):
            error = outcome.error
            if isinstance(error, IdiscError) and not isinstance(error, MissingExtra):
                failures.append(error)  # a missing extra is the same for every picture
            else:
                for each, scored in zip(sums, outcome.result(), strict=True):
                    each.add(scored)
            if progress:
                progress(done, len(dataset))
    if failures:
        failed = f"{len(failures)} of {len(dataset)} pictures cannot be scored"
        together = ScoringError(dataset.source.root, failed)
        together.failures = tuple(failures)
        raise together
    about = source.describe()
    try:
        return [each.result(about, source.metres_per_unit, source.unit) for each in sums]
    except DataError as error:  # no valid pixel in any picture
        raise error.within(dataset.source.root) from None


class _Source(NamedTuple):
    """Predictions of any origin."""

    predict: Callable[[Sample], Output]
    describe: Callable[[], Mapping[str, str]]  # for the report; called after the predictions
    metres_per_unit: float | None = 1.0  # None: a network
    unit: Unit = "metre"


def _open(
    dataset: Dataset, predictor: Predictor | PredictionFiles | SamplePredictor
) -> tuple[Dataset, _Source]:
    """Return the dataset as a network sees it, and the predictions."""
    if isinstance(predictor, Predictor):
        check_task(predictor.model.name, predictor.engine.task, dataset.spec)
        rule = None if dataset.has_own_size else predictor.size_rule(dataset.spec.size)
        model = predictor.model
        about = {"weights": model.name, "weights_sha256": model.sha256}
        about["licence"] = describe_licence(model)
        if model.precision not in ("fp32", UNKNOWN):
            about["precision"] = model.precision
        if model.convention:
            about["convention"] = model.convention
        source = _Source(partial(predict_sample, predictor), lambda: about, None, model.unit)
        return dataset.at_network_size(rule) if rule else dataset, source
    if isinstance(predictor, PredictionFiles):
        scale = predictor.reading.scale or 1.0
        return dataset, _Source(lambda each: Output(predictor(each)), predictor.about, scale)
    return dataset, _Source(lambda each: Output(predictor(each)), dict)


def predict_sample(predictor: Predictor, sample: Sample) -> Output:
    """Predict a sample with a network, at the size of its ground truth; see `predict_at`."""
    size = sample.target.shape[0], sample.target.shape[1]
    try:
        return predictor.predict_at(sample.image, size, sample.camera)
    except IdiscError as error:
        raise error.within(sample.record.image) from None


def check_task(name: str, task: Task, spec: DatasetSpec) -> None:
    """Raise InputError if the network `name` does not predict what the dataset holds."""
    if task != spec.task:
        raise InputError(name, f"predicts {task.name}, {spec.name} holds {spec.task.name}")


def _check_unit(predictor: Predictor, spec: DatasetSpec, protocols: Sequence[Protocol]) -> None:
    """Refuse relative depth under a protocol that would read it as metres."""
    for protocol in protocols:
        if predictor.model.unit == "relative" and protocol.rescale_of(spec) != "inverse":
            raise InputError(
                predictor.model.name,
                f"its depth is relative, and protocol {protocol.name} expects metres",
                "choose --protocol affine, or --set rescale=inverse",
            )


def _check_extras(spec: DatasetSpec, protocols: Sequence[Protocol], extras: Extras) -> None:
    """Refuse metrics of depth for a dataset of normals before anything is read."""
    of_depth = {"--clouds": extras.clouds, "--boundaries": extras.boundaries}
    of_depth |= {f"--protocol {each.name}": each.numbers != "all" for each in protocols}
    for option, chosen in of_depth.items():
        if chosen and not spec.task.metric:
            raise InputError(option, f"compares depth, {spec.name} holds {spec.task.name}")


class _Scored(NamedTuple):
    """What one picture adds to the sums of a protocol."""

    case: Case
    terms: Terms
    distances: Distances | None = None  # depth only, as all that follow
    ratio: float = np.nan  # median of prediction / ground truth
    correlation: float = np.nan
    calibration: calibration.CalibrationSums | None = None


@dataclass(frozen=True)
class _Scoring:
    """Scores the picture of an index under each of the protocols, in any process."""

    dataset: Dataset
    predict: Callable[[Sample], Output]
    protocols: tuple[Protocol, ...]
    extras: Extras

    def __call__(self, index: int) -> list[_Scored]:
        return self.score(_read(self.dataset, index))

    def score_read(self, coming: Future[Sample]) -> list[_Scored]:
        return self.score(coming.result())

    def score(self, sample: Sample) -> list[_Scored]:
        output = self.predict(sample)
        return [self._score(sample, output, protocol) for protocol in self.protocols]

    def _score(self, sample: Sample, output: Output, protocol: Protocol) -> _Scored:
        case, terms = score(sample, output.maps, protocol, self.dataset.spec, self.extras)
        if not terms.pixels or not self.dataset.spec.task.metric:
            return _Scored(case, terms)
        predicted, target = output.maps[case.valid], sample.target[case.valid]
        adjusted = case.prediction[case.valid]
        distances = Distances()
        distances.add(adjusted, target)
        deviations = None
        if output.level_std is not None:
            deviations = calibration.CalibrationSums()
            factor = np.median(adjusted / predicted)  # of a protocol that rescales
            deviations.add(factor * output.level_std[case.valid], adjusted - target, target)
        ratio = float(np.median(predicted / target))
        correlation = units.correlation_with(target, predicted)
        return _Scored(case, terms, distances, ratio, correlation, deviations)


class _Sums:
    """Rows and sums of one protocol."""

    def __init__(self, dataset: Dataset, protocol: Protocol) -> None:
        self.dataset, self.protocol = dataset, protocol
        self.average = protocol.average(dataset.spec)
        self.distances = Distances()
        self.calibration = calibration.CalibrationSums()
        self.rows: list[Row] = []
        self.terms: list[Terms] = []
        self.worst: list[Case] = []
        self.ratios: list[float] = []
        self.correlations: list[float] = []

    def add(self, scored: _Scored) -> None:
        """Add a picture; the order matters for the last digits of sums."""
        case, terms = scored.case, scored.terms
        self.average.add(terms)
        self.rows.append(case.row)
        self.terms.append(replace(terms, angles_deg=None))  # a million of them for each picture
        self.worst = sorted([*self.worst, case], key=_badness, reverse=True)[:KEPT]
        if scored.distances is None:
            return
        self.distances.merge(scored.distances)
        self.ratios.append(scored.ratio)
        if not np.isnan(scored.correlation):
            self.correlations.append(scored.correlation)
        if scored.calibration is not None:
            self.calibration.merge(scored.calibration)

    def result(self, about: Mapping[str, str], metres_per_unit: float | None, unit: Unit) -> Result:
        numbers = [row.numbers for row in self.rows]
        batch_size = self.protocol.batch_of(self.dataset.spec)
        holes = sum(row.holes for row in self.rows)
        pixels = holes + sum(row.pixels for row in self.rows)
        if holes and holes == pixels:
            raise DataError("predictions", "no value where the ground truth has one")
        totals = reported(self.average.result(), self.protocol) | _mean_of_extras(self.rows)
        ratio, hint = None, None
        if self.ratios and unit == "metre":
            ratio = float(np.median(self.ratios))
            hint = units.check_unit(ratio, self.correlations, metres_per_unit)
        return Result(
            spec=self.dataset.spec,
            split=self.dataset.split,
            protocol=self.protocol,
            manifest_sha256=self.dataset.source.sha256,
            prepared=self.dataset.source.prepared,
            totals=totals,
            intervals=bootstrap.intervals(self.terms, numbers, self.protocol, batch_size),
            rows=tuple(self.rows),
            by_distance=self.distances.bins(),
            worst=tuple(self.worst),
            calibration=self.calibration.result(),
            skipped=sum(not row.pixels for row in self.rows),
            holes=holes / max(pixels, 1),
            median_ratio=ratio,
            unit_hint=hint,
            about=about,
        )


def _read_ahead(dataset: Dataset) -> Iterator[Future[Sample]]:
    """Yield the samples in order; the next one is read during the prediction of the present one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(_read, dataset, 0)
        for index in range(len(dataset)):
            present = coming
            if index + 1 < len(dataset):
                coming = pool.submit(_read, dataset, index + 1)
            yield present


def _read(dataset: Dataset, index: int) -> Sample:
    """Return a sample; DataError if its files are not those of the manifest, which is reported."""
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
            there = ~np.isnan(prediction)  # files may have holes
            holes = int((valid & ~there).sum())
            valid &= there
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
    own, shared = set(metrics.KITTI_BENCHMARK), {"silog"}
    if protocol.numbers == "kitti_benchmark":
        return {name: value for name, value in numbers.items() if name in own}
    return {name: value for name, value in numbers.items() if name not in own - shared}


def _mean_of_extras(rows: list[Row]) -> dict[str, float]:
    """Return means over the pictures that have the metric, under every protocol."""
    names = dict.fromkeys(n for row in rows for n in row.numbers if metrics.compares_maps(n))
    found = {name: [row.numbers.get(name, np.nan) for row in rows] for name in names}
    return {name: float(np.nanmean(v)) for name, v in found.items() if not np.isnan(v).all()}


def _badness(case: Case) -> float:
    numbers = case.row.numbers
    return next((numbers[name] for name in case.sample.task.ranking if name in numbers), -1.0)
