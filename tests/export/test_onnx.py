"""The ONNX file: any size, standard operators, and all that a reader needs to know."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.fakes import exported, vit
from tests.fakes.mutations import mutated

from idisc.errors import CheckpointError
from idisc.export import onnx as onnx_export
from idisc.export.make import Request, make
from idisc.model.network import IDisc
from idisc.model.states import read_onnx
from idisc.predict.engine import ModelFacts
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine
from idisc.sizes import Size


def picture(size: Size, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (1, *size, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def engines() -> tuple[OnnxEngine, TorchEngine]:
    return OnnxEngine(exported.any_size()), TorchEngine.load(exported.checkpoint())


@pytest.mark.parametrize(
    ("size", "result"),
    [
        ((96, 128), None),
        ((101, 67), None),  # nothing divides it
        ((117, 150), (40, 333)),
        ((64, 64), (64, 64)),
        ((33, 200), (480, 640)),
        ((32, 32), None),  # one pixel at stride 32
        ((1, 40), None),
    ],
)
def test_any_size_gives_what_the_network_gives(
    engines: tuple[OnnxEngine, TorchEngine], size: Size, result: Size | None
) -> None:
    file, network = engines
    depth, spread = file.with_spread(picture(size), result)
    same_depth, same_spread = network.with_spread(picture(size), result)
    assert depth.dtype == np.float32
    assert depth.shape == (1, *(result or size))
    np.testing.assert_allclose(depth, same_depth, atol=2e-5)
    assert spread is not None
    assert same_spread is not None
    np.testing.assert_allclose(spread, same_spread, atol=5e-5)


def test_pictures_of_a_batch_run_one_after_the_other(
    engines: tuple[OnnxEngine, TorchEngine],
) -> None:
    file, network = engines
    images = np.concatenate([picture((40, 56), seed) for seed in range(3)])
    np.testing.assert_allclose(file(images), network(images), atol=2e-5)


def test_there_is_no_grid_sample_and_nothing_but_standard_operators() -> None:
    model = read_onnx(exported.any_size())
    onnx.checker.check_model(model, full_check=True)
    kinds = {node.op_type for node in onnx_export.nodes(model.graph)}
    assert "GridSample" not in kinds
    assert {"Gather", "Scan", "MatMul", "Floor"} <= kinds
    assert not {kind for kind in kinds if "Sequence" in kind}
    assert {entry.domain for entry in model.opset_import} == {""}
    assert [item.name for item in model.graph.input] == ["image", "size"]
    assert [item.name for item in model.graph.output] == ["depth", "spread"]


def test_a_forbidden_operator_is_refused_also_within_a_loop() -> None:
    model = read_onnx(exported.any_size())
    loop = next(node for node in model.graph.node if node.op_type == "Scan")
    body = next(item.g for item in loop.attribute if item.name == "body")
    body.node[0].op_type = "GridSample"
    with pytest.raises(CheckpointError, match=r"x\.onnx: its graph has GridSample, which runtimes"):
        onnx_export.check_operators(model, "x.onnx")


def test_the_file_says_what_it_is() -> None:
    engine = OnnxEngine(exported.any_size())
    facts = ModelFacts.of(engine)
    assert (facts.domain, facts.data, facts.licence) == ("indoor", "rendered rooms", "Apache-2.0")
    assert (facts.depth_range, facts.training_size) == ((0.1, 10.0), (96, 128))
    assert facts.training_fov_deg == 63.0
    assert engine.fixed_size is None
    source = exported.source()
    assert engine.origin["format"] == "idisc/1"
    assert engine.origin["precision"] == "fp32"
    assert engine.origin["weights_sha256"] == source.sha256
    assert json.loads(engine.origin["model"])["encoder"] == exported.SMALL.encoder
    parity = json.loads(engine.origin["parity"])
    assert parity["largest"] < 1e-4
    assert parity["sizes"] == ["96x128", "73x97"]


def test_no_path_of_this_machine_is_in_the_file() -> None:
    content = exported.any_size().read_bytes()
    for word in (b"graph.py", b"site-packages", str(Path.home()).encode() + b"/", b'File "'):
        assert word not in content


def test_a_file_for_one_size_has_results_of_any(tmp_path: Path) -> None:
    """Of normals; `tests/cli/test_export.py` has one of explicit bins."""
    network = IDisc(replace(exported.BINS, task="normals", discretization="isd"))
    network.eval().requires_grad_(False)
    onnx_export.save(onnx_export.build(network, (50, 70)), tmp_path / "one.onnx")
    file, eager = OnnxEngine(tmp_path / "one.onnx"), TorchEngine(network, "eager")
    assert (file.fixed_size, file.task) == ((50, 70), "normals")
    for result in (None, (20, 31)):
        ours, spread = file.with_spread(picture((50, 70)), result)
        np.testing.assert_allclose(ours, eager(picture((50, 70)), result), atol=2e-5)
        assert spread is None
    with pytest.raises(CheckpointError, match="alone, not of 48x64"):
        file(picture((48, 64)))


def test_the_network_itself_stays_as_it_was() -> None:
    source = exported.source()
    before = {name: type(module) for name, module in source.network.named_modules()}
    onnx_export.graph.BytesToMetres(source.network, dynamic=True)
    assert {name: type(module) for name, module in source.network.named_modules()} == before
    assert not any(module._forward_hooks for module in source.network.modules())


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    whole = exported.any_size().read_bytes()
    for name, content in {"empty": b"", "cut": whole[:5000], "text": b"not a graph"}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=name):
            OnnxEngine(path)
    (tmp_path / "text.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(CheckpointError, match="not readable as ONNX"):
        read_onnx(tmp_path / "text.onnx")
    with pytest.raises(CheckpointError, match="no such file"):
        read_onnx(tmp_path / "none.onnx")


def test_40_mutated_files_are_refused_or_answer(tmp_path: Path) -> None:
    """A whole network; `tests/predict/test_damaged_models.py` has a hundred of a small graph."""
    whole = exported.any_size().read_bytes()
    path, refused = tmp_path / "mutated.onnx", []
    for seed in range(40):
        # Weights are most of the file and take any bit; the graph stands before them.
        path.write_bytes(mutated(whole, np.random.default_rng(seed), head=1 / 8))
        try:
            maps = OnnxEngine(path)(picture((33, 40)))
        except CheckpointError as error:
            refused.append(str(error))
        else:
            assert maps.shape[0] == 1
            assert maps.dtype == np.float32
    assert len(refused) > 10
    assert not [message for message in refused if "\n" in message]


def test_a_vit_with_guided_upsampling_takes_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = replace(exported.SMALL.decoder, finest=8)
    encoder = vit.register(monkeypatch)
    config = replace(exported.SMALL, encoder=encoder, decoder=decoder, upsampling="guided")
    folder = exported.save_network(tmp_path / "vit", config)
    make(Request(model=folder, out=tmp_path / "vit.onnx"))
    file, network = OnnxEngine(tmp_path / "vit.onnx"), TorchEngine.load(folder)
    for size in ((96, 128), (133, 61), (14, 18)):
        np.testing.assert_allclose(file(picture(size)), network(picture(size)), atol=2e-5)
