"""Images, scenes, copies and whole lists that are in train and in test are found."""

from __future__ import annotations

import shutil

from PIL import Image
from tests.fakes.examined import COUNT, TESTS, Pairs, as_dataset, by_code, only

from idisc.configs import paper
from idisc.data import doctor


def test_a_folder_without_splits_is_one_warning(pairs: Pairs) -> None:
    pairs.set_all(split="")
    report = pairs.report()
    assert (report.inspected, report.pairs) == (COUNT, COUNT)
    assert (only(report).severity, only(report).code) == ("warning", "unsplit")


def test_pictures_in_both_splits_are_named(pairs: Pairs) -> None:
    pairs.rows.append({**pairs.rows[0], "split": "test"})
    found = by_code(pairs.report())
    assert found.keys() == {"splits", "scenes"}
    assert found["splits"].files == ("images/0000.png",)


def test_a_scene_in_both_splits_is_an_error(pairs: Pairs) -> None:
    pairs.rows[-1]["scene"] = "room_0"
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("error", "scenes")
    assert finding.examples == ("room_0",)


def test_copies_and_near_copies_across_splits_are_found(pairs: Pairs) -> None:
    shutil.copy(pairs.image(0), pairs.image(COUNT - 1))
    shutil.copy(pairs.depth(0), pairs.depth(COUNT - 1))
    Image.open(pairs.image(1)).point(lambda value: min(value + 3, 255)).save(pairs.image(COUNT - 2))
    shutil.copy(pairs.depth(1), pairs.depth(COUNT - 2))
    found = by_code(pairs.report())
    assert found.keys() == {"copies", "lookalikes"}
    assert found["copies"].examples == ("images/0019.png = images/0000.png",)
    assert found["lookalikes"].examples == ("images/0018.png ~ images/0001.png",)


def test_a_large_test_is_a_warning_and_swapped_counts_are_an_error(pairs: Pairs) -> None:
    for row in pairs.rows:
        row["split"] = "test" if row["split"] == "train" else "train"
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == ("warning", "large_test")
    finding = only(as_dataset(pairs, counts=paper.Counts(COUNT - TESTS, TESTS)))
    assert (finding.severity, finding.code) == ("error", "swapped_lists")


def test_lists_with_missing_files_warn_and_identical_lists_are_an_error(pairs: Pairs) -> None:
    lines = [f"{row['image']} {row['depth']} 130.0" for row in pairs.rows]
    train, test = pairs.root / "my_train.txt", pairs.root / "my_test.txt"
    train.write_text("\n".join([*lines, "images/gone.png depth/gone.png 130.0"]))
    test.write_text("\n".join(lines))
    found = by_code(doctor.examine(*doctor.gather(pairs.root, "folder", [train, test])))
    assert found.keys() == {"missing", "splits", "camera"}
    assert found["missing"].severity == "warning"
    assert found["missing"].files == ("depth/gone.png", "images/gone.png")
    assert len(found["splits"].files) == COUNT
