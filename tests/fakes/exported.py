"""A small network and its export, made once per test run because a trace takes half a minute."""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import torch
from tests.fakes.pairs import TINY

from idisc.configs.schema import IsdConfig
from idisc.export import parity
from idisc.export.run import ExportOptions, export_network
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.torch_engine import TorchEngine

SIZE = (96, 128)
SMALL = replace(TINY, resolutions=2, isd=IsdConfig(layers=1), afp=replace(TINY.afp, iterations=1))
BINS = replace(
    TINY, resolutions=1, discretization="edd", decoder=replace(TINY.decoder, msda=False)
)  # the smallest network to trace
ORIGIN = {
    "recipe": "tiny",
    "domain": "indoor",
    "data": "rendered rooms",
    "depth_range": [0.1, 10.0],
    "training_size": [*SIZE],
    "training_fov_deg": 63.0,
    "licence": "Apache-2.0",
}


def save_network(folder, config=SMALL, seed=0):
    """A checkpoint with random weights that predict a few metres, as trained ones do."""
    torch.manual_seed(seed)
    network = IDisc(config)
    if config.task == "depth" and config.discretization != "edd":
        for head in network.heads:
            torch.nn.init.constant_(head.layers[-1].bias, 1.0)
    save_checkpoint(folder, config, network.state_dict(), ORIGIN)
    return folder


@cache
def folder():
    """A folder that is removed after the tests."""
    return tempfile.TemporaryDirectory(prefix="idisc-exports-")


def place():
    """The path of that folder."""
    return Path(folder().name)


@cache
def checkpoint():
    """The folder of the small network."""
    return save_network(place() / "small")


@cache
def bins():
    """The folder of a network with explicit bins."""
    return save_network(place() / "bins", BINS)


@cache
def any_size():
    """The ONNX file of the small network, for any size."""
    path = place() / "small.onnx"
    export_network(source(), ExportOptions(out=path))
    return path


def model():
    """The graph of that file, a new copy with every call."""
    return onnx.load(any_size())


@cache
def source():
    """The small network in torch."""
    return TorchEngine.load(checkpoint())


def photos(count):
    """Some of the example photos."""
    return parity.read_evenly(parity.list_pictures(parity.EXAMPLES), count)
