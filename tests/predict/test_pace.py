"""How long engines take: in turns, the first of each not counted, medians."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes import onnx_files

from idisc.errors import CheckpointError
from idisc.predict import pace
from idisc.predict.onnx_engine import OnnxEngine


def test_runs_take_turns_and_their_medians_count() -> None:
    order: list[str] = []
    clock = iter([0, 1, 1, 11, 20, 23, 30, 40, 50, 55, 60, 90])  # 1, 3, 5 and 10, 10, 30
    runs = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    assert pace.medians(runs, 3, now=lambda: next(clock)) == {"a": 3, "b": 10}
    assert order == ["a", "b"] * 4


def test_a_picture_of_the_size_is_asked_for(tmp_path: Path) -> None:
    engine = OnnxEngine(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))
    maps = pace.asking(engine, (30, 40))()
    assert maps.shape == (1, 30, 40)  # type: ignore[attr-defined]


def test_a_whole_call_is_longer_than_its_network(tmp_path: Path) -> None:
    found = pace.time_to_predict(onnx_files.depth_of_brightness(tmp_path / "a.onnx"), (30, 40), 1)
    assert found.seconds > found.network > 0
    assert found.beyond == found.seconds - found.network


def test_a_call_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = onnx_files.depth_of_brightness(tmp_path / "a.onnx")
    monkeypatch.setattr(pace, "EXAMPLE", "no_such_room.jpg")
    with pytest.raises(CheckpointError, match=r"^idisc predict: .*no_such_room"):
        pace.time_to_predict(path, (30, 40), 1)
