"""Timing: functions run in turns, first calls are not counted, medians are compared."""

import pytest
from tests.fakes import onnx_files

from idisc.predict import timing
from idisc.predict.onnx_engine import OnnxEngine


@pytest.fixture
def clock():
    times = iter([0, 1, 1, 11, 20, 23, 30, 40, 50, 55, 60, 90])  # 1, 3, 5 and 10, 10, 30 seconds
    return lambda: next(times)


def test_functions_run_in_turns_and_medians_are_returned(clock):
    order = []
    runs = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    assert timing.median_seconds(runs, 3, clock) == {"a": 3, "b": 10}
    assert order == ["a", "b"] * 4


@pytest.mark.parametrize(("reference", "ratios"), [("slow", [10 / 3, 1]), ("absent", [None, None])])
def test_times_are_sorted_and_relative_to_the_reference(clock, reference, ratios):
    runs = {"quick": lambda: None, "slow": lambda: None}
    rows = timing.compare(runs, 3, reference, clock)
    assert [row.name for row in rows] == ["quick", "slow"]
    assert [row.times_faster for row in rows] == ratios


def test_one_image_of_the_size_is_predicted(tmp_path):
    engine = OnnxEngine(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))
    found = timing.predicting(engine, (30, 40))()
    assert found.maps.shape == (1, 30, 40)
