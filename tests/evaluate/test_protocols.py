"""Protocols: which pixels count and how a prediction is changed, for each dataset."""

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.scored import sample_of

from idisc import configs
from idisc.data import catalog
from idisc.data.framing import Place
from idisc.errors import InputError
from idisc.evaluate.protocols import PROTOCOLS, changed

PAPER, CODE, BTS = PROTOCOLS["paper"], PROTOCOLS["published-code"], PROTOCOLS["bts"]
ZOEDEPTH, DEVKIT = PROTOCOLS["zoedepth"], PROTOCOLS["kitti-devkit"]
SIZES = {
    **dict.fromkeys(("nyu", "nyu_labelled", "sunrgbd", "diode"), (480, 640)),
    "kitti": (352, 1216),
    **dict.fromkeys(("argoverse", "ddad"), (870, 1920)),
    **dict.fromkeys(("folder", "synthetic"), (30, 40)),
}
EIGEN = (45, 470, 41, 600)
GARG_ON_CROP = (143, 348, 43, 1171)
GARG_ON_FRAME = (130, 347, 31, 1183)  # [153, 371) x [44, 1197) of 375x1242, cut at (23, 13)


def flat(dataset, depth=5.0):
    """The same depth in all of a frame of the dataset."""
    place = Place(23, 13, (375, 1242)) if dataset == "kitti" else None
    return sample_of(np.full(SIZES[dataset], depth, np.float32), place)


def test_relative_depth_is_aligned_by_scale_and_shift_of_its_inverse():
    spec, target = catalog.NYU, np.linspace(1, 9, 12, dtype=np.float32).reshape(3, 4)
    relative, valid = 1 / (30 / target + 2), np.ones((3, 4), bool)
    valid[0, 0] = False
    found = PROTOCOLS["affine"].adjusted(relative, target, valid, spec)
    np.testing.assert_allclose(found, target, rtol=1e-5)


def box(mask):
    """The rectangle that a mask is."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    found = int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])
    assert mask.sum() == len(rows) * len(columns), "not a rectangle"
    return found


def whole(dataset):
    height, width = SIZES[dataset]
    return 0, height - 1, 0, width - 1


def counts(protocol, dataset, *depths):
    """Whether pixels of these depths count, in the middle of a frame."""
    spec, size = catalog.find(dataset), SIZES[dataset.partition(":")[0]]
    row, column = size[0] * 2 // 3, size[1] // 2
    target = np.full(size, 1, np.float32)
    target[row, column : column + len(depths)] = depths
    sample = sample_of(target)
    return protocol.valid(sample, spec)[row, column : column + len(depths)].tolist()


@pytest.mark.parametrize("dataset", SIZES)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_protocol_scores_the_pixels_of_its_window(name, dataset):
    expected = whole(dataset)
    if name != "kitti-devkit" and dataset in ("nyu", "nyu_labelled", "sunrgbd", "diode"):
        expected = EIGEN
    if name != "kitti-devkit" and dataset == "kitti":
        expected = GARG_ON_FRAME if name == "bts" else GARG_ON_CROP
    sample = flat(dataset)
    assert box(PROTOCOLS[name].valid(sample, catalog.find(dataset))) == expected


def test_a_window_on_a_reduced_labelled_frame_is_reduced_with_it():
    sample = sample_of(np.full((240, 320), 5, np.float32))
    # 45, 471, 41, 601 halved; 22.5, 235.5, 20.5 and 300.5 go to the even neighbour
    assert box(PAPER.valid(sample, catalog.NYU_LABELLED)) == (22, 235, 20, 299)


def test_the_eigen_window_of_kitti_is_counted_on_the_crop():
    protocol = replace(PAPER, window="eigen")
    assert box(protocol.valid(flat("kitti"), catalog.KITTI)) == (117, 320, 43, 1171)
    for dataset in ("nyu", "ddad"):  # one window or none: nothing to choose
        spec = catalog.find(dataset)
        assert protocol.window_rule(spec) is spec.window


@pytest.mark.parametrize(
    ("protocol", "dataset", "cap"),
    [
        *[(protocol, "nyu", 10.0) for protocol in (PAPER, CODE, BTS, ZOEDEPTH)],
        *[(protocol, "kitti", 80.0) for protocol in (PAPER, CODE, BTS, ZOEDEPTH)],
        *[(protocol, "argoverse", 150.0) for protocol in (PAPER, CODE, BTS, ZOEDEPTH)],
        *[(protocol, "ddad", 150.0) for protocol in (PAPER, CODE, BTS)],
        (ZOEDEPTH, "ddad", 80.0),
        *[(protocol, "sunrgbd", 10.0) for protocol in (PAPER, BTS)],
        (CODE, "sunrgbd", None),  # the paper says 10 m, the code has no bound
        (ZOEDEPTH, "sunrgbd", 8.0),
        *[(protocol, "diode", 10.0) for protocol in (PAPER, BTS, ZOEDEPTH)],
        (CODE, "diode", None),
        (CODE, "diode:paper", 10.0),
        (PAPER, "folder", None),
        (DEVKIT, "kitti", None),
        (DEVKIT, "nyu", None),
        (replace(PAPER, max_depth=3.0), "kitti", 3.0),
        (replace(DEVKIT, max_depth=3.0), "kitti", 3.0),
    ],
)
def test_ground_truth_at_the_cap_is_left_out_and_just_below_it_counts(protocol, dataset, cap):
    assert protocol.cap_of(catalog.find(dataset)) == cap
    if cap is None:
        assert counts(protocol, dataset, 250.0) == [True]
    else:
        below = float(np.nextafter(np.float32(cap), np.float32(0)))
        assert counts(protocol, dataset, below, cap, cap + 1) == [True, False, False]


@pytest.mark.parametrize(
    ("protocol", "least"), [(PAPER, 0.01), (CODE, 0.01), (DEVKIT, 0.01), (BTS, 1e-3)]
)
def test_ground_truth_must_be_finite_and_above_the_smallest_depth(protocol, least):
    below, above = (float(np.nextafter(np.float32(least), np.float32(end))) for end in (0, 1))
    assert counts(protocol, "nyu", np.nan, np.inf, 0, below, above) == [*4 * [False], True]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_own_car_below_the_rear_camera_of_ddad_never_counts(name):
    target = np.full(SIZES["ddad"], 5, np.float32)
    rear = PROTOCOLS[name].valid(sample_of(target, sensor="CAMERA_09"), catalog.DDAD)
    assert box(rear) == (0, 729, 0, 1919)
    assert PROTOCOLS[name].valid(sample_of(target, sensor="CAMERA_01"), catalog.DDAD).all()


def test_every_pixel_with_a_normal_counts():
    target = np.full((6, 8, 3), 0.5, np.float32)
    target[2, 3] = 0
    valid = CODE.valid(sample_of(target), catalog.NYU_NORMALS)
    assert (valid.sum(), valid[2, 3]) == (47, False)


BY_MEDIAN, BY_MEAN = replace(PAPER, rescale="median"), replace(PAPER, rescale="mean")
FAR = [0.0001, 2.0, 50.0], [1, 1, 1]  # predictions and ground truth
UNSCALED = [1.0, 2.0, 6.0, 40.0], [2.0, 3.0, 10.0, 0.0]  # the last has no truth


@pytest.mark.parametrize(
    ("protocol", "dataset", "pair", "expected"),
    [  # clamped into the range of ground truth, or left alone
        (BTS, "nyu", FAR, [0.001, 2, 10]),
        (BTS, "kitti", FAR, [0.001, 2, 50]),
        (ZOEDEPTH, "sunrgbd", FAR, [0.001, 2, 8]),
        (PAPER, "nyu", FAR, FAR[0]),
        (CODE, "nyu", FAR, FAR[0]),
        (replace(DEVKIT, clamp=True), "kitti", FAR, [0.01, 2, 50]),
        # rescaled by the valid pixels: 3 / 2, 5 / 3
        (BY_MEDIAN, "nyu", UNSCALED, [1.5, 3, 9, 60]),
        (BY_MEAN, "nyu", UNSCALED, [5 / 3, 10 / 3, 10, 200 / 3]),
        (BY_MEDIAN, "nyu", ([2.0], [0.0]), [2.0]),
        # the paper rescales DIODE only, and its code nothing
        (PAPER, "diode", ([1.0, 3.0], [4.0, 4.0]), [2, 6]),
        (PAPER, "nyu", ([1.0, 3.0], [4.0, 4.0]), [1, 3]),
        (CODE, "diode", ([1.0, 3.0], [4.0, 4.0]), [1, 3]),
        # rescaled first
        (replace(BTS, rescale="mean"), "nyu", ([2.0, 4.0], [6.0, 15.0]), [7, 10]),
    ],
)
def test_predictions_are_rescaled_and_clamped(protocol, dataset, pair, expected):
    prediction, target = np.float32([pair])[0]
    found = protocol.adjusted(prediction, target, target > 0, catalog.find(dataset))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_predictions_without_depth_cannot_be_rescaled():
    with pytest.raises(InputError):
        BY_MEDIAN.adjusted(*np.float32([[-1, -1], [2, 2]]), np.array([True, True]), catalog.NYU)


BATCHES = dict.fromkeys(("nyu", "nyu_labelled", "sunrgbd", "diode", "kitti", "folder"), 8)
BATCHES |= {"nyu_normals": 16, "argoverse": 4, "ddad": 4, "ddad:paper": 4}


def test_batches_have_the_size_of_the_released_code():
    assert {name: CODE.batch_size_of(catalog.find(name)) for name in BATCHES} == BATCHES
    assert replace(CODE, batch_size=5).batch_size_of(catalog.NYU) == 5


def test_a_changed_protocol_is_named_after_what_was_changed():
    pixels = changed(PAPER, configs.override(PAPER, ["averaging=pixel", "max_depth=20"]))
    assert pixels.name == "paper with averaging=pixel, max_depth=20.0"
    assert (pixels.averaging, pixels.max_depth) == ("pixel", 20.0)
    assert changed(PAPER, configs.override(PAPER, ["averaging=image", "cap=paper"])) is PAPER


def test_only_the_window_of_kitti_depends_on_the_place_of_the_crop():
    shifted = sample_of(np.ones((480, 640), np.float32), Place(3, 0, (487, 640)))  # as SUN RGB-D's
    for protocol in (BTS, PAPER):
        assert box(protocol.valid(shifted, catalog.SUNRGBD)) == EIGEN
