"""Trainer: the loop over steps, checkpoints and validations.

A run is a folder. `config.json` is written before the first step and never changes; `last` holds
everything that resuming needs. The pictures of a step, their augmentation and their order follow
from the number of the step, so a resumed run only has to continue counting.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from idisc.ancestry import Ancestry, join
from idisc.camera import Camera
from idisc.configs.schema import Recipe
from idisc.data.dataset import Dataset, evenly_spaced
from idisc.errors import CheckpointError, IdiscError
from idisc.model.network import IDisc
from idisc.predict.model_info import dataset_ancestry
from idisc.train import features, guard, log, optimizer, state, validation
from idisc.train.distributed import World
from idisc.train.loader import Batch, Stream, batches, pictures_per_process
from idisc.train.step import Outcome, Stepper


@dataclass(frozen=True)
class Step:
    """The numbers of one optimizer step for the log and the progress bar."""

    step: int
    loss: float  # with the recipe's weight; NaN if the step was skipped
    lr: float
    grad_norm: float
    images_per_s: float
    wait_share: float  # of the time, spent waiting for pictures
    eta_s: float
    memory_gb: float
    skipped: int  # steps so far whose loss or gradient was not finite
    empty: int  # batches so far without a valid pixel
    rollbacks: int


OnStep = Callable[[Step], None]


@dataclass(frozen=True)
class Summary:
    """The state of a run when it ended."""

    step: int  # of RUN/last
    finished: bool  # False: stopped by a signal, to be resumed
    metrics: dict[str, float]  # of the last validation
    best: dict[str, float]  # of the best one
    start: dict[str, float]  # of the weights that fine-tuning started from; empty otherwise
    pictures: int  # of a validation
    guard: guard.Guard  # counts of failed steps


@dataclass(frozen=True)
class RunData:
    """The datasets of a run."""

    training: Sequence[Dataset]
    testing: Dataset

    @property
    def manifests(self) -> list[str]:
        """The hashes of the manifests of the training data."""
        return [dataset.source.sha256 for dataset in self.training]

    @property
    def pairs(self) -> list[str]:
        """Hashes of the facts about each picture: names, splits, scales, cameras."""
        used = [*self.training, self.testing]
        texts = ["\n".join(map(repr, dataset.records)) for dataset in used]
        return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


class Trainer:
    """A training run in its folder."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        world: World,
        *,
        network: IDisc,
        data: RunData,
        workers: int,
        on_caching: features.OnProgress | None,
        fine_tunes: bool,
        inherited: Ancestry,
    ) -> None:
        """`on_caching` is called while features are cached, which precedes training.

        `fine_tunes` is true for a run that starts from a trained network: that network is validated
        before the first step, and remains the best checkpoint unless training improves on it.
        `inherited` is the ancestry of the weights that a run starts from.
        """
        self.recipe, self.out, self.world, self.workers = recipe, out, world, workers
        self.testing, self.fine_tunes, self.inherited = data.testing, fine_tunes, inherited
        self.share = pictures_per_process(recipe.train.batch_size, world.size)
        optimizer.freeze(network, recipe.train.freeze)
        self.stream = _stream(network.to(world.device), data.training, recipe, world, on_caching)
        self.stepper = Stepper(network, recipe, world)
        self.progress = state.Progress()
        self.saved = -1  # the step of RUN/last
        self.times = log.StepTimes()
        known = join([inherited, *_data_ancestry(data.training, recipe)])
        self.origin = {"recipe": recipe.name, **known.to_json()}
        self.stop = False  # set by a signal: save and stop after this step

    def train(self, on_step: OnStep | None = None) -> Summary:
        """Train until the last step, or until `stop` is set."""
        is_main = self.world.is_main
        with state.locked(self.out, is_main):
            if is_main:
                state.clear_drafts(self.out)
            try:
                with self._open_log() if is_main else nullcontext() as records:
                    self._run_steps(records, on_step)
            except (IdiscError, OSError) as error:
                self.save()
                if isinstance(error, OSError):  # of the log or of pictures
                    reason = f"cannot be written ({error.strerror or error})"
                    raise CheckpointError(self.out, reason, "make room and resume") from None
                raise
        return Summary(
            step=self.saved,
            finished=self.saved >= self.recipe.train.iterations,
            metrics=self.progress.metrics,
            best=self.progress.best,
            start=self.progress.start,
            pictures=len(evenly_spaced(len(self.testing), self.recipe.train.validate_images)),
            guard=self.stepper.guard,
        )

    def save(self) -> None:
        """Write `last`, unless the weights are not finite: then the previous one is kept."""
        if not self.stepper.is_sound():
            return
        step = self.progress.step
        if self.world.is_main:  # first what resuming needs, then the network for other commands
            state.write_training(self.out, {**asdict(self.progress), **self.stepper.state()})
            self._write_network(state.LAST, {"step": step})
        self.saved = step

    def resume(self, stored: dict[str, Any]) -> None:
        """Continue from what `state.read_training` returned."""
        names = asdict(self.progress)
        self.progress = state.Progress(**{name: stored[name] for name in names})
        self.saved = self.progress.step
        self.stepper.load(stored)

    def _open_log(self) -> closing[log.Log]:
        validated = self.progress.validated if self.progress.best else -1
        return closing(log.Log(self.out, self.progress.step, validated))

    def _run_steps(self, records: log.Log | None, on_step: OnStep | None) -> None:
        train, progress, upcoming = self.recipe.train, self.progress, self._batches()
        while True:
            self._save_and_validate(records)
            if progress.step >= train.iterations:
                break
            began = time.monotonic()
            drawn = self._next_passes(upcoming)
            waited = time.monotonic() - began
            if drawn is None:
                break
            outcome = self.stepper.take(progress.step, *drawn)
            last = progress.step + 1 == train.iterations
            if outcome.verdict == "roll back" or (last and not self.stepper.is_sound()):
                self._roll_back(drawn[0], records)
                progress, upcoming = self.progress, self._batches()
                continue
            progress.step += 1
            self.times.add(time.monotonic() - began, waited)
            step = self._step_record(outcome)
            if records:
                values = {name: value for name, value in asdict(step).items() if name != "step"}
                records.write("step", step.step, values)
            if on_step:
                on_step(step)
        self.save()

    def _batches(self) -> Iterator[Batch]:
        rank, share, workers = self.world.rank, self.share, self.workers
        return batches(self.stream, self.progress.step, rank=rank, share=share, workers=workers)

    def _next_passes(self, upcoming: Iterator[Batch]) -> tuple[list[Batch], list[int]] | None:
        """Return the passes of a step and their valid pixels over all processes; None: stop.

        All processes must stop together, so they exchange a few counts; an error is sent only if
        there is one.
        """
        count = self.recipe.train.accumulate
        passes: list[Batch] = []
        errors: list[IdiscError] = []
        try:
            passes = [next(upcoming) for _ in range(count)]
        except IdiscError as error:
            errors = [error]
        pixels = [int(batch.valid.sum()) for batch in passes] or [0] * count
        stop, failed, *pixels = self.world.sum_counts([int(self.stop), len(errors), *pixels])
        if stop:
            return None
        if failed:
            raise self.world.gather(errors)[0]
        return passes, pixels

    def _save_and_validate(self, records: log.Log | None) -> None:
        """Save and validate if this step is due, but not while steps fail."""
        train, step = self.recipe.train, self.progress.step
        last = step == train.iterations
        if self.stepper.guard.in_a_row:
            return
        if self.saved != step and (step % train.save_every == 0 or last):
            self.save()
        at_start = self.fine_tunes and step == 0 and not self.progress.best
        if at_start or (
            self.progress.validated != step and (step % train.validate_every == 0 or last)
        ):
            self._validate(records)

    def _validate(self, records: log.Log | None) -> None:
        train, progress = self.recipe.train, self.progress
        # Compiled code is for training steps; other sizes and modes would be compiled again.
        with torch.compiler.set_stance("force_eager") if train.compile else nullcontext():
            progress.metrics, cases = validation.validate(
                self.stepper.result, self.testing, self.world, train.validate_images, self.origin
            )
        progress.validated = progress.step
        ranking = self.recipe.model.output.ranking[0]
        better = not progress.best or progress.metrics[ranking] < progress.best[ranking]
        if better:
            progress.best = {**progress.metrics, "step": progress.step}
        if self.fine_tunes and progress.step == 0:
            progress.start = progress.metrics
        if records is None:
            return
        records.write("validation", progress.step, progress.metrics)
        path = self.out / "pictures" / f"step_{progress.step:06d}.jpg"
        validation.write_pictures(path, cases, self.testing.spec)
        if better:
            self._write_network(state.BEST, {"validation": progress.best})

    def _write_network(self, name: str, more: dict[str, Any]) -> None:
        origin, weights = {**self.origin, **more}, self.stepper.result.state_dict()
        state.write_network(self.out / name, self.recipe.model, weights, origin)

    def _roll_back(self, passes: Sequence[Batch], records: log.Log | None) -> None:
        failed, counts = self.progress.step, self.stepper.guard
        for index, batch in enumerate(passes):
            part = self.world.rank * len(passes) + index
            guard.write_batch(self.out, failed, part, batch)
        names = self.world.gather([name for batch in passes for name in batch.names])
        counts.roll_back(names)
        self.resume(state.read_training(self.out))
        self.stepper.guard = counts
        if records:
            records.write("rollback", self.progress.step, {"after": failed, "pictures": names})

    def _step_record(self, outcome: Outcome) -> Step:
        train, seconds, counts = self.recipe.train, self.times.seconds, self.stepper.guard
        return Step(
            step=self.progress.step,
            loss=outcome.loss,
            lr=self.stepper.rate,
            grad_norm=outcome.norm,
            images_per_s=train.batch_size * train.accumulate / seconds,
            wait_share=self.times.wait_share,
            eta_s=seconds * (train.iterations - self.progress.step),
            memory_gb=log.memory_gb(self.world.device),
            skipped=counts.skipped,
            empty=counts.empty,
            rollbacks=counts.rollbacks,
        )


def _stream(
    network: IDisc,
    training: Sequence[Dataset],
    recipe: Recipe,
    world: World,
    on_caching: features.OnProgress | None,
) -> Stream:
    """Return the samples: pictures, or cached views with features of a frozen encoder."""
    data, train = recipe.data, recipe.train
    stream = Stream(training, data, train)
    if not train.cache_features:
        return stream
    base = Path(train.cache_features)
    cached = features.cache_features(network, stream, base, world, on_caching)
    return features.FeatureStream(training, data, train, cached)


def _data_ancestry(training: Sequence[Dataset], recipe: Recipe) -> Iterator[Ancestry]:
    """Yield the ancestry of each folder; the first one has the camera, or the canonical one."""
    height, width = recipe.data.size
    camera = training[0][0].camera
    if focal := recipe.data.canonical_focal:
        camera = Camera.from_focal(focal * math.sqrt(height * width), (height, width))
    for dataset in training:
        known = dataset_ancestry(dataset.spec, (height, width))
        if dataset is not training[0]:
            known = replace(known, training_fov_deg=None)
        elif camera is not None:
            fov_deg = round(camera.fov_deg, 2)
            known = replace(known, training_fov_deg=fov_deg, canonical=focal > 0)
        yield known
