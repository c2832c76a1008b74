"""Refines large pictures in overlapping tiles: detail from the tiles, scale from the whole picture.

A network cannot tell from a tile how far away the scene is: the tile shows less of it, enlarged.
So each tile is aligned in log depth to the pass over the whole picture, the aligned tiles are
blended with windows that fall to zero at their edges, and the coarse layout of the result is
replaced by that of the whole picture. There are no seams, and tiles cannot drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from idisc.alignment import fit_inverse
from idisc.errors import InputError
from idisc.predict.engine import Output
from idisc.sizes import Size

FloatMap = NDArray[np.float32]
MIN_OVERLAP = 0.25  # share of the side of a tile
CELLS_PER_SIDE = 4  # of a tile: structures larger than a cell come from the whole picture
MIN_SIDE = 32  # px of a tile: a smaller one is less than one pixel of the coarsest features
MAX_TILES = 16  # if the user gives no size: each costs a pass of the network


@dataclass(frozen=True)
class Tiles:
    """Positions of the tiles of a picture: all of one size, evenly spaced, edge to edge."""

    size: Size  # of a tile
    tops: tuple[int, ...]
    lefts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tops) * len(self.lefts)


def lay_out(picture: Size, tile: Size) -> Tiles:
    """Return tiles of at most `tile` that cover a picture and overlap by at least a quarter."""
    if min(tile) < MIN_SIDE:
        raise InputError(
            f"tiles of {tile[0]}x{tile[1]}", f"at least {MIN_SIDE} pixels a side are needed"
        )
    height, width = min(tile[0], picture[0]), min(tile[1], picture[1])
    return Tiles((height, width), _starts(picture[0], height), _starts(picture[1], width))


def choose_size(picture: Size, network: Size) -> Size:
    """Return the network's size, or the smallest multiple of it with at most `MAX_TILES` tiles."""
    factor = 1.0
    while True:
        height, width = (max(math.ceil(length * factor), MIN_SIDE) for length in network)
        if len(lay_out(picture, (height, width))) <= MAX_TILES:
            return height, width
        factor *= 1.25


def refine(
    image: NDArray[np.uint8],
    whole: FloatMap,
    predict: Callable[[NDArray[np.uint8]], Output],
    tiles: Tiles,
    *,
    affine: bool = False,
) -> Output:
    """Predict the tiles of a picture (H, W, 3), aligned to `whole` (H, W), the first pass.

    Relative depth (`affine`) is aligned by scale and shift of its inverse, metres by a factor.
    """
    rows, columns = _window(tiles.size[0]), _window(tiles.size[1])
    depth, level_std = np.zeros_like(whole), np.zeros_like(whole)
    has_std = True
    for top in tiles.tops:
        for left in tiles.lefts:
            place = np.s_[top : top + tiles.size[0], left : left + tiles.size[1]]
            output = predict(image[place])
            factor = (_affine_ratios if affine else _median_ratio)(output.maps, whole[place])
            weight = rows[:, None] * columns
            depth[place] += weight * (factor * output.maps)
            if output.level_std is None:
                has_std = False
            else:
                level_std[place] += weight * (factor * output.level_std)
    total_rows = _window_sums(rows, tiles.tops, whole.shape[0])[:, None]
    total_columns = _window_sums(columns, tiles.lefts, whole.shape[1])
    for canvas in (depth, level_std):
        canvas /= total_rows
        canvas /= total_columns
    correction = _correction(depth, whole, tiles.size)
    depth *= correction
    level_std *= correction
    return Output(depth, level_std if has_std else None)


def _starts(length: int, tile: int) -> tuple[int, ...]:
    step = tile - math.ceil(tile * MIN_OVERLAP)
    count = 1 + math.ceil((length - tile) / step)
    return tuple(int(start) for start in np.linspace(0, length - tile, count).round())


def _window(length: int) -> FloatMap:
    """A raised cosine over the side of a tile, slightly more than 0 at its ends."""
    place = (np.arange(length) + 0.5) / length
    return (np.sin(np.pi * place) ** 2).astype(np.float32)


def _window_sums(window: FloatMap, starts: tuple[int, ...], length: int) -> FloatMap:
    """Sum the windows of all tiles along one axis; the tiles are a grid, so axes are separable."""
    total = np.zeros(length, np.float32)
    for start in starts:
        total[start : start + len(window)] += window
    return total


def _correction(depth: FloatMap, whole: FloatMap, tile: Size) -> FloatMap:
    """Return factors (H, W) that give depth the coarse layout of the whole, and keep its detail.

    Log differences are averaged in cells, so that edges, which never agree, cancel out.
    """
    height, width = depth.shape
    cells = (
        math.ceil(CELLS_PER_SIDE * width / tile[1]),
        math.ceil(CELLS_PER_SIDE * height / tile[0]),
    )
    difference = Image.fromarray(np.log(whole / depth))
    coarse = difference.resize(cells, Image.Resampling.BILINEAR)
    logs = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    factors: FloatMap = np.exp(logs, dtype=np.float32)
    return factors


def _affine_ratios(tile: FloatMap, whole: FloatMap) -> FloatMap:
    """Return the ratios (H, W) of relative depth after and before scale and shift are fitted."""
    step = _sampling_step(tile)
    x, y = (depth[::step, ::step].ravel() for depth in (tile, whole))
    fitted = fit_inverse(x, y).metres(tile, float(whole.max()))
    ratios: FloatMap = fitted / tile
    return ratios


def _sampling_step(tile: FloatMap) -> int:
    return max(1, round(math.sqrt(tile.size / 50_000)))  # enough pixels for a median or a fit


def _median_ratio(tile: FloatMap, whole: FloatMap) -> np.float32:
    """Return the median ratio of whole and tile: a mean would suffer from edges, which differ."""
    step = _sampling_step(tile)
    x, y = (np.log(depth[::step, ::step], dtype=np.float64) for depth in (tile, whole))
    return np.float32(math.exp(float(np.median(y - x))))
