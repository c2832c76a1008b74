"""torch.export programs, and OpenVINO where it is installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import exported

from idisc.errors import CheckpointError, MissingExtra
from idisc.export import parity, program
from idisc.export.make import Request, make
from idisc.model.states import read_onnx
from idisc.predict.torch_engine import TorchEngine

SIZE = (50, 70)
OPENVINO = importlib.util.find_spec("openvino") is not None


@pytest.fixture(scope="module")
def network() -> TorchEngine:
    return TorchEngine.load(exported.checkpoint())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "small.pt2"
    make(Request(model=exported.checkpoint(), out=path, format="pt2", size=SIZE))
    return path


def test_a_program_gives_what_the_network_gives(file: Path, network: TorchEngine) -> None:
    engine = program.ProgramEngine(file)
    assert engine.fixed_size == SIZE
    assert engine.task == "depth"
    assert engine.origin["weights_sha256"] == network.sha256
    assert json.loads(engine.origin["parity"])["largest"] < 1e-4
    image = np.random.default_rng(0).integers(0, 256, (2, *SIZE, 3), dtype=np.uint8)
    np.testing.assert_allclose(engine(image), network(image), atol=2e-5)
    maps, spread = engine.with_spread(image, (25, 35))
    assert maps.shape == (2, 25, 35)
    assert spread is None


def test_a_damaged_program_is_one_line(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for name, content in {"cut": whole[: len(whole) // 2], "text": b"hello", "empty": b""}.items():
        path = tmp_path / f"{name}.pt2"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=rf"{name}\.pt2: not a program of ours"):
            program.ProgramEngine(path)
    with pytest.raises(CheckpointError, match="no such file"):
        program.ProgramEngine(tmp_path / "none.pt2")


@pytest.mark.skipif(OPENVINO, reason="openvino is installed")
def test_without_openvino_the_extra_is_named(tmp_path: Path) -> None:
    model = read_onnx(exported.any_size())
    with pytest.raises(MissingExtra, match=r"idisc\[openvino\]"):
        program.export_openvino(model, tmp_path / "small.xml")


@pytest.mark.skipif(not OPENVINO, reason="openvino is not installed")
def test_openvino_gives_what_the_network_gives(network: TorchEngine, tmp_path: Path) -> None:
    path = tmp_path / "small.xml"
    make(Request(model=exported.checkpoint(), out=path, format="openvino"))
    engine = program.OpenVinoEngine(path)
    assert engine.fixed_size is None
    assert json.loads(engine.origin["parity"])["largest"] < 1e-4
    images, sizes = exported.photos(1), parity.two_sizes(SIZE)
    parity.measure(engine, network, images, sizes).check("small.xml")
