"""The doctor: good data have no findings, and each way of breaking them gives its own."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.fakes import indoor
from tests.fakes.examined import (
    COUNT,
    SIZE,
    TESTS,
    Pairs,
    as_dataset,
    by_code,
    gathered,
    good_pairs,
    only,
    prepared,
    save_depth,
    scene,
)

from idisc.configs import paper
from idisc.data import catalog, doctor
from idisc.data.doctor import alignment
from idisc.data.doctor.inspection import sample_indices
from idisc.data.manifest import Record
from idisc.data.units import UNITS

LAST = COUNT - 1
RNG = np.random.default_rng


@pytest.fixture
def pairs(tmp_path):
    return good_pairs(tmp_path)


# --- data without errors


def test_a_good_folder_has_no_findings_and_is_summarized(pairs):
    report = pairs.report()
    assert report.findings == ()
    assert report.counts == {"train": COUNT - TESTS, "test": TESTS}
    assert (report.inspected, report.pairs) == (COUNT, COUNT)
    assert (report.sizes, report.valid) == ({SIZE: COUNT}, 1)
    assert report.depth_m[1] == pytest.approx(3.5, abs=0.5)
    assert as_dataset(pairs, domain="indoor", max_depth=10.0).findings == ()
    prepared(pairs)
    source, spec = gathered(pairs.root)
    assert doctor.examine(source, spec).findings == ()
    assert spec is catalog.FOLDER


def test_samples_are_evenly_spaced_runs_and_progress_is_reported(pairs):
    assert sample_indices(100, 12) == [0, 1, 2, 3, 48, 49, 50, 51, 96, 97, 98, 99]
    assert sample_indices(5, 200) == [0, 1, 2, 3, 4]
    assert sample_indices(100, 1) == [0]
    steps = []
    report = pairs.report(samples=8, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 8) for done in range(1, 9)]
    assert report.inspected == 8


def sparse_and_shifted(pairs):
    random = RNG(0)
    pairs.change_depth(lambda depth: np.roll(depth, 20, axis=1) * (random.random(SIZE) < 0.2))


def sparse_road(pairs):
    beams = (np.arange(SIZE[0]) % 10 == 0)[:, None]
    pairs.change_depth(lambda depth: np.where(beams, depth * 4.5, 0))


def two_of_three_inverted(pairs):
    pairs.change_depth(lambda depth: 6 / depth)
    save_depth(pairs.depth(0), scene(0)[1])
    del pairs.rows[3:]


@pytest.mark.parametrize("change", [sparse_and_shifted, sparse_road, two_of_three_inverted])
def test_unusual_data_are_not_reported(pairs, change):
    change(pairs)
    assert pairs.report().findings == ()


# --- one thing is broken, and one finding reports it


def missing(pairs):
    pairs.image(3).unlink()
    pairs.depth(5).unlink()


def damaged(pairs):
    pairs.depth(1).write_bytes(pairs.depth(1).read_bytes()[:200])
    pairs.image(2).write_bytes(pairs.image(2).read_bytes()[:5000])
    pairs.depth(3).write_bytes(b"not a picture")
    pairs.rows[4]["depth"] = "depth/0004.npy"
    pairs.depth(4).write_bytes(b"not an array")
    Image.new("L", SIZE[::-1]).save(pairs.depth(6), format="PCX")  # a format that nothing reads


def eight_bits_or_colours(pairs):
    grey = np.clip(scene(2)[1] * 50, 0, 255).astype(np.uint8)
    Image.fromarray(grey).save(pairs.depth(2))
    Image.fromarray(np.stack([grey] * 3, axis=-1)).save(pairs.depth(5))


def swapped_columns(pairs):
    for row in pairs.rows:
        row["image"], row["depth"] = row["depth"], row["image"]


def inverted(count):
    def change(pairs):
        pairs.change_depth(lambda depth: 6 / depth)
        del pairs.rows[count:]

    return change


def other_scenes(order):
    """Each depth map is that of another scene."""

    def change(pairs):
        for index in range(COUNT):
            save_depth(pairs.depth(index), scene(order(index))[1])

    return change


SHUFFLED = [int(index) for index in RNG(1).permutation(COUNT)]
TWO = {4: 11, 11: 4}


def arrays_in(unit):
    def change(pairs):
        for index, row in enumerate(pairs.rows):
            row["depth"] = f"depth/{index:04}.npy"
            np.save(pairs.depth(index), scene(index)[1] / np.float32(UNITS[unit]))

    return change


def stored_in(units_per_metre, factor=1.0, *which):
    def change(pairs):
        for index in which or range(COUNT):
            save_depth(pairs.depth(index), scene(index)[1] * factor, units_per_metre)

    return change


def rolled(down, right):
    return lambda pairs: pairs.change_depth(lambda d: np.roll(d, (down, right), axis=(0, 1)))


def other_aspect_ratio(pairs):
    save_depth(pairs.depth(0), scene(0)[1][::2, ::2])  # another size alone is no problem
    save_depth(pairs.depth(1), scene(1)[1].T)


def repeated_row(pairs):
    pairs.rows.append(pairs.rows[3])


def swapped_splits(pairs):
    for row in pairs.rows:
        row["split"] = "test" if row["split"] == "train" else "train"


def flipped(*axes):
    return lambda pairs: pairs.change_depth(lambda depth: np.flip(depth, axes))


def broken(change, code, severity="error", unit=None, **fields):
    """A change, and the severity, the code, the likely unit and other fields of its finding."""
    return change, severity, code, unit, fields


SWAPPED = tuple(f"depth/{a:04}.png fits images/{b:04}.png" for a, b in TWO.items())
DAMAGED = ("depth/0001.png", "images/0002.png", "depth/0003.png", "depth/0004.npy")
BROKEN = [
    broken(missing, "missing", files=("depth/0005.png", "images/0003.png")),
    broken(damaged, "damaged", files=(*DAMAGED, "depth/0006.png")),
    broken(eight_bits_or_colours, "bits", files=("depth/0002.png", "depth/0005.png")),
    broken(swapped_columns, "swapped"),
    broken(inverted(1), "inverted", "warning", total=1),
    broken(inverted(COUNT), "inverted", "warning", total=COUNT),
    broken(other_scenes(SHUFFLED.__getitem__), "pairs"),
    broken(other_scenes(lambda index: 1000 + index), "edges", "warning"),
    broken(other_scenes(lambda i: TWO.get(i, i)), "pairs", "warning", examples=SWAPPED),
    broken(rolled(0, 6), "shift", details={"right_px": 6, "down_px": 0}),
    broken(rolled(-5, -4), "shift", details={"right_px": -4, "down_px": -5}),
    broken(flipped(1), "turned", details={"flip": "mirrored left to right"}),
    broken(other_aspect_ratio, "shape", examples=("images/0001.png: 120x160 and 160x120",)),
    broken(repeated_row, "repeated", "warning", files=("images/0003.png",)),
    broken(lambda pairs: pairs.set_all(split=""), "unsplit", "warning"),
    broken(lambda pairs: pairs.rows[-1].update(scene="room_0"), "scenes", examples=("room_0",)),
    broken(swapped_splits, "large_test", "warning"),
    broken(arrays_in("millimetres"), "scale", unit="millimetres"),
    broken(arrays_in("centimetres"), "scale", unit="centimetres"),
    broken(arrays_in("1/5000 m (TUM)"), "scale", unit="1/5000 m (TUM)"),
    broken(stored_in(256, 0.8), "unlikely", "warning", unit="1/256 m (KITTI)"),  # 12 m
    broken(stored_in(5000, 0.59), "unlikely", "warning", unit="1/5000 m (TUM)"),  # 11 m
    broken(stored_in(10, 1, 3), "unit", files=("depth/0003.png",)),
    broken(stored_in(256, 1, 3), "unit", "warning", files=("depth/0003.png",)),
]


@pytest.mark.parametrize(("change", "severity", "code", "unit", "fields"), BROKEN)
def test_one_broken_thing_is_one_finding(pairs, change, severity, code, unit, fields):
    change(pairs)
    finding = only(pairs.report())
    assert (finding.severity, finding.code) == (severity, code)
    assert {name: getattr(finding, name) for name in fields} == fields
    assert (finding.details.get("likely_unit"), finding.details.get("likely_scale")) == (
        (unit, UNITS[unit]) if unit else (None, None)
    )


# --- other ways to open the data, and several findings


def test_folders_without_a_table_may_lack_files_or_be_swapped(pairs):
    pairs.depth(5).unlink()
    report = doctor.examine(*gathered(pairs.root))
    assert [finding.code for finding in report.findings] == ["missing", "unsplit", "camera"]
    assert report.findings[0].files == ("depth/0005.png",)
    for index in range(COUNT):
        image, depth = scene(index)
        pairs.image(index).unlink()
        pairs.depth(index).unlink(missing_ok=True)
        Image.fromarray(image).save(pairs.root / f"depth/{index:04}.jpg")
        np.save(pairs.root / f"images/{index:04}.npy", depth)
    finding = doctor.examine(*gathered(pairs.root)).findings[0]
    assert (finding.severity, finding.code, len(finding.files)) == ("error", "swapped", COUNT)


def test_changed_files_and_wrong_records_of_a_prepared_folder_are_found(pairs):
    source = prepared(pairs)
    for code, changes in (("no_target", {"target": ""}), ("size", {"size": (240, 320)})):
        records = tuple(replace(each, sha256="", **changes) for each in source.records)
        finding = only(doctor.examine(replace(source, records=records), catalog.FOLDER))
        assert (finding.code, len(finding.files)) == (code, COUNT)
    pairs.depth(1).unlink()
    pairs.image(2).write_bytes(b"")
    save_depth(pairs.depth(5), scene(5)[1] + 0.1)
    found = by_code(doctor.examine(source, catalog.FOLDER))
    assert {code: finding.files for code, finding in found.items()} == {
        "missing": ("depth/0001.png", "images/0002.png"),
        "changed": ("images/0005.png",),
    }


def test_data_are_compared_with_the_facts_of_their_dataset(pairs):
    assert only(as_dataset(pairs, framing=catalog.NYU.framing)).code == "framing"
    pairs.set_all(depth_scale=1 / 256)
    finding = only(as_dataset(pairs, domain="indoor", max_depth=10.0))
    assert (finding.severity, finding.code) == ("warning", "range")
    assert finding.details["likely_unit"] == "millimetres"
    pairs.set_all(depth_scale=0.001)
    swapped_splits(pairs)
    finding = only(as_dataset(pairs, counts=paper.Counts(COUNT - TESTS, TESTS)))
    assert (finding.severity, finding.code) == ("error", "swapped_lists")


def test_useless_maps_are_named(pairs):
    lone = np.zeros(SIZE)
    lone[60, 80:84] = (1.0, 2.0, 3.0, 3.0)
    for index, depth in ((0, np.full(SIZE, 2.0)), (1, np.zeros(SIZE)), (4, lone)):
        save_depth(pairs.depth(index), depth)
    for index, value in ((7, np.nan), (8, np.inf), (9, -1.0)):
        pairs.rows[index]["depth"] = f"depth/{index:04}.npy"
        depth = scene(index)[1]
        depth[:4] = value
        np.save(pairs.depth(index), depth)
    assert {each.code: (each.severity, each.files) for each in pairs.report().findings} == {
        "constant": ("error", ("depth/0000.png",)),
        "empty": ("error", ("depth/0001.png",)),
        "sparse": ("warning", ("depth/0004.png",)),
        "undefined": ("warning", ("depth/0007.npy", "depth/0008.npy")),
        "negative": ("warning", ("depth/0009.npy",)),
    }


def test_implausible_cameras_are_named(pairs):
    pairs.rows[0].update(cx=400)
    pairs.rows[1].update(fx=1300, fy=1300)
    pairs.rows[2].update(fx=-1)
    pairs.rows[7].update(fx="", fy="", cx="", cy="")
    found = pairs.report().findings
    assert {each.code: (each.severity, each.files) for each in found} == {
        "centre": ("error", ("images/0000.png", "images/0002.png")),
        "angle": ("warning", ("images/0001.png",)),
        "camera": ("warning", ("images/0007.png",)),
    }


def test_names_belong_together_by_their_numbers(pairs):
    belong = [
        ("a/rgb_00045.jpg", "a/sync_depth_00045.png"),
        ("x/0001244-000041666800.jpg", "x/0001244-000041700166.png"),  # two clocks
        ("img_0063.jpg", "img_0063_abs.png"),
        ("kitchen.jpg", "0007.png"),  # nothing to compare
    ]
    apart = ("b/rgb_00045.jpg", "b/sync_depth_00046.png")
    pairs.report()
    source, spec = gathered(pairs.root)
    more = [Record(image=one, target=other, split="train") for one, other in (*belong, apart)]
    report = doctor.examine(replace(source, records=(*source.records, *more)), spec)
    assert by_code(report)["names"].files == (apart[0],)


def test_a_list_off_by_one_is_found_by_names_and_by_edges(pairs):
    depths = [row["depth"] for row in pairs.rows]
    for row, depth in zip(pairs.rows, [depths[-1], *depths[:-1]], strict=True):
        row["depth"] = depth
    found = by_code(pairs.report())
    assert found.keys() == {"names", "offset"}
    assert len(found["names"].files) == COUNT
    assert found["names"].examples[1] == "images/0001.png with depth/0000.png"
    assert (found["offset"].severity, found["offset"].details) == ("error", {"offset": -1})
    assert found["offset"].examples[0] == "depth/0000.png fits images/0000.png"


def test_depth_rotated_by_half_a_turn_is_found(pairs):
    flipped(0, 1)(pairs)
    finding = by_code(pairs.report())["turned"]
    assert (len(finding.files), finding.details) == (COUNT, {"flip": "rotated by 180 degrees"})


def test_an_image_rotated_by_exif_has_another_aspect_ratio(pairs):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(pairs.image(0)).save(pairs.root / "rotated.jpg", exif=exif)
    pairs.rows[0]["image"] = "rotated.jpg"
    finding = by_code(pairs.report())["shape"]
    assert finding.examples == ("rotated.jpg: 160x120 and 120x160",)


def test_images_copies_and_near_copies_in_both_splits_are_found(pairs):
    shutil.copy(pairs.image(0), pairs.image(LAST))
    shutil.copy(pairs.depth(0), pairs.depth(LAST))
    Image.open(pairs.image(1)).point(lambda value: min(value + 3, 255)).save(pairs.image(LAST - 1))
    shutil.copy(pairs.depth(1), pairs.depth(LAST - 1))
    pairs.rows.append({**pairs.rows[4], "split": "test"})
    found = by_code(pairs.report())
    assert found.keys() == {"splits", "scenes", "copies", "lookalikes"}
    assert found["splits"].files == ("images/0004.png",)
    assert found["copies"].examples == ("images/0019.png = images/0000.png",)
    assert found["lookalikes"].examples == ("images/0018.png ~ images/0001.png",)


def test_missing_and_repeated_lines_of_lists_are_warnings(pairs):
    lines = [f"{row['image']} {row['depth']} 130.0" for row in pairs.rows]
    train, test = pairs.root / "my_train.txt", pairs.root / "my_test.txt"
    train.write_text("\n".join([*lines, "images/gone.png depth/gone.png 130.0"]))
    test.write_text("\n".join([*lines, lines[0]]))
    found = by_code(doctor.examine(*gathered(pairs.root, "folder", [train, test])))
    assert found.keys() == {"missing", "repeated", "splits", "camera"}
    assert found["missing"].severity == "warning"
    assert found["missing"].files == ("depth/gone.png", "images/gone.png")
    assert found["repeated"].files == ("images/0000.png",)
    assert len(found["splits"].files) == COUNT


def test_the_correlation_is_pearsons_averaged_over_both_directions():
    pair = alignment.find_edges(*scene(0))
    inner = ((0, slice(None), slice(1, -1)), (1, slice(1, -1), slice(None)))  # where depth is known
    by_hand = np.mean(
        [np.corrcoef(pair.depth[at].ravel(), pair.image[at].ravel())[0, 1] for at in inner]
    )
    assert alignment.cross_correlations([pair])[0, 0] == pytest.approx(by_hand, rel=0.05)
    assert alignment.flipped_correlation(pair, ()) == pytest.approx(by_hand, rel=0.05)


# --- real frames

KITTI_DRIVE = "2011_09_26_drive_9002_sync"
REAL_LISTS = {
    "kitti": (
        "kitti",
        f"raw/2011_09_26/{KITTI_DRIVE}/image_02/data/{{0}}.png depth_annotated/train/{KITTI_DRIVE}"
        "/proj_depth/groundtruth/image_02/{0}.png 721.5",
        ("0000000005", "0000000050", "0000000100"),
    ),
    "nyu": ("nyu_sync", "rgb_{0}.jpg sync_depth_{0}.png 518.8", ("00000", "00050", "00100")),
    "sunrgbd": (
        "sunrgbd",
        "extra/{0}.jpg extra/{0}_depth.png 529.5",
        ("kv2_bedroom", "kv2_dining"),
    ),
}


@pytest.mark.parametrize("name", REAL_LISTS)
def test_real_frames_have_no_findings_except_a_missing_camera(name, tmp_path):
    folder, line, frames = REAL_LISTS[name]
    listing = tmp_path / f"{name}_test.txt"
    listing.write_text("\n".join(line.format(frame) for frame in frames))
    report = doctor.examine(*gathered(indoor.real_samples(folder), name, [listing]))
    assert by_code(report).keys() <= {"camera"}
    assert report.inspected == len(frames)


def test_real_rooms_have_no_findings(tmp_path):
    lines = (indoor.real_samples("nyu_labelled") / "test.txt").read_text().splitlines()[:480:20]
    made = Pairs(indoor.unpacked_nyu(tmp_path / "plain", lines))
    listing = made.root / "train.txt"
    camera = {"fx": 518.86, "fy": 519.47, "cx": 325.58, "cy": 253.74}
    for index, line in enumerate(listing.read_text().splitlines()):
        image, depth, _ = line.split()
        split = "train" if index < 16 else "test"
        made.rows.append({"image": image, "depth": depth, "split": split, **camera})
    listing.unlink()  # the table of the pairs lists them instead
    assert made.report().findings == ()
