"""Pairs that do not belong together are found by their names, shapes and edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes.examined import COUNT, SIZE, Pairs, good_pairs, only, save_depth, scene

from idisc.data import doctor
from idisc.data.manifest import Record


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)


# Names


def test_a_pair_that_is_listed_twice_is_named(pairs: Pairs) -> None:
    pairs.rows.append(pairs.rows[3])
    finding = only(pairs.report())
    assert (finding.check, finding.files) == ("repeated", ("images/0003.png",))
    assert "1 pair named more than once: images/0003.png; each counts once" in finding.message


def test_a_line_that_comes_again_in_a_list_is_named(pairs: Pairs, tmp_path: Path) -> None:
    lines = [f"{row['image']} {row['depth']} 130\n" for row in pairs.rows]
    listing = tmp_path / "test.lst"
    listing.write_text("".join([*lines, lines[0]]))
    report = doctor.examine(*doctor.gather(pairs.root, None, [listing]))
    (finding,) = (each for each in report.findings if each.check == "repeated")
    assert finding.files == ("images/0000.png",)


@pytest.mark.parametrize(
    ("image", "target", "belong"),
    [
        ("a/rgb_00045.jpg", "a/sync_depth_00045.png", True),
        ("a/rgb_00045.jpg", "a/sync_depth_00046.png", False),
        ("x/0001244-000041666800.jpg", "x/0001244-000041700166.png", True),  # two clocks
        ("img_0063.jpg", "img_0063_abs.png", True),
        ("kitchen.jpg", "0007.png", True),  # nothing to compare
    ],
)
def test_names_belong_together_by_their_numbers(
    pairs: Pairs, image: str, target: str, belong: bool
) -> None:
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    record = Record(image=image, target=target, split="train")
    report = doctor.examine(replace(source, records=(*source.records, record)), spec)
    assert ("names" not in {finding.check for finding in report.findings}) == belong


def test_a_list_off_by_one_is_found_by_names_and_by_edges(pairs: Pairs) -> None:
    last = pairs.rows[-1]["depth"]
    for row, before in zip(reversed(pairs.rows), list(reversed(pairs.rows))[1:], strict=False):
        row["depth"] = before["depth"]
    pairs.rows[0]["depth"] = last
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"names", "pairs"}
    assert "20 pairs have different numbers in the names" in found["names"].message
    assert "images/0001.png with depth/0000.png" in found["names"].message
    assert found["pairs"].severity == "error"
    assert "off by 1: depth/0000.png fits images/0000.png, not images/0001.png" in (
        found["pairs"].message
    )


# Edges


def test_shuffled_pairs_are_found_by_their_edges(pairs: Pairs) -> None:
    order = np.random.default_rng(1).permutation(COUNT)
    for index, other in enumerate(order):
        save_depth(pairs.depth(index), scene(int(other))[1])
    finding = only(pairs.report())
    assert "depth maps fit another picture better: depth" in finding.message
    assert finding.severity == "error"


def test_pairs_of_unrelated_files_are_doubted(pairs: Pairs) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(1000 + index)[1])
    finding = only(pairs.report())
    assert (finding.severity, finding.check) == ("warning", "edges")


def test_two_swapped_pairs_among_many_are_named(pairs: Pairs) -> None:
    save_depth(pairs.depth(4), scene(11)[1])
    save_depth(pairs.depth(11), scene(4)[1])
    finding = only(pairs.report())
    assert finding.severity == "warning"
    assert "depth/0004.png fits images/0011.png, depth/0011.png fits images/0004.png" in (
        finding.message
    )


@pytest.mark.parametrize(
    ("down", "right", "text"), [(0, 6, "6 px right"), (-5, 4, "4 px left and 5 px up")]
)
def test_a_shift_of_all_depth_is_measured(pairs: Pairs, down: int, right: int, text: str) -> None:
    right = -right if "left" in text else right
    pairs.change_depth(lambda depth: np.roll(depth, (down, right), axis=(0, 1)))
    finding = only(pairs.report())
    assert f"depth is shifted by about {text} against the picture" in finding.message


@pytest.mark.parametrize(
    ("axes", "text"), [((1,), "mirrored left to right"), ((0, 1), "turned by 180 degrees")]
)
def test_depth_that_is_turned_over_is_told(pairs: Pairs, axes: tuple[int, ...], text: str) -> None:
    pairs.change_depth(lambda depth: np.flip(depth, axes))
    found = {finding.check: finding for finding in pairs.report().findings}
    assert f"depth is {text} in 20 of 20 pairs" in found["turned"].message


def test_sparse_depth_is_not_judged_by_its_edges(pairs: Pairs) -> None:
    random = np.random.default_rng(0)
    pairs.change_depth(lambda depth: np.roll(depth, 20, axis=1) * (random.random(SIZE) < 0.2))
    assert pairs.report().findings == ()


# Shapes


def test_another_shape_of_depth_is_named_and_another_size_is_not(pairs: Pairs) -> None:
    save_depth(pairs.depth(0), scene(0)[1][::2, ::2])
    save_depth(pairs.depth(1), scene(1)[1].T)
    finding = only(pairs.report())
    assert finding.files == ("images/0001.png",)
    assert "(120x160 and 160x120); crop or turn them alike" in finding.message


def test_a_picture_turned_by_exif_shows_as_another_shape(pairs: Pairs) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(pairs.image(0)).save(pairs.root / "turned.jpg", exif=exif)
    pairs.rows[0]["image"] = "turned.jpg"
    found = {finding.check: finding.message for finding in pairs.report().findings}
    assert "160x120 and 120x160" in found["shape"]
