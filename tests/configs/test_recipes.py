"""The recipes, held against the released configurations, and the numbers of the paper."""

import dataclasses

import pytest
from tests.fakes.refusals import refused

from idisc import configs
from idisc.configs import paper, recipes
from idisc.configs.schema import AfpConfig, IsdConfig
from idisc.errors import InputError

# name, training data, test data, encoder, MSDA layers, points, output channels,
# rotation / zoom / translation / gamma, weight of translation, iterations, batch x accumulate,
# validation interval, rate, rate of the encoder, decay, loss
TABLE = """
nyu_r101 nyu nyu resnet101 4 4 1 5/.1/.1/.1 1 40000 16x1 200 2e-4 5e-5 0.02 silog(10)
nyu_eb5 nyu nyu efficientnet_b5 4 4 1 5/.1/.1/.1 1 40000 16x1 200 2e-4 5e-5 0.02 silog(10)
nyu_swint nyu nyu swin_tiny 4 4 1 5/.1/.1/.1 0 50000 16x1 200 2e-4 2e-5 0.02 silog(10)
nyu_swinb nyu nyu swin_base 4 4 1 5/.1/.1/.1 1 40000 8x2 200 2e-4 2e-5 0.02 silog(10)
nyu_swinl nyu nyu swin_large_22k 4 4 1 5/.1/.1/.1 1 40000 8x2 200 2e-4 2e-5 0.02 silog(10)
nyu_sunrgbd nyu sunrgbd swin_large_22k 4 4 1 5/.1/.1/.1 1 40000 8x2 200 2e-4 2e-5 0.02 silog(10)
nyu_diode nyu diode swin_large_22k 4 4 1 5/.1/.1/.1 1 40000 8x2 200 2e-4 2e-5 0.02 silog(10)
nyunorm_swinl nyu_normals nyu_normals swin_large_22k 4 4 4 5/.1/.1/.1 0 45000 16x1 200 3e-4 3e-5 0.02 angular(1)
kitti_r101 kitti kitti resnet101 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 5e-5 0.05 silog(10)
kitti_eb5 kitti kitti efficientnet_b5 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 5e-5 0.05 silog(10)
kitti_swint kitti kitti swin_tiny 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 2e-5 0.05 silog(10)
kitti_swinb kitti kitti swin_base 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 2e-5 0.05 silog(10)
kitti_swinl kitti kitti swin_large_22k 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 2e-5 0.05 silog(10)
kitti_argo kitti argoverse swin_large_22k 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 2e-5 0.05 silog(10)
kitti_ddad kitti ddad swin_large_22k 6 8 1 2.5/.05/.05/.2 0 40000 8x2 200 2e-4 2e-5 0.05 silog(10)
argo_swinl argoverse argoverse swin_large_22k 6 8 1 2.5/.05/.1/.1 0 45000 4x4 500 2e-4 2e-5 0.02 silog(10)
ddad_swinl ddad ddad swin_large_22k 4 8 1 2.5/.05/.1/.1 0 45000 4x4 500 2e-4 2e-5 0.02 silog(10)
"""  # noqa: E501
ROWS = [line.split() for line in TABLE.strip().splitlines()]
NAMES = [row[0] for row in ROWS]
SIZES = {
    "nyu": (480, 640),
    "nyu_normals": (480, 640),
    "kitti": (352, 1216),
    "argoverse": (580, 1280),
    "ddad": (580, 1280),
}


def test_there_are_the_seventeen_published_recipes_and_ours():
    assert [recipe.name for recipe in recipes.PUBLISHED_RECIPES] == NAMES == list(paper.RESULTS)
    assert list(recipes.RECIPES) == [*NAMES, "tiny_synthetic", "indoor", "indoor_normals", "road"]
    assert [recipe.name for recipe in recipes.RECIPES.values()] == list(recipes.RECIPES)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_recipe_has_the_values_of_the_published_configuration(row):
    recipe = recipes.RECIPES[row[0]]
    model, data, augment, train = recipe.model, recipe.data, recipe.data.augment, recipe.train
    ranges = (augment.rotation_deg, augment.zoom, augment.translation, augment.gamma)
    found = [
        *(recipe.name, data.train, data.test, model.encoder),
        *(model.decoder.layers, model.decoder.points, model.output.channels),
        *("/".join(f"{value:g}" for value in ranges).replace("0.", "."),),
        *(f"{augment.translation_weight:g}", train.iterations),
        *(f"{train.batch_size}x{train.accumulate}", train.validate_every),
    ]
    assert list(map(str, found)) == row[:12]
    assert [train.lr, train.lr_encoder, train.weight_decay] == list(map(float, row[12:15]))
    assert f"{recipe.loss}({train.loss_weight:g})" == row[15]
    assert data.size == SIZES[data.train]
    assert augment.geometry_weight == (0.0 if model.task == "normals" else 1.0)
    # What all of them share.
    assert (model.activation, model.expansion, model.resolutions) == ("gelu", 4, 3)
    assert model.discretization == "isd"
    assert (model.decoder.msda, model.decoder.heads, model.decoder.width) == (True, 4, 256)
    assert model.afp == AfpConfig(
        idrs=32, width=128, heads=1, iterations=2, priors="learned", update="residual"
    )
    assert model.afp.softmax == "idrs"
    assert model.isd == IsdConfig(layers=2, heads=1)
    assert (augment.flip, augment.colour, augment.contrast_weight) == (0.5, 0.1, 1.0)
    assert (train.momentum, train.clip_norm, train.seed) == ("cycled", 1.0, 13)


@pytest.mark.parametrize(
    ("name", "discretization", "msda", "iterations", "priors", "update"),
    [
        ("none", "none", False, 2, "learned", "residual"),
        ("edd", "edd", False, 2, "learned", "residual"),
        ("isd", "isd", False, 0, "learned", "residual"),
        ("isd_afp", "isd", False, 2, "learned", "residual"),
        ("edd_msda", "edd", True, 2, "learned", "residual"),
        ("isd_msda", "isd", True, 0, "learned", "residual"),
        ("random_afp", "isd", True, 2, "random", "slot"),
        ("full", "isd", True, 2, "learned", "residual"),
    ],
)
def test_each_row_of_the_ablation_table_is_a_network(
    name, discretization, msda, iterations, priors, update
):
    assert list(recipes.ABLATIONS) == list(paper.ABLATIONS)
    model = configs.override(recipes.RECIPES["nyu_swinl"].model, recipes.ABLATIONS[name])
    afp = model.afp
    assert (model.discretization, model.decoder.msda) == (discretization, msda)
    assert (afp.iterations, afp.priors, afp.update) == (iterations, priors, update)


@pytest.mark.parametrize(
    ("name", "subject", "fact"),
    [
        ("nyu_swinl:code", "nyu_swinl:code", "nyu_swinl:paper"),
        ("kitti_eb", "kitti_eb", "kitti_eb5"),
        ("zzzz:paper", "zzzz", "nyu_r101, nyu_eb5, "),
        ("tiny_synthetic:paper", "tiny_synthetic:paper", "paper"),
    ],
)
def test_find_refuses_an_unknown_name_or_variant(name, subject, fact):
    with refused(InputError, f"recipe '{subject}'", fact):
        recipes.find(name)


def differences(old, new, path=""):
    found = {}
    for item in dataclasses.fields(old):
        before, after = getattr(old, item.name), getattr(new, item.name)
        if dataclasses.is_dataclass(before):
            found |= differences(before, after, f"{path}{item.name}.")
        elif before != after:
            found[path + item.name] = (before, after)
    return found


def test_the_variant_of_the_paper_differs_in_what_its_text_says():
    assert differences(recipes.find("kitti_r101"), recipes.find("kitti_r101:paper")) == {
        "name": ("kitti_r101", "kitti_r101:paper"),
        "model.decoder.layers": (6, 4),
        "data.augment.flip": (0.5, 0.0),
        "data.augment.contrast_weight": (1.0, 0.0),
        "train.iterations": (40_000, 45_000),
        "train.lr_encoder": (5e-5, 2e-4),
        "train.weight_decay": (0.05, 0.02),
        "train.momentum": ("cycled", "constant"),
    }
    normals = recipes.find("nyunorm_swinl:paper").train
    assert normals.lr == normals.lr_encoder == 2e-4
    assert recipes.find("nyu_r101:paper").data.augment.translation_weight == 0.0


@pytest.mark.parametrize(
    "change",
    [
        *("model.decoder.layers=0", "model.decoder.width=254", "model.decoder.heads=3"),
        *("model.decoder.points=9999", "model.decoder.layers=300", "model.expansion=0"),
        *("model.afp.idrs=0", "model.afp.iterations=-1", "model.afp.heads=3", "model.afp.heads=0"),
        *("model.isd.layers=0", "model.isd.heads=0", "model.isd.heads=3", "model.edd.bins=1"),
        *("model.edd.min_depth=0", "model.edd.min_depth=10", "model.resolutions=0"),
        *("model.resolutions=5", "data.augment.zoom=-0.1", "data.augment.flip=1.5"),
        *("data.augment.gamma=1", "data.size=480", "data.size=480,0", "data.holdout=1"),
        *("train.iterations=0", "train.batch_size=0", "train.lr=0", "train.lr_encoder=-1"),
        *("train.seed=-1", "train.patience=0", "train.ema=1", "train.cache_features=here"),
        "train.loss=angular",
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(change):
    with refused(InputError, change.partition("=")[0]):
        configs.override(recipes.RECIPES["nyu_swint"], [change])


def test_normals_have_no_bins():
    with refused(InputError, "model.discretization"):
        configs.override(recipes.RECIPES["nyunorm_swinl"], ["model.discretization=edd"])
