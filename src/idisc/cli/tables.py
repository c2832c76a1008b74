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
    from idisc.provenance import ModelInfo

GAP = 3  # spaces between two columns


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
    paragraph(title, indent="")
    noted = [
        [f"{name} ({notes[name]})" if name in notes else name, *cells] for name, *cells in rows
    ]
    table = list(zip(columns, *noted, strict=True))  # by columns, each with its heading
    if _width(table) <= _terminal_width():
        _print(table)
        return
    names, *others = zip(columns, *rows, strict=True)
    part = [names]
    for column in others:
        if len(part) > 1 and _width([*part, column]) > _terminal_width():
            _print(part)
            part = [names]  # every part repeats the first column
        part.append(column)
    _print(part)
    if notes:
        paragraph("; ".join(f"{name}: {note}" for name, note in notes.items()))


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, cells)) + GAP for cells in columns) + 1


def _print(columns: Sequence[Sequence[str]]) -> None:
    aligned = [
        [cell.rjust(width) if number else cell.ljust(width) for cell in cells]
        for number, cells in enumerate(columns)
        for width in [max(map(len, cells))]
    ]
    heading, *rows = ("  " + (GAP * " ").join(row).rstrip() for row in zip(*aligned, strict=True))
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    rule = " " + ("─" if unicode else "-") * (_width(columns) - 2)
    click.echo("\n".join(["", heading, rule, *rows, ""]))


def paragraph(text: str, indent: str = "  ") -> None:
    """Print text, wrapped at the width of the terminal; as one line in a pipe."""
    width = len(indent + text) + 1
    if sys.stdout.isatty():
        width = min(_terminal_width(), 110)
    click.echo(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent))


def show_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print a line for each label and its text; all texts start in the same column."""
    fields = list(fields)
    width = max(8, *(len(label) for label, _ in fields)) + 2
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
