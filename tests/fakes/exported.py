"""A small network, and its exports, made once in a run of the tests: a trace takes its time."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from tests.fakes.pairs import TINY

from idisc.export import parity
from idisc.export.make import Request, make
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.torch_engine import TorchEngine
from idisc.settings import IsdConfig, ModelConfig
from idisc.sizes import Size

SIZE: Size = (96, 128)
SMALL = replace(TINY, resolutions=2, isd=IsdConfig(layers=1), afp=replace(TINY.afp, iterations=1))
BINS = replace(
    TINY, resolutions=1, discretization="edd", decoder=replace(TINY.decoder, msda=False)
)  # the least there is to trace
ORIGIN = {
    "recipe": "tiny",
    "domain": "indoor",
    "data": "rendered rooms",
    "depth_range": [0.1, 10.0],
    "training_size": [*SIZE],
    "training_fov_deg": 63.0,
    "licence": "Apache-2.0",
}


def save_network(folder: Path, config: ModelConfig = SMALL, seed: int = 0) -> Path:
    """A checkpoint with random weights that lie, as trained ones do, at some metres."""
    torch.manual_seed(seed)
    network = IDisc(config)
    if config.task == "depth" and config.discretization != "edd":
        for head in network.heads:
            torch.nn.init.constant_(head.layers[-1].bias, 1.0)
    save_checkpoint(folder, config, network.state_dict(), ORIGIN)
    return folder


@cache
def place() -> Path:
    """A folder for as long as the tests run."""
    folder = tempfile.TemporaryDirectory(prefix="idisc-exports-")
    _kept.append(folder)
    return Path(folder.name)


@cache
def checkpoint() -> Path:
    """The folder of the small network."""
    return save_network(place() / "small")


@cache
def bins() -> Path:
    """The folder of a network with explicit bins."""
    return save_network(place() / "bins", BINS)


@cache
def any_size() -> Path:
    """Its ONNX file for any size."""
    path = place() / "small.onnx"
    make(Request(model=checkpoint(), out=path))
    return path


@cache
def source() -> TorchEngine:
    """The network that they are made from."""
    return TorchEngine.load(checkpoint())


def photos(count: int) -> parity.Images:
    """Some of the example photos."""
    return parity.read_some(parity.paths_of(parity.EXAMPLES), count)


_kept: list[tempfile.TemporaryDirectory[str]] = []
