"""The explain room behind the page: a real network, small, asked over HTTP."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
import torch
from fastapi.testclient import TestClient
from tests.fakes import pairs, served

from idisc.errors import InputError
from idisc.explain.idrs import explain_photo
from idisc.images import read_photo
from idisc.model.network import IDisc
from idisc.predict.predictor import Predictor
from idisc.predict.torch_engine import TorchEngine
from idisc.serve.app import create_app
from idisc.serve.explorer import open_explorer

PNG = served.png(served.ramp(96, 128))


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    torch.manual_seed(0)
    network = IDisc(pairs.TINY).eval().requires_grad_(False)
    return Predictor(TorchEngine(network, "tiny", origin={"training_size": [96, 128]}))


def test_a_checkpoint_is_explained_over_http(predictor: Predictor, tmp_path: Path) -> None:
    expected = explain_photo(predictor, read_photo(PNG, "room.png"))
    files = {"file": ("room.png", PNG)}
    with TestClient(create_app(predictor)) as client:
        assert client.get("/health").json()["explorer_missing"] == ""
        arrays = np.load(io.BytesIO(client.post("/explain?format=npz", files=files).content))
        assert np.array_equal(arrays["depth"], expected.depth)
        for number, level in enumerate(expected.levels):
            assert np.array_equal(arrays[f"attention_{number}"], level.attention)
            assert np.array_equal(arrays[f"partition_{number}"], level.partition)
        about = client.post("/explain", files=files).json()
        assert [level["stride"] for level in about["levels"]] == [16, 8, 4]
        assert [level["idrs"] for level in about["levels"]] == [8, 8, 8]
        muted = {0: [1, 2], 2: [5]}
        path = f"/results/{about['result']}/mute"
        answer = client.post(path, json={"muted": muted}).json()
        change = np.abs(expected.muted(muted) - expected.depth)
        assert answer["mean_m"] == pytest.approx(change.mean(), rel=1e-4)
        refused = client.post(path, json={"muted": {0: [99]}})
        assert (refused.status_code, refused.json()) == (
            400,
            {"error": "IDR 99 of level 0: there are 0 to 7"},
        )
        every = client.post(path, json={"muted": {1: list(range(8))}})
        assert every.json() == {"error": "level 1: all 8 IDRs muted; one at least must be left"}


def test_a_network_without_idrs_cannot_be_explored() -> None:
    network = IDisc(replace(pairs.TINY, discretization="none"))
    with pytest.raises(InputError, match="plain: a network with discretization=none has no IDRs"):
        open_explorer(Predictor(TorchEngine(network, "plain")))
