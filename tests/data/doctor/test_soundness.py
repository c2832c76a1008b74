"""Files that are missing, damaged or no depth are found, and impossible cameras."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.fakes.examined import (
    COUNT,
    SIZE,
    Pairs,
    as_dataset,
    by_code,
    only,
    prepared,
    save_depth,
    scene,
)

from idisc.data import catalog, doctor


def test_missing_files_are_named_and_the_others_inspected(pairs: Pairs) -> None:
    pairs.image(3).unlink()
    pairs.depth(5).unlink()
    report = pairs.report()
    assert only(report).code == "missing"
    assert only(report).files == ("depth/0005.png", "images/0003.png")
    assert report.inspected == COUNT - 2


def test_an_image_without_depth_in_folders_is_a_finding(pairs: Pairs) -> None:
    pairs.depth(5).unlink()
    report = doctor.examine(*doctor.gather(pairs.root))
    assert [finding.code for finding in report.findings] == ["missing", "unsplit", "camera"]
    assert report.findings[0].files == ("depth/0005.png",)


def test_records_without_ground_truth_are_counted(pairs: Pairs) -> None:
    source = prepared(pairs)
    bare = tuple(replace(record, target="", sha256="") for record in source.records)
    finding = only(doctor.examine(replace(source, records=bare), catalog.FOLDER))
    assert (finding.code, len(finding.files)) == ("no_target", COUNT)


def test_missing_empty_and_changed_files_of_a_prepared_folder_are_listed(pairs: Pairs) -> None:
    source = prepared(pairs)
    pairs.depth(1).unlink()
    pairs.image(2).write_bytes(b"")
    save_depth(pairs.depth(5), scene(5)[1] + 0.1)
    found = by_code(doctor.examine(source, catalog.FOLDER))
    assert found.keys() == {"missing", "changed"}
    assert found["missing"].files == ("depth/0001.png", "images/0002.png")
    assert found["changed"].files == ("images/0005.png",)


def test_damaged_files_are_listed_and_nothing_is_raised(pairs: Pairs) -> None:
    pairs.depth(1).write_bytes(pairs.depth(1).read_bytes()[:200])
    pairs.image(2).write_bytes(pairs.image(2).read_bytes()[:5000])
    pairs.depth(3).write_bytes(b"not a picture")
    pairs.rows[4]["depth"] = "depth/0004.npy"
    pairs.depth(4).write_bytes(b"not an array")
    Image.new("L", SIZE[::-1]).save(pairs.depth(6), format="PCX")  # a format that nothing reads
    finding = only(pairs.report())
    assert finding.code == "damaged"
    assert finding.files == (
        *("depth/0001.png", "images/0002.png"),
        *("depth/0003.png", "depth/0004.npy", "depth/0006.png"),
    )


def test_frames_too_small_for_the_crop_of_a_dataset_are_found(pairs: Pairs) -> None:
    assert only(as_dataset(pairs, framing=catalog.NYU.framing)).code == "framing"


@pytest.mark.parametrize("suffix", ["png", "npy"])
def test_swapped_folders_are_found(pairs: Pairs, suffix: str) -> None:
    for index in range(COUNT):
        image, depth = scene(index)
        pairs.image(index).unlink()
        pairs.depth(index).unlink()
        Image.fromarray(image).save(pairs.root / f"depth/{index:04}.jpg")
        if suffix == "npy":
            np.save(pairs.root / f"images/{index:04}.npy", depth)
        else:
            save_depth(pairs.root / f"images/{index:04}.png", depth)
    finding = doctor.examine(*doctor.gather(pairs.root)).findings[0]
    assert (finding.severity, finding.code) == ("error", "swapped")
    assert len(finding.files) == COUNT


def test_swapped_columns_are_distinguished_from_8_bits(pairs: Pairs) -> None:
    for row in pairs.rows:
        row["image"], row["depth"] = row["depth"], row["image"]
    finding = only(pairs.report())
    assert finding.describe() == (
        "pairs with image and depth swapped: 20 (depth/0000.png, depth/0001.png, depth/0002.png,"
        " ...); first: depth/0000.png is I;16, images/0000.png is RGB; swap columns or folder names"
    )


def test_depth_in_8_bits_or_in_colours_is_found(pairs: Pairs) -> None:
    grey = np.clip(scene(2)[1] * 50, 0, 255).astype(np.uint8)
    Image.fromarray(grey).save(pairs.depth(2))
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(pairs.depth(5))
    finding = only(pairs.report())
    assert (finding.code, finding.files) == ("bits", ("depth/0002.png", "depth/0005.png"))


def test_useless_maps_are_named(pairs: Pairs) -> None:
    lone = np.zeros(SIZE)
    lone[60, 80:84] = (1.0, 2.0, 3.0, 3.0)
    for index, depth in ((0, np.full(SIZE, 2.0)), (1, np.zeros(SIZE)), (4, lone)):
        save_depth(pairs.depth(index), depth)
    for index, value in ((7, np.nan), (8, np.inf), (9, -1.0)):
        pairs.rows[index]["depth"] = f"depth/{index:04}.npy"
        depth = scene(index)[1]
        depth[:4] = value
        np.save(pairs.depth(index), depth)
    assert {
        finding.code: (finding.severity, finding.files) for finding in pairs.report().findings
    } == {
        "constant": ("error", ("depth/0000.png",)),
        "empty": ("error", ("depth/0001.png",)),
        "sparse": ("warning", ("depth/0004.png",)),
        "undefined": ("warning", ("depth/0007.npy", "depth/0008.npy")),
        "negative": ("warning", ("depth/0009.npy",)),
    }


@pytest.mark.parametrize("count", [1, COUNT])
def test_disparity_is_distinguished_from_depth(pairs: Pairs, count: int) -> None:
    pairs.change_depth(lambda depth: 6 / depth)
    del pairs.rows[count:]
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("warning", "inverted")
    assert (len(finding.files), finding.total) == (count, count)


def test_a_few_maps_that_disagree_are_no_disparity(pairs: Pairs) -> None:
    pairs.change_depth(lambda depth: 6 / depth)
    save_depth(pairs.depth(0), scene(0)[1])
    del pairs.rows[3:]
    assert pairs.report().findings == ()


def test_implausible_cameras_are_named(pairs: Pairs) -> None:
    pairs.rows[0].update(cx=400)
    pairs.rows[1].update(fx=1300, fy=1300)
    pairs.rows[2].update(fx=-1)
    pairs.rows[7].update(fx="", fy="", cx="", cy="")
    found = by_code(pairs.report())
    assert {code: finding.files for code, finding in found.items()} == {
        "centre": ("images/0000.png", "images/0002.png"),
        "angle": ("images/0001.png",),
        "camera": ("images/0007.png",),
    }
    assert found["angle"].severity == "warning"


def test_a_size_that_differs_from_the_manifest_is_an_error(pairs: Pairs) -> None:
    source = prepared(pairs)
    records = [replace(record, size=(240, 320), sha256="") for record in source.records]
    finding = only(doctor.examine(replace(source, records=tuple(records)), catalog.FOLDER))
    assert (finding.severity, finding.code) == ("error", "size")
