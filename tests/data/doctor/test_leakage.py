"""What is in train and in test alike is found: pictures, scenes, copies, whole lists."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image
from tests.fakes.examined import COUNT, Pairs, as_dataset, good_pairs, only

from idisc import paper
from idisc.data import doctor


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return good_pairs(tmp_path)


def test_a_folder_without_splits_is_one_warning(pairs: Pairs) -> None:
    for row in pairs.rows:
        row["split"] = ""
    report = pairs.report()
    assert dict(report.facts)["looked at"] == "20 of 20 pairs"
    finding = only(report)
    assert finding.severity == "warning"
    assert finding.message.startswith("no splits: everything is used for both training and testing")


def test_pictures_in_both_splits_are_named(pairs: Pairs) -> None:
    pairs.rows.append({**pairs.rows[0], "split": "test"})
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"splits", "scenes"}
    assert "1 picture is in train and in test: images/0000.png" in found["splits"].message


def test_a_scene_in_both_splits_is_an_error(pairs: Pairs) -> None:
    pairs.rows[-1]["scene"] = "room_0"
    finding = only(pairs.report())
    assert finding.message == ("1 scene is in train and in test: room_0; keep each in one split")
    assert finding.severity == "error"


def test_copies_and_near_copies_across_splits_are_found(pairs: Pairs) -> None:
    shutil.copy(pairs.image(0), pairs.image(COUNT - 1))
    shutil.copy(pairs.depth(0), pairs.depth(COUNT - 1))
    Image.open(pairs.image(1)).point(lambda value: min(value + 3, 255)).save(pairs.image(COUNT - 2))
    shutil.copy(pairs.depth(1), pairs.depth(COUNT - 2))
    found = {finding.check: finding for finding in pairs.report().findings}
    assert found.keys() == {"copies", "lookalikes"}
    assert "images/0019.png = images/0000.png" in found["copies"].message
    assert "images/0018.png ~ images/0001.png" in found["lookalikes"].message
    assert (found["copies"].severity, found["lookalikes"].severity) == ("error", "warning")


def test_a_test_larger_than_train_is_doubted_and_swapped_counts_are_an_error(
    pairs: Pairs,
) -> None:
    for row in pairs.rows:
        row["split"] = "test" if row["split"] == "train" else "train"
    finding = only(pairs.report())
    assert "test has 14 pictures, train 6; are the two lists swapped?" in finding.message
    finding = only(as_dataset(pairs, counts=paper.Counts(14, 6)))
    assert finding.severity == "error"
    assert finding.message.endswith("swap the two lists")


def test_lists_with_missing_files_warn_and_identical_lists_are_an_error(pairs: Pairs) -> None:
    lines = [f"{row['image']} {row['depth']} 130.0" for row in pairs.rows]
    train, test = pairs.root / "my_train.txt", pairs.root / "my_test.txt"
    train.write_text("\n".join([*lines, "images/gone.png depth/gone.png 130.0"]))
    test.write_text("\n".join(lines))
    nyu_like = ("folder", [train, test])
    report = doctor.examine(*doctor.gather(pairs.root, *nyu_like))
    found = {finding.check: finding for finding in report.findings}
    assert found.keys() == {"missing", "splits", "camera"}
    assert found["missing"].severity == "warning"
    assert found["missing"].files == ("depth/gone.png", "images/gone.png")
