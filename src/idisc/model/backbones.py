"""Encoders: RGB -> four feature maps at strides 4, 8, 16, 32, for any input size.

An encoder is a module with `channels` (fine to coarse) whose maps have the size of the picture
divided by the stride, rounded up. `BACKBONES` contains the published and some small ones;
`timm:NAME` is any other timm model with such a pyramid. Weights are random until
`load_encoder_weights` is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idisc.errors import CheckpointError, InputError, first_line, lookup
from idisc.model.states import load_into, read_state
from idisc.model.swin import Swin
from idisc.model.vit import VitPyramid, load_timm

Statistics = tuple[float, float, float]
IMAGENET_MEAN: Statistics = (0.485, 0.456, 0.406)
IMAGENET_STD: Statistics = (0.229, 0.224, 0.225)
STRIDES = (4, 8, 16, 32)  # of the four maps, fine to coarse


class TimmPyramid(nn.Module):
    """Any timm model whose `features_only` form has maps of the four strides."""

    def __init__(self, name: str, *, align: bool) -> None:
        """`align` pads the picture to whole strides, for models that would round sizes down."""
        super().__init__()
        self.name, self.align = name, align
        self.body = _build_pyramid(name)
        strides = self.body.feature_info.reduction()
        if not set(STRIDES) <= set(strides):
            raise InputError(
                f"encoder timm:{name}",
                f"has maps of strides {', '.join(map(str, strides))}",
                "4, 8, 16 and 32 are needed",
            )
        # Of several maps with one stride the last is the deepest.
        self.taps = [len(strides) - 1 - strides[::-1].index(stride) for stride in STRIDES]
        self.channels = tuple(self.body.feature_info.channels()[tap] for tap in self.taps)

    def forward(self, normalised: Tensor) -> list[Tensor]:
        """Map normalised RGB (B, 3, H, W) to maps (B, C_l, H/s, W/s) of strides s, rounded up."""
        height, width = normalised.shape[2:]
        if self.align:
            normalised = F.pad(normalised, (0, -width % STRIDES[-1], 0, -height % STRIDES[-1]))
        maps = self.body(normalised)
        if getattr(self.body, "output_fmt", "NCHW") == "NHWC":
            maps = [m.permute(0, 3, 1, 2) for m in maps]
        return [
            maps[tap][:, :, : -(-height // stride), : -(-width // stride)]
            for tap, stride in zip(self.taps, STRIDES, strict=True)
        ]

    def load_from_classifier(self, complete: nn.Module) -> None:
        """Load the weights of the complete classifier of the same name."""
        with _unexpected_keys_ignored():
            source = load_timm().create_model(
                self.name,
                pretrained=True,
                features_only=True,
                pretrained_cfg_overlay={"state_dict": complete.state_dict()},  # not from the hub
            )
        self.body.load_state_dict(source.state_dict())


class EfficientNetB5(nn.Module):
    """EfficientNet-B5 with TensorFlow's padding; its last map is its 2048-channel head."""

    channels = (40, 64, 176, 2048)

    def __init__(self) -> None:
        super().__init__()
        self.body = load_timm().create_model("tf_efficientnet_b5", pretrained=False, num_classes=0)

    def forward(self, normalised: Tensor) -> list[Tensor]:
        """Map normalised RGB (B, 3, H, W) to maps (B, C_l, H/s, W/s) of strides s, rounded up."""
        # timm's bn1 and bn2 include the activation.
        x = self.body.bn1(self.body.conv_stem(normalised))
        maps = []
        for index, stage in enumerate(self.body.blocks):
            x = stage(x)
            if index in (1, 2, 4):  # the last stages of strides 4, 8, 16
                maps.append(x)
        return [*maps, self.body.bn2(self.body.conv_head(x))]

    def load_from_classifier(self, complete: nn.Module) -> None:
        """Load all weights except those of the classifier."""
        load_into(self.body, complete.state_dict(), "body")


Encoder = Swin | VitPyramid | EfficientNetB5 | TimmPyramid


@dataclass(frozen=True, kw_only=True)
class Backbone:
    """How to build an encoder, its initial ImageNet weights, and the statistics of its input."""

    build: Callable[[], Encoder]
    weights: str  # name.tag of timm's hub; the published trainings started from these
    mean: Statistics = IMAGENET_MEAN
    std: Statistics = IMAGENET_STD


def _swin(width: int, depth: int, heads: int, drop_path: float) -> Callable[[], Encoder]:
    """Return a Swin with four stages that double width and heads; `depth` is that of the third."""
    widths, all_heads = ([first * 2**stage for stage in range(4)] for first in (width, heads))
    return partial(Swin, widths, (2, 2, depth, 2), all_heads, drop_path)


BACKBONES: dict[str, Backbone] = {
    "resnet50": Backbone(
        build=partial(TimmPyramid, "resnet50", align=False), weights="resnet50.tv_in1k"
    ),
    "resnet101": Backbone(
        build=partial(TimmPyramid, "resnet101", align=False), weights="resnet101.tv_in1k"
    ),
    # AdvProp weights were trained with other statistics; the published networks use ImageNet's.
    "efficientnet_b5": Backbone(build=EfficientNetB5, weights="tf_efficientnet_b5.ap_in1k"),
    "swin_tiny": Backbone(
        build=_swin(96, 6, 3, drop_path=0.2), weights="swin_tiny_patch4_window7_224.ms_in1k"
    ),
    "swin_small": Backbone(
        build=_swin(96, 18, 3, drop_path=0.3), weights="swin_small_patch4_window7_224.ms_in1k"
    ),
    "swin_base": Backbone(
        build=_swin(128, 18, 4, drop_path=0.5), weights="swin_base_patch4_window7_224.ms_in1k"
    ),
    "swin_large_22k": Backbone(
        build=_swin(192, 18, 6, drop_path=0.2), weights="swin_large_patch4_window7_224.ms_in22k"
    ),
    "dinov2_vits14": Backbone(
        # The last block predicts depth best; any two of the others add the same (linear
        # probes of log depth on NYU, docs/results.md).
        build=partial(VitPyramid, "vit_small_patch14_dinov2", taps=(5, 8, 11)),
        weights="vit_small_patch14_dinov2.lvd142m",
    ),
    "efficientnet_lite0": Backbone(
        build=partial(TimmPyramid, "tf_efficientnet_lite0", align=False),
        weights="tf_efficientnet_lite0.in1k",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    ),
}


def find_backbone(name: str) -> Backbone:
    """Return the entry of BACKBONES, or a new one for `timm:NAME`."""
    if not name.startswith("timm:"):
        return lookup(BACKBONES, name, "encoder")
    model = name.removeprefix("timm:")
    if not load_timm().is_model(model):
        raise InputError(f"encoder {name}", "timm has no model of that name")
    settings = load_timm().get_pretrained_cfg(model)
    return Backbone(
        build=partial(TimmPyramid, model, align=True),
        weights=model,
        mean=settings.mean,
        std=settings.std,
    )


def load_encoder_weights(encoder: Encoder, name: str, source: str | Path) -> None:
    """Load ImageNet weights: `source` is "imagenet" (from timm's hub) or a file.

    The file contains the complete classifier, with the tensor names of timm, torchvision or the
    authors.
    """
    backbone = find_backbone(name)
    if source == "imagenet":
        try:
            complete = load_timm().create_model(backbone.weights, pretrained=True)
        except Exception as error:  # no connection, no such tag, hub not available
            raise CheckpointError(
                f"encoder {name}",
                f"the weights {backbone.weights} could not be downloaded from timm's hub"
                f" ({first_line(error)})",
                "download the file another way and pass its path",
            ) from None
    else:
        complete = _load_classifier(backbone.weights, Path(source))
    encoder.load_from_classifier(complete)


@contextmanager
def _unexpected_keys_ignored() -> Iterator[None]:
    """Silence timm's warning about the tensors of the classifier, which a pyramid does not use."""

    def other(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Unexpected keys")

    logger = logging.getLogger("timm.models._builder")
    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def _load_classifier(name: str, path: Path) -> nn.Module:
    state = read_state(path)
    try:
        return load_timm().create_model(
            name, pretrained=True, pretrained_cfg_overlay={"state_dict": state}
        )
    except (RuntimeError, KeyError) as error:
        raise CheckpointError(
            path, f"not the complete weights of {name.partition('.')[0]} ({first_line(error)})"
        ) from None


def _build_pyramid(name: str) -> Any:
    """Return timm's feature pyramid of a model for any input size, tested on one picture."""
    timm, reason = load_timm(), ""
    for options in ({}, {"strict_img_size": False}):
        try:
            body = timm.create_model(name, pretrained=False, features_only=True, **options)
            with torch.no_grad():
                body.eval()(torch.zeros(1, 3, 64, 96))
            return body.train()
        except Exception as error:  # constructors and forward passes raise many types
            reason = reason or first_line(error)
    raise InputError(
        f"encoder timm:{name}", f"no feature pyramid for images of any size ({reason})"
    )
