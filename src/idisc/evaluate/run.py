"""Evaluation: the predictions for a dataset are scored under one or several protocols.

Predictions come from a `Predictor`, from files (`PredictionFiles`) or from any function of a
sample. Pictures are scored one by one and summed up in order, so that no result depends on the
number of processes, and none on batches unless the protocol averages by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from idisc import metrics
from idisc.ancestry import UNKNOWN
from idisc.data import manifest
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset, Sample
from idisc.data.decode import FloatArray
from idisc.errors import DataError, IdiscError, InputError, MissingExtra, first_names
from idisc.evaluate import units
from idisc.evaluate.bootstrap import bootstrap_intervals
from idisc.evaluate.calibration import Calibration, CalibrationSums
from idisc.evaluate.distances import Bin, Distances
from idisc.evaluate.predictions import PredictionFiles
from idisc.evaluate.protocols import PAPER, Protocol
from idisc.evaluate.scoring import NO_EXTRAS, Case, Extras, Row, reported, score
from idisc.evaluate.units import UnitHint
from idisc.executors import HERE, Executor, Outcome, in_order
from idisc.metrics import Terms
from idisc.predict.engine import Output
from idisc.predict.predictor import Predictor
from idisc.provenance import ModelInfo
from idisc.provenance_text import describe_licence
from idisc.tasks import Task

SamplePredictor = Callable[[Sample], FloatArray]
"""Maps a sample to depth (Hg, Wg) in metres or normals (Hg, Wg, 3), in the size of its target."""
Progress = Callable[[int, int], None]
MAX_WORST = 8  # worst pictures kept for the report
_MAX_NAMED = 5  # causes that an error names, and pictures of each


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
    holes: float = 0.0  # share of the valid pixels that were not scored
    # The median of prediction / ground truth over the pixels of a picture, then over the pictures,
    # before any rescaling. None for normals and relative depth.
    median_ratio: float | None = None
    unit_hint: UnitHint | None = None  # if the ratio suggests another unit
    about: Mapping[str, str] = field(default_factory=dict)  # what made the predictions
    model: ModelInfo | None = None  # the network that made them, if it is known


class ScoringError(InputError):
    """Some pictures cannot be scored; `failures` has the error of each."""

    failures: tuple[IdiscError, ...] = ()

    def __str__(self) -> str:
        """Render the first causes, each with the first subjects that have it."""
        subjects: dict[tuple[str, str], list[str]] = {}
        for error in self.failures:
            subjects.setdefault((error.reason, error.remedy), []).append(error.subject)
        causes = [
            str(InputError(first_names(names, _MAX_NAMED), *cause))
            for cause, names in subjects.items()
        ]
        if len(causes) > _MAX_NAMED:
            causes[_MAX_NAMED:] = [f"and {len(causes) - _MAX_NAMED} more causes"]
        return ": ".join(filter(None, [super().__str__(), "; ".join(causes)]))


def evaluate(
    dataset: Dataset,
    predictor: Predictor | PredictionFiles | SamplePredictor,
    protocols: Sequence[Protocol] = (PAPER,),
    *,
    extras: Extras = NO_EXTRAS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Score predictions on a dataset, the same predictions under each of the protocols.

    A network sees the pictures at the size that `Predictor.size_rule` chooses, unless the dataset
    was opened with a size. If some pictures cannot be scored, a ScoringError names all of them,
    because totals over the others would be mistaken for totals over all.

    Pictures are scored in this process, or by the workers of `executor`, which need the files of
    the dataset at the same paths. Results are summed up in the order of the dataset either way.
    """
    dataset, source = _open(dataset, predictor)
    _check_protocols(dataset.spec, source.model, protocols, extras)
    scoring = _Scoring(dataset, source.predict, tuple(protocols), extras)
    outcomes: Generator[Outcome[Any, list[_Scored]], None, None]
    if executor is None:
        samples = _read_ahead(dataset)
        outcomes = HERE.map(lambda sample: scoring.score(sample.result()), samples)
    else:
        outcomes = executor.map(scoring, range(len(dataset)))
    sums = [_Sums(dataset, protocol) for protocol in protocols]
    failures: list[IdiscError] = []
    with closing(outcomes):
        for done, outcome in enumerate(in_order(outcomes), start=1):
            error = outcome.error
            if isinstance(error, IdiscError) and not isinstance(error, MissingExtra):
                failures.append(error)  # a missing extra is the same for every picture
            else:
                for sum_, scored in zip(sums, outcome.result(), strict=True):
                    sum_.add(scored)
            if progress:
                progress(done, len(dataset))
    if failures:
        raise _scoring_error(dataset, failures)
    about = source.describe()
    try:
        return [sum_.result(source, about) for sum_ in sums]
    except DataError as error:  # no valid pixel in any picture
        raise error.within(dataset.source.root) from None


def _scoring_error(dataset: Dataset, failures: Sequence[IdiscError]) -> ScoringError:
    reason = f"{len(failures)} of {len(dataset)} pictures cannot be scored"
    error = ScoringError(dataset.source.root, reason)
    error.failures = tuple(failures)
    return error


@dataclass(frozen=True)
class _Source:
    """Predictions of any origin."""

    predict: Callable[[Sample], Output]
    describe: Callable[[], Mapping[str, str]] = dict  # for the report; called after predictions
    scale: float | None = 1.0  # metres of one stored unit; None: a network
    model: ModelInfo | None = None


def _open(
    dataset: Dataset, predictor: Predictor | PredictionFiles | SamplePredictor
) -> tuple[Dataset, _Source]:
    """Return the dataset as a network sees it, and the predictions."""
    if isinstance(predictor, Predictor):
        model = predictor.model
        check_task(model.name, predictor.engine.task, dataset.spec)
        rule = predictor.size_rule(dataset)
        about = {
            "weights": model.name,
            "weights_sha256": model.sha256,
            "licence": describe_licence(model),
        }
        if model.precision not in ("fp32", UNKNOWN):
            about["precision"] = model.precision
        if model.convention:
            about["convention"] = model.convention
        predict = partial(predict_sample, predictor)
        source = _Source(predict, lambda: about, None, model)
        return dataset.at_network_size(rule) if rule else dataset, source
    if isinstance(predictor, PredictionFiles):
        scale = predictor.reading.scale or 1.0
        return dataset, _Source(lambda sample: Output(predictor(sample)), predictor.about, scale)
    return dataset, _Source(lambda sample: Output(predictor(sample)))


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


def _check_protocols(
    spec: DatasetSpec, model: ModelInfo | None, protocols: Sequence[Protocol], extras: Extras
) -> None:
    """Refuse metrics of depth for a dataset of normals, and relative depth as metres."""
    depth_only = {"--clouds": extras.clouds, "--boundaries": extras.boundaries}
    depth_only |= {f"--protocol {one.name}": one.numbers != "all" for one in protocols}
    for option, chosen in depth_only.items():
        if chosen and not spec.task.metric:
            raise InputError(option, f"compares depth, {spec.name} holds {spec.task.name}")
    for protocol in protocols:
        if model and model.unit == "relative" and protocol.rescale_of(spec) != "inverse":
            raise InputError(
                model.name,
                f"its depth is relative, and protocol {protocol.name} expects metres",
                "choose --protocol affine, or --set rescale=inverse",
            )


class _Scored(NamedTuple):
    """What one picture adds to the sums of a protocol."""

    case: Case
    terms: Terms
    distances: Distances | None = None  # depth only, as all that follow
    ratio: float = np.nan  # median of prediction / ground truth
    correlation: float = np.nan
    calibration: CalibrationSums | None = None


@dataclass(frozen=True)
class _Scoring:
    """Scores the picture of an index under each of the protocols, in any process."""

    dataset: Dataset
    predict: Callable[[Sample], Output]
    protocols: tuple[Protocol, ...]
    extras: Extras

    def __call__(self, index: int) -> list[_Scored]:
        return self.score(_read(self.dataset, index))

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
            deviations = CalibrationSums()
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
        self.distances, self.calibration = Distances(), CalibrationSums()
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
        self.terms.append(replace(terms, angles_deg=None))  # up to a million of them per picture
        self.worst = sorted([*self.worst, case], key=_badness, reverse=True)[:MAX_WORST]
        if scored.distances is not None:
            self.distances.merge(scored.distances)
            self.ratios.append(scored.ratio)
        if not np.isnan(scored.correlation):
            self.correlations.append(scored.correlation)
        if scored.calibration is not None:
            self.calibration.merge(scored.calibration)

    def result(self, source: _Source, about: Mapping[str, str]) -> Result:
        dataset, protocol = self.dataset, self.protocol
        numbers = [row.numbers for row in self.rows]
        holes = sum(row.holes for row in self.rows)
        pixels = holes + sum(row.pixels for row in self.rows)
        if holes and holes == pixels:
            raise DataError("predictions", "no value where the ground truth has one")
        ratio, hint = None, None
        if self.ratios and not (source.model and source.model.unit == "relative"):
            ratio = float(np.median(self.ratios))
            hint = units.check_unit(ratio, self.correlations, source.scale)
        batch_size = protocol.batch_size_of(dataset.spec)
        return Result(
            spec=dataset.spec,
            split=dataset.split,
            protocol=protocol,
            manifest_sha256=dataset.source.sha256,
            prepared=dataset.source.prepared,
            totals=reported(self.average.result(), protocol) | _mean_of_extras(numbers),
            intervals=bootstrap_intervals(self.terms, numbers, protocol, batch_size),
            rows=tuple(self.rows),
            by_distance=self.distances.bins(),
            worst=tuple(self.worst),
            calibration=self.calibration.result(),
            skipped=sum(not row.pixels for row in self.rows),
            holes=holes / max(pixels, 1),
            median_ratio=ratio,
            unit_hint=hint,
            about=about,
            model=source.model,
        )


def _read_ahead(dataset: Dataset) -> Iterator[Future[Sample]]:
    """Yield the samples in order; each is read while the one before it is predicted."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        following = pool.submit(_read, dataset, 0)
        for index in range(len(dataset)):
            sample = following
            if index + 1 < len(dataset):
                following = pool.submit(_read, dataset, index + 1)
            yield sample


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


def _mean_of_extras(numbers: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return means over the pictures that have the metric, under every protocol."""
    names = dict.fromkeys(name for row in numbers for name in row if metrics.compares_maps(name))
    columns = {name: [row.get(name, np.nan) for row in numbers] for name in names}
    return {name: float(np.nanmean(v)) for name, v in columns.items() if not np.isnan(v).all()}


def _badness(case: Case) -> float:
    numbers = case.row.numbers
    return next((numbers[name] for name in case.sample.task.ranking if name in numbers), -1.0)
