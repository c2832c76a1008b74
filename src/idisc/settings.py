"""What a recipe is made of: the network, its data, its training, each a frozen dataclass.

Every field says what it does and where its number comes from; the defaults are those of the
published NYU configurations. An error names the field as its own group knows it; `config` puts the
names of the groups around it before that. `recipes` has the values by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from idisc.errors import InputError
from idisc.tasks import TASKS, Task

Activation = Literal["gelu", "silu", "relu"]
Precision = Literal["fp32", "bf16", "fp16"]  # of a network's arithmetic in torch
FilePrecision = Literal["fp32", "fp16-weights", "fp16", "int8"]
"""What an exported file may be: the name of its arithmetic, unless only its weights are reduced."""


MOST, MOST_LAYERS = 4096, 256  # far beyond any use: a damaged record shall not fill the memory


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)


def _check_most(config: object, *names: str) -> None:
    """Counts of a network that somebody could want."""
    for name in names:
        most = MOST_LAYERS if name in ("layers", "iterations") else MOST
        value = getattr(config, name)
        _check(value <= most, f"{name}: {value}; {most} at most")


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Pixel decoder: encoder features -> features F and pixel embeddings P."""

    msda: bool = True  # multi-scale deformable attention; False: the plain FPN of the ablations
    width: int = 256  # channels of F and P
    layers: int = 4  # MSDA layers; the paper says four, the outdoor configurations have six
    heads: int = 4  # MSDA heads
    points: int = 4  # sampling points of each head on each level; eight outdoors
    finest: Literal[4, 8] = 4  # stride of the finest map that is decoded; 8 is four times cheaper

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "points"):
            value = getattr(self, name)
            _check(value >= 1, f"{name}: {value}; at least 1 is needed")
        _check_most(self, "width", "layers", "heads", "points")
        _check(
            self.width % 4 == 0,
            f"width: {self.width} is not a multiple of 4 (sine encoding)",
        )
        _check(
            self.width % self.heads == 0,
            f"heads: {self.heads} does not divide the width {self.width}",
        )


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
        _check(self.idrs >= 1, f"idrs: {self.idrs}; at least 1 is needed")
        _check(self.iterations >= 0, f"iterations: {self.iterations}; 0 or more is needed")
        _check_most(self, "idrs", "iterations", "width", "heads")
        _check(
            self.heads >= 1 and self.width >= 1 and self.width % self.heads == 0,
            f"heads: {self.heads} does not divide the width {self.width}",
        )


@dataclass(frozen=True, kw_only=True)
class IsdConfig:
    """Internal scene discretization (eq. 2): IDRs back onto the pixels."""

    layers: int = 2  # N_ISD of the paper, each with weights of its own
    heads: int = 1  # one in every published configuration

    def __post_init__(self) -> None:
        _check(
            self.layers >= 1,
            f"layers: {self.layers}; at least 1 (for none at all, discretization is none)",
        )
        _check(self.heads >= 1, f"heads: {self.heads}; at least 1 is needed")
        _check_most(self, "layers", "heads")


@dataclass(frozen=True, kw_only=True)
class EddConfig:
    """Explicit depth discretization (eq. 3), the baseline: bins of the output, not of the scene."""

    bins: int = 32  # as many as there are IDRs, so that the ablation compares like with like
    min_depth: float = 0.1  # metres; the bin centres start evenly spaced in log depth between these
    max_depth: float = 10.0  # NYU's; 80 for KITTI

    def __post_init__(self) -> None:
        _check(self.bins >= 2, f"bins: {self.bins}; at least 2 are needed")
        _check_most(self, "bins")
        ordered = 0 < self.min_depth < self.max_depth < float("inf")
        _check(ordered, "min_depth: 0 < min_depth < max_depth is needed, both finite")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network. The defaults are the published Swin-T of NYU."""

    encoder: str = "swin_tiny"  # a name of BACKBONES, or timm:NAME
    task: str = "depth"  # a name of TASKS; normals come with a concentration
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
        most = 4 if self.decoder.finest == 4 else 3
        _check(
            1 <= self.resolutions <= most,
            f"resolutions: {self.resolutions} is not between 1 and {most}",
        )
        _check(self.expansion >= 1, f"expansion: {self.expansion}; at least 1 is needed")
        _check_most(self, "expansion")
        _check(
            self.decoder.width % self.isd.heads == 0,
            f"isd.heads: {self.isd.heads} does not divide the decoder's width {self.decoder.width}",
        )
        if self.task not in TASKS:
            raise InputError("task", f"'{self.task}' is not one of {', '.join(TASKS)}")
        if self.discretization == "edd" and not self.output.metric:
            raise InputError(
                "discretization", f"edd has bins of depth, not of {self.task}", "use isd or none"
            )

    @property
    def output(self) -> Task:
        """What the network predicts."""
        return TASKS[self.task]


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Training augmentation: k of the operations below, drawn by weight; ranges as in the code."""

    flip: float = 0.5  # probability
    colour: float = 0.1  # brightness, contrast, saturation 10^U(-a, a); hue U(-a, a)
    gamma: float = 0.1  # U(1 - a, 1 + a)
    rotation_deg: float = 5.0  # angle U(-a, a)
    zoom: float = 0.1  # factor U(1, 1 + a)
    translation: float = 0.1  # share of width and height
    contrast_weight: float = 1.0  # the paper's list has no contrast
    geometry_weight: float = 1.0  # rotation and zoom; 0 for normals
    translation_weight: float = 1.0  # 0 outdoors and for Swin-T
    blur_weight: float = 0.0  # of a Gaussian blur, which no published recipe has
    # Depth of a picture zoomed in by z: as it was (code), or over z, as one camera would see it.
    zoom_depth: Literal["kept", "divided"] = "kept"
    flip_normals: bool = True  # negate x of mirrored normals, which the code forgets

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check(isinstance(value, str) or value >= 0, f"{name}: {value}; 0 or more is needed")
        _check(self.flip <= 1, f"flip: {self.flip} is not a probability")
        _check(self.gamma < 1, f"gamma: {self.gamma}; less than 1 is needed")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which datasets, by name, and how their pictures enter the network."""

    train: str = "nyu"  # dataset to learn from
    test: str = "nyu"  # dataset to be measured on; another one is zero-shot
    size: tuple[int, ...] = (480, 640)  # of a training picture in the network (height, width)
    mix: tuple[float, ...] = ()  # shares of several training folders; none: by their pictures
    holdout: float = 0.0  # share of the training scenes to validate on, instead of the test split
    exact: tuple[int, ...] = ()  # training folders, from 0, whose depth has exact edges: renders
    # One camera for all pictures, as focal length over sqrt(height * width): depth is multiplied by
    # this over the picture's own, and `augment.zoom` crops. 0: every picture keeps its camera.
    canonical_focal: float = 0.0
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        known = len(self.size) == 2 and min(self.size) >= 1
        _check(known, f"size: {self.size}; height and width are needed, as 480x640")
        _check(0 <= self.holdout < 1, f"holdout: {self.holdout}; from 0 to less than 1")
        _check(
            0 <= self.canonical_focal < MOST,
            f"canonical_focal: {self.canonical_focal}; 0 or more is needed",
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Optimisation: AdamW, one cycle, gradients clipped at norm 1."""

    iterations: int = 40_000  # optimizer steps
    batch_size: int = 16  # of one forward pass, over all processes
    accumulate: int = 1  # passes to a step; batch_size * accumulate is 16 in every configuration
    validate_every: int = 200  # steps
    lr: float = 2e-4  # decoder, AFP, ISD; constant for 30 % of the run, then cosine to a tenth
    lr_encoder: float = 2e-5  # a tenth of lr but for the CNNs
    weight_decay: float = 0.02  # of every parameter; 0.05 for KITTI
    # beta1: 0.95 to 0.85 and back as in the code, or 0.9 as in the paper
    momentum: Literal["cycled", "constant"] = "cycled"
    loss: str = ""  # silog (eq. 4) or angular; empty: that of the task
    loss_weight: float = 10.0  # alpha of eq. 4; 1 for the angular loss of normals
    edge_weight: float = 0.0  # of the gradient loss, which looks at `data.exact` alone
    query_scale: float = (
        1.0  # initial queries of AFP and ISD times this: above 1, IDRs differ sooner
    )
    clip_norm: float = 1.0  # of the gradient over all parameters
    seed: int = 13  # as released
    validate_images: int = 0  # pictures of a validation, evenly spread; 0: all
    save_every: int = 200  # steps between two checkpoints to resume from
    freeze: tuple[str, ...] = ()  # parameters whose names begin so stay as they are: encoder
    cache_features: str = ""  # folder for those of a frozen encoder
    views: int = 4  # of each picture in that folder: so many draws of the augmentation
    ema: float = 0.0  # decay of the weights' moving average, which is then what is kept; 0: none
    precision: Precision = "fp32"  # MSDA and the loss stay in fp32
    channels_last: bool = False  # memory format of the convolutions
    checkpoint_gradients: bool = False  # compute twice to keep less: for small memory
    compile: bool = False  # the encoder, by torch.compile: that is where a compiler gains
    patience: int = 5  # steps in a row with a non-finite loss or gradient: then a roll-back

    def __post_init__(self) -> None:
        counts = ("iterations", "batch_size", "accumulate")
        for name in (*counts, "validate_every", "save_every", "patience", "views"):
            value = getattr(self, name)
            _check(value >= 1, f"{name}: {value}; at least 1 is needed")
        for name in ("lr", "loss_weight", "clip_norm", "query_scale"):
            value = getattr(self, name)
            _check(value > 0, f"{name}: {value}; more than 0 is needed")
        for name in ("lr_encoder", "weight_decay", "seed", "validate_images", "edge_weight"):
            value = getattr(self, name)
            _check(value >= 0, f"{name}: {value}; 0 or more is needed")
        _check(0 <= self.ema < 1, f"ema: {self.ema}; from 0 to less than 1 is needed")
        _check(
            not self.cache_features or any(n.startswith("encoder") for n in self.freeze),
            "cache_features: features change unless train.freeze=encoder (encoder.vit of a ViT)",
        )
        _check(
            not (self.compile and self.cache_features),
            "compile: it is the encoder that is compiled, and with train.cache_features it"
            " does not run; leave one of them out",
        )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A network, its data and its training under one name."""

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
