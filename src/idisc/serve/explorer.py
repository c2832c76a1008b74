"""Opens the network of a server, with access to its IDRs if possible.

Only a checkpoint gives access to IDRs; an exported file gives depth only. A shipped model has both:
its exported file predicts on a CPU, and its checkpoint explains predictions if torch is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.errors import IdiscError, InputError, missing_extra
from idisc.predict.open import find_card, network_of, open_model
from idisc.predict.predictor import Predictor
from idisc.sizes import Size, resize_smooth
from idisc.zoo import cards

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation  # needs torch, which not every server has


class Opened(NamedTuple):
    """The network of a server, and the function that explains pictures by its IDRs."""

    predictor: Predictor
    # Takes RGB (H, W, 3) of any size and the size of the depth in its result.
    explain: Callable[[NDArray[np.uint8], Size], Explanation] | None
    missing: IdiscError = InputError("IDRs", "not available")  # why there is no such function


def open_network(
    model: str | Path | None = None, device: str = "cpu", convention: str | None = None
) -> Opened:
    """Open a checkpoint folder, an .onnx file or a shipped model; None: the default model."""
    card = find_card(model)
    exported = device == "cpu" or (card is not None and _missing_package(card) is not None)
    part: cards.Part = "onnx" if exported else "checkpoint"
    predictor = Predictor(open_model(model, device, part=part, convention=convention))
    return with_explorer(predictor)


def with_explorer(predictor: Predictor) -> Opened:
    """Add the function that explains pictures, or the reason why there is none.

    The export of a shipped model predicts faster than its checkpoint and needs no torch, so the
    checkpoint is opened by the first request for IDRs.
    """
    network = cache(partial(network_of, predictor.engine))
    if missing := _missing(predictor, network):
        return Opened(predictor, None, missing)

    def explain(image: NDArray[np.uint8], size: Size) -> Explanation:
        from idisc.explain import idrs  # needs torch

        network_size = predictor.network_size((image.shape[0], image.shape[1]))
        return idrs.explain(network(), resize_smooth(image, network_size), size)

    return Opened(predictor, explain)


def _missing(predictor: Predictor, network: Callable[[], object]) -> IdiscError | None:
    """Return why a network cannot be explored; None if it can."""
    card = getattr(predictor.engine, "card", None)  # of an export, also if it is opened by its path
    if card is not None:
        return _missing_package(card)
    try:
        network()
    except InputError as error:
        return error
    return None


def _missing_package(card: cards.ModelCard) -> IdiscError | None:
    """Return the error for a package that the checkpoint of a model needs; nothing is imported."""
    for package in ("torch", "timm", "safetensors"):
        if find_spec(package) is None:
            return missing_extra(package, "train").within(f"IDRs of {card.name}")
    return None
