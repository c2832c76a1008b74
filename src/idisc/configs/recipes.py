"""Recipes: every published configuration, and our own.

`RECIPES` contains them by name; the results that the paper reports for a published one are in
`paper.RESULTS`. Where the text of the paper and the published code differ, a recipe follows the
code, which produced the numbers, and `as_in_paper` follows the text; on the command line that is
`nyu_swint:paper`. `ABLATIONS` turns any network into a row of the paper's ablation table.
"""

from __future__ import annotations

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
_CNN = TrainConfig(lr_encoder=5e-5)
_LARGE = TrainConfig(batch_size=8, accumulate=2)


def _nyu(
    name: str,
    encoder: str,
    train: TrainConfig,
    test: str = "nyu",
    translation_weight: float = 1.0,
) -> Recipe:
    augment = AugmentConfig(translation_weight=translation_weight)
    return Recipe(
        name=name,
        model=ModelConfig(encoder=encoder),
        data=DataConfig(test=test, augment=augment),
        train=train,
    )


def _kitti(name: str, encoder: str, test: str = "kitti", lr_encoder: float = 2e-5) -> Recipe:
    augment = AugmentConfig(
        rotation_deg=2.5, zoom=0.05, translation=0.05, gamma=0.2, translation_weight=0.0
    )
    return Recipe(
        name=name,
        model=ModelConfig(encoder=encoder, decoder=_OUTDOOR),
        data=DataConfig(train="kitti", test=test, size=(352, 1216), augment=augment),
        train=replace(_LARGE, lr_encoder=lr_encoder, weight_decay=0.05),
    )


def _road(name: str, dataset: str, decoder: DecoderConfig) -> Recipe:
    augment = AugmentConfig(rotation_deg=2.5, zoom=0.05, translation_weight=0.0)
    return Recipe(
        name=name,
        model=ModelConfig(encoder="swin_large_22k", decoder=decoder),
        data=DataConfig(train=dataset, test=dataset, size=(580, 1280), augment=augment),
        train=TrainConfig(iterations=45_000, batch_size=4, accumulate=4, validate_every=500),
    )


_NYU_NORMALS = Recipe(
    name="nyunorm_swinl",
    model=ModelConfig(encoder="swin_large_22k", task="normals"),
    data=DataConfig(
        train="nyu_normals",
        test="nyu_normals",
        augment=AugmentConfig(geometry_weight=0.0, translation_weight=0.0),
    ),
    train=TrainConfig(iterations=45_000, lr=3e-4, lr_encoder=3e-5, loss_weight=1.0),
)

PUBLISHED_RECIPES: tuple[Recipe, ...] = (
    _nyu("nyu_r101", "resnet101", _CNN),
    _nyu("nyu_eb5", "efficientnet_b5", _CNN),
    _nyu("nyu_swint", "swin_tiny", TrainConfig(iterations=50_000), translation_weight=0.0),
    _nyu("nyu_swinb", "swin_base", _LARGE),
    _nyu("nyu_swinl", "swin_large_22k", _LARGE),
    _nyu("nyu_sunrgbd", "swin_large_22k", _LARGE, test="sunrgbd"),  # zero-shot
    _nyu("nyu_diode", "swin_large_22k", _LARGE, test="diode"),  # zero-shot
    _NYU_NORMALS,
    _kitti("kitti_r101", "resnet101", lr_encoder=5e-5),
    _kitti("kitti_eb5", "efficientnet_b5", lr_encoder=5e-5),
    _kitti("kitti_swint", "swin_tiny"),
    _kitti("kitti_swinb", "swin_base"),
    _kitti("kitti_swinl", "swin_large_22k"),
    _kitti("kitti_argo", "swin_large_22k", test="argoverse"),  # zero-shot
    _kitti("kitti_ddad", "swin_large_22k", test="ddad"),  # zero-shot
    _road("argo_swinl", "argoverse", _OUTDOOR),
    _road("ddad_swinl", "ddad", DecoderConfig(points=8)),
)

# A network of 1 M parameters that learns rendered rooms on two CPU cores in two minutes.
_TINY_SYNTHETIC = Recipe(
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
    adapter_rank=16,
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
    idr_weight=0.5,
)


# Depth of rooms on a CPU: a frozen DINOv2 ViT-S/14; the rest is trained on cached features. All
# pictures are converted to the camera of NYU-Depth v2; 0.936 is its focal length over the square
# root of its number of pixels.
#
#     idisc prepare nyu_labelled --raw DIR --out nyu_labelled
#     idisc train indoor --data nyu_labelled --data MORE --weights dinov2_vits14.pth --out run
_INDOOR = Recipe(
    name="indoor",
    model=_SMALL,
    data=DataConfig(
        train="nyu_labelled",
        test="nyu_labelled",
        size=(288, 384),
        holdout=0.12,
        canonical_focal=0.936,
        augment=AugmentConfig(zoom=1.2, colour=0.15, gamma=0.25, blur_weight=0.5),
    ),
    train=replace(_ON_CACHED_FEATURES, edge_weight=5.0),
)

# Surface normals of rooms: `indoor` with the angular loss, on the same cached features. The targets
# are normals of planes fitted to the depth. Starting from the depth model saves most of the
# training.
#
#     idisc train indoor_normals --data nyu_labelled --weights indoor --out run
_INDOOR_NORMALS = replace(
    _INDOOR,
    name="indoor_normals",
    model=replace(_SMALL, task="normals"),
    train=replace(_ON_CACHED_FEATURES, loss_weight=1.0),
)

# Depth of streets seen from a car: the network of `indoor` with the aspect ratio of KITTI. Cameras
# are converted to that of KITTI, whose focal length is 1.06 in the same terms. Starting from
# `indoor` saves most of the training; docs/results.md has the steps of the shipped model:
#
#     idisc prepare kitti --raw DIR --out kitti
#     idisc train road --data kitti --data MORE --weights indoor --out run
_ROAD = Recipe(
    name="road",
    model=_SMALL,
    data=DataConfig(
        train="kitti",
        test="kitti",
        size=(192, 640),
        canonical_focal=1.06,
        augment=AugmentConfig(zoom=0.7, rotation_deg=2.5, colour=0.15, gamma=0.25, blur_weight=0.5),
    ),
    train=_ON_CACHED_FEATURES,
)

OWN_RECIPES: tuple[Recipe, ...] = (_TINY_SYNTHETIC, _INDOOR, _INDOOR_NORMALS, _ROAD)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in PUBLISHED_RECIPES + OWN_RECIPES}

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
    if variant and recipe in OWN_RECIPES:
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
