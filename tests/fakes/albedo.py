"""A third dense task, albedo, in one file: what has to be written, and the rows to register."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from tests.fakes import pairs

from idisc.data import catalog, decode
from idisc.metrics import Moments, Terms
from idisc.model import heads
from idisc.tasks import TASKS, Task
from idisc.train import losses


def terms(prediction, target):
    error = prediction.astype(np.float64) - target
    mean = float(error.mean())
    return Terms(len(error), {"error": Moments(mean, float(((error - mean) ** 2).mean(-1).sum()))})


ALBEDO = Task(
    name="albedo",
    components=3,
    channels=3,
    unit="of white",
    error_unit="of white",
    losses=("l1",),
    formats=("npz",),
    headlines=("rmse",),
    ranking=("rmse",),
    terms=terms,
    agree=lambda maps, expected: (np.abs(maps - expected) < 0.1).all(-1),
    draw=lambda values, _limits, _width: (values * 255).astype(np.uint8),
    error=lambda prediction, target: np.abs(prediction - target).mean(-1),
    error_limit=lambda _domain, *_targets: 0.5,
)


@dataclass(frozen=True, kw_only=True)
class AlbedoMap:
    """An 8-bit RGB image; black is no value."""

    kind: str = "albedo"

    def read(self, path):
        return np.asarray(Image.open(path), np.float32) / 255


def fuse(levels, size, fine, _guide):
    fine = fine or levels[-1].shape[2:]
    values = [heads.resized(level.sigmoid(), fine) for level in levels]
    return heads.resized(torch.stack(values).mean(0), size)


def l1(output, target, valid, total):
    error = (output.prediction.float() - target).abs().mean(1, keepdim=True)[valid]
    return total(error.sum()) / total(valid.sum())


def register(monkeypatch):
    dataset = replace(catalog.FOLDER, name="albedo", target=AlbedoMap())
    rows = [
        (TASKS, "albedo", ALBEDO),
        (decode.TARGETS, "albedo", AlbedoMap),
        (catalog.DATASETS, "albedo", dataset),
        (heads.FUSIONS, "albedo", fuse),
        (losses.LOSSES, "l1", l1),
    ]
    for table, name, row in rows:
        monkeypatch.setitem(table, name, row)


def make(root):
    """Pictures whose albedo is their colour, with the lists train.txt and test.txt."""
    pairs.make(root, train=2, test=1)
    for split in ("train", "test"):
        names = sorted(path.name for path in (root / split / "images").iterdir())
        lines = [f"{split}/images/{name} {split}/images/{name}" for name in names]
        (root / f"{split}.txt").write_text("\n".join(lines))
    return root
