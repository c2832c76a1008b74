"""The runner: resumable, the same bytes for any number of workers, faults kept in a list."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from tests.fakes import indoor

from idisc.data import manifest
from idisc.data.prepare import STEPS
from idisc.data.prepare.frames import PrepareConfig
from idisc.data.prepare.runner import MISSING, prepare
from idisc.errors import DataError, InputError

CHOICES = PrepareConfig()
SCENES = {"sync/kitchen_0001": 2, "sync/office_0002": 1, "test/bathroom": 2}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    indoor.nyu(tmp_path / "raw", SCENES)
    return tmp_path / "raw"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_two_workers_write_the_bytes_of_one(raw: Path, tmp_path: Path) -> None:
    summaries = [
        prepare("nyu", raw, tmp_path / name, CHOICES, workers=workers)
        for name, workers in (("one", 1), ("two", 2))
    ]
    assert summaries[0] == summaries[1]
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")


def test_progress_counts_scenes(raw: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    prepare("nyu", raw, tmp_path / "out", CHOICES, progress=lambda *news: seen.append(news))
    assert seen == [(1, 3, "bathroom"), (2, 3, "kitchen_0001"), (3, 3, "office_0002")]


def test_an_interrupted_run_goes_on_where_it_was(raw: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, name: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare("nyu", raw, out, CHOICES, progress=interrupt)
    assert not (out / manifest.NAME).exists()
    seen: list[str] = []
    again = prepare("nyu", raw, out, CHOICES, progress=lambda _, __, name: seen.append(name))
    assert seen == ["office_0002"]
    whole = prepare("nyu", raw, tmp_path / "whole", CHOICES)
    assert again == whole
    assert bytes_of(out) == bytes_of(tmp_path / "whole")


def test_a_finished_run_does_nothing_the_second_time(raw: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = prepare("nyu", raw, out, CHOICES)
    before = {path: path.stat().st_mtime_ns for path in (out / "rgb").rglob("*.jpg")}
    assert prepare("nyu", raw, out, CHOICES) == first
    assert before == {path: path.stat().st_mtime_ns for path in (out / "rgb").rglob("*.jpg")}


def test_other_choices_do_not_mix_with_what_is_there(raw: Path, tmp_path: Path) -> None:
    prepare("nyu", raw, tmp_path / "out", CHOICES)
    with pytest.raises(InputError, match="out: prepared with other choices; name a new folder"):
        prepare("nyu", raw, tmp_path / "out", PrepareConfig(pictures="link"))


def test_other_lists_do_not_mix_with_what_is_there(raw: Path, tmp_path: Path) -> None:
    listing = tmp_path / "train.txt"
    for lines in (1, 2):
        names = ("kitchen_0001/rgb_0000{0}.jpg kitchen_0001/sync_depth_0000{0}.png 5",) * lines
        listing.write_text("\n".join(name.format(n) for n, name in enumerate(names)))
        if lines == 1:
            prepare("nyu", raw, tmp_path / "out", CHOICES, lists=[listing])
    with pytest.raises(InputError, match="prepared with other choices"):
        prepare("nyu", raw, tmp_path / "out", CHOICES, lists=[listing])


def test_a_folder_with_other_things_in_it_is_left_alone(raw: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="out: exists already"):
        prepare("nyu", raw, tmp_path / "out", CHOICES)


def test_output_inside_the_raw_folder_is_refused(raw: Path) -> None:
    with pytest.raises(InputError, match="where raw files are looked for; name another folder"):
        prepare("nyu", raw, raw / "prepared", CHOICES)


def test_faults_are_listed_and_tried_again(raw: Path, tmp_path: Path) -> None:
    out, depth = tmp_path / "out", raw / "sync/kitchen_0001/sync_depth_00001.png"
    content = depth.read_bytes()
    depth.unlink()
    first = prepare("nyu", raw, out, CHOICES)
    assert [fault.path for fault in first.faults] == [str(depth)]
    assert (out / MISSING).read_text() == f"{depth}: no such file\n"
    depth.write_bytes(content)
    seen: list[str] = []
    second = prepare("nyu", raw, out, CHOICES, progress=lambda _, __, name: seen.append(name))
    assert (second.faults, second.counts) == ([], {"train": 3, "test": 2})
    assert seen == ["kitchen_0001"]
    assert not (out / MISSING).exists()


@pytest.mark.parametrize(
    ("dataset", "picture", "count"),
    [
        ("nyu", "sync/kitchen_0001/rgb_00001.jpg", 4),
        ("nyu_normals", "test/img/000001.png", 5),
        ("sunrgbd", "SUNRGBD/kv1/b3dodata/img_0064/image/img_0064.jpg", 2),
        ("diode", "val/indoors/scene_00019/scan_00183/00019_00183_indoors_160_000.png", 2),
    ],
)
def test_a_missing_picture_is_a_fault_as_missing_depth_is(
    raw: Path, tmp_path: Path, dataset: str, picture: str, count: int
) -> None:
    if dataset != "nyu":
        raw = tmp_path / dataset
        getattr(indoor, dataset)(raw)
    (raw / picture).unlink()
    summary = prepare(dataset, raw, tmp_path / "out", CHOICES)
    assert [(fault.path, fault.reason) for fault in summary.faults] == [
        (str(raw / picture), "no such file")
    ]
    assert sum(summary.counts.values()) == count
    assert manifest.read(tmp_path / "out").prepared["faults"] == 1


def test_a_run_of_nothing_but_faults_is_an_error(tmp_path: Path) -> None:
    indoor.nyu(tmp_path / "raw", {"kitchen": 1})
    indoor.truncate(tmp_path / "raw/kitchen/rgb_00000.jpg")
    with pytest.raises(DataError, match=r"no frame could be prepared; .* lists 1 fault ") as error:
        prepare("nyu", tmp_path / "raw", tmp_path / "out", CHOICES)
    assert "get the files from https://cs.nyu.edu" in str(error.value)


def test_only_choices_of_the_dataset_are_taken_and_recorded(raw: Path, tmp_path: Path) -> None:
    prepare("nyu", raw, tmp_path / "out", CHOICES)
    assert manifest.read(tmp_path / "out").prepared["choices"] == {"pictures": "copy"}
    with pytest.raises(InputError, match="nyu has no choice 'seed'; it has: pictures"):
        prepare("nyu", raw, tmp_path / "other", PrepareConfig(seed=99))


def test_every_choice_is_a_field_and_belongs_to_a_dataset() -> None:
    named = {name for steps in STEPS.values() for name in steps.choices}
    assert named == {field.name for field in fields(PrepareConfig)}


def test_both_damaged_files_of_a_pair_are_listed(raw: Path, tmp_path: Path) -> None:
    spoilt = [
        raw / "sync/kitchen_0001" / name for name in ("rgb_00001.jpg", "sync_depth_00001.png")
    ]
    for path in spoilt:
        indoor.truncate(path)
    summary = prepare("nyu", raw, tmp_path / "out", CHOICES)
    assert [fault.path for fault in summary.faults] == [str(path) for path in spoilt]


def test_drafts_of_a_killed_run_are_removed(raw: Path, tmp_path: Path) -> None:
    prepare("nyu", raw, tmp_path / "out", CHOICES)
    draft = tmp_path / "out/rgb/.rgb_00000.jpg.x7.part"
    draft.write_bytes(b"half of it")
    prepare("nyu", raw, tmp_path / "out", CHOICES)
    assert not draft.exists()


def test_linked_pictures_stay_where_they_are(raw: Path, tmp_path: Path) -> None:
    prepare("nyu", raw, tmp_path / "copy", CHOICES)
    prepare("nyu", raw, tmp_path / "link", PrepareConfig(pictures="link"))
    copied, linked = (manifest.read(tmp_path / name) for name in ("copy", "link"))
    assert copied.records == linked.records
    picture = tmp_path / "link" / linked.records[0].image
    assert picture.is_symlink()
    assert picture.resolve() == (raw / "test/bathroom/rgb_00000.jpg").resolve()
    assert not (tmp_path / "link" / linked.records[0].target).is_symlink()


def test_the_manifest_pins_every_byte(raw: Path, tmp_path: Path) -> None:
    first = prepare("nyu", raw, tmp_path / "a", CHOICES)
    indoor.save(raw / "sync/office_0002/sync_depth_00000.png", indoor.millimetres(77))
    second = prepare("nyu", raw, tmp_path / "b", CHOICES)
    assert first.sha256 != second.sha256
    assert manifest.read(tmp_path / "a").sha256 == first.sha256


def test_a_wrong_name_is_answered_with_the_nearest(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dataset 'nyuu' does not exist; did you mean nyu"):
        prepare("nyuu", raw, tmp_path / "out", CHOICES)


def test_a_missing_raw_folder_is_an_error_that_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"raw: no such folder; diode needs .*_depth\.npy"):
        prepare("diode", tmp_path / "raw", tmp_path / "out", CHOICES)
