"""Anybody's predictions: found by name, read in their unit, fitted to the ground truth."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from idisc.data.dataset import Sample
from idisc.data.framing import Place
from idisc.data.manifest import Record
from idisc.errors import InputError
from idisc.evaluate.predictions import PredictionFiles, Reading

SIZE = (3, 4)
TWO = ("rgb/hall/0001.jpg", "rgb/attic/0002.jpg")
SAME_NUMBERS = ("rgb/hall/0001.jpg", "rgb/attic/0001.jpg")


def record(image: str) -> Record:
    return Record(image=image, target="t.png", split="test")


def sample_of(
    image: str = "a.jpg", size: tuple[int, ...] = SIZE, place: Place | None = None
) -> Sample:
    return Sample(
        image=np.zeros((*size[:2], 3), np.uint8),
        target=np.ones(size, np.float32),
        valid=np.ones(size[:2], bool),
        camera=None,
        place=place or Place(0, 0, (size[0], size[1])),
        record=record(image),
    )


def save(path: Path, values: NDArray[np.generic]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".png":
        Image.fromarray(values).save(path)
    elif path.suffix == ".npz":
        np.savez(path, depth=values, another=values[:1])
    else:
        np.save(path, values)
    return path


def matched(folder: Path, images: tuple[str, ...]) -> dict[str, str]:
    """The name of the file of each picture."""
    files = PredictionFiles(folder, [record(image) for image in images], Reading())
    return {image: path.relative_to(folder).as_posix() for image, path in files.paths.items()}


def read(
    path: Path,
    *,
    size: tuple[int, ...] = SIZE,
    place: Place | None = None,
    reading: Reading | None = None,
) -> NDArray[np.float32]:
    """The prediction in `path` for the picture of its name."""
    image = f"{path.stem}.jpg"
    files = PredictionFiles(path.parent, [record(image)], reading or Reading())
    return files(sample_of(image, size, place))


@pytest.mark.parametrize(
    "names",
    [
        ("rgb/hall/0001.npy", "rgb/attic/0002.npy"),
        ("hall/0001.png", "attic/0002.npz"),
        ("0001.npy", "0002.npy"),
        ("hall_0001.npy", "attic_0002.npy"),
        ("rgb_hall_0001.npy", "rgb_attic_0002.npy"),
        ("run7/raw/hall/0001.npy", "run7/raw/attic/0002.npy"),
        ("hall/0001.PNG", "attic/0002.PNG"),
    ],
    ids=["whole path", "ending", "file", "underscores", "all underscores", "below", "capitals"],
)
def test_a_prediction_is_found_by(tmp_path: Path, names: tuple[str, str]) -> None:
    for name in names:
        save(tmp_path / name, np.ones(SIZE, np.uint16))
    (tmp_path / "notes.txt").write_text("not a prediction")
    assert matched(tmp_path, TWO) == dict(zip(TWO, names, strict=True))


def test_frames_of_the_same_number_are_told_apart_by_their_scenes(tmp_path: Path) -> None:
    for name in ("hall/0001.npy", "attic/0001.npy"):
        save(tmp_path / name, np.ones(SIZE))
    expected = {SAME_NUMBERS[0]: "hall/0001.npy", SAME_NUMBERS[1]: "attic/0001.npy"}
    assert matched(tmp_path, SAME_NUMBERS) == expected


@pytest.mark.parametrize(
    ("images", "names", "missing"),
    [
        (SAME_NUMBERS, ["attic/0001.npy"], "rgb/hall/0001.jpg"),
        (SAME_NUMBERS, ["0001.npy"], "rgb/attic/0001.jpg"),
        (TWO, ["hall/0001.npy", "cellar/0002.npy"], "rgb/attic/0002.jpg"),
        (SAME_NUMBERS, ["hall/0001.npy", "cellar/0001.npy"], "rgb/attic/0001.jpg"),
    ],
)
def test_a_file_of_another_scene_never_stands_in_for_a_missing_one(
    tmp_path: Path, images: tuple[str, ...], names: list[str], missing: str
) -> None:
    for name in names:
        save(tmp_path / name, np.ones(SIZE))
    with pytest.raises(InputError, match=f"1 of 2 predictions missing: {missing}$"):
        matched(tmp_path, images)


def test_all_missing_ones_are_named_in_one_line_up_to_ten(tmp_path: Path) -> None:
    images = tuple(f"rgb/{number:04d}.jpg" for number in range(14))
    save(tmp_path / "0003.npy", np.ones(SIZE))
    with pytest.raises(InputError) as caught:
        matched(tmp_path, images)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: 13 of 14 predictions missing: rgb/0000.jpg, rgb/0001")
    assert message.endswith("rgb/0010.jpg and 3 more")
    assert "rgb/0003.jpg" not in message


@pytest.mark.parametrize(
    ("images", "expected"), [(TWO, "0001.npy"), (SAME_NUMBERS, "rgb/hall/0001.npy")]
)
def test_when_no_name_fits_one_is_shown_beside_the_name_that_would(
    tmp_path: Path, images: tuple[str, ...], expected: str
) -> None:
    for name in ("0000_pred.npy", "0001_pred.npy", "0002_pred.npy"):
        save(tmp_path / name, np.ones(SIZE))
    with pytest.raises(InputError) as caught:
        matched(tmp_path, images)
    assert str(caught.value) == (
        f"{tmp_path}: none of the 2 predictions found by name: that of rgb/hall/0001.jpg would be"
        f" called {expected}, but the folder has e.g. 0001_pred.npy; rename the files after the"
        " pictures, without additions"
    )


@pytest.mark.parametrize(
    "names",
    [
        ["hall/0001.npy", "hall/0001.png", "attic/0002.npy"],
        ["one/hall/0001.npy", "one/attic/0002.npy", "two/hall/0001.npy", "two/attic/0002.npy"],
    ],
    ids=["two suffixes", "two runs"],
)
def test_two_files_for_one_picture_are_an_error_that_names_both(
    tmp_path: Path, names: list[str]
) -> None:
    for name in names:
        save(tmp_path / name, np.ones(SIZE, np.uint16))
    with pytest.raises(InputError) as caught:
        matched(tmp_path, TWO)
    both = [name for name in names if "0001" in name]
    expected = f"{tmp_path}: several predictions for {TWO[0]}: {', '.join(both)}"
    assert str(caught.value) == expected


def test_a_folder_that_is_not_there_or_has_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: no such folder of predictions$"):
        matched(tmp_path / "none", TWO)
    with pytest.raises(InputError, match=r"no PNG, NPY or NPZ in it$"):
        matched(tmp_path, TWO)


def test_arrays_are_metres_and_axes_of_length_one_are_left_out(tmp_path: Path) -> None:
    depth = np.arange(1, 13, dtype=np.float64).reshape(SIZE)
    for path in (
        save(tmp_path / "a.npy", depth),
        save(tmp_path / "b.npz", depth),
        save(tmp_path / "c.npy", depth[None, None]),
        save(tmp_path / "d.npy", depth.astype(np.float16)),
    ):
        np.testing.assert_array_equal(read(path), depth.astype(np.float32))


def test_a_picture_is_in_the_unit_that_is_stated(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", np.full(SIZE, 2560, np.uint16))
    assert (read(path, reading=Reading(scale=1 / 256)) == 10).all()
    assert (read(path, reading=Reading(scale=0.001)) == np.float32(2.56)).all()


def test_a_picture_without_a_stated_unit_is_asked_about(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", np.full(SIZE, 2560, np.uint16))
    with pytest.raises(InputError, match=r"a\.png: what is one unit of it\? Pass --scale 0\.001"):
        read(path)
    with pytest.raises(InputError, match="depth scale 0: more than 0 is needed"):
        read(path, reading=Reading(scale=0))


def test_a_picture_of_eight_bits_is_no_depth(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", np.full(SIZE, 200, np.uint8))
    with pytest.raises(InputError, match=r"a\.png: 8-bit, 16-bit expected"):
        read(path, reading=Reading(scale=0.001))


@pytest.mark.parametrize("suffix", [".png", ".npy"])
def test_a_file_that_breaks_off_is_named(tmp_path: Path, suffix: str) -> None:
    random = np.random.default_rng(0).integers(1, 65535, (40, 50), dtype=np.uint16)
    path = save(tmp_path / f"a{suffix}", random)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match=rf"a\{suffix}: (damaged|not readable)") as caught:
        read(path, size=(40, 50), reading=Reading(scale=0.001))
    assert "\n" not in str(caught.value)


def test_an_array_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.ones((3, 4, 3)))
    with pytest.raises(InputError, match=r"a\.npy: shape \(3, 4, 3\) of float64; \(H, W\) numbers"):
        read(path)


def test_a_prediction_of_the_full_frame_is_cropped_as_the_ground_truth_was(tmp_path: Path) -> None:
    full = np.arange(1, 49, dtype=np.float32).reshape(6, 8)
    path = save(tmp_path / "a.npy", full)
    np.testing.assert_array_equal(read(path, place=Place(2, 3, (6, 8))), full[2:5, 3:7])


def test_another_size_is_an_error_that_names_the_sizes(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.ones((5, 5)))
    message = r"a\.npy: 5x5 pixels, 3x4 expected; pass --fit resize to stretch it$"
    with pytest.raises(InputError, match=message):
        read(path)
    with pytest.raises(InputError, match=r"5x5 pixels, 3x4 or 6x8 expected"):
        read(path, place=Place(2, 3, (6, 8)))


def aligned(values: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Bilinear with aligned corners, pixel by pixel."""
    result = np.zeros(size)
    for row, column in np.ndindex(size):
        y = row * (values.shape[0] - 1) / (size[0] - 1)
        x = column * (values.shape[1] - 1) / (size[1] - 1)
        top, left = min(math.floor(y), len(values) - 2), min(math.floor(x), values.shape[1] - 2)
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = (1 - abs(y - top - down)) * (1 - abs(x - left - right))
            result[row, column] += share * values[top + down, left + right]
    return result


CROP = Place(180, 8, (1216, 1936))  # of DDAD


def field(size: tuple[int, int]) -> NDArray[np.float64]:
    """Depth that grows down and to the right, the same at every size up to its corners."""
    down, right = (np.linspace(0, 1, length) for length in size)
    return 5 + 40 * down[:, None] + 20 * right


@pytest.mark.parametrize("size", [(608, 968), (304, 484), (152, 242)])
def test_a_reduced_full_frame_is_resized_as_one_and_then_cropped(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    save(tmp_path / "a.npy", field(size))
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading(fit="resize"))
    found = files(sample_of("a.jpg", (870, 1920), CROP))
    expected = field((1216, 1936))[180 : 180 + 870, 8 : 8 + 1920]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert files.about()["resized"] == "1 to the full frame"


def test_a_reduced_crop_is_resized_as_one(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", field((435, 960)))
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading(fit="resize"))
    found = files(sample_of("a.jpg", (870, 1920), CROP))
    np.testing.assert_allclose(found, field((870, 1920)), rtol=1e-5)
    assert files.about()["resized"] == "1 to the scored crop"


@pytest.mark.parametrize(
    ("size", "what"),
    [((88, 304), "crop"), ((187, 621), "frame"), ((192, 640), "frame"), ((320, 1024), "frame")],
)
def test_the_usual_sizes_of_kitti_are_told_apart(
    tmp_path: Path, size: tuple[int, int], what: str
) -> None:
    save(tmp_path / "a.npy", field(size))
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading(fit="resize"))
    files(sample_of("a.jpg", (352, 1216), Place(23, 13, (375, 1242))))
    assert files.about()["resized"].endswith(what)


def test_a_picture_of_sun_at_its_own_size_is_a_full_frame(tmp_path: Path) -> None:
    save(tmp_path / "a.npy", field((427, 561)))
    files = PredictionFiles(tmp_path, [record("a.jpg")], Reading(fit="resize"))
    found = files(sample_of("a.jpg", (480, 640), Place(3, 0, (487, 640))))
    np.testing.assert_allclose(found, field((487, 640))[3:483], rtol=1e-5)


def test_an_aspect_that_is_neither_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.ones((256, 256)))
    message = r"a\.npy: 256x256 pixels have the aspect neither .* \(870x1920 or 1216x1936\)"
    with pytest.raises(InputError, match=message):
        read(path, size=(870, 1920), place=CROP, reading=Reading(fit="resize"))


def test_a_scale_holds_for_floats_too(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.full(SIZE, 2500.0))
    assert (read(path) == 2500).all()
    assert (read(path, reading=Reading(scale=0.001)) == 2.5).all()


def test_the_bytes_that_were_scored_are_pinned(tmp_path: Path) -> None:
    hashes = []
    for value in (1.0, 2.0):
        save(tmp_path / "a.npy", np.full(SIZE, value))
        files = PredictionFiles(tmp_path, [record("a.jpg")], Reading())
        hashes.append(files.about()["predictions_sha256"])
    assert hashes[0] != hashes[1]
    assert len(hashes[0]) == 64


@pytest.mark.parametrize("size", [(9, 13), (3, 4), (2, 3), (5, 4)])
def test_a_resized_prediction_keeps_its_corners(tmp_path: Path, size: tuple[int, int]) -> None:
    small = np.random.default_rng(0).uniform(1, 9, (4, 5))
    found = read(save(tmp_path / "a.npy", small), size=size, reading=Reading(fit="resize"))
    np.testing.assert_allclose(found, aligned(small, size), rtol=1e-6)
    assert found[-1, -1] == np.float32(small[-1, -1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([np.nan, np.inf], "2 pixels are NaN or infinite"),
        ([0, np.nan], "2 pixels are NaN or infinite"),
        ([0, 0], "2 pixels are 0 or less"),
        ([-1, 0], "2 pixels are 0 or less"),
    ],
)
def test_holes_are_an_error_unless_they_may_be_skipped(
    tmp_path: Path, values: list[float], message: str
) -> None:
    depth = np.full(SIZE, 2.0)
    depth[1, 1:3] = values
    path = save(tmp_path / "a.npy", depth)
    with pytest.raises(InputError, match=rf"a\.npy: {message}; .* pass --holes skip"):
        read(path)
    found = read(path, reading=Reading(holes="skip"))
    assert np.isnan(found[1, 1:3]).all()
    assert (found == 2).sum() == 10


def test_holes_outside_the_crop_are_nobodys_business(tmp_path: Path) -> None:
    full = np.zeros((6, 8))
    full[2:5, 3:7] = 2
    found = read(save(tmp_path / "a.npy", full), place=Place(2, 3, (6, 8)))
    assert (found == 2).all()


def test_a_resize_does_not_mix_holes_into_their_neighbours(tmp_path: Path) -> None:
    small = np.full((3, 3), 4.0)
    small[1, 1] = 0  # as a number it would pull what is around it towards 0 m
    path = save(tmp_path / "a.npy", small)
    found = read(path, size=(5, 5), reading=Reading(fit="resize", holes="skip"))
    assert np.isnan(found[2, 2])
    assert set(found[~np.isnan(found)].tolist()) == {4.0}


def test_normals_are_pictures_whose_black_is_a_direction_too(tmp_path: Path) -> None:
    stored = np.full((*SIZE, 3), 255, np.uint8)
    stored[0, 0] = 0
    path = save(tmp_path / "a.png", stored)
    found = read(path, size=(*SIZE, 3), reading=Reading(task="normals"))
    assert found[0, 0].tolist() == [-1, -1, -1]
    assert found[2, 3].tolist() == [1, 1, 1]


def test_normals_in_an_array_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.ones((*SIZE, 3)))
    with pytest.raises(InputError, match=r"a\.npy: normals are read from 8-bit RGB PNG$"):
        read(path, size=(*SIZE, 3), reading=Reading(task="normals"))
