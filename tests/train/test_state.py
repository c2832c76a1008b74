"""What a run's folder holds when disks are full, processes many and files damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE, saved_step, start, stopped_after

from idisc.errors import CheckpointError, InputError
from idisc.train import launch, log, state

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pairs.make(tmp_path_factory.mktemp("data"))


@pytest.mark.skipif(not FULL.exists(), reason="a device that is always full, of Linux")
def test_the_log_on_a_full_disk_is_a_clear_stop(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(pairs.recipe(save_every=100), data, tmp_path / "run")
    original = log.Log.write

    def write(self: log.Log, kind: str, step: int, values: Any) -> None:
        if step == 3:
            self.events.close()
            self.events = FULL.open("ab", buffering=0)
        original(self, kind, step, values)

    with monkeypatch.context() as patch:
        patch.setattr(log.Log, "write", write)
        message = r"run: cannot be written \(No space left on device\); make room and resume"
        with pytest.raises(CheckpointError, match=message):
            run.train()
    assert saved_step(tmp_path / "run") == 3
    assert launch.resume(tmp_path / "run", ALONE).train().finished


@pytest.mark.skipif(not FULL.exists(), reason="a device that is always full, of Linux")
def test_a_checkpoint_without_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.save

    def without_room(value: Any, _file: Any) -> None:
        with FULL.open("wb") as full:
            original(value, full)

    monkeypatch.setattr(torch, "save", without_room)
    with pytest.raises(CheckpointError, match=r"No space left.*; make room and start again"):
        state.write_training(tmp_path, {"step": 0, "weights": torch.zeros(100_000)})
    (tmp_path / "last" / "training.pt").touch()
    with pytest.raises(CheckpointError, match="the checkpoint before it is whole: make room"):
        state.write_training(tmp_path, {"step": 0, "weights": torch.zeros(100_000)})


def test_a_run_is_trained_by_one_process_at_a_time(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped_after(start(pairs.recipe(), data, out), 1)
    draft = out / "last" / ".training.pt.x.part"
    draft.touch()  # what the other one is writing
    with state.locked(out, leads=True):
        with pytest.raises(InputError, match="run: another process is training it"):
            launch.resume(out, ALONE).train()
        assert draft.exists()
    assert launch.resume(out, ALONE).train().finished


def test_a_damaged_checkpoint_says_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "training.pt").write_bytes(b"PK")
    message = rf"training\.pt: not readable, so damaged; .* --weights {tmp_path}/last$"
    with pytest.raises(CheckpointError, match=message):
        state.read_training(tmp_path)
