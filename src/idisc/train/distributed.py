"""Communication between the processes of a run.

torchrun describes them in the environment (RANK, WORLD_SIZE, LOCAL_RANK). The processes share each
batch; losses and batch norms cover all of it, so several processes compute the same as one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from timm.layers import BatchNormAct2d, convert_sync_batchnorm
from torch import Tensor, nn

from idisc.model import devices

T = TypeVar("T")


class _Sum(torch.autograd.Function):
    """A sum over the processes whose gradient is the sum of the gradients."""

    @staticmethod
    def forward(_ctx: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].clone()
        dist.all_reduce(gradient)
        return gradient


@dataclass(frozen=True)
class World:
    """This process and the number of all processes."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """True for the process that writes files."""
        return self.rank == 0

    def total(self, value: Tensor) -> Tensor:
        """Return the sum over the processes; gradients flow through it.

        Each process has the gradient of the whole sum; DDP takes the mean of them.
        """
        if self.size == 1:
            return value
        summed: Tensor = _Sum.apply(value)
        return summed

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes in the order of their ranks."""
        if self.size == 1:
            return items
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, items)
        return [item for part in gathered for item in part]

    def sum_counts(self, counts: list[int]) -> list[int]:
        """Return the sum of each count over the processes, without waiting for a GPU."""
        if self.size == 1:
            return counts
        sums = torch.tensor(counts)
        dist.all_reduce(sums)
        summed: list[int] = sums.tolist()
        return summed

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        self.sum_counts([0])

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the network with gradients and batch norms over all processes."""
        if self.size == 1:
            return network
        if self.device.type == "cuda":
            network = convert_sync_batchnorm(network)  # includes the norms of timm
            return nn.parallel.DistributedDataParallel(network, device_ids=[self.device])
        for module in network.modules():
            if type(module) in _GLOBAL:
                module.__class__ = _GLOBAL[type(module)]
        return nn.parallel.DistributedDataParallel(network)


def _normalised(norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """Normalise (B, C, H, W) in training with statistics over all processes, in float32."""
    exact = x.float()
    count = _Sum.apply(exact.new_tensor(x.numel() / x.shape[1]))
    mean = _Sum.apply(exact.sum((0, 2, 3))) / count  # (C,)
    centred = exact - mean[:, None, None]
    variance = _Sum.apply(centred.square().sum((0, 2, 3))) / count
    with torch.no_grad():
        if norm.running_mean is not None and norm.running_var is not None:
            momentum = cast(float, norm.momentum)  # no encoder has None
            norm.running_mean.lerp_(mean, momentum)
            norm.running_var.lerp_(variance * count / (count - 1), momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    scale = norm.weight * (variance + norm.eps).rsqrt()
    return (centred * scale[:, None, None] + norm.bias[:, None, None]).to(x.dtype)


class GlobalBatchNorm2d(nn.BatchNorm2d):
    """Batch norm over all processes on a CPU; SyncBatchNorm of torch needs a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        return _normalised(self, x) if self.training else super().forward(x)


class GlobalBatchNormAct2d(BatchNormAct2d):
    """The same for the batch norm with activation of timm."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        if not self.training:
            return super().forward(x)
        return self.act(self.drop(_normalised(self, x)))


_GLOBAL: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm2d: GlobalBatchNorm2d,
    BatchNormAct2d: GlobalBatchNormAct2d,
}


@contextmanager
def join_processes(device: str) -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun there is only this one.

    `device` is "auto", "cpu" or a device of torch; each of several processes has its own GPU.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and size > 1:
        device = f"cuda:{os.environ['LOCAL_RANK']}"
    own = devices.usable(device)
    if size == 1:
        yield World(own)
        return
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo")
    try:
        yield World(own, dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
