"""Procedural textures: the colour of a surface at places given in metres.

Each texture takes a `Patch` of P places and gives their colours (3, P): channels first, because
numpy is slow along short last axes. Patterns fade to their mean where a pixel is as large as their
period, which is what the lens of a real camera does to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Patch:
    """Places on surfaces that share a texture, each with its own period and colours."""

    u: FloatArray  # (P,) metres from the left end of the surface
    v: FloatArray  # (P,) metres from its lower end
    width: FloatArray  # (P,) metres of the whole surface
    height: FloatArray  # (P,)
    scale: FloatArray  # (P,) metres of a period
    seed: NDArray[np.int32]  # (P,)
    colour: FloatArray  # (3, P)
    second: FloatArray  # (3, P)
    pixel: FloatArray  # (P,) metres that a pixel covers

    def clear(self, period: FloatArray | float = 1.0) -> FloatArray:
        """How much of a texture is to be seen: 0 where pixels outgrow `period` (of the scale)."""
        return np.clip(1.5 - 2 * self.pixel / (self.scale * period), 0, 1)

    def mixed(self, share: FloatArray, mean: float, period: FloatArray | float = 1.0) -> FloatArray:
        """`share` of the second colour; its mean where it is not clear."""
        share = mean + (share - mean) * self.clear(period)
        return self.colour + (self.second - self.colour) * share


Texture = Callable[[Patch], FloatArray]


@cache
def _table() -> FloatArray:
    """65536 numbers in [0, 1): the dice of all textures, always the same."""
    return np.random.default_rng(2023).random(1 << 16, dtype=np.float32)


def dice(i: NDArray[np.int32], j: NDArray[np.int32], seed: NDArray[np.int32]) -> FloatArray:
    """A number in [0, 1) for each cell (i, j) of a grid."""
    place = ((i + seed * 31) & 255) << 8 | ((j + seed * 17) & 255)
    return _table().take(place)


def noise(u: FloatArray, v: FloatArray, seed: NDArray[np.int32]) -> FloatArray:
    """Smooth random values in [0, 1), drawn on a grid of spacing 1."""
    i, j = np.floor(u), np.floor(v)
    a, b = u - i, v - j
    a, b = a * a * (3 - 2 * a), b * b * (3 - 2 * b)
    column, row = i.astype(np.int32), j.astype(np.int32)
    near = dice(column, row, seed)
    near += (dice(column + 1, row, seed) - near) * a
    far = dice(column, row + 1, seed)
    far += (dice(column + 1, row + 1, seed) - far) * a
    return near + (far - near) * b


def _cells(places: FloatArray, period: FloatArray) -> tuple[NDArray[np.int32], FloatArray]:
    """Number of the cell of each place, and how far into it, 0 to 1."""
    ratio = places / period
    whole = np.floor(ratio)
    return whole.astype(np.int32), ratio - whole


def _line(inside: FloatArray, width: FloatArray | float) -> FloatArray:
    """1 on the borders of a cell, `width` (share of the cell) wide in all."""
    return (np.minimum(inside, 1 - inside) < width / 2).astype(np.float32)


def _fields(patch: Patch, width: FloatArray) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
    """As many as fit across, about this wide: number, how far into it, metres to its sides."""
    wide = patch.width / np.maximum(np.rint(patch.width / width), 1)
    number, inside = _cells(patch.u, wide)
    return number, inside, np.minimum(inside, 1 - inside) * wide


def _edge(patch: Patch, aside: FloatArray) -> FloatArray:
    """Metres to the nearest edge, of which those at the sides are `aside` away."""
    return np.minimum(aside, np.minimum(patch.v, patch.height - patch.v))


def plain(patch: Patch) -> FloatArray:
    """Paint or plaster, nearly even."""
    return patch.mixed(0.1 * noise(patch.u / patch.scale, patch.v / patch.scale, patch.seed), 0.05)


def rough(patch: Patch) -> FloatArray:
    """Carpet, asphalt, leaves, grass: noise of three sizes."""
    u, v = patch.u / patch.scale, patch.v / patch.scale
    coarse = noise(u, v, patch.seed)
    fine = noise(u * 3.1, v * 3.1, patch.seed + 7)
    finest = noise(u * 9.3, v * 9.3, patch.seed + 3)
    return patch.mixed(0.45 * coarse + 0.3 * fine + 0.25 * finest, 0.5)


def checker(patch: Patch) -> FloatArray:
    """A chessboard."""
    i, _ = _cells(patch.u, patch.scale)
    j, _ = _cells(patch.v, patch.scale)
    tone = 0.12 * dice(i, j, patch.seed)
    return patch.mixed(((i + j) & 1) * 0.88 + tone, 0.5)


def tiles(patch: Patch) -> FloatArray:
    """Square tiles with joints of the second colour."""
    i, a = _cells(patch.u, patch.scale)
    j, b = _cells(patch.v, patch.scale)
    joint = np.maximum(_line(a, 0.05), _line(b, 0.05))
    return patch.mixed(np.maximum(joint * 0.8, 0.2 * dice(i, j, patch.seed)), 0.17)


def stripes(patch: Patch) -> FloatArray:
    """Upright stripes: wallpaper, blinds."""
    i, _ = _cells(patch.u, patch.scale / 2)
    return patch.mixed((i & 1).astype(np.float32), 0.5)


def folds(patch: Patch) -> FloatArray:
    """Curtains: soft upright waves."""
    phase = patch.u / patch.scale + 0.4 * noise(patch.u / patch.scale, patch.v, patch.seed)
    return patch.mixed(0.5 + 0.5 * np.sin(2 * np.pi * phase), 0.5)


def plaid(patch: Patch) -> FloatArray:
    """Woven checks of cushions and blankets."""
    _, a = _cells(patch.u, patch.scale)
    _, b = _cells(patch.v, patch.scale)
    return patch.mixed(0.5 * (a < 0.4).astype(np.float32) + 0.5 * (b < 0.4), 0.4)


def planks(patch: Patch) -> FloatArray:
    """Wood: boards along u of one period in width, eight in length, with grain."""
    j, b = _cells(patch.v, patch.scale)
    shift = patch.u + 5 * patch.scale * dice(j, j, patch.seed)
    i, a = _cells(shift, patch.scale * 8)
    grain = noise(shift / patch.scale, b * 6 + i, patch.seed + j)
    seam = np.maximum(_line(b, 0.04), _line(a, 0.006))
    share = np.maximum(0.35 * grain + 0.35 * dice(i, j, patch.seed), seam * 0.9)
    return patch.mixed(share, 0.38)


def brick(patch: Patch) -> FloatArray:
    """Bricks one period long and a third high, in mortar of the second colour."""
    j, b = _cells(patch.v, patch.scale / 3)
    i, a = _cells(patch.u + (j & 1) * patch.scale / 2, patch.scale)
    mortar = np.maximum(_line(a, 0.06), _line(b, 0.16))
    return patch.mixed(np.maximum(mortar, 0.35 * dice(i, j, patch.seed)), 0.33, period=0.5)


def books(patch: Patch) -> FloatArray:
    """Backs of books, one period thick, of many colours and heights; second colour above them."""
    i, a = _cells(patch.u, patch.scale)
    hue = np.stack([dice(i, i + k, patch.seed) for k in (1, 50, 99)])  # (3, P)
    hue = (0.15 + 0.75 * dice(i, i + 7, patch.seed)) * (0.4 + 0.6 * hue) ** 2
    top = patch.height * (0.7 + 0.28 * dice(i, i + 11, patch.seed))
    level = patch.v / top
    band = (np.abs(level - 0.72) < 0.05) & (dice(i, i + 5, patch.seed) > 0.5)
    hue = np.where(band, 0.7 * patch.colour, hue)
    gap = np.maximum(_line(a, 0.12), (level > 1).astype(np.float32))
    mean = np.float32(0.2) * patch.colour
    return mean + (hue + (0.3 * patch.second - hue) * gap - mean) * patch.clear()


def panels(patch: Patch) -> FloatArray:
    """Fronts of cupboards, doors: fields one period wide with a moulding and a gap between them."""
    _, _, aside = _fields(patch, patch.scale)
    edge = _edge(patch, aside)
    moulding = (np.abs(edge - 0.09) < 0.012) * 0.6
    return patch.mixed(np.maximum((edge < 0.008) * 0.9, moulding).astype(np.float32), 0.1, 0.3)


def picture(patch: Patch) -> FloatArray:
    """A framed picture of hills: the second colour is its frame."""
    edge = _edge(patch, np.minimum(patch.u, patch.width - patch.u))
    across = patch.u / patch.width
    level = patch.v / patch.height + 0.5 * (noise(across * 3, across * 0, patch.seed) - 0.5)
    tone = noise(across * 7, level * 7, patch.seed + 1)
    hills = np.where(level < 0.45, patch.colour * (0.3 + 0.7 * tone), 0.4 + 0.4 * tone)
    return np.where(edge < 0.03, patch.second, hills).astype(np.float32)


def outlook(patch: Patch) -> FloatArray:
    """A window seen from inside: daylight over something green, frame of the second colour."""
    _, a = _cells(patch.u, patch.width / 2)
    edge = np.minimum(patch.v, patch.height - patch.v)
    frame = (np.minimum(a, 1 - a) * patch.width / 2 < 0.05) | (edge < 0.06)
    level = patch.v / patch.height + 0.2 * noise(patch.u * 4, patch.v * 4, patch.seed)
    green = np.array([[0.35], [0.45], [0.2]], np.float32)
    view = np.where(level < 0.45, green * level * 1.6, patch.colour)
    return np.where(frame, 0.35 * patch.second, view).astype(np.float32)


def facade(patch: Patch) -> FloatArray:
    """A house front: windows in fields one period high and about 0.8 wide, in a rough wall."""
    i, a, _ = _fields(patch, patch.scale * 0.8)
    j, b = _cells(patch.v, patch.scale)
    wide, high = np.abs(a - 0.5), np.abs(b - 0.55)
    glass, frame = (wide < 0.22) & (high < 0.26), (wide < 0.27) & (high < 0.31)
    bars = (wide < 0.02) | (np.abs(b - 0.62) < 0.015)
    wall = patch.colour * (0.8 + 0.4 * noise(patch.u * 1.5, patch.v * 1.5, patch.seed))
    wall = np.where(b < 0.05, wall * 0.75, wall)  # a ledge at each floor
    shine = dice(i, j, patch.seed)
    tone = (0.02 + 0.25 * shine**3) * np.array([[0.8], [0.95], [1.2]], np.float32)
    pane = np.where(glass & ~bars, tone, patch.second)
    return np.where(frame, pane, wall).astype(np.float32)


def road(patch: Patch) -> FloatArray:
    """Asphalt with a dashed line in its middle and lines `scale` metres to both sides of it."""
    aside = np.abs(patch.u - patch.width / 2)
    dash = (aside < 0.08) & (np.mod(patch.v, 7.0) < 3.0)
    line = dash | (np.abs(aside - patch.scale) < 0.07)
    worn = noise(patch.u * 5, patch.v * 5, patch.seed)
    grit = noise(patch.u * 1.1, patch.v * 0.4, patch.seed + 9) * 0.5 + worn * 0.5
    asphalt = patch.colour * (0.7 + 0.6 * grit)
    cover = np.clip(0.16 / np.maximum(patch.pixel, 0.16), 0, 1) * (0.6 + 0.4 * worn)
    marked = asphalt + (patch.second - asphalt) * cover
    return np.where(line, marked, asphalt).astype(np.float32)


def glazing(patch: Patch) -> FloatArray:
    """The cabin of a car: dark panes between posts of the car's colour."""
    _, _, aside = _fields(patch, patch.scale)
    edge = _edge(patch, aside)
    return patch.mixed((edge > 0.05).astype(np.float32), 0.6, 0.5)


TEXTURES: dict[str, Texture] = {
    texture.__name__: texture
    for texture in (
        *(plain, rough, checker, tiles, stripes, folds, plaid, planks, brick, books),
        *(panels, picture, outlook, facade, road, glazing),
    )
}
