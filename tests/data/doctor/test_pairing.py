"""Pairs that do not belong together are found by their names, aspect ratios and edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes.examined import COUNT, SIZE, Pairs, by_code, only, save_depth, scene

from idisc.data import doctor
from idisc.data.doctor import alignment
from idisc.data.manifest import Record


def test_a_pair_that_is_listed_twice_is_named(pairs: Pairs, tmp_path: Path) -> None:
    lines = [f"{row['image']} {row['depth']} 130\n" for row in pairs.rows]
    listing = tmp_path / "test.lst"
    listing.write_text("".join([*lines, lines[0]]))
    listed = by_code(doctor.examine(*doctor.gather(pairs.root, None, [listing])))
    assert listed["repeated"].files == ("images/0000.png",)
    pairs.rows.append(pairs.rows[3])
    finding = only(pairs.report())
    assert (finding.code, finding.files) == ("repeated", ("images/0003.png",))


def test_names_belong_together_by_their_numbers(pairs: Pairs) -> None:
    belong = [
        ("a/rgb_00045.jpg", "a/sync_depth_00045.png"),
        ("x/0001244-000041666800.jpg", "x/0001244-000041700166.png"),  # two clocks
        ("img_0063.jpg", "img_0063_abs.png"),
        ("kitchen.jpg", "0007.png"),  # nothing to compare
    ]
    apart = ("b/rgb_00045.jpg", "b/sync_depth_00046.png")
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    more = [Record(image=one, target=other, split="train") for one, other in (*belong, apart)]
    report = doctor.examine(replace(source, records=(*source.records, *more)), spec)
    assert by_code(report)["names"].files == (apart[0],)


def test_a_list_off_by_one_is_found_by_names_and_by_edges(pairs: Pairs) -> None:
    depths = [row["depth"] for row in pairs.rows]
    for row, depth in zip(pairs.rows, [depths[-1], *depths[:-1]], strict=True):
        row["depth"] = depth
    found = by_code(pairs.report())
    assert found.keys() == {"names", "offset"}
    assert len(found["names"].files) == COUNT
    assert found["names"].examples[1] == "images/0001.png with depth/0000.png"
    assert found["offset"].severity == "error"
    assert found["offset"].details == {"offset": -1}
    assert found["offset"].examples[0] == "depth/0000.png fits images/0000.png"


def test_shuffled_pairs_are_found_by_their_edges(pairs: Pairs) -> None:
    order = np.random.default_rng(1).permutation(COUNT)
    for index, other in enumerate(order):
        save_depth(pairs.depth(index), scene(int(other))[1])
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("error", "pairs")


def test_pairs_of_unrelated_files_are_a_warning(pairs: Pairs) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(1000 + index)[1])
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("warning", "edges")


def test_two_swapped_pairs_among_many_are_named(pairs: Pairs) -> None:
    save_depth(pairs.depth(4), scene(11)[1])
    save_depth(pairs.depth(11), scene(4)[1])
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("warning", "pairs")
    assert finding.examples == (
        "depth/0004.png fits images/0011.png",
        "depth/0011.png fits images/0004.png",
    )


@pytest.mark.parametrize(("down", "right"), [(0, 6), (-5, -4)])
def test_a_shift_of_all_depth_is_measured(pairs: Pairs, down: int, right: int) -> None:
    pairs.change_depth(lambda depth: np.roll(depth, (down, right), axis=(0, 1)))
    finding = only(pairs.report())
    assert (finding.code, finding.details) == ("shift", {"right_px": right, "down_px": down})


@pytest.mark.parametrize(
    ("axes", "flip"), [((1,), "mirrored left to right"), ((0, 1), "rotated by 180 degrees")]
)
def test_flipped_depth_is_found(pairs: Pairs, axes: tuple[int, ...], flip: str) -> None:
    pairs.change_depth(lambda depth: np.flip(depth, axes))
    finding = by_code(pairs.report())["turned"]
    assert (len(finding.files), finding.details) == (COUNT, {"flip": flip})


def test_sparse_depth_is_not_judged_by_its_edges(pairs: Pairs) -> None:
    random = np.random.default_rng(0)
    pairs.change_depth(lambda depth: np.roll(depth, 20, axis=1) * (random.random(SIZE) < 0.2))
    assert pairs.report().findings == ()


def test_another_aspect_ratio_is_named_and_another_size_is_not(pairs: Pairs) -> None:
    save_depth(pairs.depth(0), scene(0)[1][::2, ::2])
    save_depth(pairs.depth(1), scene(1)[1].T)
    finding = only(pairs.report())
    assert finding.examples == ("images/0001.png: 120x160 and 160x120",)


def test_an_image_rotated_by_exif_has_another_aspect_ratio(pairs: Pairs) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(pairs.image(0)).save(pairs.root / "rotated.jpg", exif=exif)
    pairs.rows[0]["image"] = "rotated.jpg"
    finding = by_code(pairs.report())["shape"]
    assert finding.examples == ("rotated.jpg: 160x120 and 120x160",)


def test_the_correlation_is_pearsons_averaged_over_both_directions() -> None:
    image, depth = scene(0)
    pair = alignment.find_edges(image, depth)
    assert pair is not None
    by_hand = [
        np.corrcoef(depth.ravel(), image.ravel())[0, 1]
        for depth, image in (
            (pair.depth[0, :, 1:-1], pair.image[0, :, 1:-1]),
            (pair.depth[1, 1:-1], pair.image[1, 1:-1]),
        )
    ]
    assert alignment.cross_correlations([pair])[0, 0] == pytest.approx(np.mean(by_hand), rel=0.05)
    assert alignment.flipped_correlation(pair, ()) == pytest.approx(np.mean(by_hand), rel=0.05)
