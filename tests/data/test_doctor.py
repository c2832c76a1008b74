"""Good data pass without a word; each way of breaking them is found and named."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from idisc import paper
from idisc.data import catalog, doctor, manifest
from idisc.data.doctor import Finding, Report, alignment, evidence
from idisc.data.manifest import Manifest, Record

Array = NDArray[Any]
SIZE = (120, 160)
COUNT, TESTS = 20, 6
SHARED = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="no real data beside the checkout")


def scene(seed: int) -> tuple[Array, Array]:
    """Boxes in front of a wall and a floor: colours (H, W, 3) and metres (H, W) that agree."""
    random = np.random.default_rng(seed)
    rows = np.linspace(0, 1, SIZE[0])[:, None]
    depth = np.broadcast_to(np.where(rows < 0.5, 4.5, 4.5 - 5 * (rows - 0.5)), SIZE).copy()
    image = np.broadcast_to(np.where(rows[..., None] < 0.5, 190.0, 90.0), (*SIZE, 3)).copy()
    for _ in range(9):
        top, left = random.integers(0, SIZE[0] - 20), random.integers(0, SIZE[1] - 20)
        box = slice(top, top + random.integers(10, 45)), slice(left, left + random.integers(10, 45))
        depth[box] = random.uniform(1, 4)
        image[box] = random.uniform(20, 235, 3)
    noisy = image + random.normal(0, 6, image.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), depth.astype(np.float32)


def save_depth(path: Path, depth: Array, units_per_metre: float = 1000) -> None:
    Image.fromarray(np.round(depth * units_per_metre).astype(np.uint16)).save(path)


@dataclass
class Pairs:
    """A folder of pairs with the table that lists them; a test changes one thing of it."""

    root: Path
    rows: list[dict[str, Any]] = field(default_factory=list)

    def depth(self, index: int) -> Path:
        return self.root / str(self.rows[index]["depth"])

    def image(self, index: int) -> Path:
        return self.root / str(self.rows[index]["image"])

    def set_all(self, **columns: object) -> None:
        for row in self.rows:
            row.update(columns)

    def change_depth(self, change: Callable[[Array], Array]) -> None:
        for index in range(len(self.rows)):
            save_depth(self.depth(index), change(scene(index)[1]))

    def report(self, **options: Any) -> Report:
        with (self.root / "pairs.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, list(self.rows[0]))
            table.writeheader()
            table.writerows(self.rows)
        return doctor.examine(*doctor.gather(self.root), **options)


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    for name in ("images", "depth"):
        (tmp_path / name).mkdir()
    made = Pairs(tmp_path)
    for index in range(COUNT):
        image, depth = scene(index)
        row = {
            "image": f"images/{index:04}.png",
            "depth": f"depth/{index:04}.png",
            "split": "train" if index < COUNT - TESTS else "test",
            "scene": f"room_{index // 2}",
            "fx": 130,
            "fy": 130,
            "cx": 79.5,
            "cy": 59.5,
        }
        made.rows.append(row)
        Image.fromarray(image).save(made.image(index))
        save_depth(made.depth(index), depth)
    return made


def only(report: Report) -> Finding:
    """The one finding: one thing was broken, so one line says it."""
    assert len(report.findings) == 1, "\n".join(finding.message for finding in report.findings)
    assert "\n" not in report.findings[0].message
    return report.findings[0]


def prepared(pairs: Pairs) -> Manifest:
    """The same pairs as a prepared folder, hashed."""
    source = doctor.gather(pairs.root)[0] if (pairs.root / "pairs.csv").exists() else None
    if source is None:
        pairs.report()
        source = doctor.gather(pairs.root)[0]
    hashed = [
        replace(record, sha256=digest(pairs.root, record), size=SIZE) for record in source.records
    ]
    (pairs.root / "pairs.csv").unlink()
    manifest.write(replace(source, records=tuple(hashed)))
    return manifest.read(pairs.root)


def digest(root: Path, record: Record) -> str:
    import hashlib

    content = (root / record.image).read_bytes() + (root / record.target).read_bytes()
    return hashlib.sha256(content).hexdigest()


def test_a_good_folder_has_no_findings_and_its_facts_are_told(pairs: Pairs) -> None:
    report = pairs.report()
    assert report.findings == ()
    facts = dict(report.facts)
    assert facts["train"] == f"{COUNT - TESTS} pictures"
    assert facts["test"] == f"{TESTS} pictures"
    assert facts["looked at"] == f"{COUNT} of {COUNT} pairs"
    assert facts["pictures"] == "120x160 (100%)"
    assert facts["depth"].startswith("median 3.")
    assert facts["valid"] == "100.0% of the pixels"


def test_a_prepared_folder_is_read_by_its_manifest(pairs: Pairs) -> None:
    prepared(pairs)
    source, spec = doctor.gather(pairs.root)
    assert doctor.examine(source, spec).findings == ()
    assert spec is catalog.FOLDER


def test_samples_are_spread_in_runs_and_progress_is_told(pairs: Pairs) -> None:
    assert evidence.spread(100, 12) == [0, 1, 2, 3, 48, 49, 50, 51, 96, 97, 98, 99]
    assert evidence.spread(5, 200) == [0, 1, 2, 3, 4]
    assert evidence.spread(100, 1) == [0]
    steps: list[tuple[int, int]] = []
    report = pairs.report(samples=8, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 8) for done in range(1, 9)]
    assert dict(report.facts)["looked at"] == f"8 of {COUNT} pairs"


def test_counts_stand_beside_the_papers(pairs: Pairs) -> None:
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    stated = replace(spec, counts=paper.Counts(1000, 6))
    facts = dict(doctor.examine(source, stated).facts)
    assert facts["train"] == "14 pictures (the paper: 1,000)"


# Units


@pytest.mark.parametrize(
    ("name", "scale"), [("millimetres", 0.001), ("centimetres", 0.01), ("1/5000 m (TUM)", 0.0002)]
)
def test_arrays_in_another_unit_are_named(pairs: Pairs, name: str, scale: float) -> None:
    for index, row in enumerate(pairs.rows):
        row["depth"] = f"depth/{index:04}.npy"
        np.save(pairs.depth(index), scene(index)[1] / np.float32(scale))
    finding = only(pairs.report())
    assert finding.severity == "error"
    assert f"values look like {name}: set depth_scale {scale:g}, not 1" in finding.message
    assert "0.1 to 200 m is possible" in finding.message


def test_metres_stored_as_whole_numbers_are_named(pairs: Pairs) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(index)[1], units_per_metre=10)
    pairs.set_all(depth_scale=0.001)
    finding = next(f for f in pairs.report().findings if f.check == "scale")
    assert "the median depth is 0.03" in finding.message


def as_dataset(pairs: Pairs, **changes: Any) -> Report:
    """The folder, read as a dataset of the catalog of which more is known."""
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    return doctor.examine(source, replace(spec, **changes))


def test_256_units_for_a_metre_read_as_millimetres_are_told_by_the_range(pairs: Pairs) -> None:
    known = {"domain": "indoor", "max_depth": 10.0}
    assert as_dataset(pairs, **known).findings == ()
    pairs.set_all(depth_scale=1 / 256)
    finding = only(as_dataset(pairs, **known))
    assert finding.severity == "warning"
    assert "values look like millimetres: set depth_scale 0.001, not 0.00390625" in finding.message
    pairs.change_depth(lambda depth: depth * 0.256)
    pairs.set_all(depth_scale=0.001)
    finding = only(as_dataset(pairs, **known))
    assert "values look like 1/256 m (KITTI): set depth_scale 0.00390625" in finding.message


def test_a_few_maps_in_another_unit_are_named(pairs: Pairs) -> None:
    save_depth(pairs.depth(3), scene(3)[1], units_per_metre=10)
    finding = only(pairs.report())
    assert finding.files == ("depth/0003.png",)
    assert "1 of 20 depth maps is in another unit than the others: depth/0003.png" in (
        finding.message
    )


@pytest.mark.parametrize(
    ("units", "factor", "name"),
    [
        (256, 0.8, r"1/256 m (KITTI): set depth_scale 0.00390625"),
        (100, 0.8, "centimetres: set depth_scale 0.01"),
        (5000, 0.8, r"1/5000 m (TUM): set depth_scale 0.0002"),
        (5000, 0.59, r"1/5000 m (TUM): set depth_scale 0.0002"),  # a median of 11 m
    ],
)
def test_an_unlikely_scene_in_ones_own_folder_names_the_likelier_unit(
    pairs: Pairs, units: float, factor: float, name: str
) -> None:
    for index in range(COUNT):
        save_depth(pairs.depth(index), scene(index)[1] * factor, units)
    finding = only(pairs.report())
    assert (finding.severity, finding.check) == ("warning", "scale")
    assert f"values look like {name}, not 0.001, in a CSV" in finding.message


def test_files_that_are_not_there_are_a_finding_and_the_others_are_looked_at(pairs: Pairs) -> None:
    pairs.image(3).unlink()
    pairs.depth(5).unlink()
    report = pairs.report()
    finding = only(report)
    assert (finding.check, finding.files) == ("missing", ("depth/0005.png", "images/0003.png"))
    assert "put them there, or take their pairs out" in finding.message
    assert dict(report.facts)["looked at"] == f"{COUNT - 2} of {COUNT} pairs"


def test_a_damaged_picture_with_intrinsics_is_a_finding(pairs: Pairs) -> None:
    pairs.image(3).write_bytes(b"junk")
    assert only(pairs.report()).check == "damaged"


def test_a_picture_without_depth_in_folders_is_a_finding(pairs: Pairs) -> None:
    pairs.depth(5).unlink()
    report = doctor.examine(*doctor.gather(pairs.root))
    assert [finding.check for finding in report.findings] == ["missing", "splits", "camera"]
    assert report.findings[0].files == ("depth/0005.png",)


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


def test_a_sparse_road_is_no_room_in_another_unit(pairs: Pairs) -> None:
    beams = (np.arange(SIZE[0]) % 10 == 0)[:, None]
    pairs.change_depth(lambda depth: np.where(beams, depth * 4.5, 0))
    assert pairs.report().findings == ()


@pytest.mark.parametrize("units", [256, 100, 5000])
def test_one_map_in_another_unit_is_named(pairs: Pairs, units: float) -> None:
    save_depth(pairs.depth(3), scene(3)[1], units)
    finding = only(pairs.report())
    assert (finding.severity, finding.files) == ("warning", ("depth/0003.png",))
    assert "1 of 20 depth maps may be in another unit than the others: depth/0003.png (" in (
        finding.message
    )


def test_advice_names_what_a_list_or_a_prepared_folder_has(pairs: Pairs) -> None:
    pairs.change_depth(lambda depth: depth / 100)
    pairs.report()
    source, spec = doctor.gather(pairs.root)
    for told, advice in (
        ({"list": "test.txt"}, "not 0.001: pass the --dataset they belong to, or list the pairs"),
        ({"choices": {}}, "not 0.001: prepare the dataset again"),
    ):
        report = doctor.examine(replace(source, prepared=told), spec)
        finding = next(finding for finding in report.findings if finding.check == "scale")
        assert advice in finding.message
        assert "depth_scale" not in finding.message


# Single files


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


def test_depth_in_8_bits_or_in_colours_is_named(pairs: Pairs) -> None:
    grey = np.clip(scene(2)[1] * 50, 0, 255).astype(np.uint8)
    Image.fromarray(grey).save(pairs.depth(2))
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(pairs.depth(5))
    finding = only(pairs.report())
    assert (finding.severity, finding.files) == ("error", ("depth/0002.png", "depth/0005.png"))
    assert finding.message.startswith("2 files hold depth in 8 bits or as colours: depth/0002.png")
    assert "save depth again as 16-bit PNG" in finding.message


def test_swapped_columns_are_told_from_8_bits(pairs: Pairs) -> None:
    for row in pairs.rows:
        row["image"], row["depth"] = row["depth"], row["image"]
    finding = only(pairs.report())
    assert finding.message == (
        "20 files have picture and depth the wrong way round: depth/0000.png, depth/0001.png,"
        " depth/0002.png and 17 more (depth/0000.png is I;16, images/0000.png is RGB); swap the"
        " two columns of the list, or the names of the two folders"
    )


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


def test_formats_that_nothing_else_reads_are_not_read_here(pairs: Pairs) -> None:
    Image.new("L", SIZE[::-1]).save(pairs.depth(0), format="PCX")
    assert only(pairs.report()).check == "damaged"


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


def test_frames_too_small_for_the_crop_of_a_dataset_are_named(pairs: Pairs) -> None:
    report = as_dataset(pairs, framing=catalog.NYU.framing)
    assert "120x160 pixels; frames of this dataset have 480x640" in only(report).message


# Pairs


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


# Splits


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


# Edges


def test_edges_agree_with_their_own_picture_only() -> None:
    pairs = [alignment.edges_of(*scene(seed)) for seed in range(8)]
    scores = alignment.crosswise([pair for pair in pairs if pair is not None])
    own = np.diag(scores)
    assert own.min() > 0.4
    assert np.abs(scores - np.diag(own)).max() < 0.35


def test_the_correlation_is_pearsons_over_known_cells() -> None:
    image, depth = scene(0)
    depth[:40] = 0
    pair = alignment.edges_of(image, depth)
    assert pair is not None
    by_hand = [
        np.corrcoef(pair.depth[axis][pair.known[axis]], pair.image[axis][pair.known[axis]])[0, 1]
        for axis in range(2)
    ]
    np.testing.assert_allclose(alignment.crosswise([pair])[0, 0], np.mean(by_hand), rtol=1e-4)
    np.testing.assert_allclose(alignment.turned(pair, ()), np.mean(by_hand), rtol=1e-4)


# Real data


def nyu_depth(path: Path) -> Array:
    """The log code of the packed labelled set in metres; see its README."""
    code = np.asarray(Image.open(path).convert("RGB")).astype(np.int32)
    code = code[..., 0] * 256 + code[..., 1]
    return np.where(code > 0, 0.5 * np.exp(0.005 * code), 0)


@pytest.fixture(scope="module")
def nyu(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """24 of NYU's test pictures, the first 16 called train."""
    root = SHARED / "nyu_labelled"
    made = Pairs(tmp_path_factory.mktemp("nyu"))
    for index, line in enumerate((root / "test.txt").read_text().splitlines()[:480:20]):
        image, depth, _ = line.split()
        number = Path(image).stem
        save_depth(made.root / f"{number}.png", nyu_depth(root / depth))
        made.rows.append(
            {
                "image": (root / image).as_posix(),
                "depth": f"{number}.png",
                "split": "train" if index < 16 else "test",
                "fx": 518.86,
                "fy": 519.47,
                "cx": 325.58,
                "cy": 253.74,
            }
        )
    return made


@real
def test_real_rooms_have_no_findings(nyu: Pairs) -> None:
    assert nyu.report().findings == ()


@real
def test_real_rooms_off_by_one_are_found(nyu: Pairs) -> None:
    depths = [row["depth"] for row in nyu.rows]
    moved = Pairs(nyu.root)
    moved.rows = [
        {**row, "depth": depth}
        for row, depth in zip(nyu.rows, [*depths[1:], depths[0]], strict=True)
    ]
    assert "pairs" in {finding.check for finding in moved.report().findings}


@real
def test_real_rooms_shifted_by_20_pixels_are_found(nyu: Pairs, tmp_path: Path) -> None:
    moved = Pairs(tmp_path, [dict(row) for row in nyu.rows])
    for row in moved.rows:
        depth = np.asarray(Image.open(nyu.root / str(row["depth"])))
        Image.fromarray(np.roll(depth, 20, axis=1)).save(tmp_path / str(row["depth"]))
    assert "shifted by about 20 px right" in only(moved.report()).message


REAL_LISTS: dict[str, tuple[str, list[str]]] = {
    "kitti": (
        "kitti",
        [
            f"raw/2011_09_26/2011_09_26_drive_9002_sync/image_02/data/{frame}.png"
            " depth_annotated/train/2011_09_26_drive_9002_sync/proj_depth/groundtruth/image_02/"
            f"{frame}.png 721.5"
            for frame in ("0000000005", "0000000050", "0000000100")
        ],
    ),
    "nyu": (
        "nyu_sync",
        [f"rgb_{n}.jpg sync_depth_{n}.png 518.8" for n in ("00000", "00050", "00100")],
    ),
    "sunrgbd": (
        "sunrgbd",
        [
            f"extra/{name}.jpg extra/{name}_depth.png 529.5"
            for name in ("kv2_bedroom", "kv2_dining")
        ],
    ),
}


@real
@pytest.mark.parametrize("name", REAL_LISTS)
def test_real_frames_through_a_list_have_no_findings_but_their_camera(
    name: str, tmp_path: Path
) -> None:
    folder, lines = REAL_LISTS[name]
    listing = tmp_path / f"{name}_test.txt"
    listing.write_text("\n".join(lines))
    report = doctor.examine(*doctor.gather(SHARED / folder, name, [listing]))
    assert {finding.check for finding in report.findings} <= {"camera"}
    assert dict(report.facts)["looked at"] == f"{len(lines)} of {len(lines)} pairs"


@real
def test_rendered_rooms_have_no_findings_but_camera_and_splits(tmp_path: Path) -> None:
    root = SHARED / "taskonomy"
    rows = []
    for image in sorted((root / "rgb").iterdir())[:24]:
        name = image.name.replace("rgb.jpg", "depth.png")
        stored = np.asarray(Image.open(root / "depth" / name)).astype(np.float32)
        save_depth(tmp_path / name, np.where(stored < 65000, stored / 512, 0))
        rows.append({"image": image.as_posix(), "depth": name})
    report = Pairs(tmp_path, rows).report()
    assert {finding.check for finding in report.findings} == {"camera", "splits"}


def test_records_without_ground_truth_are_counted(pairs: Pairs) -> None:
    source = prepared(pairs)
    bare = tuple(replace(record, target="", sha256="") for record in source.records)
    finding = only(doctor.examine(replace(source, records=bare), catalog.FOLDER))
    assert "20 pictures have no ground truth" in finding.message
    json.dumps([finding.message, *finding.files])  # plain text throughout
