"""An evaluation from samples to totals: hand-computed averages, failures, clouds, distances."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.fakes import scored
from tests.fakes.brightness import Brightness
from tests.fakes.refusals import refused
from tests.fakes.scored import normals_dataset

from idisc import files
from idisc.camera import Camera
from idisc.data import catalog, framing
from idisc.errors import DataError, InputError, MissingExtra
from idisc.evaluate.protocols import PROTOCOLS
from idisc.evaluate.run import ScoringError, evaluate, predict_sample
from idisc.evaluate.scoring import Extras, score
from idisc.predict.engine import Output
from idisc.predict.predictor import Predictor

PAPER, CODE = PROTOCOLS["paper"], PROTOCOLS["published-code"]
BY_PIXEL = replace(PAPER, name="by pixel", averaging="pixel")
# Four pixels of which one is twice too far, and one pixel that is (0 is no ground truth).
TARGETS = {"a": [[1, 1, 1, 1]], "b": [[1, 0, 0, 0]]}
GUESSES = {"a": [[1, 1, 1, 2]], "b": [[2, 9, 9, 9]]}


def as_map(rows, below):
    """A map (H, W); a single row gets another one below it."""
    rows = [*rows, [below] * len(rows[0])] if len(rows) == 1 else rows
    return np.array(rows, np.float32)


def dataset_of(root, targets, camera=None):
    maps = {name: as_map(depth, below=0) for name, depth in targets.items()}
    return scored.dataset_of(root, maps, camera)


def guessing(guesses):
    def predict(sample):
        return as_map(guesses[sample.record.image.removesuffix(".png")], below=1)

    return predict


def result_of(root, protocol, targets, guesses):
    (result,) = evaluate(dataset_of(root, targets), guessing(guesses), [protocol])
    return result


def test_several_protocols_score_the_same_predictions_in_one_run(tmp_path):
    asked, steps = [], []

    def predict(sample):
        asked.append(sample.record.image)
        return guessing(GUESSES)(sample)

    results = evaluate(
        dataset_of(tmp_path, TARGETS),
        predict,
        [PAPER, BY_PIXEL],
        progress=lambda done, total: steps.append((done, total)),
    )
    assert asked == ["a.png", "b.png"]
    assert steps == [(1, 2), (2, 2)]
    assert [result.protocol.name for result in results] == ["paper", "by pixel"]
    assert [result.totals["abs_rel"] for result in results] == pytest.approx([0.625, 2 / 5])
    assert results[0].manifest_sha256 == "5ha"


def test_a_dataset_without_a_valid_pixel_is_named(tmp_path):
    with refused(DataError, f"{tmp_path}: ground truth"):
        result_of(tmp_path, PAPER, {"a": [[0, 0]]}, {"a": [[1, 1]]})
    with refused(DataError, f"{tmp_path}: predictions"):
        result_of(tmp_path, PAPER, {"a": [[1, 1]]}, {"a": [[math.nan, math.nan]]})


def test_each_picture_has_a_row_and_pixels_without_truth_or_prediction_are_left_out(tmp_path):
    targets = {**TARGETS, "c": [[0, 0, 0, 0]]}
    guesses = {"a": [[1, 1, math.nan, 2]], "b": [[2] + 3 * [math.nan]], "c": [[5, 5, 5, 5]]}
    result = result_of(tmp_path, PAPER, targets, guesses)
    found = [(row.name, row.pixels, row.numbers.get("abs_rel")) for row in result.rows]
    assert found == [("a.png", 3, pytest.approx(1 / 3)), ("b.png", 1, 1.0), ("c.png", 0, None)]
    assert (result.skipped, result.holes) == (1, pytest.approx(1 / 5))
    assert result.totals["abs_rel"] == pytest.approx(2 / 3)


def test_failures_are_kept_and_named_together_by_cause(tmp_path):
    targets = {f"p{number}": [[1.0, 2.0]] for number in range(9)}
    guesses = {name: [[1.0, -1.0]] for name in targets}
    guesses |= {"p7": [[1.0, -2.0]], "p8": [[1.0, 2.0]]}
    with pytest.raises(ScoringError) as caught:
        result_of(tmp_path, PAPER, targets, guesses)
    failures = caught.value.failures
    assert [error.subject for error in failures] == [f"p{n}.png: prediction" for n in range(8)]
    assert len({error.reason for error in failures}) == 2
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: 8 of 9 pictures cannot be scored: p0.png: prediction, ")
    assert "p4.png: prediction and 2 more: " in message
    assert message.count("logarithm") == 2  # each cause once


def test_damaged_and_changed_files_are_not_scored(tmp_path):
    dataset = dataset_of(tmp_path, {**TARGETS, "c": [[1, 1]]})
    dataset.records = [
        replace(record, sha256=files.sha256(tmp_path / record.image, tmp_path / record.target))
        for record in dataset.records
    ]
    guesses = {**GUESSES, "c": [[1, 1]]}
    assert len(evaluate(dataset, guessing(guesses))[0].rows) == 3
    (tmp_path / "0.npy").write_bytes(b"junk")
    np.save(tmp_path / "2.npy", np.load(tmp_path / "2.npy") / 2)
    with pytest.raises(ScoringError) as caught:
        evaluate(dataset, guessing(guesses))
    damaged, changed = caught.value.failures
    assert (type(damaged), damaged.subject) == (InputError, str(tmp_path / "0.npy"))
    assert (type(changed), changed.subject) == (DataError, str(tmp_path / "c.png"))


def test_a_missing_package_is_reported_once(tmp_path):
    def predict(sample):
        raise MissingExtra("scipy", "not installed")

    with pytest.raises(MissingExtra):
        evaluate(dataset_of(tmp_path, TARGETS), predict)


def test_the_ratio_to_the_ground_truth_is_that_before_rescaling(tmp_path):
    guesses = {"a": [[1000, 1000, 1000, 3000]], "b": [[1002, 9, 9, 9]]}
    result = result_of(tmp_path, replace(PAPER, rescale="median"), TARGETS, guesses)
    assert result.median_ratio == pytest.approx(1001)
    assert (result.unit_hint.code, result.unit_hint.details["scale"]) == ("unit", 0.001)
    exact = result_of(tmp_path, PAPER, TARGETS, TARGETS | {"b": [[1, 9, 9, 9]]})
    assert (exact.median_ratio, exact.unit_hint) == (1, None)


def test_what_needs_depth_is_refused_for_normals(tmp_path):
    dataset = normals_dataset(tmp_path, np.ones((1, 4, 3), np.float32))
    with refused(InputError, "--clouds"):
        evaluate(dataset, guessing(GUESSES), extras=Extras(clouds=True))
    with refused(InputError, "--protocol kitti-devkit"):
        evaluate(dataset, guessing(GUESSES), [PROTOCOLS["kitti-devkit"]])
    with refused(InputError, "fake"):
        evaluate(dataset, Predictor(FakeEngine(1.0)))


def test_what_cannot_be_scored_names_the_picture(tmp_path):
    sample = dataset_of(tmp_path, TARGETS)[0]
    with refused(InputError, "a.png: prediction"):  # has no logarithm
        score(sample, as_map([[1, 1, 1, -2]], below=1), PAPER, catalog.FOLDER)
    with refused(DataError, "a.png"):
        score(sample, np.ones((2, 4, 3), np.float32), PAPER, catalog.FOLDER)
    with refused(DataError, "a.png"):  # no camera
        score(sample, sample.target + 1, PAPER, catalog.FOLDER, Extras(clouds=True))


class FakeEngine(Brightness):
    """One depth everywhere, or NaN; its deviation, if any, grows from left to right."""

    name = "fake"

    def __init__(self, depth, spread=None, **origin):
        super().__init__(origin, spread)
        self.depth = depth

    def run(self, images, size=None):
        depth = np.full_like(super().run(images, size).maps, self.depth)
        if self.spread is None:
            return Output(depth)
        ramp = np.arange(1, depth.shape[2] + 1, dtype=np.float32)
        return Output(depth, np.broadcast_to(self.spread * ramp, depth.shape))


@pytest.mark.parametrize(
    ("trained", "usual", "seen"),
    [
        (None, None, (448, 672)),  # pictures of one's own, as they are predicted
        ((64, 96), None, (64, 96)),
        ((64, 96), (40, 60), (64, 96)),  # another size than that of the dataset
        ((480, 640), (40, 60), (40, 60)),  # a size of the paper: the dataset's, as in the paper
        (None, (40, 60), (40, 60)),
    ],
)
def test_a_network_sees_a_dataset_at_the_size_of_its_training_or_of_the_paper(
    tmp_path, trained, usual, seen
):
    dataset = dataset_of(tmp_path, {"a": np.full((20, 30), 2.0).tolist()})
    if usual:
        framed = partial(framing.resized, size=usual)
        dataset.spec = replace(dataset.spec, size=usual, framing=framed)
    engine = FakeEngine(3.0, training_size=trained)
    (result,) = evaluate(dataset, Predictor(engine))
    assert (result.totals["abs_rel"], result.rows[0].pixels) == (0.5, 600)
    evaluate(dataset.at_network_size((32, 64)), Predictor(engine))  # a size that was asked for
    assert engine.calls == [((1, *seen, 3), (20, 30)), ((1, 32, 64, 3), (20, 30))]
    known = {"weights": "fake", "weights_sha256": engine.sha256, "licence": "unknown"}
    assert (result.about, result.model.verified) == (known, True)


@pytest.mark.parametrize(("canonical", "factor"), [(True, 2.0), (False, 1.0)])
def test_a_model_of_many_cameras_is_scored_through_that_of_the_picture(tmp_path, canonical, factor):
    """It was trained with half the focal length; others are scored as they are."""
    fov_deg = Camera.from_focal(4.0, (2, 4)).fov_deg
    engine = FakeEngine(
        1.0, spread=0.1, training_fov_deg=fov_deg, training_size=[2, 4], canonical=canonical
    )
    (sample,) = dataset_of(tmp_path, {"a": [[2, 2, 2, 2]]}, (8.0, 8.0, 1.5, 0.5))
    depth, level_std, *_ = predict_sample(Predictor(engine), sample)
    np.testing.assert_allclose(depth, factor, rtol=1e-5)
    assert level_std[0, 0] == pytest.approx(0.1 * factor)
    uncalibrated = predict_sample(Predictor(engine), replace(sample, camera=None))
    np.testing.assert_allclose(uncalibrated.maps, 1.0)


def test_errors_are_compared_with_the_deviation_of_the_levels(tmp_path):
    dataset = dataset_of(tmp_path, {"a": [[2, 3, 4], [2, 3, 4]], "b": [[2, 0, 0], [0, 0, 0]]})
    (found,) = evaluate(dataset, Predictor(FakeEngine(1.0, spread=0.1)))
    parts = [(part.pixels, part.abs_error) for part in found.calibration.parts]
    assert parts == [(3, 1.0), (2, 2.0), (2, 3.0)]  # deviations 0.1, 0.2, 0.3 m
    assert found.calibration.rank_correlation == pytest.approx(1)
    (plain,) = evaluate(dataset, Predictor(FakeEngine(1.0)))
    assert (plain.calibration, plain.totals) == (None, found.totals)


def test_a_protocol_that_rescales_scales_the_deviation_along(tmp_path):
    dataset = dataset_of(tmp_path, {"a": [[2, 2, 5], [2, 2, 2]]})
    rescaling = replace(PAPER, name="median", rescale="median")
    (found,) = evaluate(dataset, Predictor(FakeEngine(1.0, spread=0.1)), [rescaling])
    parts = [(part.level_std, part.abs_error) for part in found.calibration.parts]
    np.testing.assert_allclose(parts, [(0.2, 0), (0.4, 0), (0.6, 1.5)], atol=1e-6)


def test_a_network_that_predicts_nan_is_an_error_and_not_a_hole(tmp_path):
    dataset = dataset_of(tmp_path, TARGETS)
    with pytest.raises(ScoringError) as caught:
        evaluate(dataset, Predictor(FakeEngine(math.nan)))
    assert [error.subject for error in caught.value.failures] == ["a.png: fake", "b.png: fake"]


def test_points_in_space_by_hand(tmp_path):
    camera = (1.0, 1.0, 0.0, 0.0)  # the first pixel looks straight ahead, the second at x = z
    dataset = dataset_of(tmp_path, {"a": [[2, 4]], "b": [[2, 0]]}, camera)
    guesses = {"a": [[2.25, 4]], "b": [[2, 1]]}
    (result,) = evaluate(dataset, guessing(guesses), [BY_PIXEL], extras=Extras(clouds=True))
    first, second = (row.numbers for row in result.rows)
    # (0, 0, 2.25) against (0, 0, 2): 0.25 m off both ways; the other point is right
    assert first["chamfer"] == pytest.approx(0.125)
    assert (first["f1_0.2"], first["f1_0.3"]) == (0.5, 1.0)
    assert (second["chamfer"], second["f1_0.05"]) == (0, 1)
    assert result.totals["chamfer"] == pytest.approx(0.0625)  # a mean over pictures, always
    assert result.totals["f1_0.2"] == 0.75


def test_points_follow_the_size_of_the_ground_truth(tmp_path):
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


def test_the_worst_pictures_are_kept_worst_first(tmp_path):
    names = [f"p{number}" for number in np.random.default_rng(3).permutation(11)]  # best first
    guesses = {name: [[2.0 + 0.1 * rank] * 2] for rank, name in enumerate(names)}
    worst = result_of(
        tmp_path, PAPER, {name: [[2.0, 2.0]] for name in sorted(names)}, guesses
    ).worst
    assert [case.row.name for case in worst] == [f"{name}.png" for name in names[:-9:-1]]
    assert worst[0].prediction[0, 0] == pytest.approx(3.0)
    assert worst[0].valid.tolist() == [[True, True], [False, False]]


def test_the_devkit_reports_its_four_numbers_and_no_other_protocol_does(tmp_path):
    dataset, guess = dataset_of(tmp_path, {"a": [[2, 4]]}), guessing({"a": [[1, 4]]})
    devkit, paper = evaluate(dataset, guess, [PROTOCOLS["kitti-devkit"], PAPER])
    assert devkit.totals == {
        "silog": pytest.approx(100 * math.log(2) / 2),
        "sq_rel_percent": pytest.approx(12.5),
        "abs_rel_percent": pytest.approx(25),
        "irmse": pytest.approx(math.sqrt(500**2 / 2)),
    }
    others = "d05 d1 d2 d3 abs_rel sq_rel rmse rmse_log log10 silog"
    assert set(paper.totals) == set(others.split())


def test_normals_are_scored_by_angle(tmp_path):
    truth = np.zeros((1, 4, 3), np.float32)
    truth[0, :3, 2] = 1  # the last pixel has none
    dataset = normals_dataset(tmp_path, truth)
    stored = dataset[0].target[0, 0]  # 128 / 255 is not quite 0
    across = np.cross(stored, [1, 0, 0])
    guess = np.float32([[stored, stored * 2, across, across]])
    (result,) = evaluate(dataset, lambda _: guess)
    assert result.rows[0].pixels == 3
    assert result.totals["mean_deg"] == pytest.approx(30, abs=1e-3)
    assert result.totals["median_deg"] == pytest.approx(0, abs=0.05)
    assert result.totals["a11.25"] == pytest.approx(2 / 3)
    assert result.by_distance == ()


def test_boundaries_are_averaged_over_the_pictures_that_have_some(tmp_path):
    targets = {"edge": [[1, 1, 2, 2]], "flat": [[1, 1, 1, 1]]}
    guesses = {"edge": [[1, 1, 2, 2]], "flat": [[1, 2, 2, 2]]}
    dataset = dataset_of(tmp_path, targets)
    (result,) = evaluate(dataset, guessing(guesses), extras=Extras(boundaries=True))
    assert result.totals["boundary_f1"] == 1
