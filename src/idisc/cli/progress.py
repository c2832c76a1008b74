"""Progress on stderr: a bar in a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Move(Protocol):
    """Moves a bar, and may change the text before it."""

    def __call__(self, done: int, total: int, what: str = "", /) -> None: ...


EVERY_S = 10.0


def _lines(what: str) -> Move:
    """Return a function that prints a line every ten seconds, the first after ten."""
    began = last = time.monotonic()
    first: int | None = None  # done before the clock started: what an earlier run has left

    def move(done: int, total: int, now: str = "") -> None:
        nonlocal last, first, began
        at = time.monotonic()
        if first is None or done < first:
            first, began = done, at
        if at - last < EVERY_S or done == first:
            return
        last = at
        left_s = (at - began) / (done - first) * (total - done)
        click.echo(f"{now or what} {done}/{total}, {left_s / 60:.1f} min left", err=True)

    return move


@contextmanager
def bar(what: str) -> Iterator[Move]:
    """Yield a function of (done, total) that moves the bar."""
    if not sys.stderr.isatty():
        yield _lines(what)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(what, total=None)

        def move(done: int, total: int, now: str = "") -> None:
            shown.update(task, completed=done, total=total, description=now or what)

        yield move
