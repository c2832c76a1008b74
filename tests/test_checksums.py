"""A file proves that no byte has changed since it was written."""

import json

import numpy as np
import pytest
from tests.fakes import onnx_files
from tests.fakes.mutations import five_changed_bytes
from tests.fakes.refusals import refused

from idisc import checksums
from idisc.errors import CheckpointError
from idisc.predict.onnx_engine import OnnxEngine

IMAGE = np.full((1, 8, 8, 3), 100, np.uint8)


@pytest.fixture
def exported(tmp_path):
    return onnx_files.sealed(onnx_files.depth_of_brightness(tmp_path / "small.onnx"))


def test_a_checksum_is_metadata_and_leaves_the_graph_as_it_is(exported):
    engine = OnnxEngine(exported)
    assert engine.verified
    assert len(engine.origin[checksums.KEY]) == 8
    np.testing.assert_allclose(engine.run(IMAGE).maps, 2.5)


def test_five_changed_bytes_anywhere_in_a_graph_are_refused(exported):
    whole = exported.read_bytes()
    end = len(whole) - 19  # of what the checksum covers
    for seed in range(50):
        exported.write_bytes(five_changed_bytes(whole, np.random.default_rng(seed), end))
        with refused(CheckpointError, exported):
            OnnxEngine(exported)


def test_weights_in_another_file_are_covered_as_well(tmp_path):
    weights = tmp_path / "weights.bin"
    weights.write_bytes(np.float32(50).tobytes())
    graph = onnx_files.depth_of_brightness(tmp_path / "small.onnx", weights_at=weights.name)
    bare = graph.read_bytes()
    onnx_files.sealed(graph, json.dumps({weights.name: checksums.crc32(weights)}))
    engine = OnnxEngine(graph)
    assert engine.verified
    np.testing.assert_allclose(engine.run(IMAGE).maps, 2.5)
    weights.write_bytes(np.float32(20).tobytes())
    with refused(CheckpointError, weights):
        OnnxEngine(graph)
    graph.write_bytes(checksums.sealed(bare))  # proves the graph alone
    assert not OnnxEngine(graph).verified
    weights.unlink()
    with refused(CheckpointError, graph, "weights"):
        OnnxEngine(graph)


def test_a_file_without_a_checksum_is_accepted_as_unverified(tmp_path):
    assert not OnnxEngine(onnx_files.depth_of_brightness(tmp_path / "other.onnx")).verified
