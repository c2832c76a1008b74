"""Pictures to train on, a finished run, and one thread, which is faster for tiny networks."""

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import start


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Pairs of pictures and depth that no test may change."""
    return pairs.make(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """The folder of a finished run of `pairs.recipe()` that no test may change."""
    out = tmp_path_factory.mktemp("finished") / "run"
    torch.set_num_threads(1)
    start(pairs.recipe(), data, out).train()
    return out


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
