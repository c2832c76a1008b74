"""Predictions as files: found by name, read in their unit, fitted to the ground truth."""

import hashlib
import math

import numpy as np
import pytest
from PIL import Image
from tests.fakes.refusals import refused
from tests.fakes.scored import sample_of

from idisc import tasks
from idisc.data.framing import Place
from idisc.data.manifest import Record
from idisc.errors import InputError
from idisc.evaluate.predictions import PredictionFiles, Reading

SIZE = (3, 4)
TWO = ("rgb/hall/0001.jpg", "rgb/attic/0002.jpg")
SAME_NUMBERS = ("rgb/hall/0001.jpg", "rgb/attic/0001.jpg")


def record(image):
    return Record(image=image, target="t.png", split="test")


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".png":
        Image.fromarray(values).save(path)
    elif path.suffix == ".npz":
        np.savez(path, depth=values, another=values[:1])
    else:
        np.save(path, values)
    return path


def matched(folder, images):
    """The name of the file of each picture."""
    files = PredictionFiles(folder, [record(image) for image in images], Reading())
    return {image: path.relative_to(folder).as_posix() for image, path in files.paths.items()}


def read(path, *, size=SIZE, place=None, reading=None):
    """The prediction in `path` for the picture of its name."""
    image = f"{path.stem}.jpg"
    files = PredictionFiles(path.parent, [record(image)], reading or Reading())
    return files(sample_of(np.ones(size, np.float32), place, image))


@pytest.mark.parametrize(
    ("images", "names"),
    [
        (TWO, ("rgb/hall/0001.npy", "rgb/attic/0002.npy")),
        (TWO, ("hall/0001.png", "attic/0002.npz")),
        (TWO, ("0001.npy", "0002.npy")),
        (TWO, ("hall_0001.npy", "attic_0002.npy")),
        (TWO, ("rgb_hall_0001.npy", "rgb_attic_0002.npy")),
        (TWO, ("run7/raw/hall/0001.npy", "run7/raw/attic/0002.npy")),
        (TWO, ("hall/0001.PNG", "attic/0002.PNG")),
        (SAME_NUMBERS, ("hall/0001.npy", "attic/0001.npy")),
    ],
)
def test_a_prediction_is_found_by_its_name(tmp_path, images, names):
    for name in names:
        save(tmp_path / name, np.ones(SIZE, np.uint16))
    (tmp_path / "notes.txt").write_text("not a prediction")
    assert matched(tmp_path, images) == dict(zip(images, names, strict=True))


MANY = tuple(f"rgb/{number:04d}.jpg" for number in range(14))


@pytest.mark.parametrize(
    ("images", "names", "named"),
    [  # a file of another scene is not used for a missing one
        (SAME_NUMBERS, ["attic/0001.npy"], ["1 of 2", "rgb/hall/0001.jpg"]),
        (SAME_NUMBERS, ["0001.npy"], ["1 of 2", "rgb/attic/0001.jpg"]),
        (TWO, ["hall/0001.npy", "cellar/0002.npy"], ["rgb/attic/0002.jpg"]),
        (SAME_NUMBERS, ["hall/0001.npy", "cellar/0001.npy"], ["rgb/attic/0001.jpg"]),
        (MANY, ["0003.npy"], ["13 of 14", "rgb/0010.jpg and 3 more"]),
        # if no name matches, the error shows an expected and an existing name
        (TWO, ["0000_pred.npy", "0001_pred.npy"], [" 0001.npy", " 0001_pred.npy"]),
        (SAME_NUMBERS, ["0001_pred.npy"], [" rgb/hall/0001.npy", " 0001_pred.npy"]),
        # two files for one picture
        (TWO, ["hall/0001.npy", "hall/0001.png", "attic/0002.npy"], ["0001.npy", "0001.png"]),
        (
            TWO,
            [f"{run}/{name}.npy" for run in ("one", "two") for name in ("hall/0001", "attic/0002")],
            ["one/hall/0001.npy", "two/hall/0001.npy"],
        ),
        (TWO, [], ["PNG, NPY or NPZ"]),
    ],
)
def test_missing_unmatched_and_ambiguous_predictions_are_named(tmp_path, images, names, named):
    for name in names:
        save(tmp_path / name, np.ones(SIZE, np.uint16))
    with refused(InputError, tmp_path, *named):
        matched(tmp_path, images)
    with refused(InputError, tmp_path / "none"):
        matched(tmp_path / "none", images)


DEPTH = np.arange(1, 13, dtype=np.float64).reshape(SIZE)


@pytest.mark.parametrize(
    ("name", "values", "scale"),
    [  # arrays of floats are metres, unless there is a scale
        ("a.npy", DEPTH, None),
        ("a.npz", DEPTH, None),
        ("a.npy", DEPTH[None, None], None),
        ("a.npy", DEPTH.astype(np.float16), None),
        ("a.npy", 1000 * DEPTH, 0.001),
        ("a.png", (256 * DEPTH).astype(np.uint16), 1 / 256),
    ],
)
def test_depth_is_read_in_its_unit(tmp_path, name, values, scale):
    path = save(tmp_path / name, values)
    np.testing.assert_allclose(read(path, reading=Reading(scale=scale)), DEPTH, rtol=1e-6)


def test_a_scale_is_a_number_above_0():
    for scale in (0, -1, math.nan, math.inf):
        with refused(InputError, f"--scale {scale:g}"):
            Reading(scale=scale)


INTEGERS = np.full(SIZE, 2560, np.uint16)
NORMALS = Reading(task=tasks.NORMALS)


@pytest.mark.parametrize(
    ("name", "values", "reading"),
    [
        ("a.png", INTEGERS, Reading()),  # without a unit
        ("a.png", INTEGERS.astype(np.uint8), Reading(scale=0.001)),
        ("a.npy", np.ones((3, 4, 3)), Reading()),
        ("a.npy", np.ones((5, 5)), Reading()),
        ("a.npy", np.ones((*SIZE, 3)), NORMALS),
    ],
    ids=["no unit", "8-bit", "three channels", "size", "normals in an array"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, values, reading):
    path = save(tmp_path / name, values)
    with refused(InputError, path):
        read(path, reading=reading)


def test_a_prediction_of_the_full_frame_is_cropped_as_the_ground_truth_was(tmp_path):
    full = np.zeros((6, 8))  # holes outside the crop do not matter
    full[2:5, 3:7] = DEPTH
    found = read(save(tmp_path / "a.npy", full), place=Place(2, 3, (6, 8)))
    np.testing.assert_array_equal(found, DEPTH)


CROP = Place(180, 8, (1216, 1936))  # of DDAD


def field(size):
    """Depth that grows down and to the right, the same at every size up to its corners."""
    down, right = (np.linspace(0, 1, length) for length in size)
    return 5 + 40 * down[:, None] + 20 * right


@pytest.mark.parametrize("size", [(608, 968), (152, 242)])
def test_a_reduced_full_frame_is_resized_as_one_and_then_cropped(tmp_path, size):
    path = save(tmp_path / "a.npy", field(size))
    found = read(path, size=(870, 1920), place=CROP, reading=Reading(fit="resize"))
    expected = field((1216, 1936))[180 : 180 + 870, 8 : 8 + 1920]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


KITTI = (352, 1216), Place(23, 13, (375, 1242))
SUN = (480, 640), Place(3, 0, (487, 640))


@pytest.mark.parametrize(
    ("size", "target", "what"),
    [
        ((88, 304), KITTI, "crop"),
        ((187, 621), KITTI, "frame"),
        ((192, 640), KITTI, "frame"),
        ((320, 1024), KITTI, "frame"),
        ((427, 561), SUN, "frame"),
        ((304, 484), ((870, 1920), CROP), "frame"),
    ],
)
def test_the_usual_sizes_of_a_dataset_are_distinguished(tmp_path, size, target, what):
    save(tmp_path / "a.npy", field(size))
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading(fit="resize"))
    files(sample_of(np.ones(target[0], np.float32), target[1]))
    assert files.about()["resized"].endswith(what)


def test_another_aspect_than_that_of_crop_and_frame_is_an_error(tmp_path):
    path = save(tmp_path / "a.npy", np.ones((256, 256)))
    with refused(InputError, path):
        read(path, size=(870, 1920), place=CROP, reading=Reading(fit="resize"))


def test_the_bytes_that_were_scored_are_pinned(tmp_path):
    path = save(tmp_path / "a.npy", DEPTH)
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading())
    assert files.about()["predictions_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("values", [[np.nan, np.inf], [0, np.nan], [0, 0], [-1, 0]])
def test_holes_are_an_error_unless_they_may_be_skipped(tmp_path, values):
    depth = np.full(SIZE, 2.0)
    depth[1, 1:3] = values
    path = save(tmp_path / "a.npy", depth)
    with refused(InputError, path, "--holes skip"):
        read(path)
    found = read(path, reading=Reading(holes="skip"))
    assert np.isnan(found[1, 1:3]).all()
    assert (found == 2).sum() == 10


def test_a_resize_does_not_mix_holes_into_their_neighbours(tmp_path):
    small = np.full((3, 3), 4.0)
    small[1, 1] = 0  # as a number it would pull what is around it towards 0 m
    path = save(tmp_path / "a.npy", small)
    found = read(path, size=(5, 5), reading=Reading(fit="resize", holes="skip"))
    assert np.isnan(found[2, 2])
    assert set(found[~np.isnan(found)].tolist()) == {4.0}


def test_normals_are_pictures_whose_black_is_a_direction_too(tmp_path):
    stored = np.full((*SIZE, 3), 255, np.uint8)
    stored[0, 0] = 0
    path = save(tmp_path / "a.png", stored)
    found = read(path, size=(*SIZE, 3), reading=NORMALS)
    assert found[0, 0].tolist() == [-1, -1, -1]
    assert found[2, 3].tolist() == [1, 1, 1]
