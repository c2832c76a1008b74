"""Tasks are rows of a table: a new one is trained, validated, scored, predicted and saved."""

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes import albedo, pairs
from tests.fakes.refusals import refused
from tests.fakes.training import ALONE, losses, stop_after

from idisc import Predictor, load_network
from idisc.data.dataset import open_dataset
from idisc.errors import InputError
from idisc.evaluate.predictions import PredictionFiles, Reading
from idisc.evaluate.protocols import PAPER
from idisc.evaluate.run import evaluate
from idisc.predict.torch_engine import TorchEngine
from idisc.tasks import TASKS
from idisc.train import launch


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_map_agrees_with_itself_and_has_no_error(task):
    shape = (6, 8) if task.components == 1 else (6, 8, task.components)
    values = np.random.default_rng(0).uniform(0.5, 1, shape).astype(np.float32)
    valid = np.ones((6, 8), bool)
    assert task.agree(values, values).all()
    assert task.error(values[valid], values[valid]).max() < 1e-3
    assert task.terms(values[valid], values[valid]).metrics()[task.ranking[0]] < 1e-3
    assert task.draw(values, None, None).shape == (6, 8, 3)
    assert task.draw_error(values, values, valid, 1.0).shape == (6, 8, 3)


def test_an_unknown_task_is_refused():
    with refused(InputError, "task"):
        replace(pairs.TINY, task="albedo")


@pytest.mark.slow
def test_a_third_task_needs_only_its_rows(tmp_path, monkeypatch):
    albedo.register(monkeypatch)
    root, out = albedo.make(tmp_path / "data"), tmp_path / "run"
    made = pairs.recipe(iterations=2, save_every=1, validate_every=2, loss_weight=1.0)
    made = replace(
        made,
        model=replace(made.model, task="albedo"),
        data=replace(made.data, train="albedo", test="albedo"),
    )
    stop_after(launch.start(made, [f"albedo={root}"], out, ALONE), 1)
    summary = launch.resume(out, ALONE).train()
    assert summary.finished
    assert 0 < summary.best["rmse"] < 1
    assert len(losses(out)) == 2
    assert len(list((out / "pictures").iterdir())) == 1

    engine = TorchEngine(load_network(out / "best"), "toy")
    test = open_dataset(root, "albedo", "test", size=pairs.SIZE)
    (result,) = evaluate(test, Predictor(engine), [PAPER])
    assert result.totals["rmse"] == pytest.approx(summary.best["rmse"], rel=1e-4)

    files = PredictionFiles(root / "test/images", test.records, Reading(task=albedo.ALBEDO))
    assert evaluate(test, files, [PAPER])[0].totals["rmse"] == 0  # the pictures are the truth

    prediction = Predictor(engine).predict(test[0].image, flip=True)
    assert (prediction.task, prediction.depth) == (albedo.ALBEDO, None)
    assert prediction.others["albedo"].shape == (*pairs.SIZE, 3)
    (path,) = prediction.save(tmp_path, name="a")
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["albedo"], prediction.others["albedo"])
    with pytest.raises(InputError):
        prediction.save(tmp_path, "png")
