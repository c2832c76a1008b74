"""What a prediction is trained on: SILog for depth (eq. 4), an angular loss for normals.

Both take the network's output at the size of the target and a mask of valid pixels, pool all valid
pixels of the batch, and return one number without the recipe's weight: NaN if no pixel is valid.
Where several processes share a batch, `total` adds up over them, so that the loss is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

SILOG_LAMBDA = 0.15  # lambda of eq. 4: the share of the squared mean that stays
EPSILON = 1e-6  # in the logs and below the root, as released
MOST_COSINE = 0.999  # as released
Total = Callable[[Tensor], Tensor]
"""A sum over all processes that gradients pass."""


def _alone(value: Tensor) -> Tensor:
    return value


def silog_loss(prediction: Tensor, target: Tensor, valid: Tensor, total: Total = _alone) -> Tensor:
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
    prediction: Tensor, target: Tensor, valid: Tensor, total: Total = _alone
) -> Tensor:
    """Mean difference of the slopes of log depth, at three scales; arguments as in `silog_loss`.

    A scale takes every pixel, every second, every fourth. It rewards edges that are as sharp as
    those of the target, so it is for exact targets only.
    """
    error = torch.where(valid, (prediction + EPSILON).log() - (target + EPSILON).log(), 0.0)
    loss = prediction.sum() * 0  # stays if no two neighbours are valid
    for step in (1, 2, 4):
        e, v = error[..., ::step, ::step], valid[..., ::step, ::step]
        for axis in (-2, -1):
            both = v.narrow(axis, 1, v.shape[axis] - 1) & v.narrow(axis, 0, v.shape[axis] - 1)
            slopes = e.diff(dim=axis).abs()
            loss = loss + total((slopes * both).sum()) / total(both.sum()).clamp(min=1)
    return loss / 3


def angular_loss(
    normals: Tensor, concentration: Tensor, target: Tensor, valid: Tensor, total: Total = _alone
) -> Tensor:
    """Negative log likelihood of the angle to the target, with a concentration at each pixel.

    normals and target (B, 3, H, W), concentration (B, 1, H, W), valid (B, 1, H, W) boolean. Pixels
    within 2.6 degrees of parallel or opposite take no part, as released: the slope of arccos has no
    limit there.
    """
    cosine = F.cosine_similarity(normals, target, dim=1)[:, None]  # (B, 1, H, W)
    used = valid & (cosine.abs() < MOST_COSINE)
    kappa, angle = concentration[used], torch.acos(cosine[used])
    each = kappa * angle - (kappa.square() + 1).log() + F.softplus(-kappa * math.pi)
    return total(each.sum()) / total(used.sum())
