"""Opens the network of a server, with access to its IDRs if that is possible.

Only a checkpoint has IDRs: an exported file has depth only. Of a shipped model, which has both, the
server opens the checkpoint if torch is installed, and the exported file otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.errors import IdiscError, InputError, MissingExtra, require
from idisc.predict.open import find_card, network_of, open_model
from idisc.predict.predictor import Predictor
from idisc.sizes import Size, resize_smooth
from idisc.zoo import cards

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation  # needs torch, which not every server has


class Explorer(Protocol):
    """A network whose IDRs can be computed."""

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """Return depth of a `size` and the IDRs of a picture, RGB (H, W, 3) of any size."""


@dataclass(frozen=True)
class NetworkExplorer:
    """An explorer that uses `idisc.explain`."""

    predictor: Predictor
    network: Any  # idisc.model.network.IDisc, which needs torch

    def explain(self, image: NDArray[np.uint8], size: Size) -> Explanation:
        """Explain the picture at the size at which the predictor shows it to the network."""
        from idisc.explain.idrs import explain

        seen = self.predictor.network_size((image.shape[0], image.shape[1]))
        return explain(self.network, resize_smooth(image, seen), size)


class Opened(NamedTuple):
    """The network of a server, and its explorer."""

    predictor: Predictor
    explorer: Explorer | None
    missing: IdiscError = InputError("IDRs", "not available")  # why there is no explorer


def open_network(
    model: str | Path | None = None, device: str = "cpu", convention: str | None = None
) -> Opened:
    """Open a checkpoint folder, an .onnx file or a shipped model; None: the default model."""
    card = find_card(model)
    missing = None if card is None else _missing(card)
    part: cards.Part = "onnx" if missing else "checkpoint"
    predictor = Predictor(open_model(model, device, part=part, convention=convention))
    return Opened(predictor, None, missing) if missing else with_explorer(predictor)


def with_explorer(predictor: Predictor) -> Opened:
    """Add the explorer of a predictor's network, or the reason why there is none."""
    try:
        network = network_of(predictor.engine)
    except InputError as error:
        return Opened(predictor, None, error)
    return Opened(predictor, NetworkExplorer(predictor, network))


def _missing(card: cards.ModelCard) -> MissingExtra | None:
    """Return why a shipped model cannot be explored; None if it can."""
    try:
        require("torch", "timm", "safetensors", extra="train")
    except MissingExtra as error:
        return error.within(f"IDRs of {card.name}")
    return None
