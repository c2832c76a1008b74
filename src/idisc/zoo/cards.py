"""Models that ship with the package, found by name: `zoo/<model>/` with a card and its files.

    card.json      what the model is, what it learnt from and under which licences, what it scores
    model.onnx     from bytes to metres, for `idisc predict`; needs no torch
    checkpoint/    the same network for torch; may be left out

Nothing is downloaded. A file is used only if its SHA-256 is that of the card, so a card speaks of
the weights that answer, and of no others. Where card and file differ, the card counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idisc import config, files
from idisc.errors import CheckpointError, InputError

HOME = Path(__file__).parent
CARD, ONNX, CHECKPOINT = "card.json", "model.onnx", "checkpoint"


@dataclass(frozen=True, kw_only=True)
class Ingredient:
    """Something that went into a model: a dataset, or weights it started from."""

    name: str
    role: str  # "pictures and depth", "weights of the encoder"
    licence: str
    source: str = ""  # address


@dataclass(frozen=True, kw_only=True)
class Score:
    """One metric on one dataset, and its 95 % interval where there is one."""

    dataset: str
    protocol: str  # of evaluation
    metric: str
    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.high) if end is not None]
        if len(ends) == 1 or not all(map(math.isfinite, (self.value, *ends))):
            raise InputError(f"{self.metric} on {self.dataset}: finite, with both ends or none")

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.metric} {self.value:.3f}{interval}"


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """One file of a model, below its folder."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if re.search(r"^/|\\|:|(^|/)\.\.(/|$)", self.path):
            raise InputError(f"file {self.path!r}: not below the folder of its model")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """All that is to be known of a model before it is used."""

    format: str = config.FORMAT
    name: str
    title: str  # one line
    licence: str  # of the weights
    domain: str  # indoor, road, any
    depth_range: tuple[float, ...]  # metres; other depth was ignored in training
    training_size: tuple[int, ...]  # height and width of pictures in the network
    training_fov_deg: float | None = None  # from left to right of these pictures
    parameters: float  # millions
    ingredients: tuple[Ingredient, ...]  # data and weights, each with its licence
    scores: tuple[Score, ...] = ()
    files: tuple[ModelFile, ...]
    default: bool = False  # the one that is taken when none is named
    notes: str = ""  # what it cannot do

    def __post_init__(self) -> None:
        if self.format != config.FORMAT:
            raise InputError(
                f"format {self.format!r}, this version reads {config.FORMAT!r}; install another"
            )
        low, high = self.depth_range if len(self.depth_range) == 2 else (0.0, 0.0)
        if not 0 <= low < high < math.inf:
            raise InputError(f"depth_range {self.depth_range}: two rising distances in metres")
        if len(self.training_size) != 2 or min(self.training_size) < 1:
            raise InputError(f"training_size {self.training_size}: height and width are needed")
        if ONNX not in {file.path for file in self.files}:
            raise InputError(f"files: {ONNX} is not among them")

    @property
    def data(self) -> str:
        """What it is made of, in one line: data, and weights it began with."""
        return ", ".join(ingredient.name for ingredient in self.ingredients)

    @property
    def origin(self) -> dict[str, Any]:
        """What its files say of themselves (`predict.engine` reads it), in the card's own words."""
        known = {
            "domain": self.domain,
            "depth_range": [*self.depth_range],
            "training_size": [*self.training_size],
            "training_fov_deg": self.training_fov_deg,
            "data": self.data,
            "licence": self.licence,
        }
        return {field: value for field, value in known.items() if value is not None}

    @property
    def bytes(self) -> int:
        """Of the file that predicts."""
        return sum(file.bytes for file in self.part(ONNX))

    def part(self, name: str) -> tuple[ModelFile, ...]:
        """The files of one part, ONNX or CHECKPOINT; none if it ships without."""
        return tuple(file for file in self.files if file.path.split("/")[0] == name)


def shipped() -> dict[str, ModelCard]:
    """The cards of all models that are there, by name; those with a faulty card are an error."""
    folders = sorted(path.parent for path in HOME.glob(f"*/{CARD}"))
    return {folder.name: read_card(folder) for folder in folders}


def read_card(folder: Path) -> ModelCard:
    """The card of a model's folder."""
    path = folder / CARD
    try:
        card = config.from_json(ModelCard, files.read_json(path), str(path))
    except InputError as error:  # to its reader a model is one thing
        raise CheckpointError(str(error)) from None
    if card.name != folder.name:
        raise CheckpointError(
            f"{path}: of {card.name!r}, in the folder of {folder.name!r}; install idisc again"
        )
    return card


def candidates(cards: Iterable[ModelCard]) -> list[ModelCard]:
    """Which of them may be taken when none is named: those that say so, or else all."""
    every = list(cards)
    return [card for card in every if card.default] or every


def default_card() -> ModelCard:
    """The model that is taken when none is named; InputError unless it is one."""
    chosen = candidates(shipped().values())
    if not chosen:
        raise InputError(
            "no model ships with this version; name a checkpoint folder or an .onnx file"
            " (--weights, or idisc.load(path)); `idisc convert` makes one of a published file"
        )
    if len(chosen) > 1:
        names = ", ".join(card.name for card in chosen)
        raise InputError(f"several models could be the default ({names}); name one (--weights)")
    return chosen[0]


def locate(card: ModelCard, part: str = ONNX) -> Path:
    """Where a model's ONNX file is, or its checkpoint folder, once their hashes are right."""
    folder = HOME / card.name
    wanted = card.part(part)
    if not wanted:
        raise CheckpointError(
            f"{card.name}: ships without its {part}; name another model (--weights)"
        )
    for file in wanted:
        path = folder / file.path
        if not path.is_file():
            raise CheckpointError(f"{path}: not there; install idisc again")
        if path.stat().st_size != file.bytes or files.sha256(path) != file.sha256:
            raise CheckpointError(
                f"{path}: not the file of its card (SHA-256 differs); install idisc again"
            )
    return folder / part


def describe(folder: Path) -> tuple[ModelFile, ...]:
    """The files of a model as a card lists them; for those who write one."""
    paths = [folder / ONNX, *sorted((folder / CHECKPOINT).rglob("*"))]
    return tuple(
        ModelFile(
            path=path.relative_to(folder).as_posix(),
            bytes=path.stat().st_size,
            sha256=files.sha256(path),
        )
        for path in paths
        if path.is_file()
    )
