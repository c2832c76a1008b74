"""Files that are missing, damaged or no depth are named, and cameras that cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.fakes.examined import (
    COUNT,
    SIZE,
    Array,
    Pairs,
    as_dataset,
    good_pairs,
    only,
    prepared,
    save_depth,
    scene,
)

from idisc.data import catalog, doctor


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)


# Files that are there, and can be read


def test_files_that_are_not_there_are_a_finding_and_the_others_are_looked_at(pairs: Pairs) -> None:
    pairs.image(3).unlink()
    pairs.depth(5).unlink()
    report = pairs.report()
    finding = only(report)
    assert (finding.check, finding.files) == ("missing", ("depth/0005.png", "images/0003.png"))
    assert "put them there, or take their pairs out" in finding.message
    assert dict(report.facts)["looked at"] == f"{COUNT - 2} of {COUNT} pairs"


def test_a_picture_without_depth_in_folders_is_a_finding(pairs: Pairs) -> None:
    pairs.depth(5).unlink()
    report = doctor.examine(*doctor.gather(pairs.root))
    assert [finding.check for finding in report.findings] == ["missing", "splits", "camera"]
    assert report.findings[0].files == ("depth/0005.png",)


def test_records_without_ground_truth_are_counted(pairs: Pairs) -> None:
    source = prepared(pairs)
    bare = tuple(replace(record, target="", sha256="") for record in source.records)
    finding = only(doctor.examine(replace(source, records=bare), catalog.FOLDER))
    assert "20 pictures have no ground truth" in finding.message
    json.dumps([finding.message, *finding.files])  # plain text throughout


def test_missing_empty_and_changed_files_of_a_prepared_folder_are_listed(pairs: Pairs) -> None:
    source = prepared(pairs)
    pairs.depth(1).unlink()
    pairs.image(2).write_bytes(b"")
    save_depth(pairs.depth(5), scene(5)[1] + 0.1)
    found = {f.check: f for f in doctor.examine(source, catalog.FOLDER).findings}
    assert found.keys() == {"missing", "changed"}
    assert found["missing"].files == ("depth/0001.png", "images/0002.png")
    assert "2 files not there or empty: depth/0001.png" in found["missing"].message
    assert found["changed"].files == ("images/0005.png",)
    assert "prepare the dataset again" in found["changed"].message


def test_damaged_files_are_listed_and_nothing_is_raised(pairs: Pairs) -> None:
    pairs.depth(1).write_bytes(pairs.depth(1).read_bytes()[:200])
    pairs.image(2).write_bytes(pairs.image(2).read_bytes()[:5000])
    pairs.depth(3).write_bytes(b"not a picture")
    pairs.rows[4]["depth"] = "depth/0004.npy"
    pairs.depth(4).write_bytes(b"not an array")
    finding = only(pairs.report())
    assert finding.files == (
        *("depth/0001.png", "images/0002.png"),
        *("depth/0003.png", "depth/0004.npy"),
    )
    assert "4 files cannot be read" in finding.message
    assert "get them again" in finding.message


def test_a_damaged_picture_with_intrinsics_is_a_finding(pairs: Pairs) -> None:
    pairs.image(3).write_bytes(b"junk")
    assert only(pairs.report()).check == "damaged"


def test_formats_that_nothing_else_reads_are_not_read_here(pairs: Pairs) -> None:
    Image.new("L", SIZE[::-1]).save(pairs.depth(0), format="PCX")
    assert only(pairs.report()).check == "damaged"


def test_frames_too_small_for_the_crop_of_a_dataset_are_named(pairs: Pairs) -> None:
    report = as_dataset(pairs, framing=catalog.NYU.framing)
    assert "120x160 pixels; frames of this dataset have 480x640" in only(report).message


# Pictures and depth for what they are


@pytest.mark.parametrize("suffix", ["png", "npy"])
def test_swapped_folders_are_named(pairs: Pairs, suffix: str) -> None:
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
    assert (finding.severity, finding.check) == ("error", "swapped")
    assert len(finding.files) == COUNT


def test_swapped_columns_are_told_from_8_bits(pairs: Pairs) -> None:
    for row in pairs.rows:
        row["image"], row["depth"] = row["depth"], row["image"]
    finding = only(pairs.report())
    assert finding.message == (
        "20 files have picture and depth the wrong way round: depth/0000.png, depth/0001.png,"
        " depth/0002.png and 17 more (depth/0000.png is I;16, images/0000.png is RGB); swap the"
        " two columns of the list, or the names of the two folders"
    )


def test_depth_in_8_bits_or_in_colours_is_named(pairs: Pairs) -> None:
    grey = np.clip(scene(2)[1] * 50, 0, 255).astype(np.uint8)
    Image.fromarray(grey).save(pairs.depth(2))
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(pairs.depth(5))
    finding = only(pairs.report())
    assert (finding.severity, finding.files) == ("error", ("depth/0002.png", "depth/0005.png"))
    assert finding.message.startswith("2 files hold depth in 8 bits or as colours: depth/0002.png")
    assert "save depth again as 16-bit PNG" in finding.message


def pack_depth(path: Path, depth: Array) -> None:
    """As in reduced copies of NYU: 0.5 exp(0.008 code) metres, code = 256 R + G."""
    code = np.round(np.log(depth / 0.5) / 0.008).astype(int)
    channels = np.stack([code // 256, code % 256, np.zeros_like(code)], axis=-1)
    Image.fromarray(channels.astype(np.uint8)).save(path, lossless=True)


def test_depth_packed_into_webp_is_read_as_evaluation_reads_it(pairs: Pairs) -> None:
    for index, row in enumerate(pairs.rows):
        row["depth"] = f"depth/{index:04}.webp"
        pack_depth(pairs.depth(index), scene(index)[1])
    report = pairs.report()
    assert report.findings == ()
    assert dict(report.facts)["depth"].startswith("median 3.")
    Image.fromarray(scene(2)[0]).save(pairs.depth(2), lossless=True)  # colours
    pairs.depth(5).write_bytes(pairs.depth(5).read_bytes()[:300])
    found = {finding.check: finding.files for finding in pairs.report().findings}
    assert found == {"damaged": ("depth/0005.webp",), "bits": ("depth/0002.webp",)}


# Values of depth


def test_a_constant_map_and_an_empty_one_are_named(pairs: Pairs) -> None:
    save_depth(pairs.depth(0), np.full(SIZE, 2.0))
    save_depth(pairs.depth(1), np.zeros(SIZE))
    lone = np.zeros(SIZE)
    lone[60, 80:84] = (1.0, 2.0, 3.0, 3.0)
    save_depth(pairs.depth(4), lone)
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"constant", "empty", "sparse"}
    assert "1 depth map has one value everywhere: depth/0000.png" in found["constant"].message
    assert "1 depth map has no valid pixel: depth/0001.png" in found["empty"].message
    assert found["sparse"].severity == "warning"
    assert found["sparse"].files == ("depth/0004.png",)


def test_values_that_are_no_depth_are_warned_of(pairs: Pairs) -> None:
    for index, value in ((2, np.nan), (3, np.inf), (4, -1.0)):
        pairs.rows[index]["depth"] = f"depth/{index:04}.npy"
        depth = scene(index)[1]
        depth[:4] = value
        np.save(pairs.depth(index), depth)
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"undefined", "negative"}
    assert found["undefined"].files == ("depth/0002.npy", "depth/0003.npy")
    assert "write 0 for none" in found["undefined"].message
    assert found["negative"].files == ("depth/0004.npy",)


def test_disparity_is_told_from_depth(pairs: Pairs) -> None:
    pairs.change_depth(lambda depth: 6 / depth)
    finding = only(pairs.report())
    assert (finding.severity, finding.check) == ("warning", "inverted")
    assert "look like disparity or inverse depth; convert them to metres" in finding.message


@pytest.mark.parametrize("count", [1, 3, 7])
def test_disparity_of_a_few_maps_is_a_hint(pairs: Pairs, count: int) -> None:
    pairs.change_depth(lambda depth: 6 / depth)
    del pairs.rows[count:]
    finding = only(pairs.report())
    assert (finding.severity, finding.check) == ("warning", "inverted")
    assert finding.message.endswith(
        f"in 100% of {count} depth map{'s' * (count > 1)}: too few to tell, but they may be"
        " disparity or inverse depth; if near is large in them, convert them to metres"
    )


def test_a_few_maps_that_disagree_are_no_disparity(pairs: Pairs) -> None:
    pairs.change_depth(lambda depth: 6 / depth)
    save_depth(pairs.depth(0), scene(0)[1])
    del pairs.rows[3:]
    assert pairs.report().findings == ()


# Cameras


def test_implausible_cameras_are_named(pairs: Pairs) -> None:
    pairs.rows[0].update(cx=400)
    pairs.rows[1].update(fx=1300, fy=1300)
    pairs.rows[2].update(fx=-1)
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"centre", "angle"}
    assert found["centre"].files == ("images/0000.png", "images/0002.png")
    assert "(400, 59.5) of 120x160" in found["centre"].message
    assert found["angle"].severity == "warning"
    assert "7 degrees" in found["angle"].message


def test_missing_intrinsics_are_a_warning(pairs: Pairs) -> None:
    pairs.rows[7].update(fx="", fy="", cx="", cy="")
    finding = only(pairs.report())
    assert finding.severity == "warning"
    assert "1 of 20 pictures has no intrinsics: images/0007.png" in finding.message


def test_a_size_that_differs_from_the_manifest_is_an_error(pairs: Pairs) -> None:
    source = prepared(pairs)
    records = [replace(record, size=(240, 320), sha256="") for record in source.records]
    report = doctor.examine(replace(source, records=tuple(records)), catalog.FOLDER)
    assert "240x320 stated, 120x160 found" in only(report).message
