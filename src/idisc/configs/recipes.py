"""Recipes: every published configuration, and our own.

A recipe is a function whose docstring states the numbers of the paper; `RECIPES` contains their
values by name. Where the text of the paper and the published code differ, a recipe follows the
code, which produced the numbers, and `as_in_paper` follows the text; on the command line that is
`nyu_swint:paper`. `ABLATIONS` turns any network into a row of the paper's ablation table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from idisc.configs.schema import (
    AfpConfig,
    AugmentConfig,
    DataConfig,
    DecoderConfig,
    IsdConfig,
    ModelConfig,
    Recipe,
    TrainConfig,
)
from idisc.errors import InputError, lookup

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
        data=DataConfig(train="kitti", test=test, size=(352, 1216), augment=_KITTI_AUGMENT),
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
        train=TrainConfig(iterations=45_000, lr=3e-4, lr_encoder=3e-5, loss_weight=1.0),
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
    """A network of 1 M parameters that learns rendered rooms on two CPU cores in two minutes."""
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
            iterations=240,
            batch_size=8,
            validate_every=80,
            validate_images=30,
            save_every=80,
            lr=2e-3,
            lr_encoder=2e-3,
        ),
    )


_SMALL = ModelConfig(
    encoder="dinov2_vits14",
    upsampling="guided",
    expansion=2,
    decoder=DecoderConfig(width=96, layers=2, heads=3, finest=8),
    afp=AfpConfig(width=96),
)
_ON_CACHED_FEATURES = TrainConfig(
    iterations=3_000,
    batch_size=16,
    validate_every=250,
    save_every=125,
    lr=1e-3,
    lr_encoder=1e-3,
    weight_decay=0.05,
    query_scale=3.0,
    freeze=("encoder.vit",),
    cache_features="features",
    views=6,
    ema=0.998,
)


def indoor() -> Recipe:
    """Depth of rooms on a CPU: a frozen DINOv2 ViT-S/14; the rest is trained on cached features.

    Pictures of all cameras are converted to the camera of NYU-Depth v2; 0.936 is its focal length
    over the square root of its number of pixels.

        idisc prepare nyu_labelled --raw DIR --out nyu_labelled
        idisc train indoor --data nyu_labelled --data MORE --weights dinov2_vits14.pth --out run
    """
    return Recipe(
        name="indoor",
        model=_SMALL,
        data=DataConfig(
            train="nyu_labelled",
            test="nyu_labelled",
            size=(288, 384),
            holdout=0.12,
            canonical_focal=0.936,
            augment=AugmentConfig(
                zoom=1.2, rotation_deg=5.0, colour=0.15, gamma=0.25, blur_weight=0.5
            ),
        ),
        train=replace(_ON_CACHED_FEATURES, edge_weight=5.0),
    )


def indoor_normals() -> Recipe:
    """Surface normals of rooms: `indoor` with the angular loss, on the same cached features.

    The targets are normals of planes fitted to the depth. Starting from the depth model saves
    most of the training.

        idisc train indoor_normals --data nyu_labelled --weights indoor --out run
    """
    recipe = indoor()
    return replace(
        recipe,
        name="indoor_normals",
        model=replace(recipe.model, task="normals"),
        train=replace(recipe.train, loss_weight=1.0, edge_weight=0.0),
    )


def road() -> Recipe:
    """Depth of streets seen from a car: the network of `indoor` with the aspect ratio of KITTI.

    Cameras are converted to that of KITTI; 1.06 is its focal length over the square root of its
    number of pixels.

    The shipped model started from `indoor` and took 700 steps with four views of each picture:

        idisc prepare kitti --raw DIR --out kitti
        idisc train road --data kitti --data MORE --weights indoor --out run
    """
    return Recipe(
        name="road",
        model=_SMALL,
        data=DataConfig(
            train="kitti",
            test="kitti",
            size=(192, 640),
            canonical_focal=1.06,
            augment=AugmentConfig(
                zoom=0.7, rotation_deg=2.5, colour=0.15, gamma=0.25, blur_weight=0.5
            ),
        ),
        train=_ON_CACHED_FEATURES,
    )


OWN_RECIPES: tuple[Callable[[], Recipe], ...] = (tiny_synthetic, indoor, indoor_normals, road)
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
    """Return the recipe of a name; with the suffix ":paper", as in the text of the paper."""
    stem, _, variant = name.partition(":")
    recipe = lookup(RECIPES, stem, "recipe")
    if variant not in ("", "paper"):
        raise InputError(f"recipe '{name}'", "no such variant", f"the only one is '{stem}:paper'")
    if variant and recipe.name in {make.__name__ for make in OWN_RECIPES}:
        raise InputError(f"recipe '{name}'", f"{stem} is not a recipe of the paper")
    return as_in_paper(recipe) if variant else recipe


def as_in_paper(recipe: Recipe) -> Recipe:
    """Return a recipe with the values of the paper's text where the published code differs.

    One learning rate for all parts, constant momentum, weight decay 0.02, 45,000 steps, four MSDA
    layers, and no flip, contrast or translation.
    """
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
