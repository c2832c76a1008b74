"""Pictures to train on, a finished run, and one thread, which is faster for tiny networks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import start


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of pictures and depth that no test may change."""
    return pairs.make(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `pairs.recipe()` that no test may change."""
    out = tmp_path_factory.mktemp("finished") / "run"
    torch.set_num_threads(1)
    start(pairs.recipe(), data, out).train()
    return out


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
