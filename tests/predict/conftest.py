"""What several tests of predictions share."""

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.brightness import FACTS, Brightness

from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc


@pytest.fixture
def engine():
    return Brightness()


@pytest.fixture(scope="package")
def checkpoint(tmp_path_factory):
    """A tiny network with random weights; no test may change its folder."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    save_checkpoint(folder, pairs.TINY, IDisc(pairs.TINY).state_dict(), FACTS)
    return folder
