"""How a server comes by a network that it can look into, or by the reason why it cannot.

Only a checkpoint can be explored: an exported file gives depth and no more. Of a model that ships
with both, a server opens one: the checkpoint where torch can run it, for predictions and IDRs
alike, the exported file elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.errors import InputError, MissingExtra, require
from idisc.predict.engine import card_of, network_of, open_model
from idisc.predict.predictor import Predictor
from idisc.sizes import Size, resize_smooth
from idisc.zoo import cards

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation  # needs torch, which not every server has


class Explorer(Protocol):
    """A network that can be looked into."""

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """RGB (H, W, 3) of any size -> depth of that `size` and its reasons."""


@dataclass(frozen=True)
class NetworkExplorer:
    """The explain room behind it."""

    predictor: Predictor
    network: Any  # idisc.model.network.IDisc, which needs torch

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """The picture at the size at which the predictor shows it to the network."""
        from idisc.explain.idrs import explain

        seen = self.predictor.network_size((image.shape[0], image.shape[1]))
        return explain(self.network, resize_smooth(image, seen), size)


class Opened(NamedTuple):
    """The one network of a server, and how to look into it."""

    predictor: Predictor
    explorer: Explorer | None
    missing: str = ""  # why there is no explorer, and what to do, in one line


def open_network(model: str | Path | None = None, device: str = "cpu") -> Opened:
    """A checkpoint folder, an .onnx file or a shipped model by name; None: the default model."""
    card = card_of(model)
    missing = "" if card is None else _missing(card)
    part: cards.Part = "onnx" if missing else "checkpoint"
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
    try:
        require("torch", "timm", "safetensors", extra="train")
    except MissingExtra as error:
        return f"IDRs of {card.name}: {error}"
    return ""
