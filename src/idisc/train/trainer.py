"""Trainer: the loop over steps, checkpoints and validations.

A run is a folder. `config.json` is written before the first step and never changes; `last` holds
everything that resuming needs. The pictures of a step, their augmentation and their order follow
from the number of the step, so a resumed run only has to continue counting.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from idisc.camera import Camera
from idisc.data.dataset import Dataset, evenly_spaced
from idisc.errors import CheckpointError, DataError, InputError
from idisc.model.network import IDisc
from idisc.predict.model_info import dataset_origin
from idisc.settings import Recipe
from idisc.train import features, guard, log, optimizer, state, validation
from idisc.train.distributed import World
from idisc.train.loader import Batch, Stream, batches, pictures_per_process
from idisc.train.step import Outcome, Stepper

Tell = Callable[["Step"], None]


@dataclass(frozen=True)
class Step:
    """What one optimizer step has to tell."""

    step: int
    loss: float  # with the recipe's weight; NaN where the step was skipped
    lr: float
    grad_norm: float
    images_per_s: float
    wait_share: float  # of the time, spent waiting for pictures
    eta_s: float
    memory_gb: float
    skipped: int  # steps so far whose loss or gradient was not finite
    empty: int  # batches so far without a valid pixel
    rollbacks: int


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    step: int  # of RUN/last
    finished: bool  # False: stopped by a signal, to be resumed
    metrics: dict[str, float]  # of the last validation
    best: dict[str, float]  # of the best one
    pictures: int  # of a validation
    trouble: str  # skipped steps, empty batches and roll-backs in words; empty: none


class Trainer:
    """A training run in its folder."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        world: World,
        *,
        network: IDisc,
        training: Sequence[Dataset],
        testing: Dataset,
        workers: int = 0,
        caching: features.Progress | None = None,
        fine_tunes: bool = False,
    ) -> None:
        """`caching` reports the progress of caching features, which precedes training.

        `fine_tunes` is true for a run that starts from a trained network: that network is validated
        before the first step, and stays the best checkpoint unless training improves on it.
        """
        self.recipe, self.out, self.world, self.workers = recipe, out, world, workers
        self.testing, self.fine_tunes = testing, fine_tunes
        self.share = pictures_per_process(recipe.train.batch_size, world.size)
        optimizer.freeze(network, recipe.train.freeze)
        self.stream = _stream(network.to(world.device), training, recipe, world, caching)
        self.stepper = Stepper(network, recipe, world)
        self.progress = state.Progress()
        self.saved = -1  # the step of RUN/last
        self.pace = log.Pace()
        self.origin = {"recipe": recipe.name, **_learnt_from(training, recipe)}
        self.stop = False  # set by a signal: save and leave after this step

    def train(self, tell: Tell | None = None) -> Summary:
        """Train until the last step, or until `stop` is set."""
        leads = self.world.leads
        with state.locked(self.out, leads):
            if leads:
                state.clear_drafts(self.out)
            try:
                with self._recorded() as records:
                    self._advance(records, tell)
            except (DataError, InputError, OSError) as error:
                self.save()  # what was learnt until then
                if isinstance(error, OSError):  # of the log, of pictures
                    reason = error.strerror or error
                    raise CheckpointError(
                        self.out, f"cannot be written ({reason})", "make room and resume"
                    ) from None
                raise
        count = self.recipe.train.validate_images
        return Summary(
            step=self.saved,
            finished=self.saved >= self.recipe.train.iterations,
            metrics=self.progress.metrics,
            best=self.progress.best,
            pictures=len(evenly_spaced(len(self.testing), count)),
            trouble=str(self.stepper.guard),
        )

    def save(self) -> None:
        """Write `last`, unless it would be ruined: then the one that is there is better."""
        if not self.stepper.sound():
            return
        step, kept = self.progress.step, self.stepper.kept
        if self.world.leads:  # everything to resume from, then the network for others to open
            state.write_training(self.out, {**asdict(self.progress), **self.stepper.state()})
            self._write_network(state.LAST, kept, {"step": step})
        self.saved = step

    def resume(self, stored: dict[str, Any]) -> None:
        """Go on from what `state.read_training` found in RUN/last."""
        names = asdict(self.progress)
        self.progress = state.Progress(**{name: stored[name] for name in names})
        self.saved = self.progress.step
        self.stepper.load(stored)

    @contextmanager
    def _recorded(self) -> Iterator[log.Log | None]:
        """The log, in the process that writes it."""
        if not self.world.leads:
            yield None
            return
        progress = self.progress
        validated = progress.validated if progress.best else -1
        with closing(log.Log(self.out, progress.step, validated)) as records:
            yield records

    def _advance(self, records: log.Log | None, tell: Tell | None) -> None:
        train, progress, coming = self.recipe.train, self.progress, self._batches()
        while True:
            self._keep_up(records)
            if progress.step >= train.iterations:
                break
            began = time.monotonic()
            passes = self._drawn(coming)
            waited = time.monotonic() - began
            if passes is None:
                break
            outcome = self.stepper.take(progress.step, passes)
            last = progress.step + 1 == train.iterations
            if outcome.verdict == "roll back" or (last and not self.stepper.sound()):
                self._roll_back(passes, records)
                progress, coming = self.progress, self._batches()
                continue
            progress.step += 1
            self.pace.add(time.monotonic() - began, waited)
            told = self._told(outcome)
            if records:
                values = {k: v for k, v in asdict(told).items() if k != "step"}
                records.write("step", told.step, values)
            if tell:
                tell(told)
        self.save()

    def _batches(self) -> Iterator[Batch]:
        return batches(
            self.stream,
            self.progress.step,
            rank=self.world.rank,
            share=self.share,
            workers=self.workers,
        )

    def _drawn(self, coming: Iterator[Batch]) -> list[Batch] | None:
        """The passes of a step; None where some process is to stop.

        What is wrong with a picture here, all processes must know: they stop together.
        """
        passes, problem = [], ""
        try:
            passes = [next(coming) for _ in range(self.recipe.train.accumulate)]
        except DataError as error:
            problem = str(error)
        said = self.world.gather([(self.stop, problem)])
        if any(stop for stop, _ in said):
            return None
        if problems := [text for _, text in said if text]:
            raise DataError(problems[0])
        return passes

    def _keep_up(self, records: log.Log | None) -> None:
        """Save and validate where it is time, but not while steps fail."""
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
        train, progress, network = self.recipe.train, self.progress, self.stepper.kept
        # What is compiled is so for the steps: other sizes and modes would be compiled anew.
        with torch.compiler.set_stance("force_eager") if train.compile else nullcontext():
            progress.metrics, cases = validation.validate(
                network, self.testing, self.world, train.validate_images, self.origin
            )
        progress.validated = progress.step
        decides = validation.DECIDES[self.recipe.model.task]
        better = not progress.best or progress.metrics[decides] < progress.best[decides]
        if better:
            progress.best = {**progress.metrics, "step": progress.step}
        if not self.world.leads or records is None:
            return
        records.write("validation", progress.step, progress.metrics)
        path = self.out / "pictures" / f"step_{progress.step:06d}.jpg"
        validation.write_pictures(path, cases, self.testing.spec.domain)
        if better:
            self._write_network(state.BEST, network, {"validation": progress.best})

    def _write_network(self, name: str, network: IDisc, more: dict[str, Any]) -> None:
        origin = {**self.origin, **more}
        state.write_network(self.out / name, self.recipe.model, network.state_dict(), origin)

    def _roll_back(self, passes: Sequence[Batch], records: log.Log | None) -> None:
        failed, counted = self.progress.step, self.stepper.guard
        for index, batch in enumerate(passes):
            part = self.world.rank * len(passes) + index
            guard.write_batch(self.out, failed, part, batch)
        names = self.world.gather([name for batch in passes for name in batch.names])
        counted.roll_back(names)
        self.resume(state.read_training(self.out))
        self.stepper.guard = counted
        if records:
            records.write("rollback", self.progress.step, {"after": failed, "pictures": names})

    def _told(self, outcome: Outcome) -> Step:
        train, seconds, counted = self.recipe.train, self.pace.seconds, self.stepper.guard
        return Step(
            step=self.progress.step,
            loss=outcome.loss,
            lr=self.stepper.rate,
            grad_norm=outcome.norm,
            images_per_s=train.batch_size * train.accumulate / seconds,
            wait_share=self.pace.wait_share,
            eta_s=seconds * (train.iterations - self.progress.step),
            memory_gb=log.memory_gb(self.world.device),
            skipped=counted.skipped,
            empty=counted.empty,
            rollbacks=counted.rollbacks,
        )


def _stream(
    network: IDisc,
    training: Sequence[Dataset],
    recipe: Recipe,
    world: World,
    caching: features.Progress | None,
) -> Stream:
    """Pictures, or cached views with the features of a frozen encoder."""
    data, train = recipe.data, recipe.train
    stream = Stream(training, data, train)
    if not train.cache_features:
        return stream
    base = Path(train.cache_features)
    cached = features.cache_features(network, stream, base, world, caching)
    return features.FeatureStream(training, data, train, cached)


def _learnt_from(training: Sequence[Dataset], recipe: Recipe) -> dict[str, Any]:
    """What a checkpoint says of itself to those who predict with it: the first folder's, mostly."""
    height, width = recipe.data.size
    origin = dataset_origin(training[0].spec.name, (height, width))
    origin["data"] = "; ".join(dict.fromkeys(dataset.spec.title for dataset in training))
    camera = training[0][0].camera
    if focal := recipe.data.canonical_focal:
        camera = Camera.from_focal(focal * math.sqrt(height * width), (height, width))
        origin["canonical"] = True
    return origin if camera is None else {**origin, "training_fov_deg": round(camera.fov_deg, 2)}
