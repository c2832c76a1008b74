"""Kept features of a frozen encoder give the losses that the encoder itself would give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.fakes import pairs
from tests.fakes.training import ALONE, start, stopped_after

from idisc.errors import InputError
from idisc.settings import AugmentConfig, Recipe, TrainConfig
from idisc.train import features, log, runs

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
    monkeypatch.setattr(features, "write_features", lambda *_: pytest.fail("computed again"))
    assert losses(data, tmp_path / "b", made) == first


def test_other_pictures_have_other_features(tmp_path: Path) -> None:
    made = recipe(cache_features=str(tmp_path / "features"))
    losses(pairs.make(tmp_path / "a", train=4), tmp_path / "run_a", made)
    losses(pairs.make(tmp_path / "b", train=5), tmp_path / "run_b", made)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_a_resumed_run_reads_the_features_it_began_with(tmp_path: Path) -> None:
    data, kept = pairs.make(tmp_path / "data"), tmp_path / "features"
    made = recipe(cache_features=str(kept))
    whole = losses(data, tmp_path / "whole", made)
    stopped_after(start(made, data, tmp_path / "parts"), 2)
    runs.resume(tmp_path / "parts", ALONE).train()
    assert [row["loss"] for row in log.read(tmp_path / "parts", "step")] == whole
    assert len(list(kept.iterdir())) == 1


def test_a_full_disk_is_told_and_leaves_no_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kept = pairs.make(tmp_path / "data"), tmp_path / "features"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    message = r"cache_features: .*features cannot be written \(No space left on device\)"
    with pytest.raises(InputError, match=message):
        start(recipe(cache_features=str(kept)), data, tmp_path / "run")
    assert not list(kept.iterdir())
    assert not (tmp_path / "run").exists()


def test_kept_features_are_those_of_the_encoder_and_of_the_mirror_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They are not written through a memory map, which on a full disk ends the process by a signal.
    monkeypatch.setattr(np.lib.format, "open_memmap", lambda *_, **__: pytest.fail("a memory map"))
    data, kept = pairs.make(tmp_path / "data", train=2), tmp_path / "features"
    made = recipe(cache_features=str(kept))
    run = start(made, data, tmp_path / "run")
    stored = np.load(next(kept.rglob("level_0.npy")))
    assert stored.dtype == np.float16
    assert len(stored) == 4  # each picture and its mirror image
    rgb = torch.tensor(run.stream.folders[0][1].image).permute(2, 0, 1)[None] / 255
    with torch.no_grad():
        maps, _ = run.stepper.network.eval().encode(torch.cat([rgb, rgb.flip(-1)]))
    np.testing.assert_allclose(stored[2:], maps[0].numpy(), rtol=1e-2, atol=1e-2)


def test_features_of_an_encoder_that_learns_are_refused() -> None:
    with pytest.raises(InputError, match=r"features change unless train\.freeze=encoder"):
        TrainConfig(cache_features="somewhere")


def test_an_encoder_that_does_not_run_is_not_compiled() -> None:
    with pytest.raises(InputError, match=r"with train\.cache_features it does not run"):
        TrainConfig(cache_features="somewhere", freeze=("encoder",), compile=True)
