"""Kept features of a frozen encoder give the losses that the encoder itself would give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.fakes import pairs

from idisc.errors import InputError
from idisc.settings import AugmentConfig, Recipe, TrainConfig
from idisc.train import features, log, runs
from idisc.train.distributed import World

ALONE = World(torch.device("cpu"))
FLIP_ONLY = AugmentConfig(
    colour=0,
    gamma=0,
    rotation_deg=0,
    zoom=0,
    translation=0,
    geometry_weight=0,
    translation_weight=0,
)


def recipe(**train: Any) -> Recipe:
    made = pairs.recipe(iterations=4, freeze=("encoder",), **train)
    return replace(made, data=replace(made.data, augment=FLIP_ONLY))


def losses(data: Path, out: Path, made: Recipe) -> list[float]:
    runs.start(made, [str(data)], out, ALONE).train()
    return [row["loss"] for row in log.read(out, "step")]


def test_kept_features_train_like_the_encoder_itself(tmp_path: Path) -> None:
    data = pairs.make(tmp_path / "data")
    kept = tmp_path / "features"
    with_encoder = losses(data, tmp_path / "a", recipe())
    with_features = losses(data, tmp_path / "b", recipe(cache_features=str(kept)))
    assert with_features == pytest.approx(with_encoder, rel=0.02)  # half precision, no colours


def test_features_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pairs.make(tmp_path / "data")
    made = recipe(cache_features=str(tmp_path / "features"))
    first = losses(data, tmp_path / "a", made)
    monkeypatch.setattr(features, "_compute", lambda *_: pytest.fail("computed again"))
    assert losses(data, tmp_path / "b", made) == first


def test_other_pictures_have_other_features(tmp_path: Path) -> None:
    made = recipe(cache_features=str(tmp_path / "features"))
    losses(pairs.make(tmp_path / "a", train=4), tmp_path / "run_a", made)
    losses(pairs.make(tmp_path / "b", train=5), tmp_path / "run_b", made)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_features_of_an_encoder_that_learns_are_refused() -> None:
    with pytest.raises(InputError, match=r"features change unless train\.freeze=encoder"):
        TrainConfig(cache_features="somewhere")
