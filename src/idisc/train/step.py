"""Stepper: one optimizer step, from batches to updated weights.

A Stepper holds a network and everything that changes it: optimizer, gradient scaler, moving average
and the guard against steps that are not finite. Files and the order of steps are left to `trainer`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from idisc.configs.schema import Recipe, TrainConfig
from idisc.errors import InputError
from idisc.model.deformable import DeformableLayer
from idisc.model.devices import DTYPES
from idisc.model.discretization import SceneDiscretization
from idisc.model.linear import prefer_onednn
from idisc.model.network import IDisc
from idisc.model.swin import SwinBlock
from idisc.train import optimizer, seeding
from idisc.train.distributed import World
from idisc.train.guard import Guard, Verdict
from idisc.train.loader import Batch
from idisc.train.losses import LOSSES, gradient_loss, idr_loss


class Outcome(NamedTuple):
    """The result of a step."""

    verdict: Verdict
    loss: float  # with the recipe's weight; NaN if no pixel was valid
    norm: float  # of the gradient, before it was clipped


class Stepper:
    """A network and everything that changes it."""

    def __init__(self, network: IDisc, recipe: Recipe, world: World) -> None:
        train = recipe.train
        if train.precision == "fp16" and world.device.type == "cpu":
            raise InputError("train.precision", "fp16 needs a GPU", "bf16 and fp32 run on a CPU")
        self.train, self.world, self.network = train, world, network
        self._loss_of = LOSSES[recipe.loss]
        self._has_edge_loss = train.edge_weight > 0 and recipe.model.output.metric
        self._has_idr_loss = train.idr_weight > 0 and recipe.model.discretization == "isd"
        if train.channels_last:
            network.to(memory_format=torch.channels_last)
        prefer_onednn(network)
        self.average = optimizer.moving_average(network, train.ema) if train.ema else None
        self.optimizer = optimizer.make_optimizer(network, train)
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=train.precision == "fp16")
        self.guard = Guard(train.patience)
        self._wrapped = _wrapped(network, train, world)

    @property
    def result(self) -> IDisc:
        """The network to validate and to save: the average, if there is one."""
        if self.average is None:
            return self.network
        averaged: IDisc = self.average.module
        return averaged

    @property
    def rate(self) -> float:
        """The learning rate of the latest step, except for the encoder's."""
        return float(self.optimizer.param_groups[0]["lr"])

    def take(self, step: int, passes: Sequence[Batch], pixels: Sequence[int]) -> Outcome:
        """Take step number `step`, from 0 on.

        `pixels` are the valid ones of each pass, over all processes. Passes without any are left
        out.
        """
        train = self.train
        torch.manual_seed(seeding.torch_seed(train.seed, step, self.world.rank))
        optimizer.train_mode(self.network, train.freeze)
        optimizer.set_phase(self.optimizer, optimizer.schedule(step, train), self.guard.rate_factor)
        self.optimizer.zero_grad(set_to_none=True)
        used = [batch for batch, count in zip(passes, pixels, strict=True) if count]
        if not used:
            self.guard.empty += 1
            return Outcome("skip", math.nan, 0.0)
        statistics = list(_running_statistics(self.network))
        before = [buffer.clone() for buffer in statistics]
        outcome = self._update_weights(step, self._backward(used, len(passes)), len(passes))
        if outcome.verdict != "step":  # restore the batch norms
            for buffer, value in zip(statistics, before, strict=True):
                buffer.copy_(value)
        return outcome

    def _backward(self, used: Sequence[Batch], passes: int) -> list[Tensor]:
        """Accumulate the gradients of the mean over all passes; return the loss of each."""
        losses = []
        for index, batch in enumerate(used):
            synchronize = index == len(used) - 1 or self.world.size == 1
            with nullcontext() if synchronize else self._wrapped.no_sync():
                loss = self._loss(batch)
                self.scaler.scale(loss / passes).backward()
            losses.append(loss.detach())
        return losses

    def _loss(self, batch: Batch) -> Tensor:
        """Return the weighted loss of a batch that has a valid pixel in some process."""
        device, total = self.world.device, self.world.total
        rgb = batch.image.to(device).float() / 255
        if self.train.channels_last:
            rgb = rgb.contiguous(memory_format=torch.channels_last)
        target, valid = batch.target.to(device), batch.valid.to(device)
        dtype = DTYPES[self.train.precision]
        with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
            extracted = [values.to(device).float() for values in batch.extracted]
            size = (target.shape[2], target.shape[3])
            output = self._wrapped(rgb, size=size, extracted=extracted, explain=self._has_idr_loss)
        loss = self._loss_of(output, target, valid, total) * self.train.loss_weight
        if self._has_edge_loss:
            exact = valid & batch.exact.to(device).view(-1, 1, 1, 1)
            edges = gradient_loss(output.prediction.float(), target, exact, total)
            loss = loss + self.train.edge_weight * edges
        if self._has_idr_loss:
            maps = (*(output.partition or ()), *(output.attention or ()))
            loss = loss + self.train.idr_weight * idr_loss(maps, total)
        return loss

    def _update_weights(self, step: int, losses: Sequence[Tensor], passes: int) -> Outcome:
        """Clip the gradient and update the weights if gradient and loss are finite."""
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.train.clip_norm)
        *values, length = torch.stack([*losses, norm]).tolist()  # the only wait for the device
        loss = sum(values) / passes
        finite = math.isfinite(loss) and math.isfinite(length)
        verdict = self.guard.judge(loss, length, scale=1.0 if finite else self.scaler.get_scale())
        if verdict == "step":
            self.scaler.step(self.optimizer)
            if self.average:
                self.average.update(self.network, step + 2)  # see `moving_average`
        self.scaler.update()
        return Outcome(verdict, loss, length)

    def is_sound(self) -> bool:
        """Return whether the latest step, all weights and all statistics are finite."""
        values = [*self.network.state_dict().values(), *self.result.state_dict().values()]
        return not self.guard.in_a_row and all(bool(value.isfinite().all()) for value in values)

    def state(self) -> dict[str, Any]:
        """Return everything that the next steps depend on."""
        return {
            "network": self.network.state_dict(),
            "average": self.result.state_dict() if self.average else {},
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": asdict(self.guard),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""
        self.network.load_state_dict(state["network"])
        if self.average:
            self.result.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.guard = Guard(**state["guard"])


def _running_statistics(network: nn.Module) -> Iterator[Tensor]:
    """Yield the buffers that a training step changes: those of batch norms in train mode."""
    for module in network.modules():
        if module.training and getattr(module, "track_running_stats", False):
            yield from module.buffers(recurse=False)


def _wrapped(network: IDisc, train: TrainConfig, world: World) -> Any:
    """Return the network as training calls it: distributed, recomputing or compiled."""
    if train.checkpoint_gradients:
        _recompute_in_backward(network)
    wrapped = world.wrap(network)
    if train.compile:
        # Compiled in place, so names of tensors stay the same. The rest of the network consists of
        # many small operations, which take minutes to compile and become no faster.
        network.encoder.compile()
    return wrapped


def _recompute_in_backward(network: IDisc) -> None:
    """Checkpoint the layers that need most of the memory; encoders of timm do it themselves."""
    layers: tuple[type[nn.Module], ...] = (DeformableLayer, SceneDiscretization, SwinBlock)
    for module in network.modules():
        if isinstance(module, layers):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    body: Any = getattr(network.encoder, "body", None)
    if hasattr(body, "set_grad_checkpointing"):
        body.set_grad_checkpointing(True)
