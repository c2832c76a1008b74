"""Run: the step, validation, signals; short, because the rest has names.

A run is its folder. `config.json` is written before the first step and never changes; `last` holds
all that is needed to go on. To resume is to load it and count on: pictures, their augmentation and
their order follow from the number of the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from idisc.data.dataset import Dataset
from idisc.errors import InputError
from idisc.model.network import IDisc
from idisc.predict.engine import origin_of_data
from idisc.settings import Recipe
from idisc.train import features, guard, log, losses, optimizer, state, validation
from idisc.train.distributed import World
from idisc.train.loader import Batch, Stream, batches
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


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    step: int
    finished: bool  # False: stopped by a signal, to be resumed
    metrics: dict[str, float]  # of the last validation
    best: dict[str, float]  # of the best one


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
        self.step = 0
        self.origin = {"recipe": recipe.name, **_learnt_from(training[0], recipe)}
        self.best: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.stop = False  # set by a signal: save and leave after this step

    def resume(self) -> None:
        """Go on from RUN/last."""
        self._load(state.read_training(self.out))

    def train(self, tell: Callable[[Step], None] | None = None) -> Summary:
        """Train until the last step, or until `stop` is set."""
        train = self.recipe.train
        if self.world.leads:
            state.clear_drafts(self.out)
            self._save()  # there is always something to roll back to
        records = log.Log(self.out, self.step) if self.world.leads else None
        coming = self._batches()
        began, wait = time.monotonic(), 0.0
        try:
            while self.step < train.iterations and not self.world.any(self.stop):
                waiting = time.monotonic()
                passes = [next(coming) for _ in range(train.accumulate)]
                wait = time.monotonic() - waiting
                verdict, loss, norm = self._step(passes)
                if verdict == "roll back":
                    self._roll_back(passes[-1])
                    coming = self._batches()
                    continue
                self.step += 1
                now = time.monotonic()
                told = self._told(loss, norm, now - began, wait)
                began = now
                if records:
                    records.write(
                        "step", told.step, {k: v for k, v in asdict(told).items() if k != "step"}
                    )
                if tell:
                    tell(told)
                self._keep_up(records)
            if self.world.leads:
                self._save()
        finally:
            if records:
                records.close()
        return Summary(self.step, self.step >= train.iterations, self.metrics, self.best)

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
        optimizer.train_mode(self.network, train.freeze)
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
            return "skip", float("nan"), 0.0
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters, train.clip_norm).item()
        loss_value = total / len(passes)
        # fp16 overflows now and then while its scale is found; the scaler skips those by itself.
        verdict = self.guard.judge(loss_value, 0.0 if self.scaler.is_enabled() else norm)
        if verdict == "step":
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.average:
                self.average.update(self.network, self.step)
        return verdict, loss_value, norm

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
        """Validate and save where it is time."""
        train = self.recipe.train
        last = self.step == train.iterations
        if self.step % train.validate_every == 0 or last:
            self._validate(records)
        if (self.step % train.save_every == 0 or last) and self.world.leads:
            self._save()

    def _validate(self, records: log.Log | None) -> None:
        network = self.average.network if self.average else self.network
        count = self.recipe.train.validate_images
        self.metrics, cases = validation.validate(network, self.testing, self.world, count)
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

    def _roll_back(self, batch: Batch) -> None:
        if self.world.leads:
            guard.write_batch(self.out, self.step, batch)
        counted = self.guard
        counted.roll_back(batch)
        self._load(state.read_training(self.out))
        self.guard = counted

    def _told(self, loss: float, norm: float, seconds: float, wait: float) -> Step:
        train = self.recipe.train
        return Step(
            step=self.step,
            loss=loss,
            lr=self.optimizer.param_groups[0]["lr"],
            grad_norm=norm,
            images_per_s=train.batch_size * train.accumulate / seconds,
            wait=wait / seconds,
            eta_s=seconds * (train.iterations - self.step),
            memory_gb=log.memory_gb(self.world.device),
        )

    def _save(self) -> None:
        """Everything to resume from, then the network for others to open."""
        state.write_training(
            self.out,
            {
                "step": self.step,
                "network": self.network.state_dict(),
                "average": self.average.network.state_dict() if self.average else {},
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "random": state.random_state(self.world.device),
                "guard": asdict(self.guard),
                "best": self.best,
                "metrics": self.metrics,
            },
        )
        network = self.average.network if self.average else self.network
        origin = {**self.origin, "step": self.step}
        state.write_network(self.out / state.LAST, self.recipe.model, network.state_dict(), origin)

    def _load(self, stored: dict[str, Any]) -> None:
        self.step = stored["step"]
        self.network.load_state_dict(stored["network"])
        if self.average:
            self.average.network.load_state_dict(stored["average"])
        self.optimizer.load_state_dict(stored["optimizer"])
        self.scaler.load_state_dict(stored["scaler"])
        state.set_random_state(stored["random"], self.world.device)
        self.guard = guard.Guard(**stored["guard"])
        self.best, self.metrics = stored["best"], stored["metrics"]


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
