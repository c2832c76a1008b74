"""The released checkpoints, held against what was measured of them."""

from __future__ import annotations

from collections import Counter

import pytest

from idisc.configs.recipes import PUBLISHED_RECIPES, RECIPES
from idisc.zoo.published import LICENCE, PUBLISHED

# file, millions of parameters, tensors, bytes of all tensors, recipes
FILES = """
kitti_resnet101.pt       58.943  982 236_219_468 kitti_r101
kitti_effnetb5.pt        41.961 1208 168_559_052 kitti_eb5
kitti_swintiny.pt        40.686  545 162_998_708 kitti_swint
kitti_swinbase.pt       100.156  713 401_109_516 kitti_swinb
kitti_swinlarge.pt      208.901  713 836_088_188 kitti_swinl,kitti_argo,kitti_ddad
nyu_resnet101.pt         57.232  950 229_375_052 nyu_r101
nyu_effnetb5.pt          40.250 1176 161_714_636 nyu_eb5
nyu_swintiny.pt          38.975  513 156_154_292 nyu_swint
nyu_swinbase.pt          98.445  681 394_265_100 nyu_swinb
nyu_swinlarge.pt        207.190  681 829_243_772 nyu_swinl,nyu_sunrgbd,nyu_diode
nyunormals_swinlarge.pt 207.192  681 829_253_024 nyunorm_swinl
ddad_swinlarge.pt       207.387  681 830_033_276 ddad_swinl
argo_swinlarge.pt       208.901  713 836_088_188 argo_swinl
"""
ROWS = [line.split() for line in FILES.strip().splitlines()]


def test_there_are_the_thirteen_released_files_and_no_others() -> None:
    assert sorted(PUBLISHED) == sorted(row[0] for row in ROWS)
    assert len(PUBLISHED) == 13


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_released_file_is_what_the_table_says(row: list[str]) -> None:
    file, parameters, tensors, size, made = row
    entry = PUBLISHED[file]
    assert entry.file == file
    assert entry.recipes == tuple(made.split(","))
    assert entry.parameters == float(parameters)
    assert entry.tensors == int(tensors)
    assert entry.bytes == int(size)


def test_every_recipe_has_exactly_one_file() -> None:
    made = Counter(name for entry in PUBLISHED.values() for name in entry.recipes)
    assert made == Counter(recipe.name for recipe in PUBLISHED_RECIPES)


@pytest.mark.parametrize("file", PUBLISHED)
def test_the_recipes_of_one_file_have_one_network(file: str) -> None:
    assert len({RECIPES[name].model for name in PUBLISHED[file].recipes}) == 1


@pytest.mark.parametrize("file", PUBLISHED)
def test_only_the_first_recipe_of_a_file_tests_where_it_trained(file: str) -> None:
    first, *others = (RECIPES[name].data for name in PUBLISHED[file].recipes)
    assert first.train == first.test
    assert all(other.train == first.train != other.test for other in others)


@pytest.mark.parametrize("file", PUBLISHED)
def test_a_file_is_found_below_one_address(file: str) -> None:
    assert PUBLISHED[file].address == f"https://dl.cv.ethz.ch/idisc/checkpoints/{file}"


@pytest.mark.parametrize("file", PUBLISHED)
def test_four_bytes_to_a_parameter_and_little_else_fill_a_file(file: str) -> None:
    entry = PUBLISHED[file]
    rest = entry.bytes - 4e6 * entry.parameters  # running statistics and index tables
    assert 0 < rest < 0.02 * entry.bytes


def test_expected_are_the_metrics_on_the_dataset_of_the_training() -> None:
    assert PUBLISHED["nyu_swinlarge.pt"].expected == {
        "d1": 0.940,
        "d2": 0.993,
        "d3": 0.999,
        "rmse": 0.313,
        "abs_rel": 0.086,
        "log10": 0.037,
    }


def test_the_licence_is_that_of_the_release() -> None:
    assert LICENCE == "CC BY-NC 4.0"
