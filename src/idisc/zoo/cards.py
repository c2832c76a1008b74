"""Models that ship with the package, found by name in `zoo/models/`.

    NAME.json         the card: what the model is, what it was trained on and under which licences,
                      what it scores; also the record of a checkpoint that `load_network` opens
    NAME.onnx         the graph from bytes to metres, for `idisc predict`; needs no torch
    *.safetensors     the weights, in fp16: an encoder that several models share, and the rest of
                      each model. The graphs refer to the tensors in these files (ONNX external
                      data), so nothing is stored twice.

Nothing is downloaded. A file is used only if its SHA-256 is that of the card, so a card speaks of
the weights that answer, and of no others. Where card and file differ, the card counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from idisc import config, files
from idisc.errors import CheckpointError, InputError
from idisc.settings import ModelConfig

HOME = Path(__file__).parent / "models"
Part = Literal["onnx", "checkpoint"]
"""What can be opened of a model: its graph, or its network for torch."""


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
            raise InputError(f"{self.metric} on {self.dataset}", "finite, with both ends or none")

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.metric} {self.value:.3f}{interval}"


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """One file of a model, in the folder of its card."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if re.search(r"[/\\:]|^\.", self.path):
            raise InputError(f"file {self.path!r}", "not in the folder of its card")


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
    canonical: bool = False  # trained on many cameras, all brought to this field of view
    parameters: float  # millions
    model: ModelConfig  # the network
    weights: tuple[str, ...]  # the files among `files` that hold its tensors
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
            raise InputError(f"depth_range {self.depth_range}", "two rising distances in metres")
        if len(self.training_size) != 2 or min(self.training_size) < 1:
            raise InputError(f"training_size {self.training_size}", "height and width are needed")
        names = {file.path for file in self.files}
        for needed in (f"{self.name}.onnx", *self.weights):
            if needed not in names:
                raise InputError("files", f"{needed} is not among them")

    @property
    def data(self) -> str:
        """What it is made of, in one line: data, and weights it began with."""
        return ", ".join(ingredient.name for ingredient in self.ingredients)

    @property
    def origin(self) -> dict[str, Any]:
        """What its files say of themselves; `predict.model_info` reads it."""
        known = {
            "domain": self.domain,
            "depth_range": [*self.depth_range],
            "training_size": [*self.training_size],
            "training_fov_deg": self.training_fov_deg,
            "canonical": self.canonical,
            "data": self.data,
            "licence": self.licence,
        }
        return {field: value for field, value in known.items() if value is not None}

    @property
    def bytes(self) -> int:
        """Of the files that predict."""
        return sum(file.bytes for file in self.files)

    def part(self, part: Part) -> tuple[ModelFile, ...]:
        """The files that one part needs."""
        return tuple(file for file in self.files if part == "onnx" or file.path in self.weights)


def shipped() -> dict[str, ModelCard]:
    """The cards of all models that are there, by name; those with a faulty card are an error."""
    return {path.stem: read_card(path) for path in sorted(HOME.glob("*.json"))}


def read_card(path: Path) -> ModelCard:
    """The card in a JSON file, which is called after its model."""
    try:
        card = config.from_json(ModelCard, files.read_json(path), str(path))
    except InputError as error:  # to its reader a model is one thing
        raise CheckpointError(str(error)) from None
    if card.name != path.stem:
        raise CheckpointError(path, f"the card of {card.name!r}", "install idisc again")
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


def locate(card: ModelCard, part: Part = "onnx") -> Path:
    """The ONNX file of a model, or the record of its checkpoint, once all hashes are right."""
    for file in card.part(part):
        path = HOME / file.path
        if not path.is_file():
            raise CheckpointError(path, "not there", "install idisc again")
        if path.stat().st_size != file.bytes or files.sha256(path) != file.sha256:
            raise CheckpointError(
                path, "not the file of its card (SHA-256 differs)", "install idisc again"
            )
    return HOME / f"{card.name}.{'onnx' if part == 'onnx' else 'json'}"


def describe(paths: Iterable[Path]) -> tuple[ModelFile, ...]:
    """The files of a model as a card lists them; for those who write one."""
    return tuple(
        ModelFile(path=path.name, bytes=path.stat().st_size, sha256=files.sha256(path))
        for path in paths
    )
