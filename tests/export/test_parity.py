"""Parity: the difference between two engines in metres, and its limits."""

import json

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.fakes.refusals import refused

from idisc.errors import CheckFailed, InputError
from idisc.export import parity
from idisc.predict.engine import Output
from idisc.tasks import DEPTH, NORMALS


class Flat:
    """An engine that predicts the same everywhere."""

    name, sha256, origin, verified = "flat", "", {}, True

    def __init__(self, value, task=DEPTH, fixed_size=None, level_std=None):
        self.value, self.task, self.fixed_size, self.level_std = value, task, fixed_size, level_std
        self.asked = []

    def run(self, images, size=None):
        self.asked.append((images.shape, size))
        maps = np.full((len(images), *(size or images.shape[1:3])), self.value, np.float32)
        level_std = None if self.level_std is None else np.full_like(maps, self.level_std)
        if self.task.metric:
            return Output(maps, level_std)
        angle = np.radians(maps)
        normals = np.stack([np.sin(angle), 0 * angle, np.cos(angle)], axis=-1)
        return Output(normals, level_std)


PICTURES = [np.zeros((40, 60, 3), np.uint8)] * 2
SIZES = [(20, 30), (16, 24)]


def compare(ours, theirs, **options):
    return parity.measure(ours, theirs, PICTURES, SIZES, **options)


def test_differences_cover_all_pixels_and_both_sizes():
    ours, theirs = Flat(2.5), Flat(2.0)
    found = compare(ours, theirs)
    assert (found.largest, found.mean) == (0.5, 0.5)
    assert found.d1 == 0.0  # the ratio is 1.25, not below it
    assert compare(Flat(2.49), Flat(2.0)).d1 == 1.0
    far = compare(Flat(30.01), Flat(30.0))  # beyond three metres: relative to the depth
    assert far.largest == pytest.approx(0.001, rel=1e-3)
    assert found.pictures == 2
    assert found.sizes == ("20x30", "16x24")
    assert [shape for shape, _ in ours.asked] == [(1, 20, 30, 3), (1, 16, 24, 3)] * 2
    assert ours.asked == theirs.asked


def test_normals_agree_within_their_angle():
    assert compare(Flat(11, NORMALS), Flat(0, NORMALS)).d1 == 1.0
    apart = compare(Flat(12, NORMALS), Flat(0, NORMALS))
    assert apart.d1 == 0.0
    assert apart.unit == "of a unit vector"
    with pytest.raises(CheckFailed):
        apart.check("x.onnx")


def test_a_file_for_one_size_is_asked_for_two_results():
    ours = Flat(2, fixed_size=(32, 48))
    found = compare(ours, Flat(2))
    assert found.sizes == ("32x48 to 20x30", "32x48 to 16x24")
    assert {shape for shape, _ in ours.asked} == {(1, 32, 48, 3)}


@pytest.mark.parametrize(
    ("precision", "error", "fine"),
    [
        ("fp32", 9e-4, True),
        ("fp32", 1.1e-3, False),
        ("fp16-weights", 0.011, False),
        ("fp16", 0.015, True),
        ("int8", 0.3, False),
        ("fp32", float("nan"), False),
    ],
)
def test_each_precision_has_its_tolerance(precision, error, fine):
    found = compare(Flat(2 + error), Flat(2), precision=precision)
    if fine:
        found.check("x.onnx")
        return
    with refused(CheckFailed, "x.onnx"):
        found.check("x.onnx")


def test_level_std_has_the_same_limit_as_depth():
    assert compare(Flat(2, level_std=0.1), Flat(2)).level_std is None  # one resolution
    near = compare(Flat(2, level_std=0.1), Flat(2, level_std=0.1009))
    near.check("x.onnx")
    apart = compare(Flat(2, level_std=0.1), Flat(2, level_std=0.102))
    assert apart.largest == 0
    assert apart.level_std == pytest.approx(0.002, rel=1e-3)
    with pytest.raises(CheckFailed):
        apart.check("x.onnx")


def test_the_json_holds_the_limits():
    record = json.loads(compare(Flat(2), Flat(2), precision="int8", pictures_from="mine").to_json())
    assert record["tolerance"] == {"mean": 0.25, "d1": 0.9}
    assert (record["precision"], record["largest"], record["unit"]) == ("int8", 0.0, "m")
    assert record["pictures_from"] == "mine"


def test_pictures_are_read_evenly_and_results_are_skipped(tmp_path):
    with pytest.raises(InputError):
        parity.list_pictures(tmp_path)
    for index in range(5):
        Image.new("RGB", (8, 6), (index, 0, 0)).save(tmp_path / f"{index}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    made = PngInfo()
    made.add_text("idisc", "a result of last time")
    Image.new("RGB", (8, 6), (9, 0, 0)).save(tmp_path / "0_depth.png", pnginfo=made)
    chosen = parity.read_evenly(parity.list_pictures(tmp_path), 3)
    assert [int(image[0, 0, 0]) for image in chosen] == [0, 2, 4]
    assert len(parity.list_pictures(parity.EXAMPLES)) == 5
