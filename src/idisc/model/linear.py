"""Linear layers whose float32 product is computed by oneDNN where that is faster.

torch multiplies float32 matrices on a CPU with MKL. oneDNN, which is part of torch as well, is two
to three times faster on an AMD EPYC with AVX-512; docs/performance.md has the numbers. Processors
of Intel were not measured and keep MKL. Both compute in float32 and differ by rounding, in some
attention maps by more than the 2e-5 to which a network agrees with published numbers. So a network
computes as torch does until it is passed to an engine or to a training run, which call
`prefer_onednn`.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

MIN_ROWS = 64  # of a product; smaller ones do not gain
_enabled = True


class OneDnnLinear(nn.Linear):
    """`nn.Linear` that uses oneDNN for large float32 inputs on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., in) to (..., out)."""
        rows = x.numel() // self.in_features
        if rows >= MIN_ROWS and _is_plain_float32(x) and onednn_is_faster() and _enabled:
            return _Product.apply(x, self.weight, self.bias)
        return super().forward(x)


def prefer_onednn(network: nn.Module) -> None:
    """Let all plain linear layers of a network, also those of timm, use oneDNN if it is faster.

    The network is changed in place; parameters and their names stay the same.
    """
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear  # same parameters, another forward pass


@contextmanager
def without_onednn() -> Iterator[None]:
    """Multiply with torch's default library, as any other code on torch does."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


@cache
def onednn_is_faster() -> bool:
    """Tell whether this processor has AVX-512 and is not made by Intel."""
    if (
        torch.backends.cpu.get_cpu_capability() != "AVX512"
        or not torch.backends.mkldnn.is_available()
    ):
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    cpuinfo = Path("/proc/cpuinfo")
    maker = cpuinfo.read_text() if cpuinfo.exists() else platform.processor()
    return "GenuineIntel" not in maker


def _is_plain_float32(x: Tensor) -> bool:
    """Tell whether a product is neither traced nor computed on a GPU or in another precision."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _Product(Function):
    """x W^T + b; the operator itself, which torch.compile also uses, has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _multiply(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)  # (R, out)
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _multiply(gradient, weight.T) if needs_x else None,  # (..., in)
            _multiply(rows.T, x.flatten(0, -2).T) if needs_weight else None,  # (out, in)
            rows.sum(0) if needs_bias and ctx.has_bias else None,
        )


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out
