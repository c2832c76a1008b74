"""Large pictures in overlapping tiles: the detail of each tile, the scale of the whole.

A network that sees a tile does not know how far away the scene is: it sees less of it, and larger,
and a bare wall tells it nothing. So each tile is aligned in log depth to the pass over the whole
picture, the aligned tiles are blended by windows that fall to nothing at their edges, and what is
coarse in the result is that of the whole: only detail that is small against a tile comes from it.
No seams, and the tiles cannot drift from each other or from the layout of the scene.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc.errors import InputError
from idisc.sizes import Size

FloatMap = NDArray[np.float32]
OVERLAP = 0.25  # share of a tile's side, at least
CELLS = 4  # of a tile's side: what is larger than one of them is left to the whole
LEAST = 32  # pixels of a side: a smaller tile is a point to the coarsest features
MOST_TILES = 16  # when the size is left to us: each costs a pass of the network


class Depths(NamedTuple):
    """What a pass gives: depth (H, W) in metres and, if known, its spread."""

    depth: FloatMap
    spread: FloatMap | None = None


@dataclass(frozen=True)
class Tiles:
    """Where the tiles of a picture lie: all of one size, evenly spaced, edge to edge."""

    size: Size  # of a tile
    tops: tuple[int, ...]
    lefts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tops) * len(self.lefts)


def lay_out(picture: Size, tile: Size) -> Tiles:
    """Tiles of at most `tile` that cover a picture and overlap by at least a quarter."""
    if min(tile) < LEAST:
        raise InputError(f"tiles of {tile[0]}x{tile[1]}: at least {LEAST} pixels a side are needed")
    height, width = min(tile[0], picture[0]), min(tile[1], picture[1])
    return Tiles((height, width), _starts(picture[0], height), _starts(picture[1], width))


def choose_size(picture: Size, network: Size) -> Size:
    """The network's own size, so that nothing is reduced, or larger where that is too many tiles.

    The smallest that needs at most `MOST_TILES`, in steps of a quarter.
    """
    factor = 1.0
    while True:
        height, width = (max(math.ceil(length * factor), LEAST) for length in network)
        if len(lay_out(picture, (height, width))) <= MOST_TILES:
            return height, width
        factor *= 1.25


def refine(
    image: NDArray[np.uint8],
    whole: FloatMap,
    predict: Callable[[NDArray[np.uint8]], Depths],
    tiles: Tiles,
) -> Depths:
    """Depth of a picture (H, W, 3) from its tiles, aligned to `whole` (H, W), the pass over all."""
    rows, columns = _window(tiles.size[0]), _window(tiles.size[1])
    depth, spread = np.zeros_like(whole), np.zeros_like(whole)
    has_spread = True
    for top in tiles.tops:
        for left in tiles.lefts:
            place = np.s_[top : top + tiles.size[0], left : left + tiles.size[1]]
            found = predict(image[place])
            factor = _factor(found.depth, whole[place])
            weight = rows[:, None] * columns
            depth[place] += weight * (factor * found.depth)
            if found.spread is None:
                has_spread = False
            else:
                spread[place] += weight * (factor * found.spread)
    total_rows = _sums(rows, tiles.tops, whole.shape[0])
    total = total_rows[:, None], _sums(columns, tiles.lefts, whole.shape[1])
    for canvas in (depth, spread):
        canvas /= total[0]
        canvas /= total[1]
    correction = _correction(depth, whole, tiles.size)
    depth *= correction
    spread *= correction
    return Depths(depth, spread if has_spread else None)


def _starts(length: int, tile: int) -> tuple[int, ...]:
    step = tile - math.ceil(tile * OVERLAP)
    count = 1 + math.ceil((length - tile) / step)
    return tuple(int(start) for start in np.linspace(0, length - tile, count).round())


def _window(length: int) -> FloatMap:
    """A raised cosine over a tile's side, a little more than 0 at its ends."""
    place = (np.arange(length) + 0.5) / length
    return (np.sin(np.pi * place) ** 2).astype(np.float32)


def _sums(window: FloatMap, starts: tuple[int, ...], length: int) -> FloatMap:
    """The windows of all tiles along one axis, added up: tiles make a grid, so both axes part."""
    total = np.zeros(length, np.float32)
    for start in starts:
        total[start : start + len(window)] += window
    return total


def _correction(depth: FloatMap, whole: FloatMap, tile: Size) -> FloatMap:
    """Factors (H, W) that give depth the coarse layout of the whole, and keep its detail.

    Log differences are averaged in cells, so that edges, which never agree, cancel.
    """
    height, width = depth.shape
    cells = math.ceil(CELLS * width / tile[1]), math.ceil(CELLS * height / tile[0])
    difference = Image.fromarray(np.log(whole / depth))
    coarse = difference.resize(cells, Image.Resampling.BILINEAR)
    logs = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    factors: FloatMap = np.exp(logs, dtype=np.float32)
    return factors


def _factor(tile: FloatMap, whole: FloatMap) -> float:
    """Such that factor * tile is closest to the whole: the median, as edges never agree."""
    step = max(1, round(math.sqrt(tile.size / 50_000)))  # enough for a median
    x, y = (np.log(depth[::step, ::step], dtype=np.float64) for depth in (tile, whole))
    return math.exp(float(np.median(y - x)))
