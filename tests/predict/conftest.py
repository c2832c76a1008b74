"""What several tests of predictions share."""

import pytest
import torch
from tests.fakes import pairs
from tests.fakes.brightness import FACTS, Brightness
from tests.fakes.films import Flickering

from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.predictor import Predictor


@pytest.fixture
def engine():
    return Brightness()


@pytest.fixture
def predictor():
    """Of the frames of clips."""
    return Predictor(Flickering())


@pytest.fixture(scope="package")
def checkpoint(tmp_path_factory):
    """A tiny network with random weights; no test may change its folder."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights") / "tiny"
    save_checkpoint(folder, pairs.TINY, IDisc(pairs.TINY).state_dict(), FACTS)
    return folder
