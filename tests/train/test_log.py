"""The records of a run: lines of JSON, TensorBoard events, the speed."""

import json
import math

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from idisc.train import log


def test_numbers_that_are_not_finite_are_null(tmp_path):
    records = log.Log(tmp_path, 0, 0)
    records.write("step", 1, {"loss": math.nan, "grad_norm": math.inf, "lr": 0.5})
    records.close()
    line = (tmp_path / "log.jsonl").read_text()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "kind": "step",
        "step": 1,
        "loss": None,
        "grad_norm": None,
        "lr": 0.5,
    }


def test_a_validation_after_the_checkpoint_is_removed(tmp_path):
    records = log.Log(tmp_path, 0, 0)
    for step in (1, 2, 3):
        records.write("step", step, {"loss": 1.0})
        records.write("validation", step, {"abs_rel": 0.1})
    records.close()
    log.Log(tmp_path, 2, 1).close()
    assert [row["step"] for row in log.read(tmp_path, "step")] == [1, 2]
    assert [row["step"] for row in log.read(tmp_path, "validation")] == [1]


def test_tensorboard_reads_the_events(tmp_path):
    for begin, end in ((0, 3), (2, 4)):  # stopped after step 3, resumed from step 2
        records = log.Log(tmp_path, begin, begin)
        for step in range(begin + 1, end + 1):
            records.write("step", step, {"loss": 10.0 * step + begin, "name": "not a number"})
        records.close()
    seen = EventAccumulator(str(tmp_path / "events")).Reload()
    assert seen.Tags()["scalars"] == ["step/loss"]
    values = {event.step: event.value for event in seen.Scalars("step/loss")}
    assert values == {1: 10.0, 2: 20.0, 3: 32.0, 4: 42.0}


def test_the_speed_is_a_mean_over_the_latest_steps():
    times = log.StepTimes()
    times.add(100.0, 100.0)
    for _ in range(log.RECENT // 2):
        times.add(1.0, 0.0)
        times.add(3.0, 1.0)
    assert times.seconds == pytest.approx(2.0)
    assert times.wait_share == pytest.approx(0.25)
