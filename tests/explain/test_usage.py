"""The usage of IDRs: numbers computed by hand, and by a slow definition."""

import json

import numpy as np
import pytest
from tests.fakes import explained

from idisc.explain.usage import Collector, Usage, mean_usage, usage_of


def disjoint(count, each=3):
    """Maps (N, N * each) of ones in places of their own."""
    return np.repeat(np.eye(count), each, axis=1)


@pytest.mark.parametrize("count", [1, 8])
def test_maps_of_equal_share_in_different_places_all_count(count):
    usage = usage_of(disjoint(count))
    assert usage.effective == pytest.approx(count)
    assert usage.used == pytest.approx(count)
    assert (usage.merged, usage.dead) == ({}, [])


def test_identical_maps_count_as_one():
    usage = usage_of(np.full((32, 50), 1 / 32))
    assert usage.effective == pytest.approx(1)
    assert usage.used == pytest.approx(32)  # shares alone cannot tell
    assert usage.merged == {idr: (0, pytest.approx(1)) for idr in range(1, 32)}


def test_an_idr_without_weight_does_not_count():
    maps = np.concatenate([disjoint(3), np.zeros((5, 9))])
    usage = usage_of(maps)
    assert usage.effective == pytest.approx(3)
    assert usage.dead == [3, 4, 5, 6, 7]
    assert usage.merged == {}


def test_two_identical_maps_count_as_one_with_both_shares():
    """Two pixels: the first is dealt out to twins, the second to a third IDR."""
    usage = usage_of(np.array([[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]]))
    assert usage.shares.tolist() == [0.25, 0.25, 0.5]
    assert usage.effective == pytest.approx(2)
    assert usage.used == pytest.approx(2**1.5)  # entropy of 1/4, 1/4, 1/2 is 1.5 bits
    np.testing.assert_allclose(usage.similarity, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert usage.merged == {1: (0, pytest.approx(1.0))}


def test_a_chain_of_merged_idrs_is_one_group():
    """1 is like 0, 2 like 1 but not like 0, 4 like 3."""
    similarity = np.eye(5)
    for one, other, like in ((0, 1, 0.97), (1, 2, 0.96), (0, 2, 0.9), (3, 4, 0.99)):
        similarity[one, other] = similarity[other, one] = like
    usage = Usage(np.array([0.3, 0.25, 0.2, 0.15, 0.1]), similarity)
    assert usage.merged == {1: (0, 0.97), 2: (1, 0.96), 4: (3, 0.99)}
    assert usage.groups == {0: [1, 2], 3: [4]}


def test_the_effective_number_is_that_of_the_definition():
    """The entropy of a density matrix: a mixture of the unit maps, each with its share."""
    maps = np.random.default_rng(0).dirichlet(np.ones(6), size=40).T  # (6, 40)
    density = np.zeros((40, 40))
    for each in maps:
        unit = each / np.sqrt((each**2).sum())
        density += each.mean() * np.outer(unit, unit)
    values = np.linalg.eigvalsh(density)
    values = values[values > 1e-12]
    expected = float(np.exp(-(values * np.log(values)).sum()))
    assert usage_of(maps).effective == pytest.approx(expected)


def test_several_pictures_have_the_usage_of_one_large_picture():
    first, second = np.random.default_rng(1).dirichlet(np.ones(4), (2, 5, 6)).transpose(0, 3, 1, 2)
    mean = mean_usage([usage_of(first), usage_of(second)])
    together = usage_of(np.concatenate([first, second], axis=2))
    np.testing.assert_allclose(mean.similarity, together.similarity)
    np.testing.assert_allclose(mean.shares, together.shares)


def test_idrs_used_in_different_pictures_count_in_the_set_but_not_in_a_picture():
    one, other = np.zeros((2, 1, 4)), np.zeros((2, 1, 4))
    one[0], other[1] = 1, 1
    usages = [usage_of(one), usage_of(other)]
    assert [usage.effective for usage in usages] == pytest.approx([1, 1])
    assert mean_usage(usages).effective == pytest.approx(2)


def test_representative_idrs_have_large_shares_and_different_maps():
    maps = np.array([[6, 0, 0], [5, 0.1, 0], [0, 2, 0], [0, 0, 1]], float)
    usage = usage_of(maps)
    assert usage.by_share() == [0, 1, 2, 3]
    assert usage.representative(3) == [0, 2, 3]  # 1 is 0 once more
    assert usage.representative(4) == [0, 2, 3, 1]
    assert usage.representative(9) == [0, 2, 3, 1]  # there are no more


def test_a_report_has_every_level_and_picture_and_is_json():
    collector = Collector()
    for seed in (0, 1):
        levels = collector.add(f"{seed}.png", explained.explanation(seed))
        assert [level.index for level in levels] == [0, 1, 2]
    record = json.loads(json.dumps(collector.report().as_json()))
    assert [level["stride"] for level in record["levels"]] == [16, 8, 4]
    for level in record["levels"]:
        for kind in ("attention", "partition"):
            assert 1 <= level[kind]["effective"] <= level[kind]["used"] <= explained.IDRS
            assert sum(level[kind]["shares"]) == pytest.approx(1, abs=1e-4)
    assert [row["name"] for row in record["pictures"]] == ["0.png", "1.png"]
    assert len(record["pictures"][1]["effective_partition"]) == 3
