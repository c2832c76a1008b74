"""Validation is evaluation: the same scoring, shared between the processes, and a look at some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from idisc import files, visualize
from idisc.data.dataset import Dataset
from idisc.evaluate.protocols import PAPER
from idisc.evaluate.run import Case, EnginePredictor, reported, score
from idisc.metrics import Terms
from idisc.model.network import IDisc
from idisc.predict.torch_engine import TorchEngine
from idisc.train.distributed import World

SHOWN, HEIGHT = 4, 240  # pictures of each validation, and their height in pixels
BEST = {"depth": "abs_rel", "normals": "mean_deg"}  # what decides which checkpoint is best


def chosen(length: int, count: int) -> list[int]:
    """`count` of the indices below `length`, evenly spread; all of them for 0."""
    if not count or count >= length:
        return list(range(length))
    return [int(index) for index in np.linspace(0, length - 1, count).round()]


def validate(
    network: IDisc, dataset: Dataset, world: World, count: int
) -> tuple[dict[str, float], list[Case]]:
    """Metrics of the test pictures under the paper's protocol, and some cases to look at."""
    predictor = EnginePredictor(TorchEngine(network, "in training"))
    was_training = {name for name, module in network.named_modules() if module.training}
    network.eval()
    indices = chosen(len(dataset), count)
    shown = set(chosen(len(indices), SHOWN))
    cases: list[Case] = []
    scored: list[tuple[int, Terms]] = []
    for place in range(world.rank, len(indices), world.size):
        sample = dataset[indices[place]]
        case, terms = score(sample, predictor(sample), PAPER, dataset.spec, clouds=False)
        scored.append((place, terms))
        if place in shown:
            cases.append(case)
    _restore(network, was_training)
    average = PAPER.average(dataset.spec)
    for _, terms in sorted(world.gather(scored), key=lambda pair: pair[0]):
        average.add(terms)
    return reported(average.result(), PAPER), cases


def _restore(network: nn.Module, was_training: set[str]) -> None:
    for name, module in network.named_modules():
        module.training = name in was_training


def write_pictures(path: Path, cases: list[Case], domain: str) -> None:
    """Each case as a row: picture, ground truth, prediction, error."""
    if not cases:
        return
    rows = [_row(case, visualize.ERROR_LIMIT_M[domain]) for case in cases]
    width = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    with files.atomic(path) as draft:
        Image.fromarray(np.concatenate(rows)).save(draft, format="JPEG", quality=88)


def _row(case: Case, limit_m: float) -> NDArray[np.uint8]:
    image, target, prediction = case.sample.image, case.sample.target, case.prediction
    if target.ndim == 3:
        pictures = [image, visualize.normals_picture(target), visualize.normals_picture(prediction)]
        return visualize.beside(pictures, ["picture", "normals", "prediction"], HEIGHT)
    low, high = visualize.depth_limits(np.where(case.valid, target, 0))
    pictures = [
        image,
        visualize.depth_picture(target, low, high),
        visualize.depth_picture(prediction, low, high),
        visualize.error_picture(prediction, target, case.valid, limit_m),
    ]
    captions = ["picture", f"depth {low:.1f}-{high:.1f} m", "prediction", f"error to {limit_m:g} m"]
    return visualize.beside(pictures, captions, HEIGHT)
