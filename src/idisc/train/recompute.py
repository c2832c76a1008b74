"""Gradient checkpointing: the backward pass computes the inside of a layer again."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from idisc.model.deformable import DeformableLayer
from idisc.model.discretization import SceneDiscretization
from idisc.model.network import IDisc
from idisc.model.swin import SwinBlock

LAYERS: tuple[type[nn.Module], ...] = (DeformableLayer, SceneDiscretization, SwinBlock)


def recompute(network: IDisc) -> None:
    """Compute the layers that need most of the memory twice; encoders of timm can do it alone."""
    for module in network.modules():
        if isinstance(module, LAYERS):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    body: Any = getattr(network.encoder, "body", None)
    if hasattr(body, "set_grad_checkpointing"):
        body.set_grad_checkpointing(True)
