"""Tables and notes on the terminal, with the same style for every command."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from idisc.errors import one_line

if TYPE_CHECKING:
    from idisc.prediction import ModelInfo

GAP = 3  # columns between two of a table


def show(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Print a table; the first column is text, the others are numbers.

    A table that is wider than the terminal continues below; in a pipe it is not broken. `notes`
    about the entries of the first column are printed next to them or, if there is no room, below.
    """
    notes = {name: note for name, note in (notes or {}).items() if note}
    wide = [
        [f"{row[0]} ({notes[row[0]]})" if row[0] in notes else row[0], *row[1:]] for row in rows
    ]
    room = _room()
    paragraph(title, indent="")
    if _width(columns, wide) <= room:
        _print(columns, wide)
        return
    for first, last in _parts(columns, rows, room):
        _print([columns[0], *columns[first:last]], [[row[0], *row[first:last]] for row in rows])
    if notes:
        paragraph("; ".join(f"{name}: {note}" for name, note in notes.items()))


def _room() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widths = _widths(columns, rows)
    return sum(widths) + GAP * len(widths) + 1


def _parts(
    columns: Sequence[str], rows: Sequence[Sequence[str]], room: int
) -> list[tuple[int, int]]:
    """Return ranges of columns that fit the terminal; every part repeats the first column."""
    widths = _widths(columns, rows)
    parts, first, used = [], 1, widths[0] + GAP + 1
    for index, width in enumerate(widths[1:], start=1):
        if used + width + GAP > room and index > first:
            parts.append((first, index))
            first, used = index, widths[0] + GAP + 1
        used += width + GAP
    return [*parts, (first, len(columns))]


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, _width(columns, rows))
    console.print(table)


def paragraph(text: str, indent: str = "  ") -> None:
    """Print text, wrapped at the width of the terminal; as one line in a pipe."""
    width = len(indent + text) + 1
    if sys.stdout.isatty():
        width = min(_room(), 110)
    click.echo(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent))


def show_fields(fields: Iterable[tuple[str, str]], width: int = 10) -> None:
    """Print a line for each label and its text, which starts in the same column."""
    for label, text in fields:
        click.echo(f"{label:<{width}}{text}")


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with fixed decimals; a dash for None."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}f}"


def discard_stdout() -> None:
    """Discard what is left for stdout after an error, so that it does not fail again at exit."""
    with suppress(OSError, ValueError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Print a line to stderr that is not part of the result."""
    click.echo(one_line(text), err=True)


def note_models(*models: ModelInfo) -> None:
    """Print notes about networks: terms that exclude commercial use, and missing checksums."""
    from idisc.provenance_text import model_notes

    for model in models:
        for text in model_notes(model):
            note(text)
