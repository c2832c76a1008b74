"""A bar on stderr while something takes long; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Move(Protocol):
    """Moves a bar, and may change what stands before it."""

    def __call__(self, done: int, total: int, what: str = "", /) -> None: ...


@contextmanager
def bar(what: str) -> Iterator[Move]:
    """Yield a function of (done, total) that moves the bar."""
    if not sys.stderr.isatty():
        yield lambda done, total, what="": None  # noqa: ARG005
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
