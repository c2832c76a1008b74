"""The folder of a run on a full disk, with several processes, and with a damaged file."""

from pathlib import Path

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.refusals import refused
from tests.fakes.training import ALONE, start, stop_after

from idisc.errors import CheckpointError, InputError
from idisc.train import launch, state

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="a device that is always full, of Linux")
def test_a_full_disk_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    original = torch.save

    def without_room(value, _file):
        with FULL.open("wb") as full:
            original(value, full)

    monkeypatch.setattr(torch, "save", without_room)
    remedies = []
    for _ in range(2):
        with pytest.raises(CheckpointError) as caught:
            state.write_training(tmp_path, {"step": 0, "weights": torch.zeros(100_000)})
        assert "No space left" in caught.value.reason
        remedies.append(caught.value.remedy)
        (tmp_path / "last" / "training.pt").touch()
    assert ["resume" in remedy for remedy in remedies] == [False, True]


def test_a_run_is_trained_by_one_process_at_a_time(data, tmp_path):
    out = tmp_path / "run"
    stop_after(start(pairs.recipe(), data, out), 1)
    draft = out / "last" / ".training.pt.x.part"
    draft.touch()  # the other process writes it
    with state.locked(out, is_main=True):
        with refused(InputError, out):
            launch.resume(out, ALONE).train()
        assert draft.exists()
    assert launch.resume(out, ALONE).train().finished


def test_systems_without_fcntl_train_without_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(state.importlib.util, "find_spec", lambda _: None)
    with state.locked(tmp_path / "missing", is_main=True):
        pass


@pytest.mark.parametrize("damage", ["short", "one bit of a tensor"])
def test_a_damaged_checkpoint_is_an_error_with_a_remedy(tmp_path, damage):
    path = tmp_path / "last" / "training.pt"
    path.parent.mkdir()
    state.write_training(tmp_path, {"weight": torch.ones(10_000)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(b"PK" if damage == "short" else content)
    with pytest.raises(CheckpointError) as caught:
        state.read_training(tmp_path)
    assert caught.value.remedy.endswith(f"--weights {tmp_path / 'last'}")
