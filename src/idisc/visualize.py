"""Colours for depth, errors, normals and IDRs: RGB pictures, legends in metres, panels.

All functions are pure; callers write the files. Maps are coloured as in the figures of the paper:
depth in reversed magma (near is pale, far is dark), errors in coolwarm (blue is small, red is
large). Signed values go from purple over white to orange, weights of IDRs from dark to yellow. All
these colours are distinguishable for colour-blind people. A missing value is NaN in the input and
neutral grey in the output.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from idisc.errors import InputError, lookup
from idisc.magma import MAGMA
from idisc.sizes import Size

FloatArray = NDArray[np.floating[Any]]
Picture = NDArray[np.uint8]
"""RGB (H, W, 3)."""
Colour = tuple[int, int, int]

DEPTH_COLOURS = "magma_r"
ERROR_COLOURS = "coolwarm"
ERROR_LIMIT_DEG = 30.0
CHANGE_COLOURS = "PuOr_r"  # purple is less, orange is more
WEIGHT_COLOURS = "inferno"
SIMILARITY_COLOURS = "viridis"
MEMBER_COLOURS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"]
"""Of Okabe and Ito, without their black: seven that all eyes tell apart."""
EMPTY: Colour = (108, 110, 116)  # in neither colour map, so that no value passes for it
_BACKGROUND: Colour = (255, 255, 255)
INK: Colour = (32, 34, 38)  # of letters
_ERROR_LIMIT_M = {"indoor": 0.5, "road": 5.0}  # where the paper's error maps are clipped
_FAR = 20.0  # metres; ground truth beyond it is not indoors
_SPARSE, _DENSE = 0.1, 0.3  # points in less than the first share of pixels grow up to the second
_ROWS = 16  # coloured at a time, which stay in the cache
_BAND = 512  # rows of normals that are drawn at a time
_GROWTH_STEPS = 3  # of growing, one pixel to each side in each


def colourise(
    values: FloatArray, low: float, high: float, colours: str = DEPTH_COLOURS, empty: Colour = EMPTY
) -> Picture:
    """Map values (H, W), clipped to [low, high], to RGB (H, W, 3); NaN and infinity are `empty`.

    `colours` is any matplotlib name, with `_r` for the reverse.
    """
    if values.ndim != 2:
        raise InputError(f"values of shape {values.shape}", "(H, W) is needed to colour them")
    if not low < high:
        raise InputError(f"colours from {low:g} to {high:g}", "the first must be the smaller one")
    table, picture = _table(colours), np.empty((*values.shape, 3), np.uint8)
    for first in range(0, len(values), _ROWS):
        band, part = values[first : first + _ROWS], picture[first : first + _ROWS]
        present = np.isfinite(band)
        share = (np.where(present, band, low).astype(np.float64) - low) / (high - low)
        index = np.clip(share * 256, 0, 255).astype(np.uint8)
        table.take(index, axis=0, out=part, mode="clip")  # buffered without a mode
        part[~present] = empty
    return picture


def map_picture(
    values: FloatArray, low: float, high: float, colours: str, width: int | None = None
) -> Picture:
    """Map values (H, W) to RGB, at most `width` pixels across, and make sparse points visible.

    If less than a tenth of the pixels have a value, each point is enlarged by a few pixels.
    """
    reduced = _reduce_width(values, width)
    if np.isfinite(values).mean() < _SPARSE:
        reduced = _thicken_points(reduced)
    return colourise(reduced, low, high, colours)


def depth_picture(
    depth: FloatArray,
    low: float,
    high: float,
    colours: str = DEPTH_COLOURS,
    width: int | None = None,
) -> Picture:
    """Map depth (H, W) in metres to RGB, at most `width` pixels across; 0 or less is missing."""
    present = np.isfinite(depth) & (depth > 0)
    return map_picture(np.where(present, depth, np.nan), low, high, colours, width)


def normals_picture(normals: FloatArray, width: int | None = None) -> Picture:
    """Map normals (H, W, 3) of any length to RGB (n + 1) / 2; length 0 and NaN are missing."""
    rows = len(normals) if width else _BAND  # temporary arrays of a large picture take gigabytes
    tops = range(0, max(1, len(normals)), rows)
    return np.concatenate([_draw_normals(normals[top : top + rows], width) for top in tops])


def _draw_normals(normals: FloatArray, width: int | None) -> Picture:
    lengths = np.linalg.norm(normals, axis=2, keepdims=True)
    present = np.isfinite(lengths) & (lengths > 0)
    unit = _reduce_width(np.where(present, normals / np.where(present, lengths, 1), np.nan), width)
    empty = np.asarray(np.isnan(unit).any(axis=2))
    shades = np.where(empty[..., None], 0, (unit + 1) / 2 * 255 + 0.5)
    picture: Picture = np.clip(shades, 0, 255).astype(np.uint8)
    picture[empty] = EMPTY
    return picture


def change_picture(change: FloatArray, limit: float, width: int | None = None) -> Picture:
    """Map a signed difference (H, W): purple at -limit, white at 0, orange at +limit."""
    return map_picture(change, -limit, limit, CHANGE_COLOURS, width)


def overlay(image: Picture, weight: FloatArray) -> Picture:
    """Lay a weight (h, w) from 0 to 1 over a picture (H, W, 3), which is dimmed and grey."""
    height, width = image.shape[:2]
    large = Image.fromarray(weight.astype(np.float32)).resize((width, height))
    share = np.clip(np.asarray(large), 0, 1)[..., None]  # (H, W, 1)
    glow = colourise(share[..., 0], 0, 1, WEIGHT_COLOURS).astype(np.float32)
    grey = np.asarray(Image.fromarray(image).convert("L"), np.float32)[..., None]
    mixed: Picture = (0.45 * grey * (1 - share) + (0.3 * grey + 0.7 * glow) * share).astype(
        np.uint8
    )
    return mixed


def member_colours(order: Sequence[int]) -> Picture:
    """Return N colours (N, 3): the first seven members of `order` coloured, the others grey."""
    colours = np.empty((len(order), 3), np.uint8)
    named = [bytes.fromhex(colour.lstrip("#")) for colour in MEMBER_COLOURS]
    greys = np.linspace(200, 70, max(len(order) - len(named), 1)).astype(np.uint8)
    for place, member in enumerate(order):
        shade = list(named[place]) if place < len(named) else [greys[place - len(named)]] * 3
        colours[member] = shade
    return colours


def member_picture(shares: FloatArray, colours: Picture) -> Picture:
    """Mix the colours of N members by their shares (N, H, W), which sum to 1 over N."""
    mixed: Picture = (np.tensordot(shares, colours.astype(np.float32), (0, 0)) + 0.5).astype(
        np.uint8
    )
    return np.ascontiguousarray(mixed)


def error_limit_m(domain: str, *targets: FloatArray) -> float:
    """Return the error at which colours end: the paper's limit of the domain, or one by depth."""
    if domain == "any":
        deepest = max((float(target.max()) for target in targets), default=0.0)
        domain = "road" if deepest > _FAR else "indoor"
    return _ERROR_LIMIT_M[domain]


def depth_limits(*depths: FloatArray) -> tuple[float, float]:
    """Return the range of colours for some depth maps: all but 2 % of the pixels at each end."""
    pixels = np.concatenate([depth[np.isfinite(depth) & (depth > 0)] for depth in depths])
    if not len(pixels):
        return 0.0, 1.0
    low, high = percentiles(pixels, 2, 98)
    middle, min_range = (low + high) / 2, 0.05 * high  # for a wall seen from the front
    if high - low >= min_range:
        return low, high
    return middle - min_range / 2, middle + min_range / 2


def percentiles(values: FloatArray, *percents: float) -> list[float]:
    """Return np.percentile of values (N,), without its import of numpy.ma."""
    places = [percent / 100 * (len(values) - 1) for percent in percents]
    around = [(math.floor(place), math.ceil(place)) for place in places]
    ordered = np.partition(values, sorted({index for pair in around for index in pair}))
    low, high = ordered[np.array(around)].astype(np.float64).T
    interpolated: list[float] = (low + (high - low) * (np.array(places) % 1)).tolist()
    return interpolated


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers (1, 2 or 5 times a power of ten apart) in [low, high]."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(factor - rough / power))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def format_ticks(values: Sequence[float]) -> list[str]:
    """Format numbers with the same number of decimals, as many as any of them needs."""
    digits = max((len(f"{value:g}".partition(".")[2]) for value in values), default=0)
    return [f"{value:.{digits}f}" for value in values]


def gradient(colours: str) -> list[str]:
    """Return nine evenly spaced colours of a map as #rrggbb, for gradients."""
    rows = _table(colours)[np.linspace(0, 255, 9).round().astype(int)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rows.tolist()]


def check_colours(colours: str) -> None:
    """Raise an InputError with similar names if there is no such colour map."""
    _table(colours)


def legend(
    low: float, high: float, unit: str = "m", colours: str = DEPTH_COLOURS, width: int = 640
) -> Picture:
    """Return a colour bar `width` pixels long with round numbers below it, RGB on white."""
    size = max(11, min(width // 40, 22))  # of the letters, px
    font = ImageFont.load_default(size)
    edge, bar = 2 * size, size + 2
    canvas = Image.new("RGB", (width, bar + size * 5 // 2), _BACKGROUND)
    ramp = np.linspace(low, high, max(width - 2 * edge, 2))[None].repeat(bar, axis=0)
    canvas.paste(Image.fromarray(colourise(ramp, low, high, colours)), (edge, size // 2))
    draw = ImageDraw.Draw(canvas)
    foot = size // 2 + bar
    values = ticks(low, high, max(2, min(6, width // (6 * size))))
    for value, number in zip(values, format_ticks(values), strict=True):
        x = edge + round((value - low) / (high - low) * (ramp.shape[1] - 1))
        draw.line([(x, foot), (x, foot + size // 4)], fill=INK)
        draw.text(
            (x, foot + size // 3), f"{number} {unit}".rstrip(), fill=INK, font=font, anchor="ma"
        )
    return np.asarray(canvas)


def side_by_side(pictures: Sequence[Picture], captions: Sequence[str], height: int = 0) -> Picture:
    """Place pictures side by side at one height (0: that of the first), with captions above."""
    height = height or pictures[0].shape[0]
    tiles = [_resize_to_height(picture, height) for picture in pictures]
    size = max(11, min(height // 18, 22))
    font, gap = ImageFont.load_default(size), size // 2
    length = sum(tile.width + gap for tile in tiles) - gap
    canvas = Image.new("RGB", (length, height + 2 * size), _BACKGROUND)
    draw, left = ImageDraw.Draw(canvas), 0
    for tile, caption in zip(tiles, captions, strict=True):
        canvas.paste(tile, (left, 2 * size))
        draw.text((left + tile.width // 2, size), caption, fill=INK, font=font, anchor="mm")
        left += tile.width + gap
    return np.asarray(canvas)


def _reduce_width(values: FloatArray, width: int | None) -> FloatArray:
    """Reduce a map (H, W) or (H, W, C) to at most `width` across: means of square blocks.

    Resizing the coloured picture instead would mix sparse points with the grey around them.
    """
    factor = math.ceil(values.shape[1] / width) if width else 1
    if factor == 1:
        return values
    size = values.shape[0] // factor, values.shape[1] // factor
    whole = values[: size[0] * factor, : size[1] * factor]
    blocks = whole.reshape(size[0], factor, size[1], factor, *values.shape[2:])
    present = np.isfinite(blocks)
    count = present.sum(axis=(1, 3))
    total = np.where(present, blocks, 0).sum(axis=(1, 3))
    reduced: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return reduced


def _thicken_points(values: FloatArray) -> FloatArray:
    """Grow each point into the empty pixels around it, until the map looks filled."""
    for _ in range(_GROWTH_STEPS):
        if np.isfinite(values).mean() >= _DENSE:
            break
        for shift in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            values = np.where(np.isfinite(values), values, _shift(values, shift))
    return values


def _shift(values: FloatArray, shift: Size) -> FloatArray:
    """Move the map down and right by -1, 0 or 1 pixels; the new pixels are NaN."""
    down, right = shift
    height, width = values.shape
    padded = np.pad(values, 1, constant_values=np.nan)
    return padded[1 - down : 1 - down + height, 1 - right : 1 - right + width]


def _resize_to_height(picture: Picture, height: int) -> Image.Image:
    image = Image.fromarray(picture)
    width = max(1, round(image.width * height / image.height))
    return image if image.height == height else image.resize((width, height))


@lru_cache
def _table(colours: str) -> Picture:
    """Return the colours of a map from low to high, (256, 3)."""
    plain = colours.lower()
    if plain in ("magma", "magma_r"):
        magma = np.frombuffer(MAGMA, np.uint8).reshape(256, 3)
        return magma[::-1] if plain == "magma_r" else magma
    import cmap

    catalog = cmap.Catalog()
    names = {name.lower(): name for name in catalog}
    reverse = plain.endswith("_r") and plain not in names
    stem = lookup(names, plain.removesuffix("_r") if reverse else plain, "colour map")
    # Resolved: some names are in several collections, and cmap then prints a warning
    colour_of = cmap.Colormap(catalog.resolve(stem))
    table = np.asarray(colour_of(np.linspace(0, 1, 256)))[:, :3]
    table = table[::-1] if reverse else table
    return (table * 255 + 0.5).astype(np.uint8)


def drawable_text(text: str) -> str:
    """Replace letters that Pillow's own font lacks: accents are removed, others become '?'."""
    bare = unicodedata.normalize("NFKD", text)
    kept = "".join(letter for letter in bare if not unicodedata.combining(letter))
    return " · ".join(part.encode("ascii", "replace").decode() for part in kept.split(" · "))
