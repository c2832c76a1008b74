"""The dataclasses of a recipe: the network, its data and its training.

Every field has a comment with its meaning and the source of its value; the defaults are those of
the published NYU configurations. The subject of an error is the field within its own group, to
which `parsing` adds the names of the enclosing groups. `recipes` contains the values by name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from idisc.errors import InputError
from idisc.tasks import TASKS, Task

Activation = Literal["gelu", "silu", "relu"]
Precision = Literal["fp32", "bf16", "fp16"]  # of a network's arithmetic in torch
FilePrecision = Literal["fp32", "fp16-weights", "fp16", "int8"]
"""Precision of an exported file: of its arithmetic, or, for fp16-weights, of its weights only."""


# Far beyond any use; a damaged file with larger numbers must not fill the memory.
MAX_COUNT, MAX_LAYERS = 4096, 256


def _check(condition: bool, field: str, reason: str, remedy: str = "") -> None:
    if not condition:
        raise InputError(field, reason, remedy)


def _check_range(config: object, names: str, minimum: float = 0, maximum: float = math.inf) -> None:
    for name in names.split():
        value = getattr(config, name)
        _check(value >= minimum, name, f"{value} is less than {minimum}")
        _check(value <= maximum, name, f"{value} is more than {maximum}")


def _check_divides(heads: int, width: int, field: str = "heads") -> None:
    _check(width % heads == 0, field, f"{heads} does not divide the width {width}")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Pixel decoder: encoder features -> features F and pixel embeddings P."""

    msda: bool = True  # multi-scale deformable attention; False: the plain FPN of the ablations
    width: int = 256  # channels of F and P
    layers: int = 4  # MSDA layers; four in the paper, six in the published outdoor configurations
    heads: int = 4  # MSDA heads
    points: int = 4  # sampling points of each head on each level; eight outdoors
    finest: Literal[4, 8] = 4  # stride of the finest decoded map; 8 is four times cheaper

    def __post_init__(self) -> None:
        _check_range(self, "width heads points", 1, MAX_COUNT)
        _check_range(self, "layers", 1, MAX_LAYERS)
        divisible = self.width % 4 == 0  # as the sine encoding needs
        _check(divisible, "width", f"{self.width} is not a multiple of 4")
        _check_divides(self.heads, self.width)


@dataclass(frozen=True, kw_only=True)
class AfpConfig:
    """Adaptive feature partitioning (eq. 1): F -> N internal discrete representations."""

    idrs: int = 32  # N
    width: int = 128  # channels of an IDR
    heads: int = 1  # one in every published configuration
    iterations: int = 2  # R, with shared weights; 0: the priors themselves, "ISD without AFP"
    priors: Literal["learned", "random"] = "learned"  # random: drawn around one learned mean
    update: Literal["residual", "slot"] = "residual"  # slot: gated by a GRU, as in slot attention
    softmax: Literal["idrs", "pixels"] = "idrs"  # idrs: eq. 1; pixels: ordinary cross-attention

    def __post_init__(self) -> None:
        _check_range(self, "idrs width heads", 1, MAX_COUNT)
        _check_range(self, "iterations", 0, MAX_LAYERS)
        _check_divides(self.heads, self.width)


@dataclass(frozen=True, kw_only=True)
class IsdConfig:
    """Internal scene discretization (eq. 2): pixels attend to the IDRs."""

    layers: int = 2  # N_ISD of the paper; each layer has its own weights
    heads: int = 1  # one in every published configuration

    def __post_init__(self) -> None:
        remedy = "to have none, set discretization=none"
        _check(self.layers >= 1, "layers", f"{self.layers} is less than 1", remedy)
        _check_range(self, "layers", 1, MAX_LAYERS)
        _check_range(self, "heads", 1, MAX_COUNT)


@dataclass(frozen=True, kw_only=True)
class EddConfig:
    """Explicit depth discretization (eq. 3), a baseline: bins of the output, not of the scene."""

    bins: int = 32  # the number of IDRs, so that the ablation compares equal sizes
    min_depth: float = 0.1  # metres; initial bin centres are evenly spaced in log depth
    max_depth: float = 10.0  # NYU's; 80 for KITTI

    def __post_init__(self) -> None:
        _check_range(self, "bins", 2, MAX_COUNT)
        ordered = 0 < self.min_depth < self.max_depth < math.inf
        _check(ordered, "min_depth", "0 < min_depth < max_depth is needed, both finite")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network. The defaults are those of the published Swin-T for NYU."""

    encoder: str = "swin_tiny"  # a name of BACKBONES, or timm:NAME
    adapter_rank: int = 0  # of low-rank corrections to the last blocks of a frozen ViT; 0: none
    task: str = "depth"  # a name of TASKS; a network for normals also predicts a concentration
    discretization: Literal["isd", "edd", "none"] = "isd"  # none: heads on the pixel embeddings
    resolutions: int = 3  # how many of the decoded strides are discretized, finest first
    # bilinear: as published; guided: along the edges of the image, to its full size
    upsampling: Literal["bilinear", "guided"] = "bilinear"
    activation: Activation = "gelu"  # of all MLPs and convolutions outside the encoder
    expansion: int = 4  # inner width of an MLP over its outer width
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    afp: AfpConfig = field(default_factory=AfpConfig)
    isd: IsdConfig = field(default_factory=IsdConfig)
    edd: EddConfig = field(default_factory=EddConfig)

    def __post_init__(self) -> None:
        limit = 4 if self.decoder.finest == 4 else 3
        fits = 1 <= self.resolutions <= limit
        _check(fits, "resolutions", f"{self.resolutions} is not between 1 and {limit}")
        _check_range(self, "expansion", 1, MAX_COUNT)
        _check_range(self, "adapter_rank", 0, MAX_COUNT)
        _check_divides(self.isd.heads, self.decoder.width, "isd.heads")
        _check(self.task in TASKS, "task", f"'{self.task}' is not one of {', '.join(TASKS)}")
        _check(
            self.discretization != "edd" or self.output.metric,
            "discretization",
            f"edd has bins of depth, not of {self.task}",
            "use isd or none",
        )

    @property
    def output(self) -> Task:
        """What the network predicts."""
        return TASKS[self.task]


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Augmentation: some of the operations, drawn by weight; ranges of the published code."""

    flip: float = 0.5  # probability
    colour: float = 0.1  # brightness, contrast, saturation 10^U(-a, a); hue U(-a, a)
    gamma: float = 0.1  # U(1 - a, 1 + a)
    rotation_deg: float = 5.0  # angle U(-a, a)
    zoom: float = 0.1  # factor U(1, 1 + a)
    translation: float = 0.1  # share of width and height
    contrast_weight: float = 1.0  # the paper's list has no contrast
    geometry_weight: float = 1.0  # rotation and zoom; 0 for normals
    translation_weight: float = 1.0  # 0 outdoors and for Swin-T
    blur_weight: float = 0.0  # of a Gaussian blur; 0 in every published recipe
    # Depth of a picture enlarged by z: unchanged (as published), or divided by z, for one camera.
    zoom_depth: Literal["kept", "divided"] = "kept"
    flip_normals: bool = True  # negate x of mirrored normals; the published code does not

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check(isinstance(value, str) or value >= 0, name, f"{value} is less than 0")
        _check(self.flip <= 1, "flip", f"{self.flip} is not a probability")
        _check(self.gamma < 1, "gamma", f"{self.gamma} is not less than 1")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The datasets, by name, and how their pictures are shown to the network."""

    train: str = "nyu"  # training dataset
    test: str = "nyu"  # test dataset; zero-shot if it differs
    size: tuple[int, ...] = (480, 640)  # of a training picture in the network (height, width)
    mix: tuple[float, ...] = ()  # shares of the training folders; empty: by number of pictures
    holdout: float = 0.0  # share of the training scenes for validation; 0: the test split
    exact: tuple[int, ...] = ()  # numbers (from 0) of training folders with exact edges: renders
    # Focal length over sqrt(height * width) of one camera for all pictures: depth is multiplied by
    # this over the focal length of the picture, and `augment.zoom` crops. 0: cameras are kept.
    canonical_focal: float = 0.0
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        known = len(self.size) == 2 and min(self.size) >= 1
        _check(known, "size", f"{self.size} is not a height and a width", "write it as 480x640")
        _check(0 <= self.holdout < 1, "holdout", f"{self.holdout} is not in [0, 1)")
        _check_range(self, "canonical_focal", 0, MAX_COUNT)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimization: AdamW with a one-cycle schedule and clipped gradients."""

    iterations: int = 40_000  # optimizer steps
    batch_size: int = 16  # of one forward pass, summed over all processes
    accumulate: int = 1  # passes per step; batch_size * accumulate is 16 as published
    validate_every: int = 200  # steps
    lr: float = 2e-4  # decoder, AFP, ISD; constant for 30 % of the run, then cosine to a tenth
    lr_encoder: float = 2e-5  # a tenth of lr, except for the CNNs
    weight_decay: float = 0.02  # of every parameter; 0.05 for KITTI
    # beta1: from 0.95 to 0.85 and back (published code), or 0.9 (paper)
    momentum: Literal["cycled", "constant"] = "cycled"
    loss: str = ""  # a name of `train.losses.LOSSES`; empty: the usual one of the task
    loss_weight: float = 10.0  # alpha of eq. 4; 1 for the angular loss of normals
    edge_weight: float = 0.0  # of the gradient loss, which applies to `data.exact` only
    idr_weight: float = 0.0  # of the information between pixels and IDRs, which is maximized
    # Factor of the initial queries of AFP and ISD: with more than 1, IDRs differ earlier.
    query_scale: float = 1.0
    clip_norm: float = 1.0  # of the gradient over all parameters
    seed: int = 13  # that of the published code
    validate_images: int = 0  # evenly spaced pictures of a validation; 0: all
    save_every: int = 200  # steps between two checkpoints to resume from
    freeze: tuple[str, ...] = ()  # prefixes of parameters that are not trained: encoder
    cache_features: str = ""  # folder for the features of a frozen encoder
    views: int = 4  # augmented versions of each picture in that folder
    ema: float = 0.0  # decay of a moving average of the weights, which is saved; 0: none
    precision: Precision = "fp32"  # MSDA and the loss always use fp32
    channels_last: bool = False  # memory format of the convolutions
    checkpoint_gradients: bool = False  # recompute activations to save memory
    compile: bool = False  # compile the encoder with torch.compile
    patience: int = 5  # successive steps with a non-finite loss or gradient before a rollback

    def __post_init__(self) -> None:
        _check_range(self, "iterations batch_size accumulate validate_every save_every", 1)
        _check_range(self, "patience views", 1)
        _check_range(self, "lr_encoder seed validate_images weight_decay edge_weight idr_weight")
        for name in ("lr", "loss_weight", "clip_norm", "query_scale"):
            value = getattr(self, name)
            _check(value > 0, name, f"{value} is not more than 0")
        _check(0 <= self.ema < 1, "ema", f"{self.ema} is not in [0, 1)")
        _check(
            not self.cache_features or any(n.startswith("encoder") for n in self.freeze),
            "cache_features",
            "features can only be cached if the encoder is frozen",
            "set train.freeze=encoder (encoder.vit for a ViT)",
        )
        _check(
            not (self.compile and self.cache_features),
            "compile",
            "only the encoder is compiled, and it does not run with train.cache_features",
            "leave one of them out",
        )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A network, its data and its training, with a name."""

    name: str
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        known = self.model.output.losses
        if self.train.loss not in ("", *known):
            found = f"'{self.train.loss}' is no loss for {self.model.task}"
            raise InputError("train.loss", found, f"use {' or '.join(known)}")

    @property
    def loss(self) -> str:
        """The name of the loss."""
        return self.train.loss or self.model.output.losses[0]
