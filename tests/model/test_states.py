"""Files of tensors are read without executing anything, and every kind of bad file is named."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError
from idisc.model.states import check_state, read_state


class Bomb:
    """Unpickling this would leave a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_wrappers_and_prefixes_are_taken_off(tmp_path: Path) -> None:
    state = {"module.a.weight": torch.ones(2)}
    for name, content in (("bare", state), ("state_dict", {"state_dict": state, "epoch": 3})):
        torch.save(content, tmp_path / f"{name}.pt")
        assert list(read_state(tmp_path / f"{name}.pt")) == ["a.weight"]
    save_file({"a.weight": torch.ones(2)}, tmp_path / "a.safetensors")
    assert torch.equal(read_state(tmp_path / "a.safetensors")["a.weight"], torch.ones(2))


def test_only_a_prefix_is_taken_off(tmp_path: Path) -> None:
    torch.save({"submodule.a": torch.ones(1), "module.b": torch.ones(1)}, tmp_path / "x.pt")
    assert list(read_state(tmp_path / "x.pt")) == ["submodule.a", "b"]


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    torch.save({"a": torch.ones(1), "b": Bomb(mark)}, tmp_path / "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"b": Bomb(mark)}))
    for name, found in (("zip.pt", "more than tensors"), ("plain.pt", "no torch checkpoint")):
        with refused(CheckpointError, tmp_path / name, found):
            read_state(tmp_path / name)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", b"PK\x03\x04" + bytes(60)])
def test_a_file_that_is_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with refused(CheckpointError, path):
        read_state(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    whole = tmp_path / "whole.pt"
    torch.save({"a": torch.randn(100, 100)}, whole)
    content = whole.read_bytes()
    (tmp_path / "cut.pt").write_bytes(content[: int(len(content) * share)])
    with refused(CheckpointError, tmp_path / "cut.pt", "truncated"):
        read_state(tmp_path / "cut.pt")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ({}, "nothing"),
        ([torch.ones(1)], "a list"),
        (torch.ones(1), "a Tensor"),
        ({"a": torch.ones(1), "lr": 0.1}, "'lr' is a float"),
        ({1: torch.ones(1)}, "1 is a Tensor"),
        ({"a": torch.ones(2).to_sparse()}, "'a' is a Tensor"),
        ({"a": torch.ones(2, device="meta")}, "'a' is a Tensor"),
        ({"a": torch.ones(1), "module.a": torch.ones(1)}, "twice"),
    ],
)
def test_a_file_of_other_things(tmp_path: Path, content: object, fact: str) -> None:
    torch.save(content, tmp_path / "other.pt")
    with refused(CheckpointError, tmp_path / "other.pt", fact):
        read_state(tmp_path / "other.pt")


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1000)}, tmp_path / "x.pt")
    content = bytearray((tmp_path / "x.pt").read_bytes())
    content[content.index(bytes(500)) + 250] ^= 1
    (tmp_path / "x.pt").write_bytes(content)
    with refused(CheckpointError, tmp_path / "x.pt", "data/0"):
        read_state(tmp_path / "x.pt")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with refused(CheckpointError, tmp_path / "none.pt"):
        read_state(tmp_path / "none.pt")
    with refused(CheckpointError, tmp_path):
        read_state(tmp_path)
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    with refused(CheckpointError, tmp_path / "bad.safetensors"):
        read_state(tmp_path / "bad.safetensors")


def test_what_does_not_fit_is_listed() -> None:
    expected = {name: torch.ones(2, 3) for name in "abcdef"}
    state = {"a": torch.ones(2, 3), "b": torch.ones(3), "x": torch.ones(1)}
    facts = ("missing c, d, e and 1 more", "unexpected x", "b is 3, 2x3 expected")
    with refused(CheckpointError, "file.pt", *facts):
        check_state(state, expected, "file.pt")


def test_numbers_of_another_kind_are_found() -> None:
    with refused(CheckpointError, "file.pt", "a is 2 of torch.int64, 2 expected"):
        check_state({"a": torch.ones(2).long()}, {"a": torch.ones(2)}, "file.pt")


def test_values_that_are_not_finite_are_found() -> None:
    state = {"a": torch.tensor([1.0, float("nan")])}
    with refused(CheckpointError, "file.pt", "not finite"):
        check_state(state, state, "file.pt")
