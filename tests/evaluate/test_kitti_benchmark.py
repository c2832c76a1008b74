"""The submission to KITTI's benchmark: names, size, sixteen bits, a zip, and never 0."""

import zipfile

import numpy as np
import pytest
from PIL import Image
from tests.fakes.brightness import Brightness
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError, InputError
from idisc.evaluate.kitti_benchmark import write_submission
from idisc.predict.engine import Output
from idisc.predict.predictor import Predictor
from idisc.tasks import DEPTH, NORMALS

SIZE = (352, 1216)
NAMES = ("0000000000.png", "0000000001.png", "0000000017.png")


def predicting(*depths, task=DEPTH):
    """A network that predicts these depths in every row."""
    engine = Brightness()
    engine.task = task
    maps = np.tile(np.resize(np.float32(depths), SIZE[1]), (1, SIZE[0], 1))
    engine.run = lambda images, size=None: Output(maps)
    return Predictor(engine)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "image"
    folder.mkdir()
    for name in NAMES:
        Image.new("RGB", SIZE[::-1]).save(folder / name)
    return folder


def test_every_picture_has_a_map_of_its_name_and_size_in_folder_and_zip(images, tmp_path):
    steps = []
    out = tmp_path / "out"
    count = write_submission(
        predicting(10.0), images, out, lambda done, total: steps.append((done, total))
    )
    assert count == 3
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert sorted(path.name for path in out.iterdir()) == [*NAMES, "submission.zip"]
    with zipfile.ZipFile(out / "submission.zip") as archive:
        assert sorted(archive.namelist()) == list(NAMES)
        assert all(archive.read(name) == (out / name).read_bytes() for name in NAMES)
    with Image.open(out / NAMES[2]) as stored:
        assert (stored.mode, stored.size) == ("I;16", SIZE[::-1])
        assert (np.asarray(stored) == 2560).all()


def test_depth_is_stored_to_the_nearest_256th_and_never_as_none(images, tmp_path):
    depths = {
        10.0: 2560,
        10.0 + 0.4 / 256: 2560,
        10.0 + 0.6 / 256: 2561,
        0.0: 1,  # 0 would mean that there is no depth
        -3.0: 1,
        1e-6: 1,
        255.0: 65280,
        1000.0: 65280,
    }
    write_submission(predicting(*depths), images, tmp_path / "out")
    with Image.open(tmp_path / "out" / NAMES[0]) as stored:
        assert np.asarray(stored)[0, : len(depths)].tolist() == list(depths.values())


def test_what_cannot_be_submitted_is_named_and_leaves_nothing(images, tmp_path):
    depth, out = predicting(1.0), tmp_path / "out"
    with refused(CheckpointError, f"{images / NAMES[0]}: brightness"):
        write_submission(predicting(1.0, np.nan), images, out)
    with refused(InputError, "brightness"):
        write_submission(predicting(1.0, task=NORMALS), images, out)
    with refused(InputError, images):  # a folder that exists is not overwritten
        write_submission(depth, images, images)
    with refused(InputError, tmp_path):  # no pictures
        write_submission(depth, tmp_path, out)
    Image.new("RGB", (1242, 375)).save(images / NAMES[0])
    with refused(InputError, images / NAMES[0]):
        write_submission(depth, images, out)
    assert not out.exists()
