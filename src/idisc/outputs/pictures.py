"""For people: depth and spread in colours above a legend in metres, and normals."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from idisc import geometry, visualize
from idisc.errors import InputError
from idisc.outputs.depicted import AXES, Depicted, Options, fact_line, record, save_png
from idisc.sizes import Size
from idisc.visualize import Picture

SPREAD_COLOURS = "magma"
_WORDS = (98, 105, 117)
_PAPER = (255, 255, 255)
_LEAST_WIDTH = 320  # px: legends and words need as much; smaller pictures are enlarged
_LARGE_WIDTH = 1280  # px: from twice as much on, letters grow with the picture


def write_png(depicted: Depicted, path: Path, options: Options) -> None:
    """Depth in colours, its legend in metres, and the facts."""
    low, high = options.limits or visualize.depth_limits(depicted.depth)
    picture = visualize.depth_picture(depicted.depth, low, high, options.colours)
    legend = (low, high, options.colours)
    save_png(path, _framed(picture, legend, fact_line(depicted)), record(depicted))


def spread_meaning(*compared: str) -> str:
    """What a spread is, and is not, for people; of which answers, if that is known."""
    answers = " ".join(["the network's answers", ", ".join(compared)]).strip()
    return f"standard deviation of {answers}, in metres; no error bound"


def spread_of(depicted: Depicted) -> NDArray[np.float32]:
    """The spread (H, W) in metres, or an InputError if there is none."""
    if depicted.spread is None:
        raise InputError("format spread: this result has none; leave it out")
    return depicted.spread


def write_spread(depicted: Depicted, path: Path, _: Options) -> None:
    """Spread in colours, dark where the answers agree, with what it means and does not."""
    spread = spread_of(depicted)
    there = spread[np.isfinite(spread)]
    high = max(float(np.percentile(there, 98)) if there.size else 0.0, 0.001)
    meaning = depicted.facts.get("spread") or spread_meaning()
    picture = visualize.colourise(spread, 0.0, high, SPREAD_COLOURS)
    words = f"spread: {meaning} · {fact_line(depicted, but='spread')}"
    framed = _framed(picture, (0.0, high, SPREAD_COLOURS), words)
    save_png(path, framed, record(depicted, spread=meaning))


def write_normals(depicted: Depicted, path: Path, options: Options) -> None:
    """(n + 1) / 2 as RGB at the picture's own size, without a legend: it may be read back."""
    axes = options.axes or "opencv"
    normals, source = depicted.normals, depicted.facts.get("normals", "from the model")
    if normals is None:
        normals = geometry.normals_from_depth(depicted.depth, depicted.camera, cell=depicted.cell)
        source = "from depth and camera"
    picture = visualize.normals_picture(normals * np.array(AXES[axes].signs, np.float32))
    about = record(depicted, normals=f"{source}; {axes}: {AXES[axes].text}; rgb = (n + 1) / 2")
    save_png(path, picture, about)


def enlargement(size: Size) -> int:
    """By which whole number a picture is enlarged, so that a legend has room below it."""
    return max(1, min(math.ceil(_LEAST_WIDTH / size[1]), _LARGE_WIDTH // size[0]))


def _framed(picture: Picture, legend: tuple[float, float, str], words: str) -> Picture:
    """A picture above its legend and its facts; small ones are enlarged by a whole number.

    So are those that are lower than what stands below them.
    """
    height, length = picture.shape[:2]
    factor = enlargement((height, length))
    foot = _foot(max(length * factor, _LEAST_WIDTH), legend, words)
    while len(foot) > height * factor and max(height, length) * (factor + 1) <= _LARGE_WIDTH:
        factor += 1
        foot = _foot(max(length * factor, _LEAST_WIDTH), legend, words)
    picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    missing = foot.shape[1] - length * factor  # beside a picture that is a tall strip
    picture = np.pad(picture, ((0, 0), (0, missing), (0, 0)), constant_values=255)
    return np.concatenate([picture, foot])


def _foot(length: int, legend: tuple[float, float, str], words: str) -> Picture:
    """Legend and facts below a picture that is `length` pixels wide."""
    width = length // max(1, length // _LARGE_WIDTH)  # letters grow with large ones
    low, high, colours = legend
    bar = visualize.legend(low, high, "m", colours, width)
    size = max(11, min(width // 50, 16))
    font, margin = ImageFont.load_default(size), 2 * max(11, min(width // 40, 22))  # the legend's
    lines = _wrapped(visualize.plain(words), font, width - 2 * margin)
    foot = Image.new("RGB", (width, len(bar) + (len(lines) * 3 + 3) * size // 2), _PAPER)
    foot.paste(Image.fromarray(bar))
    draw = ImageDraw.Draw(foot)
    for number, line in enumerate(lines):
        place = (margin, len(bar) + (1 + 3 * number) * size // 2)
        draw.text(place, line, fill=_WORDS, font=font)
    if width != length:
        foot = foot.resize((length, round(foot.height * length / width)), Image.Resampling.BICUBIC)
    return np.asarray(foot)


def _wrapped(
    words: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float
) -> list[str]:
    """Facts in lines no longer than `width` pixels, broken between facts, or else words."""
    lines = [""]
    for fact in words.split(" · ") if words else []:
        joined = f"{lines[-1]} · {fact}" if lines[-1] else fact
        if font.getlength(joined) <= width:
            lines[-1] = joined
            continue
        letters = max(8, int(width / max(font.getlength(fact), 1) * len(fact)))
        lines += textwrap.wrap(fact, letters)
    return list(filter(None, lines))
