"""The recipes and the paper's numbers, held against the released configurations."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.fakes.refusals import refused

from idisc import configs
from idisc.configs import paper, recipes, schema
from idisc.errors import InputError

# name, train, test, encoder, MSDA layers, points, output channels,
# rotation / zoom / translation / gamma, weight of translation
NETWORKS_AND_DATA = """
nyu_r101      nyu         nyu         resnet101       4 4 1 5/.1/.1/.1     1
nyu_eb5       nyu         nyu         efficientnet_b5 4 4 1 5/.1/.1/.1     1
nyu_swint     nyu         nyu         swin_tiny       4 4 1 5/.1/.1/.1     0
nyu_swinb     nyu         nyu         swin_base       4 4 1 5/.1/.1/.1     1
nyu_swinl     nyu         nyu         swin_large_22k  4 4 1 5/.1/.1/.1     1
nyu_sunrgbd   nyu         sunrgbd     swin_large_22k  4 4 1 5/.1/.1/.1     1
nyu_diode     nyu         diode       swin_large_22k  4 4 1 5/.1/.1/.1     1
nyunorm_swinl nyu_normals nyu_normals swin_large_22k  4 4 4 5/.1/.1/.1     0
kitti_r101    kitti       kitti       resnet101       6 8 1 2.5/.05/.05/.2 0
kitti_eb5     kitti       kitti       efficientnet_b5 6 8 1 2.5/.05/.05/.2 0
kitti_swint   kitti       kitti       swin_tiny       6 8 1 2.5/.05/.05/.2 0
kitti_swinb   kitti       kitti       swin_base       6 8 1 2.5/.05/.05/.2 0
kitti_swinl   kitti       kitti       swin_large_22k  6 8 1 2.5/.05/.05/.2 0
kitti_argo    kitti       argoverse   swin_large_22k  6 8 1 2.5/.05/.05/.2 0
kitti_ddad    kitti       ddad        swin_large_22k  6 8 1 2.5/.05/.05/.2 0
argo_swinl    argoverse   argoverse   swin_large_22k  6 8 1 2.5/.05/.1/.1  0
ddad_swinl    ddad        ddad        swin_large_22k  4 8 1 2.5/.05/.1/.1  0
"""
# name, iterations, batch x accumulate, validation interval, rate, rate of the encoder, decay, loss
TRAINING = """
nyu_r101      40000 16x1 200 2e-4 5e-5 0.02 silog(10)
nyu_eb5       40000 16x1 200 2e-4 5e-5 0.02 silog(10)
nyu_swint     50000 16x1 200 2e-4 2e-5 0.02 silog(10)
nyu_swinb     40000 8x2  200 2e-4 2e-5 0.02 silog(10)
nyu_swinl     40000 8x2  200 2e-4 2e-5 0.02 silog(10)
nyu_sunrgbd   40000 8x2  200 2e-4 2e-5 0.02 silog(10)
nyu_diode     40000 8x2  200 2e-4 2e-5 0.02 silog(10)
nyunorm_swinl 45000 16x1 200 3e-4 3e-5 0.02 angular(1)
kitti_r101    40000 8x2  200 2e-4 5e-5 0.05 silog(10)
kitti_eb5     40000 8x2  200 2e-4 5e-5 0.05 silog(10)
kitti_swint   40000 8x2  200 2e-4 2e-5 0.05 silog(10)
kitti_swinb   40000 8x2  200 2e-4 2e-5 0.05 silog(10)
kitti_swinl   40000 8x2  200 2e-4 2e-5 0.05 silog(10)
kitti_argo    40000 8x2  200 2e-4 2e-5 0.05 silog(10)
kitti_ddad    40000 8x2  200 2e-4 2e-5 0.05 silog(10)
argo_swinl    45000 4x4  500 2e-4 2e-5 0.02 silog(10)
ddad_swinl    45000 4x4  500 2e-4 2e-5 0.02 silog(10)
"""
METRICS = """
nyu_r101      d1 .892 d2 .983 d3 .995 rmse .380 abs_rel .109 log10 .046
nyu_eb5       d1 .903 d2 .986 d3 .997 rmse .369 abs_rel .104 log10 .044
nyu_swint     d1 .894 d2 .983 d3 .996 rmse .377 abs_rel .109 log10 .045
nyu_swinb     d1 .926 d2 .989 d3 .997 rmse .327 abs_rel .091 log10 .039
nyu_swinl     d1 .940 d2 .993 d3 .999 rmse .313 abs_rel .086 log10 .037
nyu_sunrgbd   d1 .838 rmse .387 abs_rel .128 silog 10.91
nyu_diode     d1 .810 rmse .721 abs_rel .156 silog 18.11
nyunorm_swinl a11.5 .638 a22.5 .798 a30 .856 rmse_deg 22.8 mean_deg 14.6 median_deg 7.3
kitti_r101    d05 .860 d1 .965 d2 .996 rmse 2.362 rmse_log .090 abs_rel .059 sq_rel .197
kitti_eb5     d05 .852 d1 .963 d2 .994 rmse 2.510 rmse_log .094 abs_rel .063 sq_rel .223
kitti_swint   d05 .870 d1 .968 d2 .996 rmse 2.291 rmse_log .087 abs_rel .058 sq_rel .184
kitti_swinb   d05 .885 d1 .974 d2 .997 rmse 2.149 rmse_log .081 abs_rel .054 sq_rel .159
kitti_swinl   d05 .896 d1 .977 d2 .997 rmse 2.067 rmse_log .077 abs_rel .050 sq_rel .145
kitti_argo    d1 .560 rmse 12.18 abs_rel .269 silog 33.35
kitti_ddad    d1 .350 rmse 14.26 abs_rel .367 silog 29.37
argo_swinl    d1 .821 d2 .923 d3 .960 rmse 7.567 rmse_log .243 abs_rel .163 sq_rel 2.22
ddad_swinl    d1 .809 d2 .934 d3 .971 rmse 8.989 rmse_log .221 abs_rel .163 sq_rel 1.85
"""
INPUT_SIZES = {  # of the training pictures, section 7
    "nyu": (480, 640),
    "nyu_normals": (480, 640),
    "kitti": (352, 1216),
    "argoverse": (580, 1280),
    "ddad": (580, 1280),
}


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def pairs(words: list[str]) -> dict[str, float]:
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))


NAMES = [row[0] for row in rows(NETWORKS_AND_DATA)]


def test_there_are_the_seventeen_published_recipes_under_their_names() -> None:
    assert [make.__name__ for make in recipes.PUBLISHED_RECIPES] == NAMES
    assert list(recipes.RECIPES) == [*NAMES, "tiny_synthetic", "indoor", "indoor_normals", "road"]
    assert [recipe.name for recipe in recipes.RECIPES.values()] == list(recipes.RECIPES)
    assert len(NAMES) == 17


@pytest.mark.parametrize("row", rows(NETWORKS_AND_DATA), ids=NAMES)
def test_network_and_data_are_those_of_the_published_configuration(row: list[str]) -> None:
    name, train, test, encoder, layers, points, channels, ranges, translation_weight = row
    model, data = recipes.RECIPES[name].model, recipes.RECIPES[name].data
    assert (data.train, data.test) == (train, test)
    assert data.size == INPUT_SIZES[train]
    assert model.encoder == encoder
    assert (model.decoder.layers, model.decoder.points) == (int(layers), int(points))
    assert model.output.channels == int(channels)
    assert model.task == {"1": "depth", "4": "normals"}[channels]
    augment = data.augment
    found = (augment.rotation_deg, augment.zoom, augment.translation, augment.gamma)
    assert found == tuple(map(float, ranges.split("/")))
    assert augment.translation_weight == float(translation_weight)
    assert augment.geometry_weight == (0.0 if model.task == "normals" else 1.0)


@pytest.mark.parametrize("row", rows(TRAINING), ids=NAMES)
def test_training_is_that_of_the_published_configuration(row: list[str]) -> None:
    name, iterations, batch, validate_every, lr, lr_encoder, weight_decay, loss = row
    train = recipes.RECIPES[name].train
    assert train.iterations == int(iterations)
    assert f"{train.batch_size}x{train.accumulate}" == batch
    assert train.batch_size * train.accumulate == 16
    assert train.validate_every == int(validate_every)
    assert (train.lr, train.lr_encoder) == (float(lr), float(lr_encoder))
    assert train.weight_decay == float(weight_decay)
    assert f"{recipes.RECIPES[name].loss}({train.loss_weight:g})" == loss


@pytest.mark.parametrize("name", NAMES)
def test_what_all_published_configurations_share_is_in_each(name: str) -> None:
    recipe = recipes.RECIPES[name]
    model, augment, train = recipe.model, recipe.data.augment, recipe.train
    assert (model.activation, model.expansion, model.resolutions) == ("gelu", 4, 3)
    assert model.discretization == "isd"
    assert (model.decoder.msda, model.decoder.heads, model.decoder.width) == (True, 4, 256)
    assert model.afp == schema.AfpConfig(
        idrs=32,
        width=128,
        heads=1,
        iterations=2,
        priors="learned",
        update="residual",
        softmax="idrs",
    )
    assert model.isd == schema.IsdConfig(layers=2, heads=1)
    assert (augment.flip, augment.colour, augment.contrast_weight) == (0.5, 0.1, 1.0)
    assert (train.momentum, train.clip_norm, train.seed) == ("cycled", 1.0, 13)


@pytest.mark.parametrize("row", rows(METRICS), ids=NAMES)
def test_the_papers_results_are_those_of_its_tables(row: list[str]) -> None:
    assert paper.RESULTS[row[0]] == pairs(row[1:])


def test_the_paper_has_results_for_the_recipes_and_nothing_else() -> None:
    assert list(paper.RESULTS) == NAMES


@pytest.mark.parametrize("make", recipes.PUBLISHED_RECIPES, ids=NAMES)
def test_the_docstring_of_a_recipe_has_exactly_the_papers_numbers(make: Any) -> None:
    _, _, text = make.__doc__.strip().removesuffix(".").replace(".\n", ":").partition(":")
    words = text.split()
    assert pairs(words) == paper.RESULTS[make.__name__]


def test_the_ablation_table_is_that_of_the_paper() -> None:
    table = """
    none .890 .370 .104
    edd .905 .367 .102
    isd .919 .340 .096
    isd_afp .931 .319 .091
    edd_msda .931 .326 .091
    isd_msda .934 .319 .088
    random_afp .930 .319 .089
    full .940 .313 .086
    """
    expected = {
        name: {"d1": float(d1), "rmse": float(rmse), "abs_rel": float(abs_rel)}
        for name, d1, rmse, abs_rel in rows(table)
    }
    assert expected == paper.ABLATIONS


def test_the_complexity_table_is_that_of_the_paper_and_its_times_add_up() -> None:
    found = {name: (row.latency_ms, row.parameters) for name, row in paper.COMPLEXITY.items()}
    assert found == {
        "encoder": (23.6, 194.9),
        "MSDA": (72.8, 2.83),
        "FPN": (2.7, 4.11),
        "AFP": (12.4, 2.78),
        "ISD": (9.6, 4.59),
        "total": (121.1, 209.2),
    }
    parts = [latency for name, (latency, _) in found.items() if name != "total"]
    assert sum(parts) == pytest.approx(121.1)


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
def test_each_ablation_makes_its_network_out_of_swin_l(
    name: str, discretization: str, msda: bool, iterations: int, priors: str, update: str
) -> None:
    full = recipes.RECIPES["nyu_swinl"].model
    model = configs.override(full, recipes.ABLATIONS[name])
    assert model.encoder == "swin_large_22k"
    assert (model.discretization, model.decoder.msda) == (discretization, msda)
    assert (model.afp.iterations, model.afp.priors, model.afp.update) == (
        iterations,
        priors,
        update,
    )


def test_every_ablation_of_the_paper_can_be_made_and_no_two_are_the_same() -> None:
    assert list(recipes.ABLATIONS) == list(paper.ABLATIONS)
    full = recipes.RECIPES["nyu_swinl"].model
    made = {configs.override(full, changes) for changes in recipes.ABLATIONS.values()}
    assert len(made) == 8


def test_find_gives_the_recipe_of_that_name() -> None:
    assert recipes.find("ddad_swinl") is recipes.RECIPES["ddad_swinl"]


def test_find_gives_the_papers_variant_after_a_colon() -> None:
    recipe = recipes.RECIPES["ddad_swinl"]
    assert recipes.find("ddad_swinl:paper") == recipes.as_in_paper(recipe)


@pytest.mark.parametrize(
    ("name", "subject", "fact"),
    [
        ("nyu_swinl:code", "nyu_swinl:code", "nyu_swinl:paper"),
        ("kitti_eb", "kitti_eb", "kitti_eb5"),
        ("zzzz", "zzzz", "nyu_r101, nyu_eb5, "),
        ("zzzz:paper", "zzzz", "nyu_r101, nyu_eb5, "),
        ("tiny_synthetic:paper", "tiny_synthetic:paper", "paper"),
    ],
)
def test_find_answers_a_wrong_name_or_variant(name: str, subject: str, fact: str) -> None:
    with refused(InputError, f"recipe '{subject}'", fact):
        recipes.find(name)


def differences(old: Any, new: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for item in dataclasses.fields(old):
        before, after = getattr(old, item.name), getattr(new, item.name)
        if dataclasses.is_dataclass(before):
            found |= differences(before, after, f"{path}{item.name}.")
        elif before != after:
            found[path + item.name] = (before, after)
    return found


def test_the_papers_text_changes_these_fields_of_kitti_and_no_others() -> None:
    recipe = recipes.RECIPES["kitti_r101"]
    assert differences(recipe, recipes.as_in_paper(recipe)) == {
        "name": ("kitti_r101", "kitti_r101:paper"),
        "model.decoder.layers": (6, 4),
        "data.augment.flip": (0.5, 0.0),
        "data.augment.contrast_weight": (1.0, 0.0),
        "train.iterations": (40_000, 45_000),
        "train.lr_encoder": (5e-5, 2e-4),
        "train.weight_decay": (0.05, 0.02),
        "train.momentum": ("cycled", "constant"),
    }


def test_the_papers_text_has_one_rate_for_normals_and_no_translation_for_nyu() -> None:
    assert recipes.find("nyunorm_swinl:paper").train.lr == 2e-4
    assert recipes.find("nyunorm_swinl:paper").train.lr_encoder == 2e-4
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
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(change: str) -> None:
    with refused(InputError, change.partition("=")[0]):
        configs.override(recipes.RECIPES["nyu_swint"], [change])


def test_normals_have_no_bins() -> None:
    with refused(InputError, "model.discretization"):
        configs.override(recipes.RECIPES["nyunorm_swinl"], ["model.discretization=edd"])


def test_an_encoder_may_stay_as_it_is() -> None:
    recipe = configs.override(recipes.RECIPES["nyu_swint"], ["train.lr_encoder=0"])
    assert recipe.train.lr_encoder == 0.0
