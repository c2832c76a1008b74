"""Figures as values: pictures and words placed on a sheet in points, drawn as PNG or as PDF.

A figure is a `Grid` of tiles with heads, captions and colour bars; `lay_out` says where everything
goes: at most seven inches wide, as the text of a printed page, letters no smaller than six points.
Pillow draws it as PNG. For PDF matplotlib does, because Pillow's own PDF is one picture of the
page: its letters cannot be searched or scaled, nor embedded as a font, which publishers ask for.
Both draw the same sheet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from idisc import config, files, visualize
from idisc.errors import require
from idisc.visualize import Picture

WIDTH = 504.0  # points: seven inches; less if the tiles are small
DPI = 200  # of the PNG
_TITLE, _HEAD, _SMALL = 10.5, 8.5, 7.2  # points, of Pillow's font
_LEAST = 300.0  # width that words and colour bars need
_MARGIN = 6.0
_GAP = 4.0  # between tiles
_SIDE = 62.0  # for the words at the left of a row
_AXIS = 12.0  # for the numbers at the left of a matrix
_BAR = 120.0, 7.0  # width and height of a colour bar
_BEFORE, _BEHIND = 8.0, 16.0  # how far numbers of a bar may stand out of it: the next one has some
_SOFT = (98, 105, 117)  # of what is beside the point
_LEADING = 1.3  # of lines of text
_DEJAVU = 0.84  # size of matplotlib's font, which is wider: as much as keeps the lines as long
_SLACK = 0.95  # of a line, because some letters of it are wider than that
Anchor = Literal["l", "m"]


@dataclass(frozen=True)
class Tile:
    """A picture with its caption."""

    picture: Picture
    caption: str = ""
    smooth: bool = True  # False: its pixels are seen as squares
    marks: Sequence[tuple[float, float, str]] = ()  # words on it: x and y as shares of its size
    axis: Sequence[tuple[float, str]] = ()  # words along its left and lower edge: share of a side


@dataclass(frozen=True)
class Bar:
    """A colour bar: what its colours mean."""

    low: float
    high: float
    colours: str
    label: str
    unit: str = "m"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What a figure shows; rows may be of different lengths, None is an empty place."""

    rows: Sequence[Sequence[Tile | None]]
    title: str = ""
    note: str = ""  # how to read it, below the title
    heads: Sequence[str] = ()  # above the columns
    sides: Sequence[str] = ()  # at the left of the rows
    bars: Sequence[Bar] = ()
    tallest: float = 1e9  # points, of a tile


@dataclass(frozen=True)
class Placed:
    """A picture on a sheet; x and y of its upper left corner, in points."""

    picture: Picture
    x: float
    y: float
    width: float
    height: float
    smooth: bool = True


@dataclass(frozen=True)
class Words:
    """A line of text; y is its middle, x its left end or middle."""

    text: str
    x: float
    y: float
    size: float
    anchor: Anchor = "l"
    colour: tuple[int, int, int] = visualize.INK


@dataclass
class Sheet:
    """Pictures and words; sizes in points."""

    width: float
    height: float = 0.0
    pictures: list[Placed] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)


def lay_out(grid: Grid) -> Sheet:
    """Where everything of a figure goes: rows of one height, columns as wide as their tiles ask."""
    left = _MARGIN + (_SIDE if any(grid.sides) else 0.0)
    ratios = _ratios(grid.rows)
    gaps = _GAP * (len(ratios) - 1)
    high = min(grid.tallest, (WIDTH - left - _MARGIN - gaps) / sum(ratios))
    columns = [left]  # their left edges
    for ratio in ratios:
        columns.append(columns[-1] + high * ratio + _GAP)
    sheet = Sheet(max(_LEAST, columns[-1] - _GAP + _MARGIN))
    y = _MARGIN
    if grid.title:
        y = _paragraph(sheet, grid.title, y, _TITLE, visualize.INK)
    if grid.note:
        y = _paragraph(sheet, grid.note, y, _SMALL, _SOFT)
    y += _GAP
    if any(grid.heads):
        for head, start, stop in zip(grid.heads, columns, columns[1:], strict=False):
            wide = stop - start - _GAP
            sheet.words.append(
                _words(head, start + wide / 2, y + _HEAD * 0.6, _HEAD, wide, "m", visualize.INK)
            )
        y += _HEAD * _LEADING + 1
    for number, row in enumerate(grid.rows):
        side = grid.sides[number] if number < len(grid.sides) else ""
        y = _row(sheet, row, y, columns, side)
    if grid.bars:
        y = _bars(sheet, grid.bars, y + _GAP)
    sheet.height = y + _MARGIN - _GAP
    return sheet


def save(grid: Grid, path: Path, about: Mapping[str, Any]) -> Path:
    """Write a figure as PNG or PDF, by the suffix; `about` is stored in the file."""
    record = json.dumps({"format": config.FORMAT, **about})
    draw = _save_pdf if path.suffix == ".pdf" else _save_png
    with files.atomic(path) as draft:
        draw(lay_out(grid), draft, record, grid.title)
    return path


def draw_png(sheet: Sheet, dpi: int = DPI) -> Picture:
    """A sheet as RGB."""
    scale = dpi / 72
    size = round(sheet.width * scale), round(sheet.height * scale)
    canvas = Image.new("RGB", size, (255, 255, 255))
    for placed in sheet.pictures:
        left, top = round(placed.x * scale), round(placed.y * scale)
        right = round((placed.x + placed.width) * scale)
        bottom = round((placed.y + placed.height) * scale)
        how = Image.Resampling.LANCZOS if placed.smooth else Image.Resampling.NEAREST
        tile = Image.fromarray(placed.picture)
        canvas.paste(tile.resize((max(1, right - left), max(1, bottom - top)), how), (left, top))
    draw = ImageDraw.Draw(canvas)
    for words in sheet.words:
        place = words.x * scale, words.y * scale
        font = _font(words.size * scale)
        draw.text(place, words.text, fill=words.colour, font=font, anchor=f"{words.anchor}m")
    return np.asarray(canvas)


def _ratios(rows: Sequence[Sequence[Tile | None]]) -> list[float]:
    """Width over height of the widest tile of each column."""
    ratios = [0.0] * max(len(row) for row in rows)
    for row in rows:
        for column, tile in enumerate(row):
            if tile is not None:
                own = tile.picture.shape[1] / tile.picture.shape[0]
                ratios[column] = max(ratios[column], own)
    return [ratio or 1.0 for ratio in ratios]


def _row(
    sheet: Sheet, row: Sequence[Tile | None], y: float, columns: Sequence[float], side: str
) -> float:
    """Place the tiles of a row and its words; the y where the next row begins."""
    high = 0.0
    for tile, x, stop in zip(row, columns, columns[1:], strict=False):
        if tile is None:
            continue
        wide = stop - x - _GAP
        own = _place(sheet, tile, x, y, wide)
        high = max(high, own)
        if tile.caption:
            place = x + wide / 2, y + own + _SMALL * 0.75
            sheet.words.append(_words(tile.caption, *place, _SMALL, wide, "m", _SOFT))
    lines = [line for part in side.split("\n") for line in _wrapped(part, _SMALL, _SIDE - _GAP)]
    for number, line in enumerate(lines):
        middle = y + high / 2 + (number - (len(lines) - 1) / 2) * _SMALL * _LEADING
        sheet.words.append(
            Words(line, _MARGIN, middle, _SMALL, "l", _SOFT if number else visualize.INK)
        )
    captions = any(tile is not None and tile.caption for tile in row)
    return y + high + (_SMALL * 1.45 if captions else 0) + _GAP


def _place(sheet: Sheet, tile: Tile, x: float, y: float, room: float) -> float:
    """A tile's picture and the words on it and along its edges; how high all that is."""
    left = x + (_AXIS if tile.axis else 0.0)
    wide = x + room - left
    high = wide * tile.picture.shape[0] / tile.picture.shape[1]
    sheet.pictures.append(Placed(tile.picture, left, y, wide, high, tile.smooth))
    for across, down, mark in tile.marks:
        sheet.words.append(Words(mark, left + across * wide, y + down * high, _SMALL, "m"))
    middle = x + (_AXIS - _GAP / 2) / 2, y + high + _SMALL * 0.75  # of the words at the edges
    for share, text in tile.axis:
        sheet.words.append(Words(text, middle[0], y + share * high, _SMALL, "m", _SOFT))
        sheet.words.append(Words(text, left + share * wide, middle[1], _SMALL, "m", _SOFT))
    return high + (_SMALL * 1.3 if tile.axis else 0.0)


def _bars(sheet: Sheet, bars: Sequence[Bar], y: float) -> float:
    """Colour bars in rows, each with its label above and round numbers below."""
    width, height = _BAR
    across = max(1, int((sheet.width - 2 * _MARGIN) // (width + 6 * _GAP)))
    for number, bar in enumerate(bars):
        x = (number % across) * (width + 6 * _GAP) + _MARGIN + _GAP
        top = y + (number // across) * (height + 2.9 * _SMALL)
        sheet.words.append(Words(visualize.plain(bar.label), x, top + _SMALL / 2, _SMALL))
        ramp = np.linspace(bar.low, bar.high, 256)[None]
        colours = visualize.colourise(ramp, bar.low, bar.high, bar.colours)
        foot = top + _SMALL * 1.35
        sheet.pictures.append(Placed(colours, x, foot, width, height))
        for place, text in _numbers(bar):
            below = foot + height + _SMALL * 0.8
            sheet.words.append(Words(text, x + place, below, _SMALL, "m", _SOFT))
    rows = -(-len(bars) // across)
    return y + rows * (height + 2.9 * _SMALL) + _GAP


def _numbers(bar: Bar) -> list[tuple[float, str]]:
    """Round numbers and their places along a bar, in points: as many as keep apart."""
    found: list[tuple[float, str]] = []
    for count in (4, 3, 2):
        values = visualize.ticks(bar.low, bar.high, count)
        texts = visualize.written(values)
        texts[-1] += f" {bar.unit}" if bar.unit else ""
        places = [_BAR[0] * (value - bar.low) / (bar.high - bar.low) for value in values]
        found = list(zip(places, texts, strict=True))
        if _keep_apart(found):
            break
    return found


def _keep_apart(numbers: Sequence[tuple[float, str]]) -> bool:
    """Whether none of these words, each around its place, runs into another or the next bar."""
    ends = [
        (place - _length(text, _SMALL) / 2, place + _length(text, _SMALL) / 2)
        for place, text in numbers
    ]
    inside = ends[0][0] >= -_BEFORE and ends[-1][1] <= _BAR[0] + _BEHIND
    return inside and all(end + _GAP <= start for (_, end), (start, _) in pairwise(ends))


def _paragraph(
    sheet: Sheet, text: str, y: float, size: float, colour: tuple[int, int, int]
) -> float:
    """Words from edge to edge, broken into lines; the y below them."""
    for line in _wrapped(text, size, _SLACK * (sheet.width - 2 * _MARGIN)):
        sheet.words.append(Words(line, _MARGIN, y + size * 0.6, size, "l", colour))
        y += size * _LEADING
    return y


def _wrapped(text: str, size: float, room: float) -> list[str]:
    """Lines no longer than `room` points, broken between words."""
    lines: list[str] = []
    for word in visualize.plain(text).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _length(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _words(
    text: str,
    x: float,
    y: float,
    size: float,
    room: float,
    anchor: Anchor,
    colour: tuple[int, int, int],
) -> Words:
    """A line cut where it would run into its neighbour's."""
    text = visualize.plain(text)
    while len(text) > 4 and _length(text, size) > room + _GAP / 2:
        text = text[:-3].rstrip(" .,") + ".."
    return Words(text, x, y, size, anchor, colour)


def _length(text: str, size: float) -> float:
    return float(_font(size).getlength(text))


@lru_cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)  # which it unpacks anew each time


def _save_png(sheet: Sheet, path: Path, record: str, title: str) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("Title", visualize.plain(title))
    info.add_text("idisc", record)  # which also tells `predict.inputs` that this is a result
    picture = Image.fromarray(draw_png(sheet))
    picture.save(path, format="PNG", pnginfo=info, dpi=(DPI, DPI))


def _save_pdf(sheet: Sheet, path: Path, record: str, title: str) -> None:
    require("matplotlib", extra="figures")
    from matplotlib import rc_context
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    size = sheet.width, sheet.height
    with rc_context({"pdf.fonttype": 42, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(size[0] / 72, size[1] / 72), facecolor="white")
        for placed in sheet.pictures:
            box = (placed.x / size[0], 1 - (placed.y + placed.height) / size[1])
            axes = figure.add_axes((*box, placed.width / size[0], placed.height / size[1]))
            axes.imshow(placed.picture, aspect="auto", interpolation="none")
            axes.axis("off")
        sides: dict[str, Any] = {"l": "left", "m": "center"}
        for words in sheet.words:
            figure.text(
                words.x / size[0],
                1 - words.y / size[1],
                words.text.replace("$", r"\$"),
                size=words.size * _DEJAVU,
                color=[channel / 255 for channel in words.colour],
                ha=sides[words.anchor],
                va="center",
            )
        described = {"Title": visualize.plain(title), "Subject": record, "CreationDate": None}
        with path.open("wb") as file:
            FigureCanvasPdf(figure).print_pdf(file, metadata=described)
