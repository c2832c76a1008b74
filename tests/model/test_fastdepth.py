"""FastDepth is filled from a graph, layer by layer, and computes what the graph does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from tests.fakes import fastdepth

from idisc.errors import CheckpointError
from idisc.model.backbones import find_backbone, load_encoder_weights
from idisc.model.fastdepth import FastDepth, FastDepthEncoder, read_weights


def test_the_whole_of_it_computes_what_its_file_computes(tmp_path: Path) -> None:
    path = fastdepth.save(tmp_path / "fastdepth.onnx")
    ours = FastDepth()
    read_weights(ours, path)
    rgb = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"0": rgb.numpy()})
    with torch.no_grad():
        metres = ours.metres(rgb).numpy()
    assert expected.std() > 0.01  # a constant would agree with anything
    np.testing.assert_allclose(metres, expected, rtol=1e-4, atol=1e-4)


def test_an_encoder_is_filled_from_the_same_file(tmp_path: Path) -> None:
    path = fastdepth.save(tmp_path / "fastdepth.onnx")
    encoder = find_backbone("fastdepth").build().eval()
    load_encoder_weights(encoder, "fastdepth", path)
    rgb = torch.rand(1, 3, 64, 96)
    with torch.no_grad():
        expected = fastdepth.network().encoder(rgb)
        for ours, theirs in zip(encoder(rgb), expected, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("picture", "shown"),
    [
        ((240, 320), (256, 256)),
        ((320, 240), (352, 192)),
        ((480, 640), (512, 512)),
        ((5, 5), (32, 32)),
    ],
)
def test_a_picture_is_shown_to_it_in_the_shape_of_its_training(
    picture: tuple[int, int], shown: tuple[int, int]
) -> None:
    log_depth = fastdepth.network()(torch.rand(1, 3, *picture))
    assert log_depth.shape == (1, 1, *shown)


def test_log_depth_is_corrected_for_how_large_things_look() -> None:
    network = fastdepth.network()
    rgb = torch.rand(1, 3, 256, 256)
    same = network.in_cells(rgb, (8, 8))  # as it is: nothing to resize
    # 256 rows are shown where training had 250 * 224 / 228; below 0.1 m it does not know.
    expected = np.log(np.maximum(network.metres(rgb).numpy(), 0.1) * 1.04229)
    np.testing.assert_allclose(same.numpy(), expected, atol=1e-4)


def test_it_stays_as_it_is() -> None:
    network = fastdepth.network()
    network.train()
    assert not any(module.training for module in network.modules())
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fastdepth.onnx"
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: no such file; an ONNX file is"):
        read_weights(FastDepthEncoder(), path)
    path.write_bytes(b"not a graph")
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: not readable as ONNX"):
        read_weights(FastDepthEncoder(), path)
    model = fastdepth.graph_of(fastdepth.network())
    del model.graph.node[60:]
    onnx.save(model, path)
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: missing pairs"):
        read_weights(FastDepthEncoder(), path)
    with pytest.raises(CheckpointError, match=r"fastdepth.onnx: missing encoder.pairs"):
        read_weights(FastDepth(), path)
