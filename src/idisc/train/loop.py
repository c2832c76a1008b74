"""Run: the step, validation, signals; short, because the rest has names.

A run is its folder. `config.json` is written before the first step and never changes; `last` holds
all that is needed to go on. To resume is to load it and count on: pictures, their augmentation and
their order follow from the number of the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from idisc.data.dataset import Dataset
from idisc.errors import CheckpointError, DataError, InputError
from idisc.model.network import IDisc
from idisc.predict.engine import origin_of_data
from idisc.settings import Recipe
from idisc.train import features, guard, log, losses, optimizer, state, validation
from idisc.train.distributed import World
from idisc.train.loader import Batch, Stream, batches, shared
from idisc.train.recompute import recompute

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Step:
    """What one optimizer step has to tell."""

    step: int
    loss: float  # with the recipe's weight; NaN where the step was skipped
    lr: float
    grad_norm: float
    images_per_s: float
    wait: float  # share of the time spent waiting for pictures
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


class Run:
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
    ) -> None:
        train = recipe.train
        self.recipe, self.out, self.world, self.workers = recipe, out, world, workers
        self.testing = testing
        optimizer.freeze(network, train.freeze)
        self.network = network.to(world.device)
        shared(train, world.size)
        self.stream = Stream(training, recipe.data, train)
        if train.cache_features:
            kept = features.stores(self.network, training, Path(train.cache_features), world)
            self.stream = features.FeatureStream(training, recipe.data, train, kept)
        if train.channels_last:
            self.network.to(memory_format=torch.channels_last)
        self.average = optimizer.Average(self.network, train.ema) if train.ema else None
        self.optimizer = optimizer.make_optimizer(self.network, train)
        self.parameters = [p for p in self.network.parameters() if p.requires_grad]
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=train.precision == "fp16")
        self.wrapped = _wrapped(self.network, recipe, world)
        self.guard = guard.Guard(train.retries)
        self.pace = log.Pace()
        self.step = self.validated = 0
        self.saved = -1  # the step of RUN/last
        self.origin = {"recipe": recipe.name, **_learnt_from(training[0], recipe)}
        self.best: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.stop = False  # set by a signal: save and leave after this step

    def train(self, tell: Callable[[Step], None] | None = None) -> Summary:
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
                        f"{self.out}: cannot be written ({reason}); make room and resume"
                    ) from None
                raise
        return Summary(
            step=self.saved,
            finished=self.saved >= self.recipe.train.iterations,
            metrics=self.metrics,
            best=self.best,
            pictures=len(validation.chosen(len(self.testing), self.recipe.train.validate_images)),
            trouble=str(self.guard),
        )

    @contextmanager
    def _recorded(self) -> Iterator[log.Log | None]:
        """The log, in the process that writes it."""
        if not self.world.leads:
            yield None
            return
        with closing(log.Log(self.out, self.step, self.validated)) as records:
            yield records

    def _advance(self, records: log.Log | None, tell: Callable[[Step], None] | None) -> None:
        train, coming = self.recipe.train, self._batches()
        while True:
            self._keep_up(records)
            if self.step >= train.iterations:
                break
            began = time.monotonic()
            passes, problem = self._drawn(coming)
            waited = time.monotonic() - began
            said = self.world.gather([(self.stop, problem)])
            if any(stop for stop, _ in said):
                break
            if problems := [text for _, text in said if text]:
                raise DataError(problems[0])
            verdict, loss, norm = self._step(passes)
            last = self.step + 1 == train.iterations
            if verdict == "roll back" or (last and not self._sound()):
                self._roll_back(passes, records)
                coming = self._batches()
                continue
            self.step += 1
            self.pace.add(time.monotonic() - began, waited)
            told = self._told(loss, norm)
            if records:
                values = {k: v for k, v in asdict(told).items() if k != "step"}
                records.write("step", told.step, values)
            if tell:
                tell(told)
        self.save()

    def _drawn(self, coming: Iterator[Batch]) -> tuple[list[Batch], str]:
        """The passes of a step, or what is wrong with one: the other processes must know, too."""
        try:
            return [next(coming) for _ in range(self.recipe.train.accumulate)], ""
        except DataError as error:
            return [], str(error)

    def _batches(self) -> Iterator[Batch]:
        return batches(
            self.stream,
            self.step,
            rank=self.world.rank,
            processes=self.world.size,
            workers=self.workers,
        )

    def _step(self, passes: Sequence[Batch]) -> tuple[guard.Verdict, float, float]:
        """Forward and backward of all passes, and the optimizer's step if all is finite."""
        train = self.recipe.train
        torch.manual_seed(_seed(train.seed, self.step, self.world.rank))
        optimizer.train_mode(self.network, train.freeze)
        statistics = [buffer.clone() for buffer in self.network.buffers()]
        place = optimizer.schedule(self.step, train)
        optimizer.set_place(self.optimizer, place, self.guard.slower)
        self.optimizer.zero_grad(set_to_none=True)
        total, used = 0.0, 0
        for index, batch in enumerate(passes):
            together = index == len(passes) - 1 or self.world.size == 1
            with nullcontext() if together else self.wrapped.no_sync():
                loss, there = self._loss(batch)
                self.scaler.scale(loss / len(passes)).backward()
            total += loss.item()
            used += there
        if not used:
            self.guard.empty += 1
            self._restore(statistics)
            return "skip", float("nan"), 0.0
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters, train.clip_norm).item()
        loss_value = total / len(passes)
        # fp16 overflows now and then while its scale is found; the scaler skips those by itself.
        verdict = self.guard.judge(loss_value, 0.0 if self.scaler.is_enabled() else norm)
        if verdict == "step":
            self.scaler.step(self.optimizer)
            if self.average:
                self.average.update(self.network, self.step)
        else:
            self._restore(statistics)
        self.scaler.update()
        return verdict, loss_value, norm

    def _restore(self, statistics: Sequence[Tensor]) -> None:
        """Let batch norms forget a step that is skipped."""
        for buffer, before in zip(self.network.buffers(), statistics, strict=True):
            buffer.copy_(before)

    def _loss(self, batch: Batch) -> tuple[Tensor, bool]:
        """The weighted loss of a batch, and whether it had a valid pixel (else it is 0)."""
        train, device = self.recipe.train, self.world.device
        rgb = batch.image.to(device).float() / 255
        if train.channels_last:
            rgb = rgb.contiguous(memory_format=torch.channels_last)
        target, valid = batch.target.to(device), batch.valid.to(device)
        dtype = _DTYPES[train.precision]
        with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
            maps = [level.to(device).float() for level in batch.maps]
            output = self.wrapped(maps or rgb, size=(target.shape[2], target.shape[3]))
        prediction = output.prediction.float()
        if not self.world.total(valid.sum()):
            return prediction.sum() * 0, False
        if train.loss == "silog":
            loss = losses.silog_loss(prediction, target, valid, self.world.total)
        else:
            concentration = output.concentration.float()
            loss = losses.angular_loss(prediction, concentration, target, valid, self.world.total)
        return loss * train.loss_weight, True

    def _keep_up(self, records: log.Log | None) -> None:
        """Save and validate where it is time, but not while steps fail."""
        train = self.recipe.train
        last = self.step == train.iterations
        if self.guard.in_a_row:
            return
        if self.saved != self.step and (self.step % train.save_every == 0 or last):
            self.save()
        if self.validated != self.step and (self.step % train.validate_every == 0 or last):
            self._validate(records)

    def _validate(self, records: log.Log | None) -> None:
        network = self.average.network if self.average else self.network
        count = self.recipe.train.validate_images
        self.metrics, cases = validation.validate(network, self.testing, self.world, count)
        self.validated = self.step
        decides = validation.BEST[self.recipe.model.task]
        better = not self.best or self.metrics[decides] < self.best[decides]
        if better:
            self.best = {**self.metrics, "step": self.step}
        if not self.world.leads or records is None:
            return
        records.write("validation", self.step, self.metrics)
        path = self.out / "pictures" / f"step_{self.step:06d}.jpg"
        validation.write_pictures(path, cases, self.testing.spec.domain)
        if better:
            origin = {**self.origin, "metrics": self.best}
            state.write_network(
                self.out / state.BEST, self.recipe.model, network.state_dict(), origin
            )

    def _roll_back(self, passes: Sequence[Batch], records: log.Log | None) -> None:
        failed, counted = self.step, self.guard
        for index, batch in enumerate(passes):
            part = self.world.rank * len(passes) + index
            guard.write_batch(self.out, failed, part, batch)
        names = self.world.gather([name for batch in passes for name in batch.names])
        counted.roll_back(names)
        self.resume(state.read_training(self.out))
        self.guard = counted
        if records:
            records.write("rollback", self.step, {"after": failed, "pictures": names})

    def _told(self, loss: float, norm: float) -> Step:
        train, seconds = self.recipe.train, self.pace.seconds
        return Step(
            step=self.step,
            loss=loss,
            lr=self.optimizer.param_groups[0]["lr"],
            grad_norm=norm,
            images_per_s=train.batch_size * train.accumulate / seconds,
            wait=self.pace.wait,
            eta_s=seconds * (train.iterations - self.step),
            memory_gb=log.memory_gb(self.world.device),
            skipped=self.guard.skipped,
            empty=self.guard.empty,
            rollbacks=self.guard.rollbacks,
        )

    def save(self) -> None:
        """Write `last`, unless it would be ruined: then the one that is there is better."""
        if not self._sound():
            return
        if self.world.leads:
            self._write()
        self.saved = self.step

    def _sound(self) -> bool:
        """Whether the latest step was well, and all weights and statistics are finite."""
        kept = [*self.network.state_dict().values()]
        if self.average:
            kept += self.average.network.state_dict().values()
        return not self.guard.in_a_row and all(bool(value.isfinite().all()) for value in kept)

    def _write(self) -> None:
        """Everything to resume from, then the network for others to open."""
        state.write_training(
            self.out,
            {
                "step": self.step,
                "network": self.network.state_dict(),
                "average": self.average.network.state_dict() if self.average else {},
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "validated": self.validated,
                "guard": asdict(self.guard),
                "best": self.best,
                "metrics": self.metrics,
            },
        )
        network = self.average.network if self.average else self.network
        origin = {**self.origin, "step": self.step}
        state.write_network(self.out / state.LAST, self.recipe.model, network.state_dict(), origin)

    def resume(self, stored: dict[str, Any]) -> None:
        """Go on from what `state.read_training` found in RUN/last."""
        self.step = self.saved = stored["step"]
        self.validated = stored.get("validated", self.step)  # older runs validated before saving
        self.network.load_state_dict(stored["network"])
        if self.average:
            self.average.network.load_state_dict(stored["average"])
        self.optimizer.load_state_dict(stored["optimizer"])
        self.scaler.load_state_dict(stored["scaler"])
        self.guard = guard.Guard(**stored["guard"])
        self.best, self.metrics = stored["best"], stored["metrics"]


def _seed(*numbers: int) -> int:
    """Of a step's dropped paths: they follow from its number, as everything that is drawn does."""
    return int(np.random.SeedSequence((4, *numbers)).generate_state(1)[0])


def _learnt_from(dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """What a checkpoint says of itself to those who predict with it."""
    height, width = recipe.data.size
    origin = origin_of_data(dataset.spec.name, (height, width))
    camera = dataset[0].camera
    return origin if camera is None else {**origin, "training_fov_deg": round(camera.fov_deg, 1)}


def _wrapped(network: IDisc, recipe: Recipe, world: World) -> Any:
    train = recipe.train
    if train.precision == "fp16" and world.device.type == "cpu":
        raise InputError("train.precision: fp16 needs a GPU; bf16 and fp32 run on a CPU")
    if train.checkpoint_gradients:
        recompute(network)
    wrapped: Any = world.wrap(network)
    return torch.compile(wrapped) if train.compile else wrapped
