"""Pictures with ground truth, and predictions of them that are a tenth too far."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.fakes import indoor

from idisc.data.dataset import open_dataset


def a_tenth_too_far(data: Path, name: str, out: Path, factor: float = 1.1) -> Path:
    """Predictions of a test split; normals are exact. Full frames of KITTI as PNG."""
    dataset = open_dataset(data, name, "test")
    for index, record in enumerate(dataset.records):
        path = out / Path(record.image).relative_to("rgb")
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "nyu_normals":
            indoor.save(path.with_suffix(".png"), indoor.load(data / record.target))
        elif name == "kitti":
            stored = indoor.load(data / record.target)
            wrong = np.where(stored > 0, stored * factor, 1000).round()
            indoor.save(path.with_suffix(".png"), wrong.astype(np.uint16))
        else:
            target = dataset[index].target
            np.save(path.with_suffix(".npy"), np.where(target > 0, target * factor, 5))
    return out


def own_pairs(place: Path) -> Path:
    """The folder own with two pairs in millimetres; beside it guess, predictions of them."""
    root = place / "own"
    for number in range(2):
        depth = indoor.millimetres(number)
        indoor.save(root / f"images/{number}.png", indoor.picture(number))
        indoor.save(root / f"depth/{number}.png", depth)
        indoor.save(place / f"guess/{number}.png", np.maximum(depth * 1.1, 9).astype(np.uint16))
    return root


def scored_by(own: Path) -> tuple[object, ...]:
    """The options of a call that scores those predictions."""
    return ("--predictions", own.parent / "guess", "--scale", 0.001)
