"""The stored golden numbers, and the comparison with ours.

`FOLDERS` are the set in this repository and, if it exists, a larger one next to the checkout. Both
have the layout that README.md describes, so every test runs over all cases that are found.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.golden import rule

from idisc.model.convert import convert_state
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
    def meta(self):
        return json.loads((self.folder / self.kind / f"{self.name}.json").read_text())

    @property
    def arrays(self):
        return np.load(self.folder / self.kind / f"{self.name}.npz")

    def weights(self):
        """Return the released checkpoint of this case, made by rule; its digest is verified."""
        meta = self.meta
        shapes = json.loads((self.folder / meta["manifest"]).read_text())
        weights = rule.state_for(shapes, meta["salt"])
        assert rule.digest(weights) == meta["weights_crc32"]
        return weights

    def rgb(self):
        """The pictures, (B, 3, H, W) in [0, 1]."""
        meta = self.meta
        rgb = rule.rgb_for(meta["images"], (meta["height"], meta["width"]), meta["salt"])
        assert rule.digest(rule.normalised(rgb)) == meta["input_crc32"]
        return torch.from_numpy(rgb)


def cases(kind):
    """All cases of a kind as test parameters; one that is in both folders is taken from here."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((folder / kind).glob("*.json")):
            found.setdefault(path.stem, folder)
    every = [Case(folder, kind, name) for name, folder in found.items()]
    large = [case.meta.get("parameters", 0) > 60e6 for case in every]
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if slow else [])
        for case, slow in zip(every, large, strict=True)
    ]


def network_of(case):
    """Return the network of a released checkpoint, converted in memory."""
    weights = {name: torch.from_numpy(np.asarray(value)) for name, value in case.weights().items()}
    converted = convert_state(weights, changes_for(case.meta["model"]), case.name)
    network = IDisc(converted.model).eval()
    network.load_state_dict(converted.state)
    return network


def changes_for(model):
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


def assert_close(ours, golden, what, tolerance=TOLERANCE):
    """Largest difference, as a share of the largest golden value."""
    assert ours.shape == golden.shape, f"{what}: {ours.shape}, {golden.shape} expected"
    scale = np.abs(golden).max() or 1.0
    difference = np.abs(ours.astype(np.float64) - golden).max() / scale
    assert difference <= tolerance, f"{what}: off by {difference:.1e} of its maximum"
