"""What the page asks of the explain room, and nothing more: the one place that knows of both.

An explorer takes a picture as the network sees it and says which IDRs each pixel belongs to, and
what depth becomes without some of them. Only a checkpoint can be explored: an exported file gives
depth and no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from idisc.images import Size, resize_smooth
from idisc.predict.engine import network_of
from idisc.predict.predictor import Predictor

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


def open_explorer(predictor: Predictor) -> Explorer:
    """The explorer of a predictor; InputError says in one line why there is none."""
    return NetworkExplorer(predictor, network_of(predictor.engine))
