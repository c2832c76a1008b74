"""Validation is evaluation: the same scoring, shared between the processes, and a look at some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc import files, visualize
from idisc.data.dataset import Dataset, evenly_spaced
from idisc.errors import DataError, IdiscError
from idisc.evaluate.protocols import PAPER
from idisc.evaluate.run import Case, predict_sample, reported, score
from idisc.metrics import Terms
from idisc.model.network import IDisc
from idisc.predict.predictor import Predictor
from idisc.predict.torch_engine import TorchEngine
from idisc.train.distributed import World

SHOWN, HEIGHT = 4, 240  # pictures of each validation, and their height in pixels
DECIDES = {"depth": "abs_rel", "normals": "mean_deg"}  # which checkpoint is best


@dataclass(frozen=True)
class Scored:
    """One test picture, by its number among those of the validation."""

    number: int
    terms: Terms
    case: Case | None  # of those to look at


def validate(
    network: IDisc, dataset: Dataset, world: World, count: int, origin: Mapping[str, Any]
) -> tuple[dict[str, float], list[Case]]:
    """Metrics of the test pictures under the paper's protocol, and some cases to look at.

    `origin` is what the checkpoint of this network will say of itself.
    """
    network.eval()  # a step sets its own mode
    mine: list[Scored | IdiscError] = []  # an error is shared, so that all processes stop
    try:
        mine.extend(_scored(network, dataset, world, count, origin))
    except IdiscError as error:
        mine.append(error)
    except OSError as error:
        mine.append(DataError(error.filename or "", error.strerror or str(error)))
    every = world.gather(mine)
    if failures := [item for item in every if isinstance(item, IdiscError)]:
        raise failures[0]
    ordered = sorted((item for item in every if isinstance(item, Scored)), key=lambda s: s.number)
    average = PAPER.average(dataset.spec)
    for item in ordered:
        average.add(item.terms)
    return reported(average.result(), PAPER), [item.case for item in ordered if item.case]


def _scored(
    network: IDisc, dataset: Dataset, world: World, count: int, origin: Mapping[str, Any]
) -> Iterator[Scored]:
    """This process's share."""
    predictor = Predictor(TorchEngine(network, "in training", origin=origin))
    indices = evenly_spaced(len(dataset), count)
    shown = set(evenly_spaced(len(indices), SHOWN))
    for number in range(world.rank, len(indices), world.size):
        sample = dataset[indices[number]]
        prediction = predict_sample(predictor, sample).maps
        case, terms = score(sample, prediction, PAPER, dataset.spec)
        yield Scored(number, terms, case if number in shown else None)


def write_pictures(path: Path, cases: list[Case], domain: str) -> None:
    """Each case as a row: picture, ground truth, prediction, error."""
    if not cases:
        return
    limit_m = visualize.error_limit_m(domain, *(case.sample.target for case in cases))
    rows = [picture_row(case, limit_m) for case in cases]
    width = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0))) for row in rows]
    with files.atomic(path) as draft:
        Image.fromarray(np.concatenate(rows)).save(draft, format="JPEG", quality=88)


def picture_row(case: Case, limit_m: float) -> NDArray[np.uint8]:
    """A case as one picture; errors in colours up to `limit_m` metres."""
    target, prediction = case.sample.target, case.prediction
    height, width = target.shape[:2]  # the picture as the network sees it may be stretched
    image = np.asarray(Image.fromarray(case.sample.image).resize((width, height)))
    if target.ndim == 3:
        pictures = [
            image,
            visualize.normals_picture(target),
            visualize.normals_picture(prediction),
            visualize.angle_picture(prediction, target, case.valid),
        ]
        limit = f"error to {visualize.ERROR_LIMIT_DEG:g} degrees"
        captions = ["picture", "normals", "prediction", limit]
        return visualize.beside(pictures, captions, HEIGHT)
    low, high = visualize.depth_limits(np.where(case.valid, target, 0))
    pictures = [
        image,
        visualize.depth_picture(target, low, high),
        visualize.depth_picture(prediction, low, high),
        visualize.error_picture(prediction, target, case.valid, limit_m),
    ]
    captions = ["picture", f"depth {low:.1f}-{high:.1f} m", "prediction", f"error to {limit_m:g} m"]
    return visualize.beside(pictures, captions, HEIGHT)
