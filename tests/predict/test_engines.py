"""The two engines: bytes in, metres out; what cannot be run is named in one line."""

import math

import numpy as np
import pytest
import torch
from tests.fakes import onnx_files
from tests.fakes.refusals import refused

import idisc
from idisc import files
from idisc.errors import CheckpointError, InputError
from idisc.model.checkpoint import WEIGHTS
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.open import open_model
from idisc.predict.torch_engine import TorchEngine, disagreement
from idisc.provenance_text import describe


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)


def test_a_checkpoint_predicts_what_its_network_does(checkpoint):
    engine = open_model(checkpoint)
    assert isinstance(engine, TorchEngine)
    images = np.random.default_rng(1).integers(0, 256, (2, 40, 56, 3), dtype=np.uint8)
    rgb = torch.tensor(images / 255).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        own = engine.network(rgb).prediction[:, 0].numpy()
        larger = engine.network(rgb, size=(70, 90)).prediction[:, 0].numpy()
    np.testing.assert_allclose(engine.run(images).maps, own, rtol=1e-5)
    np.testing.assert_allclose(engine.run(images, (70, 90)).maps, larger, rtol=1e-5)
    assert (engine.run(images).maps.dtype, engine.task.name, engine.name) == (
        np.float32,
        "depth",
        "tiny",
    )
    assert engine.sha256 == files.sha256(checkpoint / WEIGHTS)


def test_an_exported_graph_gives_metres_at_the_size_of_the_picture(images, tmp_path):
    path = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    engine = open_model(path)
    assert isinstance(engine, OnnxEngine)
    np.testing.assert_allclose(engine.run(images).maps, images.mean(axis=3) / 50 + 0.5, rtol=1e-6)
    assert (engine.task.name, engine.name) == ("depth", "small.onnx")
    assert engine.sha256 == files.sha256(path)


def aligned(values, size):
    """Bilinear with aligned corners, pixel by pixel."""
    result = np.zeros(size)
    for row, column in np.ndindex(size):
        y = row * (values.shape[0] - 1) / (size[0] - 1)
        x = column * (values.shape[1] - 1) / (size[1] - 1)
        top, left = min(math.floor(y), len(values) - 2), min(math.floor(x), values.shape[1] - 2)
        for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
            share = (1 - abs(y - top - down)) * (1 - abs(x - left - right))
            result[row, column] += share * values[top + down, left + right]
    return result


def test_a_graph_of_half_the_size_is_resized_with_aligned_corners(images, tmp_path):
    engine = OnnxEngine(onnx_files.depth_of_brightness(tmp_path / "half.onnx", every=2))
    halves = (images.mean(axis=3) / 50 + 0.5)[:, ::2, ::2].astype(np.float32)
    for found, half in zip(engine.run(images, (5, 7)).maps, halves, strict=True):
        np.testing.assert_allclose(found, aligned(half, (5, 7)), rtol=1e-5)
    assert engine.run(images).maps.shape == (2, 6, 8)


def test_a_graph_with_a_size_input_receives_the_size(images, tmp_path):
    engine = OnnxEngine(onnx_files.mean_depth_at_size(tmp_path / "sized.onnx"))
    found = engine.run(images, (3, 4)).maps
    assert found.shape == (2, 3, 4)
    np.testing.assert_allclose(found[1], np.full((3, 4), images[1].mean()), rtol=1e-5)
    assert engine.run(images).maps.shape == (2, 6, 8)


def test_a_graph_of_normals_is_recognised_by_its_output(images, tmp_path):
    engine = OnnxEngine(onnx_files.normals_of_colour(tmp_path / "normals.onnx"))
    assert engine.task.name == "normals"
    np.testing.assert_allclose(engine.run(images).maps, images / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: b"", "empty"),
        (lambda content: content[:20], "ONNX"),
        (lambda content: content[:200], "ONNX"),
        (lambda content: content + b"\x72\x06\x0a\x01k\x12\x01\xff", "ONNX"),  # metadata
    ],
)
def test_a_damaged_graph_is_refused(tmp_path, damage, reason):
    path = onnx_files.depth_of_brightness(tmp_path / "damaged.onnx")
    path.write_bytes(damage(path.read_bytes()))
    with refused(CheckpointError, path, reason):
        open_model(path)


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("none", "no such file"),
        ("none.onnx", "no such file"),
        ("notes.txt", ".onnx"),
        ("program.pt2", "`idisc export`"),
        ("empty", "config.json"),
    ],
)
def test_other_files_and_folders_are_refused(tmp_path, name, fact):
    (tmp_path / "program.pt2").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no weights")
    (tmp_path / "empty").mkdir()
    with refused(CheckpointError, tmp_path / name, fact):
        open_model(tmp_path / name)


def test_reduced_precision_is_close_and_recorded(checkpoint):
    images = np.random.default_rng(1).integers(0, 256, (1, 40, 56, 3), dtype=np.uint8)
    exact, reduced = open_model(checkpoint), open_model(checkpoint, precision="bf16")
    depth, spread, *_ = reduced.run(images)
    expected = exact.run(images).maps
    assert not np.array_equal(depth, expected)
    np.testing.assert_allclose(depth, expected, rtol=0.1)
    assert depth.dtype == spread.dtype == np.float32
    assert (exact.origin["precision"], reduced.origin["precision"]) == ("fp32", "bf16")
    result = idisc.load(checkpoint, precision="bf16").predict(images[0])
    assert describe(result)["precision"] == "bf16"
    assert "precision" not in describe(idisc.load(checkpoint).predict(images[0]))


def test_half_precision_needs_a_gpu(checkpoint):
    with refused(InputError, "--precision fp16"):
        open_model(checkpoint, precision="fp16")


def test_the_precision_of_an_onnx_file_cannot_be_changed(tmp_path):
    path = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    with refused(InputError, "--precision fp32", "small.onnx"):
        open_model(path, precision="fp32")
    onnx_files.describe(path, precision="fp16")
    assert open_model(path, precision="fp16").origin["precision"] == "fp16"
    with refused(InputError, "--precision bf16", "small.onnx", "fp16"):
        open_model(path, precision="bf16")


def test_a_file_goes_to_a_gpu_only_where_onnxruntime_has_one(tmp_path, monkeypatch):
    path = onnx_files.depth_of_brightness(tmp_path / "small.onnx")
    with refused(InputError, "--device mps"):
        open_model(path, "mps")
    with refused(InputError, "--device cuda"):
        open_model(path, "cuda")
    everything = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    asked = []

    class Session:
        def __init__(self, *_, providers, **__):
            asked.append(providers)
            raise ValueError("no such driver")

    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: everything)
    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    with refused(CheckpointError, path, "no such driver"):
        open_model(path, "cuda:1")
    assert asked == [[("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]]


def test_a_constant_offset_of_a_level_is_no_disagreement():
    log_depth = torch.randn(2, 1, 6, 8)
    levels = (log_depth + 0.7, log_depth, log_depth - 0.4)
    assert disagreement(levels, (6, 8)).max() < 1e-3
