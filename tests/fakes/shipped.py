"""A model as it ships: a card, and a graph that puts brightness at metres."""

from __future__ import annotations

from pathlib import Path

from tests.fakes import onnx_files

from idisc import config, files
from idisc.zoo import cards


def make(folder: Path, *, default: bool = False) -> Path:
    """depth = 0.5 m + brightness / 50, in a folder named after the model."""
    folder.mkdir(parents=True, exist_ok=True)  # a checkpoint may be there already
    onnx_files.depth_of_brightness(folder / cards.ONNX)
    card = cards.ModelCard(
        name=folder.name,
        title="Brightness as depth",
        licence="Apache-2.0",
        domain="indoor",
        depth_range=(0.5, 5.6),
        training_size=(48, 64),
        training_fov_deg=60.0,
        parameters=0.01,
        ingredients=(
            cards.Ingredient(
                name="Rendered rooms", role="pictures and depth", licence="Apache-2.0"
            ),
            cards.Ingredient(
                name="ImageNet-1k weights",
                role="encoder",
                licence="BSD-3-Clause",
                source="https://example.org/weights",
            ),
        ),
        scores=(
            cards.Score(
                dataset="NYU-Depth v2",
                protocol="bts",
                metric="d1",
                value=0.81,
                low=0.8,
                high=0.82,
            ),
            cards.Score(dataset="NYU-Depth v2", protocol="bts", metric="rmse", value=0.5),
        ),
        files=cards.describe(folder),
        default=default,
        notes="Knows nothing of the world.",
    )
    files.write_json(folder / cards.CARD, config.to_json(card))
    return folder
