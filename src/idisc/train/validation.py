"""Validation: the evaluation of `evaluate`, shared between the processes, and pictures of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files, visualize
from idisc.data.catalog import DatasetSpec
from idisc.data.dataset import Dataset, evenly_spaced
from idisc.errors import IdiscError
from idisc.evaluate.protocols import PAPER
from idisc.evaluate.run import predict_sample
from idisc.evaluate.scoring import Case, reported, score
from idisc.metrics import Terms
from idisc.model.network import IDisc
from idisc.predict.predictor import Predictor
from idisc.predict.torch_engine import TorchEngine
from idisc.train.distributed import World
from idisc.train.loader import as_data_error

SHOWN, HEIGHT = 4, 240  # pictures of each validation, and their height in pixels


@dataclass(frozen=True)
class Scored:
    """One test picture, by its number among those of the validation."""

    number: int
    terms: Terms
    case: Case | None  # if it is among those that are drawn


def validate(
    network: IDisc, dataset: Dataset, world: World, count: int, origin: Mapping[str, Any]
) -> tuple[dict[str, float], list[Case]]:
    """Return metrics of `count` test pictures (0: all), by the paper's protocol, and some cases.

    `origin` is the metadata of the checkpoint. If a picture cannot be scored in one process, all
    of them raise the error.
    """
    network.eval()  # a step sets its own mode
    own: list[Scored | IdiscError]
    try:
        own = [*_score_own(network, dataset, world, count, origin)]
    except (IdiscError, OSError) as error:
        own = [as_data_error(error)]
    scored: list[Scored] = []
    for item in world.gather(own):
        if isinstance(item, IdiscError):
            raise item
        scored.append(item)
    scored.sort(key=lambda item: item.number)
    average = PAPER.average(dataset.spec)
    for item in scored:
        average.add(item.terms)
    return reported(average.result(), PAPER), [item.case for item in scored if item.case]


def _score_own(
    network: IDisc, dataset: Dataset, world: World, count: int, origin: Mapping[str, Any]
) -> Iterator[Scored]:
    """Yield the results of the pictures of this process."""
    predictor = Predictor(TorchEngine(network, "in training", origin=origin))
    indices = evenly_spaced(len(dataset), count)
    shown = set(evenly_spaced(len(indices), SHOWN))
    for number in range(world.rank, len(indices), world.size):
        sample = dataset[indices[number]]
        prediction = predict_sample(predictor, sample).maps
        case, terms = score(sample, prediction, PAPER, dataset.spec)
        yield Scored(number, terms, case if number in shown else None)


def write_pictures(path: Path, cases: list[Case], spec: DatasetSpec) -> None:
    """Write each case as a row: picture, ground truth, prediction, error."""
    if not cases:
        return
    limit = spec.task.error_limit(spec.domain, *(case.sample.target for case in cases))
    rows = [draw_row(case, limit) for case in cases]
    width = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    with files.atomic(path) as draft:
        Image.fromarray(np.concatenate(rows)).save(draft, format="JPEG", quality=88)


def draw_row(case: Case, limit: float) -> NDArray[np.uint8]:
    """Draw a case; the colours of errors end at `limit`."""
    task, target, prediction = case.sample.task, case.sample.target, case.prediction
    height, width = target.shape[:2]  # the network may see the picture with another aspect ratio
    image = np.asarray(Image.fromarray(case.sample.image).resize((width, height)))
    caption, limits = task.name, None
    if task.colour_limits:
        mask = case.valid.reshape(*case.valid.shape, *(1 for _ in target.shape[2:]))
        limits = task.colour_limits(np.where(mask, target, 0))
        caption = f"{task.name} {limits[0]:.1f}-{limits[1]:.1f} {task.unit}"
    pictures = [
        image,
        task.draw(target, limits, None),
        task.draw(prediction, limits, None),
        task.draw_error(prediction, target, case.valid, limit),
    ]
    captions = ["picture", caption, "prediction", f"error to {limit:g} {task.error_unit}"]
    return visualize.side_by_side(pictures, captions, HEIGHT)
