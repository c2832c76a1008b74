"""An evaluation from samples to totals: hand-computed averages, failures, clouds, distances."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from idisc import files
from idisc.camera import Camera
from idisc.data import catalog
from idisc.data.dataset import Dataset, Sample
from idisc.data.decode import DepthMap, NormalMap, write_normals
from idisc.data.manifest import Manifest, Record
from idisc.errors import DataError, InputError, MissingExtra
from idisc.evaluate.protocols import PROTOCOLS, Protocol
from idisc.evaluate.run import KEPT, EnginePredictor, Extras, Predictor, Result, evaluate, score
from idisc.tasks import DEPTH, Task

PAPER, CODE = PROTOCOLS["paper"], PROTOCOLS["published-code"]
BY_PIXEL = replace(PAPER, name="by pixel", averaging="pixel")
Maps = Mapping[str, Sequence[Sequence[float]]]
# Four pixels of which one is twice too far, and one pixel that is (0 is no ground truth).
TARGETS: Maps = {"a": [[1, 1, 1, 1]], "b": [[1, 0, 0, 0]]}
GUESSES: Maps = {"a": [[1, 1, 1, 2]], "b": [[2, 9, 9, 9]]}


def as_map(rows: Sequence[Sequence[float]], below: float) -> NDArray[np.float32]:
    """A map (H, W); a single row gets another one below it."""
    rows = [*rows, [below] * len(rows[0])] if len(rows) == 1 else rows
    return np.array(rows, np.float32)


def dataset_of(root: Path, targets: Maps, camera: tuple[float, ...] | None = None) -> Dataset:
    """Depth in metres as arrays on disk, each with a black picture."""
    records = []
    for name, depth in targets.items():
        values = as_map(depth, below=0)
        np.save(root / f"{name}.npy", values)
        Image.new("RGB", values.shape[::-1]).save(root / f"{name}.png")
        records.append(
            Record(
                image=f"{name}.png",
                target=f"{name}.npy",
                split="test",
                size=values.shape,
                intrinsics=camera,
            )
        )
    source = Manifest(
        dataset="folder",
        target=DepthMap(metres_per_unit=1.0),
        records=tuple(records),
        root=root,
        sha256="5ha",
    )
    return Dataset(source, "test", catalog.FOLDER)


def guessing(guesses: Maps) -> Predictor:
    def predict(sample: Sample) -> NDArray[np.float32]:
        return as_map(guesses[sample.record.image.removesuffix(".png")], below=1)

    return predict


def result_of(root: Path, protocol: Protocol, targets: Maps, guesses: Maps) -> Result:
    (result,) = evaluate(dataset_of(root, targets), guessing(guesses), [protocol])
    return result


@pytest.mark.parametrize(
    ("protocol", "abs_rel", "d1", "rmse"),
    [
        (PAPER, (0.25 + 1) / 2, (0.75 + 0) / 2, (0.5 + 1) / 2),
        (BY_PIXEL, 2 / 5, 3 / 5, math.sqrt(2 / 5)),
        (replace(CODE, batch_size=2), 2 / 5, 3 / 5, 0.7500007),
        (replace(CODE, batch_size=1), 0.625, 0.375, 0.7500007),
        (CODE, 2 / 5, 3 / 5, 0.7500007),  # eight of them are not there
    ],
    ids=["image", "pixel", "batch of 2", "batches of 1", "batch of 8"],
)
def test_two_pictures_by_each_average(
    tmp_path: Path, protocol: Protocol, abs_rel: float, d1: float, rmse: float
) -> None:
    totals = result_of(tmp_path, protocol, TARGETS, GUESSES).totals
    assert totals["abs_rel"] == pytest.approx(abs_rel, abs=1e-12)
    assert totals["d1"] == pytest.approx(d1, abs=1e-12)
    assert totals["rmse"] == pytest.approx(rmse, abs=1e-7)


def test_one_pixel_has_no_spread_under_the_published_code_and_none_by_the_textbook(
    tmp_path: Path,
) -> None:
    assert math.isnan(result_of(tmp_path, CODE, TARGETS, GUESSES).totals["silog"])
    # ln 2 in one of four pixels: 100 ln 2 sqrt(1/4 - 1/16); and 0 of the other picture
    expected = 100 * math.log(2) * math.sqrt(3 / 16) / 2
    found = result_of(tmp_path, PAPER, TARGETS, GUESSES).totals["silog"]
    assert found == pytest.approx(expected)


def test_each_picture_has_its_row(tmp_path: Path) -> None:
    rows = result_of(tmp_path, BY_PIXEL, TARGETS, GUESSES).rows
    assert [(row.name, row.pixels) for row in rows] == [("a.png", 4), ("b.png", 1)]
    assert [row.numbers["abs_rel"] for row in rows] == [0.25, 1.0]


def some(count: int) -> tuple[Maps, Maps]:
    """Ground truth and guesses of pictures with more and more valid pixels."""
    random = np.random.default_rng(7)
    targets, guesses = {}, {}
    for number in range(count):
        target = random.uniform(1, 9, (4, 6))
        target.ravel()[2 + 3 * number :] = 0
        targets[f"p{number}"] = target.tolist()
        guesses[f"p{number}"] = random.uniform(1, 9, (4, 6)).tolist()
    return targets, guesses


@pytest.mark.parametrize("protocol", [PAPER, BY_PIXEL], ids=["image", "pixel"])
def test_totals_depend_neither_on_the_order_of_pictures_nor_on_batches(
    tmp_path: Path, protocol: Protocol
) -> None:
    targets, guesses = some(6)
    backwards = dict(reversed(targets.items()))
    ours = [replace(protocol, batch_size=size) for size in (1, 2, 4)]
    theirs = [replace(CODE, batch_size=size) for size in (1, 2, 4)]
    results = evaluate(dataset_of(tmp_path, targets), guessing(guesses), [*ours, *theirs])
    assert results[0].totals == results[1].totals == results[2].totals
    assert len({result.totals["abs_rel"] for result in results[3:]}) == 3  # the hybrid does
    again = result_of(tmp_path, protocol, backwards, guesses).totals
    assert again == pytest.approx(results[0].totals, rel=1e-12)


def test_several_protocols_score_the_same_predictions_in_one_run(tmp_path: Path) -> None:
    asked = []

    def predict(sample: Sample) -> NDArray[np.float32]:
        asked.append(sample.record.image)
        return guessing(GUESSES)(sample)

    results = evaluate(dataset_of(tmp_path, TARGETS), predict, [PAPER, BY_PIXEL])
    assert asked == ["a.png", "b.png"]
    assert [result.protocol.name for result in results] == ["paper", "by pixel"]
    assert results[0].manifest_sha256 == "5ha"


def test_progress_counts_every_picture(tmp_path: Path) -> None:
    steps = []
    evaluate(
        dataset_of(tmp_path, TARGETS),
        guessing(GUESSES),
        [PAPER],
        progress=lambda done, total: steps.append((done, total)),
    )
    assert steps == [(1, 2), (2, 2)]


def test_pictures_without_a_valid_pixel_are_counted_and_left_out(tmp_path: Path) -> None:
    targets, guesses = {**TARGETS, "c": [[0, 0, 0, 0]]}, {**GUESSES, "c": [[5, 5, 5, 5]]}
    result = result_of(tmp_path, PAPER, targets, guesses)
    assert result.skipped == 1
    assert result.rows[2].numbers == {}
    assert result.totals["abs_rel"] == pytest.approx(0.625)


def test_a_dataset_without_a_valid_pixel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        result_of(tmp_path, PAPER, {"a": [[0, 0]]}, {"a": [[1, 1]]})


def test_holes_of_a_prediction_are_left_out(tmp_path: Path) -> None:
    guesses = {"a": [[1, 1, math.nan, 2]], "b": [[2, math.nan, math.nan, math.nan]]}
    rows = result_of(tmp_path, PAPER, TARGETS, guesses).rows
    assert [(row.pixels, row.numbers["abs_rel"]) for row in rows] == [
        (3, pytest.approx(1 / 3)),
        (1, 1.0),
    ]


def test_rescaling_and_clamping_come_before_the_metrics(tmp_path: Path) -> None:
    targets, guesses = {"a": [[2, 4]]}, {"a": [[1, 2]]}
    by_median = replace(PAPER, rescale="median")
    assert result_of(tmp_path, by_median, targets, guesses).totals["rmse"] == 0
    clamped = replace(PAPER, clamp=True, max_depth=5.0)
    totals = result_of(tmp_path, clamped, targets, {"a": [[2, 400]]}).totals
    assert totals["rmse"] == pytest.approx(math.sqrt(1 / 2))


def test_failures_are_named_together_by_cause_and_no_total_is_given(tmp_path: Path) -> None:
    targets = {f"p{number}": [[1.0, 2.0]] for number in range(9)}
    guesses = {name: [[1.0, -1.0]] for name in targets}
    guesses |= {"p7": [[1.0, -2.0]], "p8": [[1.0, 2.0]]}
    with pytest.raises(InputError) as caught:
        result_of(tmp_path, PAPER, targets, guesses)
    message = str(caught.value)
    assert message.startswith("8 of 9 pictures cannot be scored: p0.png, p1.png, p2.png, p3.png, ")
    assert re.search(r"p4\.png and 2 more: .* -1 .*; p7\.png: .* -2 ", message)
    assert message.count("prediction") == 2  # each cause once
    assert "\n" not in message


def test_a_damaged_ground_truth_is_named_and_the_others_are_still_read(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {**TARGETS, "c": [[1, 1]]})
    for name in ("a", "c"):
        (tmp_path / f"{name}.npy").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"^2 of 3 pictures .*a\.npy, .*c\.npy: "):
        evaluate(dataset, guessing(GUESSES), [PAPER])


def test_a_package_that_is_not_there_is_said_once(tmp_path: Path) -> None:
    def predict(sample: Sample) -> NDArray[np.float32]:
        raise MissingExtra("scipy is not installed")

    with pytest.raises(MissingExtra):
        evaluate(dataset_of(tmp_path, TARGETS), predict, [PAPER])


def test_a_file_that_was_changed_since_the_preparation_is_not_scored(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, TARGETS)
    dataset.records = [
        replace(record, sha256=files.sha256(tmp_path / record.image, tmp_path / record.target))
        for record in dataset.records
    ]
    assert len(evaluate(dataset, guessing(GUESSES), [PAPER])[0].rows) == 2
    np.save(tmp_path / "b.npy", np.load(tmp_path / "b.npy") / 2)
    with pytest.raises(InputError, match=r"1 of 2 .*/b\.png"):
        evaluate(dataset, guessing(GUESSES), [PAPER])


def test_predictions_in_another_unit_show_in_their_ratio(tmp_path: Path) -> None:
    guesses = {"a": [[1000, 1000, 1000, 1000]], "b": [[1000, 9, 9, 9]]}
    by_median = replace(PAPER, rescale="median")  # which would hide it
    assert result_of(tmp_path, by_median, TARGETS, guesses).ratio == pytest.approx(1000)
    assert result_of(tmp_path, PAPER, TARGETS, TARGETS | {"b": [[1, 9, 9, 9]]}).ratio == 1


def test_what_needs_depth_is_refused_for_normals(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, TARGETS)
    dataset.spec = catalog.NYU_NORMALS
    with pytest.raises(InputError, match="--clouds"):
        evaluate(dataset, guessing(GUESSES), [PAPER], extras=Extras(clouds=True))
    with pytest.raises(InputError, match="--protocol kitti-devkit"):
        evaluate(dataset, guessing(GUESSES), [PROTOCOLS["kitti-devkit"]])


@pytest.mark.parametrize("bad", [math.inf, 0.0, -2.0])
def test_a_prediction_without_a_logarithm_names_the_picture(tmp_path: Path, bad: float) -> None:
    sample = dataset_of(tmp_path, TARGETS)[0]
    with pytest.raises(InputError, match=r"^a\.png"):
        score(sample, as_map([[1, 1, 1, bad]], below=1), PAPER, catalog.FOLDER)


def test_a_prediction_of_another_shape_names_the_picture(tmp_path: Path) -> None:
    sample = dataset_of(tmp_path, TARGETS)[0]
    with pytest.raises(DataError, match=r"^a\.png"):
        score(sample, np.ones((2, 4, 3), np.float32), PAPER, catalog.FOLDER)


class FakeEngine:
    """One depth everywhere, or NaN; its spread, if any, grows from left to right."""

    name, sha256, origin, fixed_size = "fake", "", {}, None
    task: Task = DEPTH

    def __init__(self, depth: float, spread: float | None = None) -> None:
        self.depth, self.spread = depth, spread

    def __call__(
        self, images: NDArray[np.uint8], size: tuple[int, int] | None = None
    ) -> NDArray[np.float32]:
        return self.with_spread(images, size)[0]

    def with_spread(
        self, images: NDArray[np.uint8], size: tuple[int, int] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        depth = np.full((len(images), *(size or images.shape[1:3])), self.depth, np.float32)
        if self.spread is None:
            return depth, None
        ramp = np.arange(1, depth.shape[2] + 1, dtype=np.float32)
        return depth, np.broadcast_to(self.spread * ramp, depth.shape)


def test_an_engine_is_asked_for_the_size_of_the_ground_truth(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"a": [[2, 2, 2], [2, 2, 2]]})
    Image.new("RGB", (1, 1)).save(tmp_path / "a.png")
    (result,) = evaluate(dataset, EnginePredictor(FakeEngine(3.0)), [PAPER])
    assert result.totals["abs_rel"] == 0.5
    assert result.rows[0].pixels == 6


@pytest.mark.parametrize(("canonical", "factor"), [(True, 2.0), (False, 1.0)])
def test_a_model_of_many_cameras_is_scored_through_that_of_the_picture(
    tmp_path: Path, canonical: bool, factor: float
) -> None:
    """It was trained with half the focal length; others are scored as they are."""
    engine = FakeEngine(1.0, spread=0.1)
    training = Camera.from_focal(4.0, (2, 4))
    engine.origin = {
        "training_fov_deg": training.fov_deg,
        "training_size": [2, 4],
        "canonical": canonical,
    }
    (sample,) = dataset_of(tmp_path, {"a": [[2, 2, 2, 2]]}, (8.0, 8.0, 1.5, 0.5))
    depth, spread = EnginePredictor(engine).with_spread(sample)
    np.testing.assert_allclose(depth, factor, rtol=1e-5)
    assert spread is not None
    assert spread[0, 0] == pytest.approx(0.1 * factor)
    uncalibrated, _ = EnginePredictor(engine).with_spread(replace(sample, camera=None))
    np.testing.assert_allclose(uncalibrated, 1.0)


def test_errors_are_set_against_the_spread_of_an_engine(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"a": [[2, 3, 4], [2, 3, 4]], "b": [[2, 0, 0], [0, 0, 0]]})
    (found,) = evaluate(dataset, EnginePredictor(FakeEngine(1.0, spread=0.1)), [PAPER])
    assert found.calibration is not None
    parts = [(part.pixels, part.abs_error) for part in found.calibration.parts]
    assert parts == [(3, 1.0), (2, 2.0), (2, 3.0)]  # spreads 0.1, 0.2, 0.3 m
    assert found.calibration.rank_correlation == pytest.approx(1)
    (plain,) = evaluate(dataset, EnginePredictor(FakeEngine(1.0)), [PAPER])
    assert plain.calibration is None
    assert plain.totals == found.totals


def test_a_protocol_that_rescales_scales_the_spread_along(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"a": [[2, 2, 5], [2, 2, 2]]})
    rescaling = replace(PAPER, name="median", rescale="median")
    (found,) = evaluate(dataset, EnginePredictor(FakeEngine(1.0, spread=0.1)), [rescaling])
    assert found.calibration is not None
    assert [part.spread for part in found.calibration.parts] == pytest.approx([0.2, 0.4, 0.6])
    assert [part.abs_error for part in found.calibration.parts] == pytest.approx([0, 0, 1.5])


def test_an_engine_that_predicts_nan_is_an_error_and_not_a_hole(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, TARGETS)
    with pytest.raises(InputError, match=r"a\.png, b\.png: fake"):
        evaluate(dataset, EnginePredictor(FakeEngine(math.nan)), [PAPER])


def test_points_in_space_by_hand(tmp_path: Path) -> None:
    camera = (1.0, 1.0, 0.0, 0.0)  # the first pixel looks straight ahead, the second at x = z
    dataset = dataset_of(tmp_path, {"a": [[2, 4]], "b": [[2, 0]]}, camera)
    guesses: Maps = {"a": [[2.25, 4]], "b": [[2, 1]]}
    (result,) = evaluate(dataset, guessing(guesses), [BY_PIXEL], extras=Extras(clouds=True))
    first, second = (row.numbers for row in result.rows)
    # (0, 0, 2.25) against (0, 0, 2): 0.25 m off both ways; the other point is right
    assert first["chamfer"] == pytest.approx(0.125)
    assert (first["f1_0.2"], first["f1_0.3"]) == (0.5, 1.0)
    assert (second["chamfer"], second["f1_0.05"]) == (0, 1)
    assert result.totals["chamfer"] == pytest.approx(0.0625)  # a mean over pictures, always
    assert result.totals["f1_0.2"] == 0.75


def test_points_follow_the_size_of_the_ground_truth(tmp_path: Path) -> None:
    """A picture of half the size: its camera is resized with it, and depth alone tells."""
    dataset = dataset_of(tmp_path, {"a": [[3, 3, 3, 3]] * 2}, (2.0, 2.0, 1.5, 0.5))
    sample = dataset[0]
    half = replace(sample, camera=sample.camera.resized((1, 2)) if sample.camera else None)
    guess = np.full((2, 4), 3.3, np.float32)
    numbers = [
        score(each, guess, PAPER, catalog.FOLDER, extras=Extras(clouds=True))[0].row.numbers
        for each in (sample, half)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6)


def test_clouds_without_a_camera_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--clouds"):
        evaluate(
            dataset_of(tmp_path, TARGETS), guessing(GUESSES), [PAPER], extras=Extras(clouds=True)
        )


def test_errors_by_distance_are_over_all_pixels(tmp_path: Path) -> None:
    targets: Maps = {"a": [[2, 9, 15]], "b": [[4, 0, 300]]}
    guesses: Maps = {"a": [[3, 9, 12]], "b": [[2, 7, 300]]}
    near, far = result_of(tmp_path, PAPER, targets, guesses).by_distance
    assert (near.start, near.stop, near.pixels) == (0, 10, 3)
    assert near.abs_rel == pytest.approx((1 / 2 + 0 + 2 / 4) / 3)
    assert near.abs_error == pytest.approx((1 + 0 + 2) / 3)
    assert near.bias == pytest.approx((1 + 0 - 2) / 3)
    assert (far.start, far.stop, far.pixels, far.bias) == (10, 20, 1, -3)


def test_distances_in_rooms_are_binned_by_the_metre(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, {"a": [[1.5, 1.9, 2.0, 9.99]]})
    dataset.spec = replace(catalog.FOLDER, max_depth=10.0)
    (result,) = evaluate(dataset, guessing({"a": [[1, 1, 1, 1]]}), [PAPER])
    bins = [(each.start, each.stop, each.pixels) for each in result.by_distance]
    assert bins == [(1, 2, 2), (2, 3, 1), (9, 10, 1)]


def test_the_worst_pictures_are_kept_worst_first(tmp_path: Path) -> None:
    targets = {f"p{number:02d}": [[2.0, 2.0]] for number in range(11)}
    order = np.random.default_rng(3).permutation(11)
    guesses = {
        f"p{number:02d}": [[2.0 + 0.1 * rank] * 2] for rank, number in enumerate(order.tolist())
    }
    worst = result_of(tmp_path, PAPER, targets, guesses).worst
    expected = [f"p{number:02d}.png" for number in order[::-1]][:KEPT]
    assert [case.row.name for case in worst] == expected
    assert worst[0].prediction[0, 0] == pytest.approx(3.0)
    assert worst[0].valid.tolist() == [[True, True], [False, False]]


def test_the_devkit_reports_its_four_numbers_and_no_other_protocol_does(tmp_path: Path) -> None:
    targets, guesses = {"a": [[2, 4]]}, {"a": [[1, 4]]}
    totals = result_of(tmp_path, PROTOCOLS["kitti-devkit"], targets, guesses).totals
    assert set(totals) == {"silog", "sq_rel_percent", "abs_rel_percent", "irmse"}
    assert totals["abs_rel_percent"] == pytest.approx(25)
    assert totals["sq_rel_percent"] == pytest.approx(12.5)
    assert totals["irmse"] == pytest.approx(math.sqrt(500**2 / 2))
    others = result_of(tmp_path, PAPER, targets, guesses).totals
    assert set(others) == {
        *("d05", "d1", "d2", "d3", "abs_rel", "sq_rel", "rmse", "rmse_log", "log10", "silog")
    }


def test_normals_are_scored_by_angle(tmp_path: Path) -> None:
    truth = np.zeros((1, 4, 3), np.float32)
    truth[0, :3, 2] = 1  # the last pixel has none
    write_normals(tmp_path / "n.png", truth, NormalMap())
    Image.new("RGB", (4, 1)).save(tmp_path / "a.png")
    source = Manifest(
        dataset="synthetic_normals",
        target=NormalMap(),
        records=(Record(image="a.png", target="n.png", split="test"),),
        root=tmp_path,
    )
    dataset = Dataset(source, "test", catalog.SYNTHETIC_NORMALS)
    stored = dataset[0].target[0, 0]  # 128 / 255 is not quite 0
    across = np.cross(stored, [1, 0, 0])
    guess = np.float32([[stored, stored * 2, across, across]])
    (result,) = evaluate(dataset, lambda _: guess, [PAPER])
    assert result.rows[0].pixels == 3
    assert result.totals["mean_deg"] == pytest.approx(30, abs=1e-3)
    assert result.totals["median_deg"] == pytest.approx(0, abs=0.05)
    assert result.totals["a11.25"] == pytest.approx(2 / 3)
    assert result.by_distance == ()


def test_boundaries_are_averaged_over_the_pictures_that_have_some(tmp_path: Path) -> None:
    targets: Maps = {"edge": [[1, 1, 2, 2]], "flat": [[1, 1, 1, 1]]}
    guesses: Maps = {"edge": [[1, 1, 2, 2]], "flat": [[1, 2, 2, 2]]}
    dataset = dataset_of(tmp_path, targets)
    (result,) = evaluate(dataset, guessing(guesses), [PAPER], extras=Extras(boundaries=True))
    assert result.totals["boundary_f1"] == 1
