"""How predictions and their changes look in one figure: ranges of colours, bars, captions.

Depth has one range for all maps of a figure, which covers each of them but for 2 % of its pixels at
each end. Changes are signed, in metres or, where all of them are small, in millimetres; those of
normals are angles in degrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from idisc import visualize
from idisc.explain.ablate import Effect
from idisc.explain.idrs import Explanation, FloatMaps
from idisc.explain.sheets import Bar, Tile

TILE_WIDTH = 480  # pixels of a tile's picture at most: 240 dpi at two inches
_SHORT = 0.1  # metres: what is shorter is told in millimetres
_LEAST_CHANGE = {"m": 0.01, "deg": 0.1}  # of a colour bar's end


@dataclass(frozen=True)
class Look:
    """How predictions of one figure are shown, depth or normals, and how their changes."""

    ends: tuple[float, float] | None  # of the colours of depth, metres; None: normals
    limit: float  # of the colours of changes, metres or degrees

    @classmethod
    def of(
        cls, explanation: Explanation, effects: Sequence[Effect], changes: Sequence[Effect] = ()
    ) -> Look:
        """Colours for a prediction and some effects; of `changes` predictions are not shown.

        The range of depth covers each map by itself: a level that is far from the others is still
        told apart in itself.
        """
        if explanation.prediction.ndim == 3:
            return cls(None, _limit([*effects, *changes], "deg"))
        depths = [explanation.depth, *(effect.prediction for effect in effects)]
        lows, highs = zip(*(visualize.depth_limits(depth) for depth in depths), strict=True)
        return cls((min(lows), max(highs)), _limit([*effects, *changes], "m"))

    @property
    def task(self) -> str:
        """What is predicted."""
        return "depth" if self.ends else "normals"

    @property
    def signs(self) -> str:
        """What colours of changes say, in a sentence."""
        return "Orange: farther, purple: nearer." if self.ends else "Changes are angles."

    @property
    def bars(self) -> list[Bar]:
        """What the colours mean; those of normals are directions, and have none."""
        if self.ends is None:
            return [Bar(0.0, self.limit, visualize.ERROR_COLOURS, "change, and beyond", "deg")]
        scale, unit = (1000, "mm") if self.limit < _SHORT else (1, "m")
        end = round(self.limit * scale, 6)
        return [
            Bar(*self.ends, visualize.DEPTH_COLOURS, "depth, and beyond"),
            Bar(-end, end, visualize.CHANGE_COLOURS, "change, and beyond", unit),
        ]

    def answer(self, prediction: FloatMaps) -> Tile:
        """A prediction."""
        if self.ends is None:
            return Tile(visualize.normals_picture(prediction, TILE_WIDTH))
        return Tile(visualize.depth_picture(prediction, *self.ends, width=TILE_WIDTH))

    def ranged(self, prediction: FloatMaps) -> Tile:
        """A prediction, of depth above its own range."""
        tile = self.answer(prediction)
        if self.ends is None:
            return tile
        low, high = visualize.depth_limits(prediction)
        return replace(tile, caption=f"{low:.2f} to {high:.2f} m")

    def change(self, effect: Effect) -> Tile:
        """A change, above the mean of its size."""
        if self.ends is None:
            colours = visualize.ERROR_COLOURS
            picture = visualize.map_picture(effect.change, 0.0, self.limit, colours, TILE_WIDTH)
            return Tile(picture, f"{effect.mean:.2f} deg")
        picture = visualize.change_picture(effect.change, self.limit, TILE_WIDTH)
        return Tile(picture, length_text(effect.mean))


def length_text(metres: float) -> str:
    """A length for people: 0.4 mm, 12 mm, 1.23 m."""
    if metres < _SHORT:
        return f"{1000 * metres:.{1 if metres < 0.01 else 0}f} mm"
    return f"{metres:.2f} m"


def _limit(effects: Sequence[Effect], unit: str) -> float:
    """A round number that all but a hundredth of the pixels of each change stay below."""
    largest = max([_LEAST_CHANGE[unit], *(effect.largest for effect in effects)])
    power = 10.0 ** math.floor(math.log10(largest))
    step = next(each for each in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if each * power >= largest * 0.999)
    return float(f"{step * power:.12g}")
