"""The runner: resumable, the same bytes for any number of workers; faults are listed."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import manifest
from idisc.data.prepare import PREPARATIONS, kitti
from idisc.data.prepare.frames import PictureOptions
from idisc.data.prepare.runner import MISSING, prepare
from idisc.errors import DataError, InputError
from idisc.executors import LocalExecutor

LINK = PictureOptions(pictures="link")
SCENES = {"sync/kitchen_0001": 2, "sync/office_0002": 1, "test/bathroom": 2}


@pytest.fixture
def raw(tmp_path):
    indoor.nyu(tmp_path / "raw", SCENES)
    return tmp_path / "raw"


def bytes_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_two_workers_write_the_bytes_of_one_and_the_hash_depends_on_all_of_them(raw, tmp_path):
    one, two = (
        prepare("nyu", raw, tmp_path / str(workers), executor=LocalExecutor(workers))
        for workers in (1, 2)
    )
    assert one == two
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "2")
    assert manifest.read(tmp_path / "1").sha256 == one.sha256
    indoor.save(raw / "sync/office_0002/sync_depth_00000.png", indoor.millimetres(77))
    assert prepare("nyu", raw, tmp_path / "other").sha256 != one.sha256


def test_faults_are_listed_and_tried_again(raw, tmp_path):
    out, depth = tmp_path / "out", raw / "sync/kitchen_0001/sync_depth_00001.png"
    content = depth.read_bytes()
    depth.unlink()
    first = prepare("nyu", raw, out)
    assert [fault.subject for fault in first.faults] == [str(depth)]
    assert (out / MISSING).read_text() == f"{first.faults[0]}\n"
    depth.write_bytes(content)
    seen = []
    second = prepare("nyu", raw, out, progress=lambda _, __, name: seen.append(name))
    assert (second.faults, second.counts) == ([], {"train": 3, "test": 2})
    assert seen == ["kitchen_0001"]
    assert not (out / MISSING).exists()


B3DO = "SUNRGBD/kv1/b3dodata/img_0064"
SCAN = "val/indoors/scene_00019/scan_00183/00019_00183_indoors_160_000"


@pytest.mark.parametrize("damage", [Path.unlink, indoor.truncate])
@pytest.mark.parametrize(
    ("dataset", "name", "count"),
    [
        ("nyu", "sync/kitchen_0001/rgb_00001.jpg", 4),
        ("nyu", "sync/kitchen_0001/sync_depth_00001.png", 4),
        ("nyu_normals", "test/img/000001.png", 5),
        ("nyu_normals", "test/norm/000001.png", 5),
        ("sunrgbd", f"{B3DO}/image/img_0064.jpg", 2),
        ("diode", f"{SCAN}.png", 2),
        ("diode", f"{SCAN}_depth.npy", 2),
        ("diode", f"{SCAN}_depth_mask.npy", 2),
    ],
)
def test_a_missing_or_damaged_file_is_a_fault_and_the_others_are_prepared(
    raw, tmp_path, dataset, name, count, damage
):
    if dataset != "nyu":
        raw = tmp_path / dataset
        getattr(indoor, dataset)(raw)
    damage(raw / name)
    summary = prepare(dataset, raw, tmp_path / "out")
    assert [fault.subject for fault in summary.faults] == [str(raw / name)]
    assert sum(summary.counts.values()) == count
    assert manifest.read(tmp_path / "out").prepared["faults"] == 1


def test_a_run_with_nothing_but_faults_is_an_error(tmp_path):
    indoor.nyu(tmp_path / "raw", {"kitchen": 1})
    indoor.truncate(tmp_path / "raw/kitchen/rgb_00000.jpg")
    with refused(DataError, tmp_path / "out" / MISSING, "1 fault", "https://cs.nyu.edu"):
        prepare("nyu", tmp_path / "raw", tmp_path / "out")


def test_a_finished_run_is_not_repeated_and_drafts_are_removed(raw, tmp_path):
    def times():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "out/rgb").rglob("*.jpg")}

    first, before = prepare("nyu", raw, tmp_path / "out"), times()
    draft = tmp_path / "out/rgb/.rgb_00000.jpg.x7.part"
    draft.write_bytes(b"half of it")  # of a run that was killed
    assert prepare("nyu", raw, tmp_path / "out") == first
    assert times() == before
    assert not draft.exists()


def test_pictures_may_be_linked_and_the_manifest_is_the_same(raw, tmp_path):
    prepare("nyu", raw, tmp_path / "copy")
    prepare("nyu", raw, tmp_path / "link", LINK)
    copied, linked = (manifest.read(tmp_path / name) for name in ("copy", "link"))
    assert copied.records == linked.records
    picture = tmp_path / "link" / linked.records[0].image
    assert picture.is_symlink()
    assert picture.resolve() == (raw / "test/bathroom/rgb_00000.jpg").resolve()
    assert not (tmp_path / "link" / linked.records[0].target).is_symlink()


def test_an_interrupted_run_continues_with_the_scenes_that_are_not_done(raw, tmp_path, monkeypatch):
    whole, out = prepare("nyu", raw, tmp_path / "whole"), tmp_path / "out"
    nyu = PREPARATIONS["nyu"]

    def interrupted(scene, options):
        frames = nyu.frames(scene, options)
        yield next(frames)
        if scene.name == "kitchen_0001":
            raise KeyboardInterrupt
        yield from frames

    with monkeypatch.context() as patch:
        patch.setitem(PREPARATIONS, "nyu", replace(nyu, frames=interrupted))
        with pytest.raises(KeyboardInterrupt):
            prepare("nyu", raw, out)
    assert not (out / manifest.NAME).exists()
    seen = []
    assert prepare("nyu", raw, out, progress=lambda *news: seen.append(news)) == whole
    assert seen == [(2, 3, "kitchen_0001"), (3, 3, "office_0002")]
    assert bytes_of(out) == bytes_of(tmp_path / "whole")


def test_a_folder_of_something_else_is_not_written_to(raw, tmp_path):
    listing, out, other = tmp_path / "train.txt", tmp_path / "out", tmp_path / "other"
    listing.write_text("kitchen_0001/rgb_00000.jpg kitchen_0001/sync_depth_00000.png 5")
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    prepare("nyu", raw, out)
    with refused(InputError, out):
        prepare("nyu", raw, out, LINK)
    with refused(InputError, out):
        prepare("nyu", raw, out, lists=[listing])
    with refused(InputError, other):
        prepare("nyu", raw, other)
    with refused(InputError, raw / "prepared"):
        prepare("nyu", raw, raw / "prepared")


@pytest.mark.parametrize("dataset", [name for name, each in PREPARATIONS.items() if each.raw])
def test_a_raw_folder_without_the_dataset_is_an_error(dataset, tmp_path):
    with refused(InputError, tmp_path / "raw"):
        prepare(dataset, tmp_path / "raw", tmp_path / "out")
    (tmp_path / "raw").mkdir()
    with refused(DataError, tmp_path / "raw", dataset):
        prepare(dataset, tmp_path / "raw", tmp_path / "out")


def test_options_are_those_of_the_dataset_and_recorded(raw, tmp_path):
    prepare("nyu", raw, tmp_path / "out")
    assert manifest.read(tmp_path / "out").prepared["choices"] == {"pictures": "copy"}
    with refused(InputError, "nyu", "PictureOptions"):
        prepare("nyu", raw, tmp_path / "other", kitti.Options())
