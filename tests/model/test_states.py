"""Files of tensors: read without executing code, and refused if they are damaged."""

import os
import pickle

import pytest
import torch
from safetensors.torch import save_file
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError
from idisc.model.states import check_state, read_state


class Bomb:
    """Unpickling this would leave a file behind."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_wrappers_and_the_prefix_of_parallel_training_are_removed(tmp_path):
    state = {"module.a.weight": torch.ones(2), "submodule.b": torch.ones(1)}
    for name, content in (("bare", state), ("state_dict", {"state_dict": state, "epoch": 3})):
        torch.save(content, tmp_path / f"{name}.pt")
        assert list(read_state(tmp_path / f"{name}.pt")) == ["a.weight", "submodule.b"]
    save_file({"a.weight": torch.ones(2)}, tmp_path / "a.safetensors")
    assert torch.equal(read_state(tmp_path / "a.safetensors")["a.weight"], torch.ones(2))


def test_nothing_in_a_file_is_executed(tmp_path):
    mark = tmp_path / "executed"
    torch.save({"a": torch.ones(1), "b": Bomb(mark)}, tmp_path / "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"b": Bomb(mark)}))
    for name, found in (("zip.pt", "more than tensors"), ("plain.pt", "no torch checkpoint")):
        with refused(CheckpointError, tmp_path / name, found):
            read_state(tmp_path / name)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"not a checkpoint at all", b"PK\x03\x04" + bytes(60)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.pt"
    path.write_bytes(content)
    with refused(CheckpointError, path):
        read_state(path)


def test_a_truncated_or_changed_file_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.zeros(1000)}, path)
    whole = path.read_bytes()
    for share in (0.1, 0.999):
        path.write_bytes(whole[: int(len(whole) * share)])
        with refused(CheckpointError, path, "truncated"):
            read_state(path)
    changed = bytearray(whole)
    changed[changed.index(bytes(500)) + 250] ^= 1
    path.write_bytes(changed)
    with refused(CheckpointError, path, "data/0"):
        read_state(path)


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
def test_a_file_with_other_content_is_refused(tmp_path, content, fact):
    torch.save(content, tmp_path / "other.pt")
    with refused(CheckpointError, tmp_path / "other.pt", fact):
        read_state(tmp_path / "other.pt")


def test_a_missing_file_and_a_folder(tmp_path):
    with refused(CheckpointError, tmp_path / "none.pt"):
        read_state(tmp_path / "none.pt")
    with refused(CheckpointError, tmp_path):
        read_state(tmp_path)
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    with refused(CheckpointError, tmp_path / "bad.safetensors"):
        read_state(tmp_path / "bad.safetensors")


def test_differences_to_the_expected_tensors_are_listed():
    expected = {name: torch.ones(2, 3) for name in "abcdef"}
    state = {"a": torch.ones(2, 3), "b": torch.ones(3), "x": torch.ones(1)}
    facts = ("missing c, d, e and 1 more", "unexpected x", "b is 3, 2x3 expected")
    with refused(CheckpointError, "file.pt", *facts):
        check_state(state, expected, "file.pt")


def test_other_types_and_values_that_are_not_finite_are_refused():
    with refused(CheckpointError, "file.pt", "a is 2 of torch.int64, 2 expected"):
        check_state({"a": torch.ones(2).long()}, {"a": torch.ones(2)}, "file.pt")
    state = {"a": torch.tensor([1.0, float("nan")])}
    with refused(CheckpointError, "file.pt", "not finite"):
        check_state(state, state, "file.pt")
