"""Explanations over HTTP, by a small network."""

import io
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import torch
from tests.fakes import explained, pairs, served, shipped
from tests.fakes.served import client_of

from idisc.explain.idrs import explain_photo
from idisc.images import read_photo
from idisc.model.checkpoint import save_checkpoint
from idisc.model.network import IDisc
from idisc.predict.onnx_engine import OnnxEngine
from idisc.predict.predictor import Predictor
from idisc.predict.torch_engine import TorchEngine
from idisc.serve.app import create_app
from idisc.serve.explorer import open_network, with_explorer
from idisc.zoo import cards

PNG = served.png(served.ramp(96, 128))
FILES = {"file": ("room.png", PNG)}


@pytest.fixture(scope="module")
def predictor():
    torch.manual_seed(0)
    network = IDisc(pairs.TINY).eval().requires_grad_(False)
    return Predictor(TorchEngine(network, "tiny", origin={"training_size": [96, 128]}))


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo with one model."""
    save_checkpoint(tmp_path / "tiny", pairs.TINY, explained.network().state_dict(), {})
    shipped.make(tmp_path / "zoo" / "rooms", checkpoint=tmp_path / "tiny")
    monkeypatch.setattr(cards, "HOME", tmp_path / "zoo")


def explained_over_http(opened):
    """The status of /explain, and the reason in /health why there are no IDRs."""
    with client_of(create_app(opened)) as client:
        reason = client.get("/health").json()["explorer_missing"]
        answer = client.post("/explain?format=npz", files=FILES)
        if reason:
            assert answer.json() == {"error": reason}
        assert client.post("/predict", files=FILES).status_code == 200
    return answer.status_code, reason


def test_a_checkpoint_is_explained_over_http(predictor):
    expected = explain_photo(predictor, read_photo(PNG, "room.png"))
    with client_of(create_app(with_explorer(predictor))) as client:
        assert client.get("/health").json()["explorer_missing"] == ""
        arrays = np.load(io.BytesIO(client.post("/explain?format=npz", files=FILES).content))
        assert np.array_equal(arrays["depth"], expected.depth)
        for number, level in enumerate(expected.levels):
            assert np.array_equal(arrays[f"attention_{number}"], level.attention)
            assert np.array_equal(arrays[f"partition_{number}"], level.partition)
        summary = client.post("/explain", files=FILES).json()
        assert [level["stride"] for level in summary["levels"]] == [16, 8, 4]
        assert [level["idrs"] for level in summary["levels"]] == [8, 8, 8]
        muted = {0: [1, 2], 2: [5]}
        path = f"/results/{summary['result']}/mute"
        answer = client.post(path, json={"muted": muted}).json()
        change = np.abs(expected.muted(muted) - expected.depth)
        assert answer["mean_m"] == pytest.approx(change.mean(), rel=1e-4)
        for muted, subject in (({0: [99]}, "IDR 99 of level 0"), ({1: [*range(8)]}, "level 1")):
            refused = client.post(path, json={"muted": muted})
            assert refused.status_code == 400
            assert refused.json()["error"].startswith(f"{subject}: ")


def test_a_network_without_idrs_cannot_be_explored():
    network = IDisc(replace(pairs.TINY, discretization="none"))
    opened = with_explorer(Predictor(TorchEngine(network, "plain")))
    assert opened.explain is None
    assert opened.missing.subject == "plain"


@pytest.mark.usefixtures("zoo")
@pytest.mark.parametrize("name", [None, "rooms"])
def test_a_shipped_model_predicts_with_its_export_and_explains_with_its_checkpoint(name):
    opened = open_network(name)
    assert isinstance(opened.predictor.engine, OnnxEngine)
    assert opened.predictor.model.name == "rooms"
    assert explained_over_http(opened) == (200, "")


@pytest.mark.usefixtures("zoo")
@pytest.mark.parametrize("by_path", [False, True])
def test_without_torch_the_shipped_export_predicts_and_says_what_to_install(monkeypatch, by_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    opened = open_network(next(cards.HOME.rglob("rooms.onnx")) if by_path else None)
    assert isinstance(opened.predictor.engine, OnnxEngine)
    reason = "IDRs of rooms: torch: not installed; run: pip install 'idisc[train]'"
    assert explained_over_http(opened) == (400, reason)
