"""Formats for people: depth and uncertainty in colours above a legend in metres, and normals."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from idisc import visualize
from idisc.errors import InputError
from idisc.formats.options import AXES, FormatOptions
from idisc.formats.png import png_bytes
from idisc.prediction import FloatMap, Prediction, colour_limits
from idisc.provenance_text import UNIT_SYMBOLS, caption, record
from idisc.sizes import Size
from idisc.visualize import Picture

UNCERTAINTY_COLORMAP = "magma"
_CAPTION_COLOUR = (98, 105, 117)
_PAPER = (255, 255, 255)
_MIN_WIDTH = 320  # px: legend and caption need as much; smaller pictures are enlarged
_SCREEN_WIDTH = 2048  # px: wider pictures are reduced
_LARGE_WIDTH = 1280  # px: from twice this width, the text grows with the picture


def encode_png(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode depth in colours above a legend and a caption of one line."""
    depth, unit = prediction.depth_values, prediction.unit
    low, high = options.limits or colour_limits(unit, depth)
    picture = visualize.depth_picture(_thinned(depth, options), low, high, options.colormap)
    if not options.clean:
        legend = partial(visualize.legend, low, high, UNIT_SYMBOLS[unit], options.colormap)
        picture = _framed(picture, legend, caption(prediction))
    about = record(prediction, limits=(low, high), colormap=options.colormap)
    return {"_depth.png": png_bytes(picture, about)}


def encode_uncertainty(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode the standard deviation in colours: dark where the network's answers agree."""
    values = prediction.level_std
    if values is None:
        raise InputError("format uncertainty", "this prediction has none", "leave it out")
    values = _thinned(values, options)
    present = values[np.isfinite(values)]
    high = max(float(np.percentile(present, 98)) if present.size else 0.0, 0.001)
    picture = visualize.colourise(values, 0.0, high, UNCERTAINTY_COLORMAP)
    if not options.clean:
        line = f"standard deviation, no error bound · {caption(prediction)}"
        unit = UNIT_SYMBOLS[prediction.unit]
        legend = partial(visualize.legend, 0.0, high, unit, UNCERTAINTY_COLORMAP)
        picture = _framed(picture, legend, line)
    about = record(prediction, limits=(0.0, high), colormap=UNCERTAINTY_COLORMAP)
    return {"_uncertainty.png": png_bytes(picture, about)}


def encode_normals(prediction: Prediction, options: FormatOptions) -> dict[str, bytes]:
    """Encode (n + 1) / 2 as RGB at the size of the picture, without a legend."""
    axes, normals = options.axes or "opencv", prediction.normals
    if normals is None:
        raise InputError("format normals", "this prediction has none", "see with_normals()")
    if axes != "opencv":  # a copy takes gigabytes for a large picture
        normals = normals * np.array(AXES[axes].signs, np.float32)
    picture = visualize.normals_picture(normals)
    about = record(prediction, axes=f"{axes}: {AXES[axes].text}", encoding="rgb = (n + 1) / 2")
    return {"_normals.png": png_bytes(picture, about)}


def _thinned(values: FloatMap, options: FormatOptions) -> FloatMap:
    """Return every n-th pixel, so that the picture fits on a screen."""
    step = 1 if options.full_size else math.ceil(values.shape[1] / _SCREEN_WIDTH)
    return values[step // 2 :: step, step // 2 :: step]


def enlargement(size: Size) -> int:
    """Return the whole number by which a picture is enlarged to make room for a legend below."""
    return max(1, min(math.ceil(_MIN_WIDTH / size[1]), _LARGE_WIDTH // size[0]))


def _framed(picture: Picture, legend: Callable[[int], Picture], line: str) -> Picture:
    """Add a legend and a line of text below a picture."""
    height, length = picture.shape[:2]
    factor = enlargement((height, length))
    foot = _foot(max(length * factor, _MIN_WIDTH), legend, line)
    picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    missing = foot.shape[1] - length * factor  # right of a tall, narrow picture
    picture = np.pad(picture, ((0, 0), (0, missing), (0, 0)), constant_values=255)
    return np.concatenate([picture, foot])


def _foot(length: int, legend: Callable[[int], Picture], line: str) -> Picture:
    width = length // max(1, length // _LARGE_WIDTH)  # larger text for large pictures
    bar = legend(width)
    size = max(11, min(width // 50, 16))
    font, margin = ImageFont.load_default(size), 2 * max(11, min(width // 40, 22))  # the legend's
    foot = Image.new("RGB", (width, len(bar) + 3 * size), _PAPER)
    foot.paste(Image.fromarray(bar))
    text = _shortened(visualize.drawable_text(line), font, width - 2 * margin)
    ImageDraw.Draw(foot).text((margin, len(bar) + size // 2), text, fill=_CAPTION_COLOUR, font=font)
    if width != length:
        foot = foot.resize((length, round(foot.height * length / width)), Image.Resampling.BICUBIC)
    return np.asarray(foot)


def _shortened(line: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> str:
    """Return as much of a line as fits; the record inside the file has all of it."""
    if font.getlength(line) <= width:
        return line
    while line and font.getlength(f"{line} ...") > width:
        line = line[:-1]
    return f"{line.rstrip()} ..."
