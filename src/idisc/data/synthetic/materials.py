"""Finishes, from which materials are drawn at random, and the textures of their surfaces.

A texture gives each place on a surface its share of the material's second colour. Patterns fade
where a pixel is as large as their period, as in a photo.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idisc.data.synthetic.scene import Colour, Generator, Material, Span

FloatArray = NDArray[np.floating[Any]]
Cells = NDArray[np.int32]
Shares = Any
"""An array (P,) or (3, P): how much of the second colour each place has."""
_ANY: Span = (0.0, 1.0)
_GREY: Span = (0.0, 0.12)
_NOISE = np.random.default_rng(2023).random(1 << 16, dtype=np.float32)  # of 256x256 cells


class Finish(NamedTuple):
    """Bounds of a random material; its colour is drawn in HSV."""

    texture: str
    scale: float  # metres of the texture's period
    hue: Span
    saturation: Span
    value: Span
    second: float = 0.5  # the second colour, as a factor of the first
    glow: float = 0.0


FINISHES = {
    "wood": Finish("planks", 0.25, (0.06, 0.11), (0.3, 0.7), (0.35, 0.85), 0.45),
    "lacquer": Finish("plain", 0.8, _ANY, _GREY, (0.1, 0.95)),
    "colour": Finish("plain", 0.8, _ANY, (0.3, 0.9), (0.2, 0.85)),
    "doors": Finish("panels", 0.5, (0.06, 0.11), (0.0, 0.6), (0.3, 0.95), 0.3),
    "cloth": Finish("rough", 0.04, _ANY, (0.1, 0.8), (0.25, 0.9)),
    "stripes": Finish("stripes", 0.12, _ANY, (0.1, 0.8), (0.3, 0.9), 0.6),
    "white": Finish("plain", 0.8, _ANY, (0.0, 0.1), (0.7, 0.97)),
    "dark": Finish("plain", 0.8, _ANY, _GREY, (0.08, 0.14)),
    "books": Finish("books", 0.04, _ANY, (0.0, 0.3), (0.6, 0.9), 0.1),
    "screen": Finish("picture", 1.0, _ANY, _ANY, (0.3, 0.9), 0.05, 0.8),
    "art": Finish("picture", 2.0, _ANY, _ANY, (0.4, 0.9), 0.2),
    "view": Finish("picture", 0.6, (0.55, 0.62), (0.0, 0.3), (0.9, 1.0), 0.35, 1.6),
    "leaves": Finish("rough", 0.3, (0.17, 0.36), (0.4, 0.8), (0.25, 0.65), 0.15),
    "carton": Finish("panels", 2.0, (0.07, 0.1), (0.3, 0.5), (0.5, 0.75), 0.4),
    "shade": Finish("plain", 0.8, (0.08, 0.15), (0.05, 0.3), (0.9, 1.0), 1.0, 1.2),
    "tail": Finish("plain", 0.8, (0.0, 0.02), (0.9, 1.0), (0.6, 0.8), 1.0, 0.3),
    "skin": Finish("plain", 0.8, (0.04, 0.08), (0.3, 0.6), (0.35, 0.9)),
    "wall": Finish("plain", 0.8, _ANY, (0.0, 0.25), (0.65, 0.97)),
    "bold wall": Finish("plain", 0.8, _ANY, (0.2, 0.7), (0.3, 0.8)),
    "wallpaper": Finish("stripes", 0.2, _ANY, (0.0, 0.4), (0.5, 0.95), 0.8),
    "brick": Finish("brick", 0.25, (0.0, 0.12), (0.1, 0.6), (0.4, 0.9)),
    "tiles": Finish("tiles", 0.35, _ANY, (0.0, 0.3), (0.4, 0.9), 0.45),
    "carpet": Finish("rough", 0.06, _ANY, (0.0, 0.5), (0.35, 0.85), 0.45),
    "parquet": Finish("planks", 0.13, (0.06, 0.11), (0.3, 0.7), (0.35, 0.85), 0.45),
    "facade": Finish("facade", 3.0, (0.0, 0.17), (0.05, 0.6), (0.4, 0.95), 0.12),
    "roof": Finish("plain", 0.8, (0.0, 0.08), (0.1, 0.6), (0.2, 0.5)),
    "asphalt": Finish("road", 3.2, (0.55, 0.7), (0.0, 0.08), (0.28, 0.5), 4.5),
    "slabs": Finish("tiles", 0.6, (0.05, 0.12), (0.0, 0.15), (0.5, 0.75), 0.55),
    "lawn": Finish("rough", 0.5, (0.2, 0.33), (0.3, 0.7), (0.3, 0.6)),
    "lamplight": Finish("plain", 0.8, (0.08, 0.14), (0.05, 0.35), (0.95, 1.0), 1.0, 2.5),
    "daylight": Finish("plain", 0.8, (0.55, 0.62), (0.0, 0.3), (0.85, 1.0)),
    "blue sky": Finish("plain", 0.8, (0.56, 0.61), (0.2, 0.7), (0.6, 0.95)),
}


def make_material(generator: Generator, *names: str) -> Material:
    """Return a random material of one of these finishes."""
    finish = FINISHES[names[int(generator.integers(len(names)))]]
    hsv = [generator.uniform(*span) for span in (finish.hue, finish.saturation, finish.value)]
    red, green, blue = (
        part**2 for part in colorsys.hsv_to_rgb(*hsv)
    )  # linear light: photos have gamma 2
    return Material(
        colour=(red, green, blue),
        second=scaled((red, green, blue), finish.second),
        texture=finish.texture,
        scale=finish.scale * generator.uniform(0.75, 1.3),
        seed=int(generator.integers(1 << 16)),
        glow=finish.glow,
    )


def scaled(colour: Colour, factor: float) -> Colour:
    """Return a colour that is darker or brighter by a factor."""
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


@dataclass(frozen=True)
class Surface:
    """P places on a shape; all arrays are (P,), in metres."""

    material: Material
    u: FloatArray  # from the left end
    v: FloatArray  # from the lower end
    width: FloatArray
    height: FloatArray
    pixel: FloatArray  # what a pixel covers

    def colours(self) -> FloatArray:
        """Return colours (3, P); a pattern that is too fine for the pixels fades to its mean."""
        share = np.asarray(TEXTURES[self.material.texture](self), np.float32)
        mean = share.mean(axis=-1, keepdims=True)
        visible = np.clip(1.5 - 2 * self.pixel / self.material.scale, 0, 1)
        colours = np.array([self.material.colour, self.material.second], np.float32)[..., None]
        mixed = colours[0] + (colours[1] - colours[0]) * (mean + (share - mean) * visible)
        return np.asarray(np.maximum(mixed, 0))

    def noise(self, frequency: float, shift: int = 0) -> FloatArray:
        """Return smooth noise in [0, 1) with this number of cells per metre."""
        return noise(self.u * frequency, self.v * frequency, self.material.seed + shift)

    def fields(self, width: float) -> tuple[Cells, FloatArray, FloatArray]:
        """Return fields of about this width: number, place (0 to 1), metres to the next edge."""
        step = self.width / np.maximum(np.rint(self.width / width), 1)
        number, inside = _cells(self.u, step)
        edge = np.minimum(inside, 1 - inside) * step
        return number, inside, np.minimum(edge, np.minimum(self.v, self.height - self.v))


def cell_noise(i: Cells, j: Cells, seed: int) -> FloatArray:
    """Return a number in [0, 1) for each cell (i, j) of a grid."""
    return _NOISE.take(((i + seed * 31) & 255) << 8 | ((j + seed * 17) & 255))


def noise(u: FloatArray, v: FloatArray, seed: int) -> FloatArray:
    """Return smooth random values in [0, 1), with independent values at whole numbers."""
    (i, a), (j, b) = _cells(u, 1), _cells(v, 1)
    a, b = a * a * (3 - 2 * a), b * b * (3 - 2 * b)
    near, far = (
        cell_noise(i, row, seed) * (1 - a) + cell_noise(i + 1, row, seed) * a for row in (j, j + 1)
    )
    return near + (far - near) * b


def _cells(places: FloatArray, period: Any) -> tuple[Cells, FloatArray]:
    """Return the number of the cell of each place, and the place in it, 0 to 1."""
    ratio = places / period
    whole = np.floor(ratio)
    return whole.astype(np.int32), ratio - whole


def _line(inside: FloatArray, width: float) -> FloatArray:
    """Return 1 on the borders of a cell, which take a share `width` of it, else 0."""
    return (np.minimum(inside, 1 - inside) < width / 2).astype(np.float32)


def _rough(s: Surface) -> Shares:
    """Carpet, leaves, grass."""
    fine = 1 / s.material.scale
    return 0.45 * s.noise(fine) + 0.3 * s.noise(3 * fine, 7) + 0.25 * s.noise(9 * fine, 3)


def _planks(s: Surface) -> Shares:
    """Boards along u, one period wide and eight long, with grain."""
    scale, seed = s.material.scale, s.material.seed
    j, b = _cells(s.v, scale)
    shift = s.u + 5 * scale * cell_noise(j, j, seed)
    i, a = _cells(shift, scale * 8)
    grain = noise(shift / scale, b * 6 + i + 7 * j, seed)
    seam = np.maximum(_line(b, 0.04), _line(a, 0.006))
    return np.maximum(0.35 * grain + 0.35 * cell_noise(i, j, seed), seam * 0.9)


def _tiles(s: Surface, ratio: int = 1) -> Shares:
    """Tiles with joints of the second colour; bricks if they are `ratio` times as long as high."""
    j, b = _cells(s.v, s.material.scale / ratio)
    i, a = _cells(s.u + (j & 1) * (ratio > 1) * s.material.scale / 2, s.material.scale)
    joint = np.maximum(_line(a, 0.05), _line(b, 0.05 * ratio))
    return np.maximum(joint * 0.8, 0.25 * cell_noise(i, j, s.material.seed))


def _books(s: Surface) -> Shares:
    """Spines one period thick, of many colours (3, P) and heights; the second colour above them."""
    i, a = _cells(s.u, s.material.scale)
    rolls = np.stack([cell_noise(i, i + k, s.material.seed) for k in (1, 50, 99, 7)])
    gap = np.maximum(_line(a, 0.12), s.v > s.height * (0.7 + 0.28 * rolls[3]))
    return np.maximum(np.sqrt(rolls[:3]), gap)


def _panels(s: Surface) -> Shares:
    """Doors: fields one period wide with a moulding and a gap between them."""
    edge = s.fields(s.material.scale)[2]
    return np.maximum((edge < 0.008) * 0.9, (np.abs(edge - 0.09) < 0.012) * 0.6)


def _picture(s: Surface) -> Shares:
    """Hills below a sky (3, P), in a frame of the second colour."""
    across, level = s.u / s.width, s.v / s.height
    level = level + 0.4 * (noise(across * 3, across * 0, s.material.seed) - 0.5)
    tone = noise(across * 7, level * 7, s.material.seed + 1)
    green = np.array([[0.75], [0.6], [0.9]], np.float32)  # of the colour that the hills lack
    shares = np.where(level < 0.45, green * (1.2 - 0.6 * tone), 0.4 * tone)
    return np.where(s.fields(s.material.scale)[2] < 0.03, 1, shares)


def _facade(s: Surface) -> Shares:
    """Dark windows in fields one period high and about 0.8 wide, in a rough wall."""
    i, a, _ = s.fields(s.material.scale * 0.8)
    j, b = _cells(s.v, s.material.scale)
    wide, high = np.abs(a - 0.5), np.abs(b - 0.55)
    glass = (wide < 0.22) & (high < 0.26) & (wide > 0.02) & (np.abs(b - 0.62) > 0.015)
    pane = np.where(
        glass, 1 - 0.5 * cell_noise(i, j, s.material.seed) ** 3, -0.3
    )  # in a bright frame
    wall = 0.25 * s.noise(1.5) + 0.3 * (b < 0.05)  # ledges
    return np.where((wide < 0.27) & (high < 0.31), pane, wall)


def _road(s: Surface) -> Shares:
    """Asphalt with a dashed line in its middle and lines `scale` metres to both sides of it."""
    from_middle, worn = np.abs(s.u - s.width / 2), s.noise(5)
    dash = (from_middle < 0.08) & (np.mod(s.v, 7.0) < 3.0)
    line = dash | (np.abs(from_middle - s.material.scale) < 0.07)
    cover = np.clip(0.16 / np.maximum(s.pixel, 0.16), 0, 1) * (0.6 + 0.4 * worn)
    return np.where(line, cover, 0.1 * worn + 0.08 * s.noise(0.7, 9) - 0.1)


TEXTURES: dict[str, Callable[[Surface], Shares]] = {
    "plain": lambda s: 0.15 * s.noise(1 / s.material.scale),
    "stripes": lambda s: _cells(s.u, s.material.scale / 2)[0] & 1,
    "brick": lambda s: _tiles(s, 3),
    "rough": _rough,
    "tiles": _tiles,
    "planks": _planks,
    "books": _books,
    "panels": _panels,
    "picture": _picture,
    "facade": _facade,
    "road": _road,
}
