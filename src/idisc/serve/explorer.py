"""What the page asks of the explain room, and nothing more: the one place that knows of both.

An explorer takes a picture as the network sees it and says which IDRs each pixel belongs to, and
what depth becomes without some of them. Only a checkpoint can be explored: an exported file gives
depth and no more. Of a model that ships with both, a server opens one: the checkpoint where torch
can run it, for predictions and IDRs alike, the exported file elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.errors import InputError, MissingExtra, require
from idisc.images import Size, resize_smooth
from idisc.predict.engine import card_of, network_of, open_model
from idisc.predict.predictor import Predictor
from idisc.zoo import cards

FloatMaps = NDArray[np.float32]


class Level(Protocol):
    """One resolution of the network."""

    @property
    def stride(self) -> int:
        """Pixels of the picture for one of the level."""

    @property
    def size(self) -> Size:
        """Of the level itself; its maps are enlarged to the finest."""

    @property
    def attention(self) -> FloatMaps:
        """(N, h, w): what each pixel reads, with sum 1 over N."""

    @property
    def partition(self) -> FloatMaps | None:
        """(N, h, w): who owns each pixel, with sum 1 over N; None without AFP."""


class Explanation(Protocol):
    """A picture taken apart."""

    @property
    def levels(self) -> Sequence[Level]:
        """Coarse to fine."""

    @property
    def depth(self) -> FloatMaps:
        """(H, W) metres."""

    def muted(self, idrs: Mapping[int, Collection[int]]) -> FloatMaps:
        """(H, W) metres without some IDRs of some levels."""


class Explorer(Protocol):
    """A network that can be looked into."""

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """RGB (H, W, 3) of any size -> depth of that `size` and its reasons."""


@dataclass(frozen=True)
class NetworkExplorer:
    """The explain room behind the protocol."""

    predictor: Predictor
    network: Any  # idisc.model.network.IDisc, which needs torch

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """The picture at the size at which the predictor shows it to the network."""
        from idisc.explain.idrs import explain

        seen = self.predictor.network_size((image.shape[0], image.shape[1]))
        found: Explanation = explain(self.network, resize_smooth(image, seen), size)
        return found


class Opened(NamedTuple):
    """The one network of a server, and how to look into it."""

    predictor: Predictor
    explorer: Explorer | None
    missing: str = ""  # why there is no explorer, and what to do, in one line


def open_network(model: str | Path | None = None, device: str = "cpu") -> Opened:
    """A checkpoint folder, an .onnx file or a shipped model by name; None: the default model."""
    card = card_of(model)
    missing = "" if card is None else _missing(card)
    part = cards.ONNX if missing else cards.CHECKPOINT
    predictor = Predictor(open_model(model, device, part=part))
    return Opened(predictor, None, missing) if missing else with_explorer(predictor)


def with_explorer(predictor: Predictor) -> Opened:
    """A predictor with the explorer of its network, or with the reason why it has none."""
    try:
        network = network_of(predictor.engine)
    except InputError as error:
        return Opened(predictor, None, str(error))
    return Opened(predictor, NetworkExplorer(predictor, network))


def _missing(card: cards.ModelCard) -> str:
    """What keeps a model that ships from being explored."""
    if not card.part(cards.CHECKPOINT):
        return f"IDRs of {card.name}: it ships without the checkpoint they are read from"
    try:
        require("torch", "timm", "safetensors", extra="train")
    except MissingExtra as error:
        return f"IDRs of {card.name}: {error}"
    return ""
