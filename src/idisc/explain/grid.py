"""Figures as grids of pictures, drawn by matplotlib as PNG or PDF.

A `Grid` is a value: pictures in rows, with headings, captions and colour bars. `save` draws it at
most seven inches wide, the width of a printed page. What it shows is decided in `figures`.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from idisc import charts, configs, files, visualize
from idisc.visualize import Picture

WIDTH, DPI = 7.0, 200  # inches; pixels per inch of the PNG
_MARGIN, _GAP = 0.08, 0.06  # inches, around the figure and between pictures
_MIN_WIDTH = 4.0  # inches, for the title and the colour bars
_ROW_LABEL, _TICKS = 0.85, 0.2  # inches left of a row, and around a matrix
_HEADINGS, _CAPTIONS = 0.17, 0.14  # inches above and below a row
_BAR = 1.7, 0.1, 0.5  # inches: width and height of a colour bar, and of its row with all text
_TITLE, _HEADING, _SMALL = 9.5, 7.5, 6.3  # points
_LETTER_WIDTH = 0.53  # mean width of a letter of DejaVu Sans at a font size of 1
_GREY = "#626975"
_STYLE = {"font.family": "DejaVu Sans", "pdf.fonttype": 42, "text.parse_math": False}


@dataclass(frozen=True)
class Tile:
    """A picture with its caption."""

    picture: Picture
    caption: str = ""
    labels: Sequence[tuple[float, float, str]] = ()  # x and y as shares of the size, and the text
    is_matrix: bool = False  # number rows and columns, and draw pixels as squares


@dataclass(frozen=True)
class ColourBar:
    """A colour map with the values at its ends."""

    low: float
    high: float
    colours: str
    label: str  # with the unit
    extend: str = "neither"  # matplotlib's: at which ends values may exceed the range


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The content of a figure; rows may have different lengths, and None is an empty cell."""

    rows: Sequence[Sequence[Tile | None]]
    title: str
    note: str = ""  # how to read the figure
    columns: Sequence[str] = ()  # headings
    row_labels: Sequence[str] = ()
    bars: Sequence[ColourBar] = ()
    max_height: float = WIDTH  # inches, of a picture


def save(grid: Grid, path: Path, about: Mapping[str, Any]) -> Path:
    """Write a figure as PNG or PDF, by the suffix; `about` is stored in the file as JSON."""
    record, title = (
        json.dumps({"format": configs.FORMAT, **about}),
        visualize.drawable_text(grid.title),
    )
    suffix = path.suffix.lstrip(".")
    metadata: dict[str, Any] = {"Title": title, "Subject": record, "CreationDate": None}
    if suffix == "png":
        metadata = {"Title": title, "idisc": record}  # the key by which inputs recognise results
    with charts.styled(_STYLE), files.atomic(path) as draft:
        draw(grid).savefig(draft, format=suffix, dpi=DPI, metadata=metadata)
    return path


def draw(grid: Grid) -> Any:
    """Return a grid as a matplotlib figure, in the current style; `save` sets its own."""
    from matplotlib.figure import Figure

    layout = _layout(grid)
    width, height = layout.size
    figure = Figure(figsize=layout.size, dpi=DPI)

    def axes_at(x: float, y: float, wide: float, high: float) -> Any:
        """Return axes whose upper left corner is x, y inches from that of the figure."""
        return figure.add_axes((x / width, 1 - (y + high) / height, wide / width, high / height))

    def write(x: float, y: float, text: str, size: float, **options: Any) -> None:
        figure.text(x / width, 1 - y / height, text, size=size, linespacing=1.3, **options)

    title = _wrap(grid.title, width - 2 * _MARGIN, _TITLE)
    write(_MARGIN, _MARGIN, title, _TITLE, va="top")
    below = _MARGIN + _height(title, _TITLE)
    note = _wrap(grid.note, width - 2 * _MARGIN, _SMALL)
    write(_MARGIN, below, note, _SMALL, va="top", color=_GREY)
    for row, top in zip(grid.rows, layout.tops, strict=True):
        for tile, left, wide in zip(row, layout.lefts, layout.widths, strict=False):
            if tile is not None:
                _draw_tile(axes_at(left, top, wide, wide / _aspect(tile)), tile, wide)
    for text, top, high in zip(grid.row_labels, layout.tops, layout.heights, strict=False):
        label = _wrap(text, _ROW_LABEL, _SMALL)
        write(_MARGIN, top + high / 2, label, _SMALL, va="center")
    for text, left, wide in zip(grid.columns, layout.lefts, layout.widths, strict=False):
        heading = _shorten(text, wide, _HEADING)
        write(left + wide / 2, layout.tops[0] - 0.06, heading, _HEADING, ha="center")
    for number, bar in enumerate(grid.bars):
        x = _MARGIN + 0.1 + number * (_BAR[0] + 0.45)
        _draw_bar(figure, axes_at(x, height - 0.28, _BAR[0], _BAR[1]), bar)
    return figure


@dataclass(frozen=True)
class _Layout:
    """The places of the cells of a grid, in inches from the upper left corner."""

    lefts: list[float]  # of the columns
    widths: list[float]
    tops: list[float]  # of the rows
    heights: list[float]
    size: tuple[float, float]  # (width, height) of the figure


def _layout(grid: Grid) -> _Layout:
    """Return columns as wide as their widest picture at one common height, and rows below them."""
    ticks = _TICKS if any(tile.is_matrix for row in grid.rows for tile in row if tile) else 0.0
    columns = list(zip_longest(*grid.rows))
    aspects = [max(_aspect(tile) for tile in column if tile) for column in columns]
    left = _MARGIN + (_ROW_LABEL if any(grid.row_labels) else 0.0)
    room = WIDTH - left - _MARGIN - len(columns) * (ticks + _GAP) + _GAP
    widths = [min(grid.max_height, room / sum(aspects)) * aspect for aspect in aspects]
    lefts = [
        left + (number + 1) * ticks + number * _GAP + sum(widths[:number])
        for number in range(len(columns))
    ]
    width = max(_MIN_WIDTH, lefts[-1] + widths[-1] + _MARGIN)
    y = _MARGIN + 0.08 + (_HEADINGS if any(grid.columns) else 0.0)
    for text, size in ((grid.title, _TITLE), (grid.note, _SMALL)):
        y += _height(_wrap(text, width - 2 * _MARGIN, size), size)
    tops, heights = [], []
    for row in grid.rows:
        tops.append(y)
        cells = zip(row, widths, strict=False)
        heights.append(max(wide / _aspect(tile) for tile, wide in cells if tile))
        captions = _CAPTIONS if any(tile.caption for tile in row if tile) else 0.0
        y += heights[-1] + 0.75 * ticks + captions + _GAP
    return _Layout(lefts, widths, tops, heights, (width, y + (_BAR[2] if grid.bars else 0.0)))


def _draw_tile(axes: Any, tile: Tile, width: float) -> None:
    axes.imshow(tile.picture, aspect="auto", interpolation="none" if tile.is_matrix else None)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=2, labelsize=_SMALL, labelcolor=_GREY)
    if tile.is_matrix:
        axes.locator_params(integer=True)
    else:
        axes.set(xticks=[], yticks=[])
    axes.set_xlabel(_shorten(tile.caption, width, _SMALL), size=_SMALL, labelpad=2, color=_GREY)
    for x, y, text in tile.labels:
        axes.text(x, 1 - y, text, size=_SMALL, ha="center", va="center", transform=axes.transAxes)


def _draw_bar(figure: Any, axes: Any, bar: ColourBar) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(bar.low, bar.high), bar.colours)
    drawn = figure.colorbar(scale, cax=axes, orientation="horizontal", extend=bar.extend)
    drawn.outline.set_visible(False)
    axes.tick_params(length=2, pad=1, labelsize=_SMALL, labelcolor=_GREY)
    axes.set_title(bar.label, size=_SMALL, loc="left", pad=2)


def _aspect(tile: Tile) -> float:
    return tile.picture.shape[1] / tile.picture.shape[0]


def _wrap(text: str, width: float, size: float) -> str:
    """Return a text with line breaks that is about `width` inches wide at `size` points."""
    letters = int(72 * width / (_LETTER_WIDTH * size))
    lines = [textwrap.wrap(line, letters) for line in visualize.drawable_text(text).splitlines()]
    return "\n".join(line for part in lines for line in part)


def _height(text: str, size: float) -> float:
    return (text.count("\n") + 1) * size * 1.5 / 72 if text else 0.0


def _shorten(text: str, width: float, size: float) -> str:
    """Return a text that is at most as wide as its column, so that neighbours do not overlap."""
    from matplotlib.textpath import TextPath

    text = visualize.drawable_text(text)
    while len(text) > 4 and TextPath((0, 0), text, size).vertices[:, 0].max() > 72 * width:
        text = text[:-3].rstrip(" .,") + ".."
    return text
