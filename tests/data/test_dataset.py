"""Samples of a manifest: decoded, framed, masked; errors name the file."""

import pickle

import numpy as np
import pytest
from tests.fakes import indoor
from tests.fakes.refusals import refused

from idisc.data import catalog, framing, manifest
from idisc.data.catalog import DDAD, DIODE, KITTI, NYU, SUNRGBD
from idisc.data.dataset import Dataset, open_dataset, valid_in_training
from idisc.data.decode import DepthMap
from idisc.data.manifest import Manifest, Record
from idisc.errors import DataError, InputError
from idisc.tasks import NORMALS

VGA = (480, 640)


def written(root, name, image, target, **record):
    """One frame on disk, and its record."""
    indoor.save(root / f"rgb/{name}.png", image)
    indoor.save(root / f"depth/{name}.png", target)
    return Record(image=f"rgb/{name}.png", target=f"depth/{name}.png", split="test", **record)


def whole_nyu(root):
    """A prepared folder with one frame of NYU."""
    record = written(root, "a", indoor.picture(0, VGA), indoor.millimetres(0, VGA))
    manifest.write(Manifest(dataset="nyu", target=NYU.target, records=(record,), root=root))


def one(root, name, record, target=None):
    spec = catalog.find(name)
    source = Manifest(
        dataset=spec.name.partition(":")[0],
        target=target or spec.target,
        records=(record,),
        root=root,
    )
    return Dataset(source, "test", spec)


class TestSamples:
    def test_nyu_is_millimetres_with_its_camera(self, tmp_path):
        image, depth = indoor.picture(0, VGA), indoor.millimetres(0, VGA)
        record = written(tmp_path, "a", image, depth)
        sample = one(tmp_path, "nyu", record)[0]
        np.testing.assert_array_equal(sample.image, image)
        np.testing.assert_array_equal(sample.target, depth.astype(np.float32) / np.float32(1000))
        np.testing.assert_array_equal(sample.valid, depth > 10)
        assert (sample.camera.fx, sample.camera.origin) == (518.85790117, "NYU-Depth v2")
        assert sample.record == record

    def test_a_record_may_have_its_own_camera_and_unit(self, tmp_path):
        depth = indoor.millimetres(3)
        own = {"scale": 0.25, "size": (24, 32), "intrinsics": (500.0, 501.0, 16.0, 12.0)}
        record = written(tmp_path, "a", indoor.picture(3), depth, **own)
        sample = one(tmp_path, "folder", record)[0]
        np.testing.assert_array_equal(sample.target, depth * np.float32(0.25))
        assert (sample.camera.fy, sample.camera.origin) == (501.0, "calibration")

    def test_the_manifest_states_how_targets_are_stored_not_the_catalog(self, tmp_path):
        depth = indoor.millimetres(4, VGA)  # prepared SUN RGB-D: plain millimetres
        record = written(tmp_path, "a", indoor.picture(4, VGA), depth)
        sample = one(tmp_path, "sunrgbd", record, DepthMap(metres_per_unit=1 / 1000))[0]
        np.testing.assert_array_equal(np.rint(sample.target * 1000), depth)


class TestTrainingMasks:
    def test_depth_of_a_centimetre_or_less_is_ignored_and_the_papers_text_has_a_maximum(self):
        depth = np.float32([[0, 0.01, 0.011, 9.99, 10, 12, np.nan, np.inf]])
        valid = valid_in_training(depth, NYU, "")
        assert np.flatnonzero(valid).tolist() == [2, 3, 4, 5]
        capped = valid_in_training(depth, catalog.find("nyu:paper"), "")
        assert np.flatnonzero(capped).tolist() == [2, 3]

    def test_only_sunrgbd_and_diode_train_inside_the_window(self):
        for spec in (SUNRGBD, DIODE):
            rows, columns = np.nonzero(valid_in_training(np.full(VGA, 50, np.float32), spec, ""))
            assert (rows.min(), rows.max(), columns.min(), columns.max()) == (45, 470, 41, 600)
        for spec in (NYU, KITTI, DDAD):
            assert valid_in_training(np.full((352, 1216), 200, np.float32), spec, "").all()

    def test_the_variant_of_the_papers_text_has_its_ranges_and_crop(self, tmp_path):
        spec = catalog.find("sunrgbd:paper")
        assert (spec.capped, spec.capped_training, spec.max_depth) == (True, True, 10.0)
        assert not catalog.find("sunrgbd").capped
        assert catalog.find("ddad:paper").framing is framing.ddad_paper
        whole_nyu(tmp_path)
        assert open_dataset(tmp_path, "nyu:paper", "test").spec.capped_training

    @pytest.mark.parametrize(
        ("name", "subject", "nearest"),
        [
            ("ddat", "dataset 'ddat'", "ddad"),
            ("ddad:papers", "ddad:papers: variant 'papers'", "paper"),
        ],
    )
    def test_a_wrong_name_is_answered_with_the_nearest(self, name, subject, nearest):
        with refused(InputError, subject, nearest):
            catalog.find(name)


class TestErrors:
    @pytest.mark.parametrize(
        ("wrong", "name", "facts"),
        [
            ("cut image", "rgb/a.png", ("damaged",)),
            ("cut depth", "depth/a.png", ("damaged",)),
            ("small", "rgb/a.png", ("24x32", "480x640")),
            ("camera", "rgb/a.png: camera (-1, 1, 1, 1)", ()),
            ("scale", "depth/a.png: depth scale 0", ()),
        ],
    )
    def test_the_file_is_named(self, tmp_path, wrong, name, facts):
        size = (24, 32) if wrong == "small" else VGA
        own = {"camera": {"intrinsics": (-1, 1, 1, 1), "size": VGA}, "scale": {"scale": 0}}
        image, depth = indoor.picture(0, size), indoor.millimetres(0, size)
        record = written(tmp_path, "a", image, depth, **own.get(wrong, {}))
        if wrong.startswith("cut"):
            indoor.truncate(tmp_path / name)
        with refused(InputError, tmp_path / name, *facts):
            one(tmp_path, "nyu", record)[0]


class TestOpening:
    def test_lists_replace_a_manifest(self, tmp_path):
        indoor.nyu(tmp_path / "raw", {"kitchen": 2}, VGA)
        lines = [f"kitchen/rgb_0000{n}.jpg /kitchen/sync_depth_0000{n}.png 5\n" for n in (0, 1)]
        listing = tmp_path / "nyu_train.txt"
        listing.write_text(lines[0])
        found = open_dataset(tmp_path / "raw", "nyu", "test", listing)
        assert (found.split, len(found), found[0].target.shape) == ("train", 1, VGA)
        (tmp_path / "raw/test.txt").write_text(lines[1])  # found by its name
        found = open_dataset(tmp_path / "raw", "nyu", "test")
        assert [record.image for record in found.records] == ["kitchen/rgb_00001.jpg"]

    def test_the_manifest_names_the_dataset_and_a_task_its_variant(self, tmp_path):
        whole_nyu(tmp_path)
        assert open_dataset(tmp_path, None, "test").spec.name == "nyu"
        assert open_dataset(tmp_path, None, "test", task=NORMALS).spec.name == "nyu:normals"
        with refused(InputError, tmp_path, "nyu", "kitti"):
            open_dataset(tmp_path, "kitti", "test")

    def test_a_folder_that_is_missing_or_not_prepared_is_an_error(self, tmp_path):
        with refused(InputError, tmp_path / "nowhere"):
            open_dataset(tmp_path / "nowhere", "nyu", "test")
        with refused(DataError, tmp_path, manifest.NAME):
            open_dataset(tmp_path, "nyu", "test")

    def test_pictures_may_enter_the_network_in_another_size(self, tmp_path):
        indoor.save(tmp_path / "images/a.jpg", indoor.picture(0))
        indoor.save(tmp_path / "depth/a.png", indoor.millimetres(0))
        found = open_dataset(tmp_path, "folder", "train", size=(48, 64))
        sample = pickle.loads(pickle.dumps(found))[0]  # as the workers of a loader get it
        assert (sample.image.shape, sample.target.shape) == ((48, 64, 3), (24, 32))
        whole_nyu(tmp_path / "nyu")
        sample = open_dataset(tmp_path / "nyu", "nyu", "test", size=(240, 320))[0]
        assert (sample.image.shape, sample.target.shape) == ((240, 320, 3), VGA)
        assert sample.camera.fx == pytest.approx(518.85790117 / 2)


def test_scenes_are_held_out_whole_and_pictures_without_a_scene_singly(tmp_path):
    def dataset(count, **scenes):
        records = tuple(
            Record(image=f"{n}.jpg", target="", split="train", scene=scenes.get(f"s{n // 4}", ""))
            for n in range(count)
        )
        source = Manifest(dataset="nyu", target=NYU.target, records=records, root=tmp_path)
        return Dataset(source, "train", NYU)

    whole = dataset(40, **{f"s{n}": f"room_{n}" for n in range(10)})
    rest, part = whole.hold_out_scenes(0.2, seed=3)
    assert (len(rest), len(part), len(whole)) == (32, 8, 40)
    assert {r.scene for r in rest.records}.isdisjoint({r.scene for r in part.records})
    assert whole.hold_out_scenes(0.2, seed=3)[1].records == part.records
    with refused(InputError, tmp_path, 10):
        whole.hold_out_scenes(1.0, seed=3)
    rest, part = dataset(10).hold_out_scenes(0.2, seed=3)
    assert (len(rest), len(part)) == (8, 2)


@pytest.mark.parametrize(
    ("name", "choice", "title"),
    [
        ("kitti", {"depth": "sweep"}, "KITTI, Eigen split, depth of single sweeps"),
        ("kitti", {"depth": "annotated"}, "KITTI, Eigen split, annotated depth"),
        ("diode", {"diode_part": "outdoor"}, "DIODE, outdoor"),
        ("nyu", {"pictures": "link"}, "NYU-Depth v2"),
    ],
)
def test_a_title_says_which_depth_was_prepared(name, choice, title):
    assert catalog.as_prepared(catalog.find(name), {"choices": choice}).title == title
