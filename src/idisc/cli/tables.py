"""Tables on stdout, the same look for every command."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text below their columns; the first column is words, the others numbers.

    A wide table runs over the edge of the terminal: numbers that are cut off are worth nothing.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    widest = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    console = Console(markup=False, highlight=False)
    console.width = max(console.width, sum(widest) + 3 * len(widest) + 1)
    click.echo(title)
    console.print(table)


def number(value: float | None, digits: int = 3) -> str:
    """A number with fixed digits, a dash for none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}f}"


def note(text: str) -> None:
    """A line about a result that is not part of it."""
    click.echo(text, err=True)
