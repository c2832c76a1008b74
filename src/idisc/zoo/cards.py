"""Models that ship with the package, found by name in `zoo/models/`.

    NAME.json         the card: what the model is, what it was trained on and under which licences,
                      what it scores; also the record of a checkpoint that `load_network` opens
    NAME.onnx         the graph from bytes to metres, for `idisc predict`; needs no torch
    *.safetensors     the weights, in fp16: an encoder that several models share, and the rest of
                      each model. The graphs refer to the tensors in these files (ONNX external
                      data), so nothing is stored twice.

Nothing is downloaded. A file is used only if its checksum is that of the card, so the card
describes exactly the weights that are used. Where card and file disagree, the card takes
precedence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from idisc import checksums, configs, files
from idisc.ancestry import Ancestry, Parent
from idisc.configs.schema import ModelConfig
from idisc.errors import CheckpointError, InputError

HOME = Path(__file__).parent / "models"
_REINSTALL = "install idisc again"
Part = Literal["onnx", "checkpoint"]
"""The part of a model to open: its ONNX graph, or its checkpoint for torch."""


@dataclass(frozen=True, kw_only=True)
class Ingredient:
    """A dataset or initial weights from which a model was made."""

    name: str
    role: str  # "pictures and depth", "weights of the encoder"
    licence: str
    source: str = ""  # address


@dataclass(frozen=True, kw_only=True)
class Score:
    """One metric on one dataset, with its 95 % interval if it is known."""

    dataset: str
    protocol: str  # of evaluation
    metric: str
    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.high) if end is not None]
        if len(ends) == 1 or not all(map(math.isfinite, (self.value, *ends))):
            raise InputError(self.metric, "finite numbers, with both ends or none, are needed")

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.metric} {self.value:.3f}{interval}"


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """One file of a model, in the folder of its card."""

    path: str
    bytes: int
    sha256: str  # its identity
    crc32: str  # compared at every load

    def __post_init__(self) -> None:
        if re.search(r"[/\\:]|^\.", self.path):
            raise InputError("path", f"{self.path!r} is not in the folder of the card")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The description of a model."""

    format: str = configs.FORMAT
    name: str
    title: str  # one line
    licence: str  # of the weights
    non_commercial: bool = False  # the licence excludes commercial use
    domain: str  # indoor, road, any
    depth_range: tuple[float, ...]  # metres; depth outside was ignored in training
    training_size: tuple[int, ...]  # height and width of pictures in the network
    training_fov_deg: float | None = None  # horizontal, of these pictures
    canonical: bool = False  # trained on many cameras, all converted to this field of view
    parameters: float  # millions
    model: ModelConfig  # the network
    weights: tuple[str, ...]  # those of `files` that contain its tensors
    ingredients: tuple[Ingredient, ...]  # data and weights, its own and those of its parents
    parents: tuple[Parent, ...] = ()  # models that training started from
    scores: tuple[Score, ...] = ()
    files: tuple[ModelFile, ...]
    default: bool = False  # used if no model is named
    notes: str = ""  # what it cannot do

    def __post_init__(self) -> None:
        if self.format != configs.FORMAT:
            reason = f"{self.format!r}, and this version reads {configs.FORMAT!r}"
            raise InputError("format", reason, "install another version")
        low, high = self.depth_range if len(self.depth_range) == 2 else (0.0, 0.0)
        if not 0 <= low < high < math.inf:
            raise InputError("depth_range", f"{self.depth_range} is not two rising distances")
        if len(self.training_size) != 2 or min(self.training_size) < 1:
            raise InputError("training_size", f"{self.training_size} is not (height, width)")
        names = {file.path for file in self.files}
        for needed in (f"{self.name}.onnx", *self.weights):
            if needed not in names:
                raise InputError("files", f"{needed} is not among them")

    @property
    def data(self) -> tuple[str, ...]:
        """The names of its datasets and initial weights, also of those of its parents."""
        return tuple(ingredient.name for ingredient in self.ingredients)

    @property
    def origin(self) -> dict[str, Any]:
        """The metadata of its files; `predict.model_info` reads it."""
        return Ancestry(
            domain=self.domain,
            depth_range=(self.depth_range[0], self.depth_range[1]),
            training_size=(self.training_size[0], self.training_size[1]),
            training_fov_deg=self.training_fov_deg,
            canonical=self.canonical,
            data=self.data,
            licence=(self.licence,),
            non_commercial=self.non_commercial,
            parents=self.parents,
        ).to_json()

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    def part(self, part: Part) -> tuple[ModelFile, ...]:
        """Return the files of one part."""
        return tuple(file for file in self.files if part == "onnx" or file.path in self.weights)


def shipped() -> dict[str, ModelCard]:
    """Return the cards of all shipped models by name; CheckpointError for an invalid card."""
    return {path.stem: read_card(path) for path in sorted(HOME.glob("*.json"))}


def read_card(path: Path) -> ModelCard:
    """Read a card; the name of the file is that of the model."""
    record = _read_record(path)
    if isinstance(record, dict):
        checksums.check_record(path, record)
        record.pop(checksums.KEY, None)
    try:
        card = configs.from_json(ModelCard, record, str(path))
    except InputError as error:
        raise CheckpointError(*error.args) from None
    if card.name != path.stem:
        raise CheckpointError(path, f"it is the card of {card.name!r}", _REINSTALL)
    return card


def write_card(path: Path, card: ModelCard) -> None:
    """Write a card with a checksum of its values."""
    files.write_json(path, checksums.sealed_record(configs.to_json(card)))


def candidates(cards: Iterable[ModelCard]) -> list[ModelCard]:
    """Return the cards marked as default, or all cards if none is."""
    every = list(cards)
    return [card for card in every if card.default] or every


def default_card() -> ModelCard:
    """Return the model to use if none is named; InputError unless there is exactly one."""
    chosen = candidates(shipped().values())
    if not chosen:
        raise InputError(
            "default model",
            "no model ships with this version",
            "name a checkpoint folder or an .onnx file (--weights, or idisc.load(path));"
            " `idisc convert` makes one from a published file",
        )
    if len(chosen) > 1:
        names = ", ".join(card.name for card in chosen)
        raise InputError("default model", f"there are several ({names})", "name one (--weights)")
    return chosen[0]


def locate(card: ModelCard, part: Part = "onnx") -> Path:
    """Check the files of a model; return its ONNX file, or the record of its checkpoint."""
    check_files(card, part, HOME)
    return HOME / f"{card.name}.{'onnx' if part == 'onnx' else 'json'}"


def beside(path: Path) -> ModelCard | None:
    """Return the card next to the ONNX file of a model, whose files must be those of the card.

    None if there is none, or a JSON file of another kind.
    """
    described = path.with_suffix(".json")
    record = _read_record(described) if described.is_file() else None
    if not isinstance(record, dict) or "ingredients" not in record:
        return None
    card = read_card(described)
    check_files(card, "onnx", path.parent)
    return card


def _read_record(path: Path) -> Any:
    try:
        return files.read_json(path)
    except InputError as error:
        raise CheckpointError(*error.args) from None


def check_files(card: ModelCard, part: Part, folder: Path) -> None:
    """Raise a CheckpointError if a file of a model is missing or has another checksum."""
    for file in card.part(part):
        path = folder / file.path
        if not path.is_file():
            raise CheckpointError(path, "no such file", _REINSTALL)
        if path.stat().st_size != file.bytes or checksums.crc32(path) != file.crc32:
            raise CheckpointError(path, "its checksum is not that of its card", _REINSTALL)


def describe(paths: Iterable[Path]) -> tuple[ModelFile, ...]:
    """Return the entries of a card for some files."""
    return tuple(
        ModelFile(
            path=path.name,
            bytes=path.stat().st_size,
            sha256=files.sha256(path),
            crc32=checksums.crc32(path),
        )
        for path in paths
    )
