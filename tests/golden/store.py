"""Where golden numbers lie, and how ours are held against them.

`FOLDERS` are the set in this repository and, where it exists, a larger one beside the checkout.
Both have the layout that README.md describes, so every test runs over all that is found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.golden import rule

from idisc.model.checkpoint import load_network, save_checkpoint
from idisc.model.convert import convert
from idisc.model.network import IDisc

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "golden"
FOLDERS = [HERE, *([SHARED] if SHARED.is_dir() else [])]
TOLERANCE = 2e-5  # of the largest stored value; rounding alone explains about 5e-6


@dataclass(frozen=True)
class Case:
    """One configuration with its stored stages."""

    folder: Path
    kind: str  # "cases" or "gradients"
    name: str

    @property
    def meta(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(
            (self.folder / self.kind / f"{self.name}.json").read_text()
        )
        return content

    @property
    def arrays(self) -> Mapping[str, rule.Array]:
        return np.load(self.folder / self.kind / f"{self.name}.npz")

    def weights(self) -> dict[str, rule.Array]:
        """The released checkpoint of this case, by rule; its digest shows that the rule is ours."""
        meta = self.meta
        shapes = json.loads((self.folder / meta["manifest"]).read_text())
        weights = rule.state_for(shapes, meta["salt"])
        assert rule.digest(weights) == meta["weights_crc32"]
        return weights

    def rgb(self) -> torch.Tensor:
        """The pictures, (B, 3, H, W) in [0, 1]."""
        meta = self.meta
        rgb = rule.rgb_for(meta["images"], (meta["height"], meta["width"]), meta["salt"])
        assert rule.digest(rule.normalised(rgb)) == meta["input_crc32"]
        return torch.from_numpy(rgb)


def cases(kind: str) -> list[Any]:
    """All cases of a kind as test parameters; one that is in both folders is taken from here."""
    found: dict[str, Path] = {}
    for folder in FOLDERS:
        for path in sorted((folder / kind).glob("*.json")):
            found.setdefault(path.stem, folder)
    return [pytest.param(Case(folder, kind, name), id=name) for name, folder in found.items()]


def network_of(case: Case, folder: Path) -> IDisc:
    """The network, by the way a user takes: released file -> convert -> checkpoint -> load."""
    weights = {name: torch.from_numpy(np.asarray(value)) for name, value in case.weights().items()}
    released = folder / "released.pt"
    torch.save(weights, released)
    converted = convert(released, changes_for(case.meta["model"]))
    released.unlink()  # the larger ones have 800 MB, and so do their checkpoints
    save_checkpoint(folder / "checkpoint", converted.model, converted.state, {})
    network = load_network(folder / "checkpoint")
    shutil.rmtree(folder / "checkpoint")
    return network


def changes_for(model: dict[str, Any]) -> list[str]:
    """What the shapes of a file cannot say about its network, from the released configuration."""
    decoder = model["pixel_decoder"]
    return [
        f"afp.iterations={model['afp']['depths']}",
        f"afp.heads={model['num_heads']}",
        f"isd.heads={model['num_heads']}",
        f"activation={model['activation']}",
        *([f"decoder.heads={decoder['heads']}"] if model["attn_dec"] else []),
        *([f"decoder.points={decoder['anchor_points']}"] if model["attn_dec"] else []),
    ]


def assert_close(
    ours: rule.Array, golden: rule.Array, what: str, tolerance: float = TOLERANCE
) -> None:
    """Largest difference, as a share of the largest golden value."""
    assert ours.shape == golden.shape, f"{what}: {ours.shape}, {golden.shape} expected"
    scale = np.abs(golden).max() or 1.0
    difference = np.abs(ours.astype(np.float64) - golden).max() / scale
    assert difference <= tolerance, f"{what}: off by {difference:.1e} of its maximum"
