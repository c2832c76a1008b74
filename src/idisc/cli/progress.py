"""Progress on stderr: a bar in a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click


class Move(Protocol):
    """Moves a bar, and may change the text before it."""

    def __call__(self, done: int, total: int, what: str = "", /) -> None: ...


EVERY_S = 10.0


class _Lines:
    """The state of a command as one line."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.first = self.done = self.total = 0  # first: done before the clock started
        self.counts = False

    def move(self, done: int, total: int, now: str = "") -> None:
        """Remember how much is done."""
        if not self.counts or done < self.first or total != self.total:
            self.counts, self.first, self.began = True, done, time.monotonic()
        self.done, self.total, self.what = done, total, now or self.what

    def line(self) -> str:
        """Return what is done and, once it can be estimated, the time left."""
        seconds = time.monotonic() - self.began
        if not self.counts:
            return f"{self.what}, {seconds:.0f} s so far"
        text = f"{self.what} {self.done}/{self.total}"
        if self.done == self.first:
            return f"{text}, {seconds:.0f} s so far"
        left_s = seconds / (self.done - self.first) * (self.total - self.done)
        return f"{text}, {left_s / 60:.1f} min left"


@contextmanager
def _printed(line: Callable[[], str]) -> Iterator[None]:
    """Print a line every ten seconds, the first after ten, also while one step takes long."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(EVERY_S):
            click.echo(line(), err=True)

    thread = threading.Thread(target=repeat, name="idisc-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def elapsed(what: str) -> Iterator[None]:
    """Print a line every ten seconds during work that cannot be counted, in a terminal, too."""
    with _printed(_Lines(what).line):
        yield


@contextmanager
def bar(what: str) -> Iterator[Move]:
    """Yield a function of (done, total) that moves the bar."""
    if not sys.stderr.isatty():
        lines = _Lines(what)
        with _printed(lines.line):
            yield lines.move
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
    shown = Progress(
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),  # results in a pipe must not go to the terminal
    )
    with shown:
        task = shown.add_task(what, total=None)

        def move(done: int, total: int, now: str = "") -> None:
            shown.update(task, completed=done, total=total, description=now or what)

        yield move
