"""Commands with many inputs: the failure of one input does not stop the others.

Failures are reported at the end. SIGTERM stops such a command like Ctrl-C.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from idisc.cli import tables
from idisc.errors import IdiscError, InputError, first_line, first_names


class Terminated(KeyboardInterrupt):
    """The process has received SIGTERM."""


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send, like Ctrl-C: drafts are removed, and workers end."""

    received: list[int] = []

    def terminate(number: int, _: object) -> None:
        received.append(number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if received:  # also if Ray, while it waits, has replaced the exception
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


class Failures:
    """The inputs that failed, each with its error."""

    def __init__(self, problems: Sequence[IdiscError] = ()) -> None:
        """`problems` are known before the start; their subjects are the inputs."""
        self.found: list[tuple[str, Exception]] = [(error.subject, error) for error in problems]

    def add(self, label: str, error: Exception) -> None:
        """Add the error of one input, whatever its class."""
        if isinstance(error, OSError):
            error = InputError(error.filename or label, error.strerror or str(error))
        elif isinstance(error, MemoryError):
            error = InputError(label, "too large for the memory of this machine")
        self.found.append((label, error))

    def tell(self) -> None:
        """Print each error on its own line."""
        for label, error in self.found:
            tables.note(f"failed: {_as_known(label, error)}")

    def finish(self, total: int) -> None:
        """Raise an error if some of `total` inputs failed; several errors are printed first.

        A bug that one of several inputs reveals is reported as a line, and the exit code is 1.
        """
        if not self.found:
            return
        if total == 1:
            raise self.found[0][1]
        self.tell()
        names = first_names([label for label, _ in self.found])  # each has a line of its own above
        whole = InputError(names, f"{len(self.found)} of {total} inputs failed")
        if not all(isinstance(error, IdiscError) for _, error in self.found):
            whole.exit_code = 1
        raise whole


def _as_known(label: str, error: Exception) -> IdiscError:
    """Return an error of this package as it is, and any other one, which is a bug, as a line."""
    if isinstance(error, IdiscError):
        return error
    reason = f"a bug ({type(error).__name__}: {first_line(error)})"
    return IdiscError(label, reason, "repeat it with this input alone to see where")
