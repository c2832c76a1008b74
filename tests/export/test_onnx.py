"""The ONNX file: any size, standard operators, and complete metadata."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.fakes import exported, vit
from tests.fakes.refusals import refused

from idisc.errors import CheckpointError
from idisc.export import onnx as onnx_export
from idisc.model.network import IDisc
from idisc.predict.model_info import read_model_info
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.torch_engine import TorchEngine

pytestmark = pytest.mark.slow  # a trace takes half a minute


def picture(size, seed=0):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (1, *size, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def file():
    return OnnxEngine(exported.any_size())


@pytest.mark.parametrize(
    ("size", "result"),
    [
        ((101, 67), None),  # prime sides
        ((117, 150), (40, 333)),
        ((32, 32), None),  # one pixel at stride 32
        ((1, 40), None),
    ],
)
def test_images_of_any_size_give_the_result_of_the_network(file, size, result):
    depth, level_std, *_ = file.run(picture(size), result)
    expected, expected_std, *_ = exported.source().run(picture(size), result)
    assert depth.dtype == np.float32
    assert depth.shape == (1, *(result or size))
    np.testing.assert_allclose(depth, expected, atol=2e-5)
    np.testing.assert_allclose(level_std, expected_std, atol=5e-5)


def test_the_graph_has_only_standard_operators_and_no_grid_sample():
    model = exported.model()
    onnx.checker.check_model(model, full_check=True)
    kinds = {node.op_type for node in onnx_export.nodes(model.graph)}
    assert "GridSample" not in kinds
    assert {"Gather", "Scan", "MatMul", "Floor"} <= kinds
    assert not {kind for kind in kinds if "Sequence" in kind}
    assert {entry.domain for entry in model.opset_import} == {""}
    assert [item.name for item in model.graph.input] == ["image", "size"]
    assert [item.name for item in model.graph.output] == ["depth", "level_std"]


def test_a_forbidden_operator_inside_a_loop_is_refused():
    model = exported.model()
    loop = next(node for node in model.graph.node if node.op_type == "Scan")
    body = next(item.g for item in loop.attribute if item.name == "body")
    body.node[0].op_type = "GridSample"
    with refused(CheckpointError, "x.onnx", "GridSample"):
        onnx_export.check_operators(model, "x.onnx")


def test_the_metadata_describes_the_model(file):
    facts = read_model_info(file)
    assert (facts.domain, facts.data) == ("indoor", ("rendered rooms",))
    assert facts.licence == "Apache-2.0"
    assert (facts.depth_range, facts.training_size) == ((0.1, 10.0), (96, 128))
    assert facts.training_fov_deg == 63.0
    assert file.fixed_size is None
    assert file.origin["format"] == "idisc/1"
    assert file.origin["precision"] == "fp32"
    assert file.origin["weights_sha256"] == exported.source().sha256
    assert json.loads(file.origin["model"])["encoder"] == exported.SMALL.encoder
    parity = json.loads(file.origin["parity"])
    assert parity["largest"] < 1e-4
    assert parity["sizes"] == ["96x128", "73x97"]


def test_the_file_names_no_local_path():
    content = exported.any_size().read_bytes()
    for word in (b"tracing.py", b"site-packages", str(Path.home()).encode() + b"/", b'File "'):
        assert word not in content


def test_a_file_for_one_size_gives_normals_of_any_size(tmp_path):
    network = IDisc(replace(exported.BINS, task="normals", discretization="isd"))
    network.eval().requires_grad_(False)
    onnx_export.save(onnx_export.build(network, (50, 70)), tmp_path / "one.onnx")
    file, eager = OnnxEngine(tmp_path / "one.onnx"), TorchEngine(network, "eager")
    assert (file.fixed_size, file.task.name) == ((50, 70), "normals")
    for result in (None, (20, 31)):
        normals, level_std, *_ = file.run(picture((50, 70)), result)
        np.testing.assert_allclose(normals, eager.run(picture((50, 70)), result).maps, atol=2e-5)
        assert level_std is None
    with refused(CheckpointError, "one.onnx", "48x64"):
        file.run(picture((48, 64)))


def test_a_vit_with_guided_upsampling_takes_any_size(tmp_path, monkeypatch):
    decoder = replace(exported.SMALL.decoder, finest=8)
    encoder = vit.register(monkeypatch)
    config = replace(exported.SMALL, encoder=encoder, decoder=decoder, upsampling="guided")
    network = IDisc(config).eval().requires_grad_(False)
    onnx_export.save(onnx_export.build(network), tmp_path / "vit.onnx")
    file, eager = OnnxEngine(tmp_path / "vit.onnx"), TorchEngine(network, "eager")
    for size in ((96, 128), (133, 61), (14, 18)):
        found, expected = (each.run(picture(size)).maps for each in (file, eager))
        np.testing.assert_allclose(found, expected, atol=2e-5)
