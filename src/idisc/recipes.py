"""Every published configuration as a typed value: what network, on which data, trained how.

A recipe is a function, so that the paper's numbers stand in its docstring; `RECIPES` holds their
values by name. Where the paper's text and the released code differ, the recipe follows the code (it
made the numbers) and `as_in_paper` gives the text's version; `find("nyu_swint:paper")` does the
same from the command line. `ABLATIONS` turns any network into a row of the paper's ablation table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from idisc import config
from idisc.errors import InputError

Task = Literal["depth", "normals"]
Activation = Literal["gelu", "silu", "relu"]


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Pixel decoder: encoder features -> features F and pixel embeddings P."""

    msda: bool = True  # multi-scale deformable attention; False: the plain FPN of the ablations
    width: int = 256  # channels of F and P
    layers: int = 4  # MSDA layers; the paper says four, the outdoor configurations have six
    heads: int = 4  # MSDA heads
    points: int = 4  # sampling points of each head on each level; eight outdoors

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "points"):
            value = getattr(self, name)
            _check(value >= 1, f"decoder.{name}: {value}; at least 1 is needed")
        _check(
            self.width % 4 == 0,
            f"decoder.width: {self.width} is not a multiple of 4 (sine encoding)",
        )
        _check(
            self.width % self.heads == 0,
            f"decoder.heads: {self.heads} does not divide the width {self.width}",
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
        _check(self.idrs >= 1, f"afp.idrs: {self.idrs}; at least 1 is needed")
        _check(self.iterations >= 0, f"afp.iterations: {self.iterations}; 0 or more is needed")
        _check(
            self.heads >= 1 and self.width >= 1 and self.width % self.heads == 0,
            f"afp.heads: {self.heads} does not divide the width {self.width}",
        )


@dataclass(frozen=True, kw_only=True)
class IsdConfig:
    """Internal scene discretization (eq. 2): IDRs back onto the pixels."""

    layers: int = 2  # N_ISD of the paper, each with weights of its own
    heads: int = 1  # one in every published configuration

    def __post_init__(self) -> None:
        _check(
            self.layers >= 1,
            f"isd.layers: {self.layers}; at least 1 (for none at all: discretization=none)",
        )
        _check(self.heads >= 1, f"isd.heads: {self.heads}; at least 1 is needed")


@dataclass(frozen=True, kw_only=True)
class EddConfig:
    """Explicit depth discretization (eq. 3), the baseline: bins of the output, not of the scene."""

    bins: int = 32  # as many as there are IDRs, so that the ablation compares like with like
    min_depth: float = 0.1  # metres; the bin centres start evenly spaced in log depth between these
    max_depth: float = 10.0  # NYU's; 80 for KITTI

    def __post_init__(self) -> None:
        _check(self.bins >= 2, f"edd.bins: {self.bins}; at least 2 are needed")
        ordered = 0 < self.min_depth < self.max_depth < float("inf")
        _check(ordered, "edd: 0 < min_depth < max_depth is needed, both finite")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network. The defaults are the published Swin-T of NYU."""

    encoder: str = "swin_tiny"  # a name of BACKBONES, or timm:NAME
    task: Task = "depth"  # normals come with a concentration
    discretization: Literal["isd", "edd", "none"] = "isd"  # none: heads on the pixel embeddings
    resolutions: int = 3  # how many of the strides 4, 8, 16, 32 are discretized, finest first
    activation: Activation = "gelu"  # of all MLPs and convolutions outside the encoder
    expansion: int = 4  # inner width of an MLP over its outer width
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    afp: AfpConfig = field(default_factory=AfpConfig)
    isd: IsdConfig = field(default_factory=IsdConfig)
    edd: EddConfig = field(default_factory=EddConfig)

    def __post_init__(self) -> None:
        _check(
            1 <= self.resolutions <= 4, f"resolutions: {self.resolutions} is not between 1 and 4"
        )
        _check(self.expansion >= 1, f"expansion: {self.expansion}; at least 1 is needed")
        _check(
            self.decoder.width % self.isd.heads == 0,
            f"isd.heads: {self.isd.heads} does not divide the decoder's width {self.decoder.width}",
        )
        _check(
            not (self.discretization == "edd" and self.task == "normals"),
            "discretization: edd discretizes depth; normals have no bins, use isd or none",
        )

    @property
    def channels(self) -> int:
        """Channels of an output map: log depth; or x, y, z and concentration."""
        return 1 if self.task == "depth" else 4


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
        for name in (item.name for item in fields(self) if item.type == "float"):
            value = getattr(self, name)
            _check(value >= 0, f"augment.{name}: {value}; 0 or more is needed")
        _check(self.flip <= 1, f"augment.flip: {self.flip} is not a probability")
        _check(self.gamma < 1, f"augment.gamma: {self.gamma}; less than 1 is needed")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which datasets, by name, and how their pictures enter the network."""

    train: str = "nyu"  # dataset to learn from
    test: str = "nyu"  # dataset to be measured on; another one is zero-shot
    size: tuple[int, ...] = (480, 640)  # of a training picture in the network (height, width)
    # The window of the evaluation; argoverse and ddad have none.
    crop: Literal["eigen", "garg"] = "eigen"
    mix: tuple[float, ...] = ()  # shares of several training folders; none: by their pictures
    holdout: float = 0.0  # share of the training scenes to validate on, instead of the test split
    augment: AugmentConfig = field(default_factory=AugmentConfig)

    def __post_init__(self) -> None:
        known = len(self.size) == 2 and min(self.size) >= 1
        _check(known, f"data.size: {self.size}; height and width are needed, as 480x640")
        _check(0 <= self.holdout < 1, f"data.holdout: {self.holdout}; from 0 to less than 1")


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
    loss: Literal["silog", "angular"] = "silog"  # angular: for normals
    loss_weight: float = 10.0  # alpha of eq. 4
    clip_norm: float = 1.0  # of the gradient over all parameters
    seed: int = 13  # as released
    validate_images: int = 0  # pictures of a validation, evenly spread; 0: all
    save_every: int = 200  # steps between two checkpoints to resume from
    freeze: tuple[str, ...] = ()  # parameters whose names begin so stay as they are: encoder
    cache_features: str = ""  # folder for those of a frozen encoder; then no augmentation but flip
    ema: float = 0.0  # decay of the weights' moving average, which is then what is kept; 0: none
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"  # MSDA and the loss stay in fp32
    channels_last: bool = False  # memory format of the convolutions
    checkpoint_gradients: bool = False  # compute twice to keep less: for small memory
    compile: bool = False  # torch.compile
    retries: int = 5  # steps with a non-finite loss or gradient in a row before a roll-back

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "accumulate", "validate_every", "save_every"):
            value = getattr(self, name)
            _check(value >= 1, f"train.{name}: {value}; at least 1 is needed")
        for name in ("lr", "loss_weight", "clip_norm"):
            value = getattr(self, name)
            _check(value > 0, f"train.{name}: {value}; more than 0 is needed")
        for name in ("lr_encoder", "weight_decay", "seed", "validate_images", "retries"):
            value = getattr(self, name)
            _check(value >= 0, f"train.{name}: {value}; 0 or more is needed")
        _check(0 <= self.ema < 1, f"train.ema: {self.ema}; from 0 to less than 1 is needed")
        _check(
            not self.cache_features or "encoder" in self.freeze,
            "train.cache_features: features change unless train.freeze=encoder",
        )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A network, its data and its training under one name."""

    name: str
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


_OUTDOOR = DecoderConfig(layers=6, points=8)
_KITTI_AUGMENT = AugmentConfig(
    rotation_deg=2.5, zoom=0.05, translation=0.05, gamma=0.2, translation_weight=0.0
)
_ROAD_AUGMENT = AugmentConfig(rotation_deg=2.5, zoom=0.05, translation_weight=0.0)


def _nyu(name: str, encoder: str, *, train: TrainConfig, test: str = "nyu") -> Recipe:
    return Recipe(
        name=name, model=ModelConfig(encoder=encoder), data=DataConfig(test=test), train=train
    )


def _kitti(name: str, encoder: str, *, test: str = "kitti", lr_encoder: float = 2e-5) -> Recipe:
    return Recipe(
        name=name,
        model=ModelConfig(encoder=encoder, decoder=_OUTDOOR),
        data=DataConfig(
            train="kitti", test=test, size=(352, 1216), crop="garg", augment=_KITTI_AUGMENT
        ),
        train=TrainConfig(batch_size=8, accumulate=2, lr_encoder=lr_encoder, weight_decay=0.05),
    )


def _road(name: str, dataset: str, decoder: DecoderConfig) -> Recipe:
    return Recipe(
        name=name,
        model=ModelConfig(encoder="swin_large_22k", decoder=decoder),
        data=DataConfig(train=dataset, test=dataset, size=(580, 1280), augment=_ROAD_AUGMENT),
        train=TrainConfig(iterations=45_000, batch_size=4, accumulate=4, validate_every=500),
    )


def nyu_r101() -> Recipe:
    """NYU, ResNet-101: d1 .892 d2 .983 d3 .995 rmse .380 abs_rel .109 log10 .046."""
    return _nyu("nyu_r101", "resnet101", train=TrainConfig(lr_encoder=5e-5))


def nyu_eb5() -> Recipe:
    """NYU, EfficientNet-B5: d1 .903 d2 .986 d3 .997 rmse .369 abs_rel .104 log10 .044."""
    return _nyu("nyu_eb5", "efficientnet_b5", train=TrainConfig(lr_encoder=5e-5))


def nyu_swint() -> Recipe:
    """NYU, Swin-T: d1 .894 d2 .983 d3 .996 rmse .377 abs_rel .109 log10 .045."""
    recipe = _nyu("nyu_swint", "swin_tiny", train=TrainConfig(iterations=50_000))
    return replace(recipe, data=DataConfig(augment=AugmentConfig(translation_weight=0.0)))


def nyu_swinb() -> Recipe:
    """NYU, Swin-B: d1 .926 d2 .989 d3 .997 rmse .327 abs_rel .091 log10 .039."""
    return _nyu("nyu_swinb", "swin_base", train=TrainConfig(batch_size=8, accumulate=2))


def nyu_swinl() -> Recipe:
    """NYU, Swin-L: d1 .940 d2 .993 d3 .999 rmse .313 abs_rel .086 log10 .037."""
    return _nyu("nyu_swinl", "swin_large_22k", train=TrainConfig(batch_size=8, accumulate=2))


def nyu_sunrgbd() -> Recipe:
    """NYU's Swin-L on SUN-RGBD, zero-shot: d1 .838 rmse .387 abs_rel .128 silog 10.91."""
    return replace(nyu_swinl(), name="nyu_sunrgbd", data=DataConfig(test="sunrgbd"))


def nyu_diode() -> Recipe:
    """NYU's Swin-L on DIODE indoor, zero-shot, mean-rescaled.

    d1 .810 rmse .721 abs_rel .156 silog 18.11.
    """
    return replace(nyu_swinl(), name="nyu_diode", data=DataConfig(test="diode"))


def nyunorm_swinl() -> Recipe:
    """NYU normals, Swin-L.

    a11.5 .638 a22.5 .798 a30 .856 rmse_deg 22.8 mean_deg 14.6 median_deg 7.3.
    """
    return Recipe(
        name="nyunorm_swinl",
        model=ModelConfig(encoder="swin_large_22k", task="normals"),
        data=DataConfig(
            train="nyu_normals",
            test="nyu_normals",
            augment=AugmentConfig(geometry_weight=0.0, translation_weight=0.0),
        ),
        train=TrainConfig(
            iterations=45_000, lr=3e-4, lr_encoder=3e-5, loss="angular", loss_weight=1.0
        ),
    )


def kitti_r101() -> Recipe:
    """KITTI, ResNet-101.

    d05 .860 d1 .965 d2 .996 rmse 2.362 rmse_log .090 abs_rel .059 sq_rel .197.
    """
    return _kitti("kitti_r101", "resnet101", lr_encoder=5e-5)


def kitti_eb5() -> Recipe:
    """KITTI, EfficientNet-B5.

    d05 .852 d1 .963 d2 .994 rmse 2.510 rmse_log .094 abs_rel .063 sq_rel .223.
    """
    return _kitti("kitti_eb5", "efficientnet_b5", lr_encoder=5e-5)


def kitti_swint() -> Recipe:
    """KITTI, Swin-T: d05 .870 d1 .968 d2 .996 rmse 2.291 rmse_log .087 abs_rel .058 sq_rel .184."""
    return _kitti("kitti_swint", "swin_tiny")


def kitti_swinb() -> Recipe:
    """KITTI, Swin-B: d05 .885 d1 .974 d2 .997 rmse 2.149 rmse_log .081 abs_rel .054 sq_rel .159."""
    return _kitti("kitti_swinb", "swin_base")


def kitti_swinl() -> Recipe:
    """KITTI, Swin-L: d05 .896 d1 .977 d2 .997 rmse 2.067 rmse_log .077 abs_rel .050 sq_rel .145."""
    return _kitti("kitti_swinl", "swin_large_22k")


def kitti_argo() -> Recipe:
    """KITTI's Swin-L on Argoverse, zero-shot: d1 .560 rmse 12.18 abs_rel .269 silog 33.35."""
    return _kitti("kitti_argo", "swin_large_22k", test="argoverse")


def kitti_ddad() -> Recipe:
    """KITTI's Swin-L on DDAD, zero-shot: d1 .350 rmse 14.26 abs_rel .367 silog 29.37."""
    return _kitti("kitti_ddad", "swin_large_22k", test="ddad")


def argo_swinl() -> Recipe:
    """Argoverse, Swin-L.

    d1 .821 d2 .923 d3 .960 rmse 7.567 rmse_log .243 abs_rel .163 sq_rel 2.22.
    """
    return _road("argo_swinl", "argoverse", _OUTDOOR)


def ddad_swinl() -> Recipe:
    """DDAD, Swin-L: d1 .809 d2 .934 d3 .971 rmse 8.989 rmse_log .221 abs_rel .163 sq_rel 1.85."""
    return _road("ddad_swinl", "ddad", DecoderConfig(points=8))


PUBLISHED_RECIPES: tuple[Callable[[], Recipe], ...] = (
    nyu_r101,
    nyu_eb5,
    nyu_swint,
    nyu_swinb,
    nyu_swinl,
    nyu_sunrgbd,
    nyu_diode,
    nyunorm_swinl,
    kitti_r101,
    kitti_eb5,
    kitti_swint,
    kitti_swinb,
    kitti_swinl,
    kitti_argo,
    kitti_ddad,
    argo_swinl,
    ddad_swinl,
)


def tiny_synthetic() -> Recipe:
    """A network of 1 M parameters that learns rendered rooms on two cores in two minutes."""
    return Recipe(
        name="tiny_synthetic",
        model=ModelConfig(
            encoder="timm:test_efficientnet",
            decoder=DecoderConfig(width=64, layers=1, heads=4, points=4),
            afp=AfpConfig(idrs=16, width=64),
            isd=IsdConfig(layers=1),
        ),
        data=DataConfig(train="synthetic", test="synthetic", size=(96, 128)),
        train=TrainConfig(
            iterations=300,
            batch_size=8,
            validate_every=100,
            validate_images=30,
            save_every=100,
            lr=2e-3,
            lr_encoder=2e-3,
        ),
    )


def indoor_small() -> Recipe:
    """Rooms with EfficientNet-lite2 at 240x320, for a CPU: trained whole from ImageNet weights."""
    return Recipe(
        name="indoor_small",
        model=ModelConfig(
            encoder="timm:tf_efficientnet_lite2",
            decoder=DecoderConfig(width=128, layers=2, heads=4, points=4),
            afp=AfpConfig(idrs=32, width=128),
        ),
        data=DataConfig(
            train="nyu_labelled",
            test="nyu_labelled",
            size=(240, 320),
            holdout=0.12,
            augment=AugmentConfig(zoom=0.5, zoom_depth="divided", blur_weight=0.5),
        ),
        train=TrainConfig(
            iterations=8_000,
            batch_size=8,
            validate_every=500,
            save_every=100,
            lr=3e-4,
            lr_encoder=1e-4,
            ema=0.999,
        ),
    )


OWN_RECIPES: tuple[Callable[[], Recipe], ...] = (tiny_synthetic, indoor_small)
RECIPES: dict[str, Recipe] = {make.__name__: make() for make in PUBLISHED_RECIPES + OWN_RECIPES}

ABLATIONS: dict[str, tuple[str, ...]] = {
    "none": ("discretization=none", "decoder.msda=false"),
    "edd": ("discretization=edd", "decoder.msda=false"),
    "isd": ("afp.iterations=0", "decoder.msda=false"),
    "isd_afp": ("decoder.msda=false",),
    "edd_msda": ("discretization=edd",),
    "isd_msda": ("afp.iterations=0",),
    "random_afp": ("afp.priors=random", "afp.update=slot"),
    "full": (),
}
"""The rows of the ablation table as changes to a network; `paper.ABLATIONS` has their numbers."""


def find(name: str) -> Recipe:
    """The recipe of that name; with the suffix ":paper", as the paper's text has it."""
    stem, _, variant = name.partition(":")
    recipe = config.lookup(RECIPES, stem, "recipe")
    if variant not in ("", "paper"):
        raise InputError(f"recipe '{name}': the only variant is '{stem}:paper'")
    return as_in_paper(recipe) if variant else recipe


def as_in_paper(recipe: Recipe) -> Recipe:
    """The paper's text where the code departs from it: one rate, four MSDA layers, 45k steps."""
    augment = replace(recipe.data.augment, flip=0.0, contrast_weight=0.0, translation_weight=0.0)
    train = replace(
        recipe.train,
        iterations=45_000,
        lr=2e-4,
        lr_encoder=2e-4,
        weight_decay=0.02,
        momentum="constant",
    )
    return replace(
        recipe,
        name=f"{recipe.name}:paper",
        model=replace(recipe.model, decoder=replace(recipe.model.decoder, layers=4)),
        data=replace(recipe.data, augment=augment),
        train=train,
    )
