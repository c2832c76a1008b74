"""One optimizer step: forward and backward of its passes, and the weights moved if all is well.

A Stepper is a network with everything that moves it: optimizer, scale of half precision, moving
average, and the guard that tells good steps from bad. It knows nothing of files or of the order of
things; that is `trainer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from idisc.errors import InputError
from idisc.model.network import IDisc
from idisc.settings import Recipe, TrainConfig
from idisc.train import losses, optimizer, seeding
from idisc.train.distributed import World
from idisc.train.guard import Guard, Verdict
from idisc.train.loader import Batch
from idisc.train.recompute import recompute

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Outcome(NamedTuple):
    """How a step went."""

    verdict: Verdict
    loss: float  # with the recipe's weight; NaN where no pixel was valid
    norm: float  # of the gradient, before it was clipped


class Stepper:
    """A network and all that moves it."""

    def __init__(self, network: IDisc, recipe: Recipe, world: World) -> None:
        train = recipe.train
        if train.precision == "fp16" and world.device.type == "cpu":
            raise InputError("train.precision", "fp16 needs a GPU", "bf16 and fp32 run on a CPU")
        self.train, self.task, self.world = train, recipe.model.task, world
        self.network = network
        if train.channels_last:
            network.to(memory_format=torch.channels_last)
        self.average = optimizer.Average(network, train.ema) if train.ema else None
        self.optimizer = optimizer.make_optimizer(network, train)
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=train.precision == "fp16")
        self.guard = Guard(train.patience)
        self._wrapped = _wrapped(network, train, world)

    @property
    def kept(self) -> IDisc:
        """The network to validate and to keep: the average, if there is one."""
        return self.average.network if self.average else self.network

    @property
    def rate(self) -> float:
        """Of the latest step, without the encoder's share."""
        return float(self.optimizer.param_groups[0]["lr"])

    def take(self, step: int, passes: Sequence[Batch]) -> Outcome:
        """Step number `step`, from 0 on, over all its passes."""
        train = self.train
        torch.manual_seed(seeding.torch_seed(train.seed, step, self.world.rank))
        optimizer.train_mode(self.network, train.freeze)
        optimizer.set_phase(self.optimizer, optimizer.schedule(step, train), self.guard.slower)
        self.optimizer.zero_grad(set_to_none=True)
        statistics = [buffer.clone() for buffer in self.network.buffers()]
        loss = self._backward(passes)
        if loss is None:
            self.guard.empty += 1
            outcome = Outcome("skip", float("nan"), 0.0)
        else:
            outcome = self._judged(step, loss)
        if outcome.verdict != "step":  # batch norms forget it
            for buffer, before in zip(self.network.buffers(), statistics, strict=True):
                buffer.copy_(before)
        return outcome

    def _backward(self, passes: Sequence[Batch]) -> float | None:
        """Gradients of all passes; their mean loss, or None if none had a valid pixel."""
        total, used = 0.0, False
        for index, batch in enumerate(passes):
            together = index == len(passes) - 1 or self.world.size == 1
            with nullcontext() if together else self._wrapped.no_sync():
                loss, there = self._loss(batch)
                self.scaler.scale(loss / len(passes)).backward()
            total += loss.item()
            used |= there
        return total / len(passes) if used else None

    def _loss(self, batch: Batch) -> tuple[Tensor, bool]:
        """The weighted loss of a batch, and whether it had a valid pixel (else it is 0)."""
        device, total = self.world.device, self.world.total
        rgb = batch.image.to(device).float() / 255
        if self.train.channels_last:
            rgb = rgb.contiguous(memory_format=torch.channels_last)
        target, valid = batch.target.to(device), batch.valid.to(device)
        dtype = _DTYPES[self.train.precision]
        with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
            extracted = [values.to(device).float() for values in batch.extracted]
            size = (target.shape[2], target.shape[3])
            output = self._wrapped(rgb, size=size, extracted=extracted)
        prediction = output.prediction.float()
        if not total(valid.sum()):
            return prediction.sum() * 0, False
        if self.task == "depth":
            loss = losses.silog_loss(prediction, target, valid, total) * self.train.loss_weight
            if self.train.edge_weight:
                exact = valid & batch.exact.to(device).view(-1, 1, 1, 1)
                edges = losses.gradient_loss(prediction, target, exact, total)
                loss = loss + self.train.edge_weight * edges
            return loss, True
        concentration = output.concentration.float()
        loss = losses.angular_loss(prediction, concentration, target, valid, total)
        return loss * self.train.loss_weight, True

    def _judged(self, step: int, loss: float) -> Outcome:
        """Clip the gradient and let it move the weights, if both it and the loss are finite."""
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.train.clip_norm).item()
        verdict = self.guard.judge(loss, norm, scale=self.scaler.get_scale())
        if verdict == "step":
            self.scaler.step(self.optimizer)
            if self.average:
                self.average.update(self.network, step)
        self.scaler.update()
        return Outcome(verdict, loss, norm)

    def sound(self) -> bool:
        """Whether the latest step was well, and all weights and statistics are finite."""
        values = [*self.network.state_dict().values(), *self.kept.state_dict().values()]
        return not self.guard.in_a_row and all(bool(value.isfinite().all()) for value in values)

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.network.state_dict() if self.average else {},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": asdict(self.guard),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.network.load_state_dict(state["network"])
        if self.average:
            self.average.network.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.guard = Guard(**state["guard"])


def _wrapped(network: IDisc, train: TrainConfig, world: World) -> Any:
    """The network as it is called in training."""
    if train.checkpoint_gradients:
        recompute(network)
    wrapped = world.wrap(network)
    if train.compile:
        # In place: the state keeps its names. The rest is many small, odd operations, which take
        # minutes to compile and gain nothing.
        network.encoder.compile()
    return wrapped
