"""Progress on stderr: a bar in a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click

INTERVAL_S = 10.0  # between two lines


class Advance(Protocol):
    """Moves the bar, and may change the description before it."""

    def __call__(self, done: int, total: int, description: str = "", /) -> None: ...


class _Status:
    """The progress of a command as one line of text."""

    def __init__(self, description: str) -> None:
        self.description, self.started = description, time.monotonic()
        self.initial = self.done = self.total = 0  # initial: done before the clock started

    def advance(self, done: int, total: int, description: str = "", /) -> None:
        """Remember how much is done; another total starts the clock again."""
        if total != self.total or done < self.initial:
            self.initial, self.started = done, time.monotonic()
        self.done, self.total, self.description = done, total, description or self.description

    def line(self) -> str:
        """Return what is done and, once it can be estimated, the time left."""
        seconds = time.monotonic() - self.started
        text = f"{self.description} {self.done}/{self.total}" if self.total else self.description
        if self.done == self.initial:
            return f"{text}, {seconds:.0f} s so far"
        left_s = seconds / (self.done - self.initial) * (self.total - self.done)
        return f"{text}, {left_s / 60:.1f} min left"


@contextmanager
def _repeatedly_printed(line: Callable[[], str]) -> Iterator[None]:
    """Print a line every ten seconds, the first after ten, also while one step takes long."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(INTERVAL_S):
            click.echo(line(), err=True)

    thread = threading.Thread(target=repeat, name="idisc-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def elapsed(description: str) -> Iterator[None]:
    """Print a line every ten seconds during work that cannot be counted, also in a terminal."""
    with _repeatedly_printed(_Status(description).line):
        yield


@contextmanager
def bar(description: str) -> Iterator[Advance]:
    """Yield a function of (done, total) that moves the bar."""
    if not sys.stderr.isatty():
        status = _Status(description)
        with _repeatedly_printed(status.line):
            yield status.advance
        return
    from rich import progress
    from rich.console import Console

    live = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=sys.stdout.isatty(),  # results in a pipe must not go to the terminal
    )
    with live:
        task = live.add_task(description, total=None)

        def advance(done: int, total: int, now: str = "", /) -> None:
            live.update(task, completed=done, total=total, description=now or description)

        yield advance
