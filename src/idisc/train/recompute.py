"""Gradient checkpointing: forget what lies inside a layer, compute it again when needed."""

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
    """Let the layers that hold most of the memory be computed twice; timm's encoders know how."""
    for module in network.modules():
        if isinstance(module, LAYERS):
            module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    body: Any = getattr(network.encoder, "body", None)
    if hasattr(body, "set_grad_checkpointing"):
        body.set_grad_checkpointing(True)
