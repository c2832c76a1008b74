"""Procedural textures: the colours (3, P) of P places on a surface, given in metres.

Patterns fade to their mean where a pixel is as large as their period, as in a real photo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from idisc.data.synthetic.scenes import Material

FloatArray = NDArray[np.floating[Any]]
Cells = NDArray[np.int32]


@dataclass(frozen=True)
class Surface:
    """P places on a shape; all arrays are (P,), in metres."""

    material: Material
    u: FloatArray  # from the left end
    v: FloatArray  # from the lower end
    width: FloatArray
    height: FloatArray
    pixel: FloatArray  # what a pixel covers

    @property
    def colour(self) -> FloatArray:
        """The first colour of the material (3, 1)."""
        return np.array(self.material.colour, np.float32)[:, None]

    @property
    def second(self) -> FloatArray:
        """The second colour of the material (3, 1)."""
        return np.array(self.material.second, np.float32)[:, None]

    def mix(self, share: NDArray[Any], mean: float) -> FloatArray:
        """`share` (P,) of the second colour, or its mean where the pattern is too fine."""
        visible = np.clip(1.5 - 2 * self.pixel / self.material.scale, 0, 1)
        share = mean + (share - mean) * visible
        return np.asarray(self.colour + (self.second - self.colour) * share)

    def noise(self, frequency: float, shift: int = 0) -> FloatArray:
        """Smooth noise in [0, 1) of so many cells per metre."""
        return noise(self.u * frequency, self.v * frequency, self.material.seed + shift)

    def fields(self, width: float) -> tuple[Cells, FloatArray, FloatArray]:
        """Fields of about this width: number, place in it (0 to 1), metres to the nearest edge."""
        step = self.width / np.maximum(np.rint(self.width / width), 1)
        number, inside = _cells(self.u, step)
        aside = np.minimum(inside, 1 - inside) * step
        return number, inside, np.minimum(aside, np.minimum(self.v, self.height - self.v))


Texture = Callable[[Surface], FloatArray]


@cache
def _table() -> FloatArray:
    return np.random.default_rng(2023).random(1 << 16, dtype=np.float32)


def dice(i: Cells, j: Cells, seed: int) -> FloatArray:
    """Return a number in [0, 1) for each cell (i, j) of a grid."""
    return _table().take(((i + seed * 31) & 255) << 8 | ((j + seed * 17) & 255))


def noise(u: FloatArray, v: FloatArray, seed: int) -> FloatArray:
    """Smooth random values in [0, 1) on a grid of spacing 1."""
    (i, a), (j, b) = _cells(u, 1), _cells(v, 1)
    a, b = a * a * (3 - 2 * a), b * b * (3 - 2 * b)
    near, far = (dice(i, row, seed) * (1 - a) + dice(i + 1, row, seed) * a for row in (j, j + 1))
    return near + (far - near) * b


def _cells(places: FloatArray, period: Any) -> tuple[Cells, FloatArray]:
    """Number of the cell of each place, and the place in it, 0 to 1."""
    ratio = places / period
    whole = np.floor(ratio)
    return whole.astype(np.int32), ratio - whole


def _line(inside: FloatArray, width: float) -> FloatArray:
    """1 on the borders of a cell, `width` (share of the cell) wide in all."""
    return (np.minimum(inside, 1 - inside) < width / 2).astype(np.float32)


def _rough(s: Surface) -> FloatArray:
    """Carpet, leaves, grass."""
    fine = 1 / s.material.scale
    share = 0.45 * s.noise(fine) + 0.3 * s.noise(3 * fine, 7) + 0.25 * s.noise(9 * fine, 3)
    return s.mix(share, 0.5)


def _plaid(s: Surface) -> FloatArray:
    a, b = _cells(s.u, s.material.scale)[1], _cells(s.v, s.material.scale)[1]
    return s.mix(0.5 * (a < 0.4).astype(np.float32) + 0.5 * (b < 0.4), 0.4)


def _planks(s: Surface) -> FloatArray:
    """Boards along u, one period wide and eight long, with grain."""
    scale, seed = s.material.scale, s.material.seed
    j, b = _cells(s.v, scale)
    shift = s.u + 5 * scale * dice(j, j, seed)
    i, a = _cells(shift, scale * 8)
    grain = noise(shift / scale, b * 6 + i + 7 * j, seed)
    seam = np.maximum(_line(b, 0.04), _line(a, 0.006))
    return s.mix(np.maximum(0.35 * grain + 0.35 * dice(i, j, seed), seam * 0.9), 0.38)


def _tiles(s: Surface, ratio: int = 1) -> FloatArray:
    """Tiles with joints of the second colour; bricks if they are `ratio` times as long as high."""
    j, b = _cells(s.v, s.material.scale / ratio)
    i, a = _cells(s.u + (j & 1) * (ratio > 1) * s.material.scale / 2, s.material.scale)
    joint = np.maximum(_line(a, 0.05), _line(b, 0.05 * ratio))
    return s.mix(np.maximum(joint * 0.8, 0.25 * dice(i, j, s.material.seed)), 0.2)


def _books(s: Surface) -> FloatArray:
    """Spines one period thick, of many colours and heights; the second colour above them."""
    i, a = _cells(s.u, s.material.scale)
    rolls = [dice(i, i + k, s.material.seed) for k in (1, 50, 99, 7, 11)]
    hue = (0.15 + 0.75 * rolls[3]) * (0.4 + 0.6 * np.stack(rolls[:3])) ** 2  # (3, P)
    gap = np.maximum(_line(a, 0.12), s.v > s.height * (0.7 + 0.28 * rolls[4]))
    return np.asarray(hue + (0.3 * s.second - hue) * gap)


def _panels(s: Surface) -> FloatArray:
    """Doors: fields one period wide with a moulding and a gap between them."""
    edge = s.fields(s.material.scale)[2]
    return s.mix(np.maximum((edge < 0.008) * 0.9, (np.abs(edge - 0.09) < 0.012) * 0.6), 0.1)


def _picture(s: Surface) -> FloatArray:
    """Green hills below a sky of the first colour, in a frame of the second, two panes wide."""
    across, level = s.u / s.width, s.v / s.height
    level = level + 0.4 * (noise(across * 3, across * 0, s.material.seed) - 0.5)
    tone = noise(across * 7, level * 7, s.material.seed + 1)
    green = np.array([[0.35], [0.45], [0.2]], np.float32)
    hills = np.where(level < 0.45, green * (0.2 + 0.7 * tone), s.colour * (0.6 + 0.4 * tone))
    return np.where(s.fields(s.material.scale)[2] < 0.03, s.second, hills)


def _facade(s: Surface) -> FloatArray:
    """A house front: windows in fields one period high and about 0.8 wide, in a rough wall."""
    i, a, _ = s.fields(s.material.scale * 0.8)
    j, b = _cells(s.v, s.material.scale)
    wide, high = np.abs(a - 0.5), np.abs(b - 0.55)
    glass = (wide < 0.22) & (high < 0.26) & (wide > 0.02) & (np.abs(b - 0.62) > 0.015)
    wall = s.colour * (0.8 + 0.4 * s.noise(1.5)) * np.where(b < 0.05, 0.75, 1)  # ledges
    sky = np.array([[0.8], [0.95], [1.2]], np.float32)  # reflected in the panes
    pane = np.where(glass, (0.02 + 0.25 * dice(i, j, s.material.seed) ** 3) * sky, s.second)
    return np.where((wide < 0.27) & (high < 0.31), pane, wall)


def _road(s: Surface) -> FloatArray:
    """Asphalt with a dashed line in its middle and lines `scale` metres to both sides of it."""
    aside, worn = np.abs(s.u - s.width / 2), s.noise(5)
    dash = (aside < 0.08) & (np.mod(s.v, 7.0) < 3.0)
    line = dash | (np.abs(aside - s.material.scale) < 0.07)
    asphalt = s.colour * (0.7 + 0.3 * s.noise(0.7, 9) + 0.3 * worn)
    cover = np.clip(0.16 / np.maximum(s.pixel, 0.16), 0, 1) * (0.6 + 0.4 * worn)
    return np.where(line, asphalt + (s.second - asphalt) * cover, asphalt)


TEXTURES: dict[str, Texture] = {
    "plain": lambda s: s.mix(0.1 * s.noise(1 / s.material.scale), 0.05),
    "stripes": lambda s: s.mix(_cells(s.u, s.material.scale / 2)[0] & 1, 0.5),
    "brick": lambda s: _tiles(s, 3),
    "rough": _rough,
    "tiles": _tiles,
    "plaid": _plaid,
    "planks": _planks,
    "books": _books,
    "panels": _panels,
    "picture": _picture,
    "facade": _facade,
    "road": _road,
}
