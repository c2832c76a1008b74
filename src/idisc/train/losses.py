"""LOSSES by name: SILog for depth (eq. 4), an angular loss for normals.

A loss compares the network's output at the size of the target with it, pools all valid pixels of
the batch, and returns one number without the recipe's weight, or NaN if no pixel is valid. If
several processes share a batch, `total` sums over them, so that the loss is that of one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from idisc.model.network import Output

SILOG_LAMBDA = 0.15  # lambda of eq. 4: the weight of the squared mean
EPSILON = 1e-6  # in the logs and below the root, as released
MAX_COSINE = 0.999  # as released
Total = Callable[[Tensor], Tensor]
"""A sum over all processes, through which gradients flow."""


def _identity(value: Tensor) -> Tensor:
    return value


def silog_loss(
    prediction: Tensor, target: Tensor, valid: Tensor, total: Total = _identity
) -> Tensor:
    """Scale-invariant log loss (eq. 4): prediction and target metres (B, 1, H, W), valid boolean.

    sqrt(Var[e] + 0.15 Mean[e]^2) with e the difference of logs and the variance unbiased. The
    metric of the same name drops the mean altogether.
    """
    error = (prediction[valid] + EPSILON).log() - (target[valid] + EPSILON).log()
    pixels = total(valid.sum())
    mean = total(error.sum()) / pixels
    variance = total((error - mean).square().sum()) / (pixels - 1)
    return (variance + SILOG_LAMBDA * mean.square() + EPSILON).sqrt()


def gradient_loss(
    prediction: Tensor, target: Tensor, valid: Tensor, total: Total = _identity
) -> Tensor:
    """Mean difference of the slopes of log depth, at three scales; arguments as in `silog_loss`.

    The scales take every pixel, every second one and every fourth. This loss rewards edges as sharp
    as those of the target, so it is for exact targets only.
    """
    error = torch.where(valid, (prediction + EPSILON).log() - (target + EPSILON).log(), 0.0)
    loss = prediction.sum() * 0  # the result if no two neighbours are valid
    for step in (1, 2, 4):
        e, v = error[..., ::step, ::step], valid[..., ::step, ::step]
        for axis in (-2, -1):
            both = v.narrow(axis, 1, v.shape[axis] - 1) & v.narrow(axis, 0, v.shape[axis] - 1)
            slopes = e.diff(dim=axis).abs()
            loss = loss + total((slopes * both).sum()) / total(both.sum()).clamp(min=1)
    return loss / 3


def idr_loss(weights: Sequence[Tensor], total: Total = _identity) -> Tensor:
    """Negative mutual information of pixels and IDRs, as a share of its maximum: from -1 to 0.

    `weights` are maps (B, R, K, N, H, W) with sum 1 over the N IDRs: AFP's partition or ISD's
    attention of each level, for R layers and K heads. The information is high if each pixel has few
    IDRs and all IDRs have pixels. Without this term, IDRs may become copies of each other.
    """
    losses = []
    for maps in weights:
        pixels = total(maps.new_tensor(maps.shape[0] * maps.shape[-2] * maps.shape[-1]))
        shares = total(maps.sum(dim=(0, -2, -1))) / pixels  # of the IDRs (R, K, N)
        pixel_entropy = total(_entropy(maps, dim=3).sum(dim=(0, -2, -1))) / pixels  # mean (R, K)
        information = _entropy(shares, dim=-1) - pixel_entropy
        losses.append(-information.mean() / math.log(maps.shape[3]))
    return torch.stack(losses).mean()


def _entropy(shares: Tensor, dim: int) -> Tensor:
    return -(shares * shares.clamp(min=1e-8).log()).sum(dim=dim)


def angular_loss(
    normals: Tensor, concentration: Tensor, target: Tensor, valid: Tensor, total: Total = _identity
) -> Tensor:
    """Negative log likelihood of the angle to the target, with a concentration at each pixel.

    normals and target (B, 3, H, W), concentration (B, 1, H, W), valid (B, 1, H, W) boolean. Pixels
    within 2.6 degrees of parallel or opposite are left out, as released: the slope of arccos is
    unbounded there.
    """
    cosine = F.cosine_similarity(normals, target, dim=1)[:, None]  # (B, 1, H, W)
    used = valid & (cosine.abs() < MAX_COSINE)
    kappa, angle = concentration[used], torch.acos(cosine[used])
    losses = kappa * angle - (kappa.square() + 1).log() + F.softplus(-kappa * math.pi)
    return total(losses.sum()) / total(used.sum())


def _silog(output: Output, target: Tensor, valid: Tensor, total: Total) -> Tensor:
    return silog_loss(output.prediction.float(), target, valid, total)


def _angular(output: Output, target: Tensor, valid: Tensor, total: Total) -> Tensor:
    assert output.concentration is not None
    normals, concentration = output.prediction.float(), output.concentration.float()
    return angular_loss(normals, concentration, target, valid, total)


Loss = Callable[[Output, Tensor, Tensor, Total], Tensor]
LOSSES: dict[str, Loss] = {"silog": _silog, "angular": _angular}
"""Output, target (B, C, H, W), valid (B, 1, H, W) and `total` -> the loss; names as in `Task`."""
