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
    received = False

    def terminate(*_: object) -> None:
        nonlocal received
        received = True
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt:
        if received:  # Ray may have replaced the exception while it waited
            raise Terminated from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


class Failures:
    """The errors of the inputs that failed."""

    def __init__(self, problems: Sequence[IdiscError] = ()) -> None:
        """`problems` are known before the start; their subjects are the inputs."""
        self.errors: list[tuple[str, Exception]] = [(error.subject, error) for error in problems]

    @contextmanager
    def recording(self, label: str) -> Iterator[None]:
        """Record an exception of the block, whatever it is, as the failure of an input."""
        try:
            yield
        except OSError as error:
            system_error = InputError(error.filename or label, error.strerror or str(error))
            self.errors.append((label, system_error))
        except MemoryError:
            too_large = InputError(label, "too large for the memory of this machine")
            self.errors.append((label, too_large))
        except Exception as error:
            self.errors.append((label, error))

    def show(self) -> None:
        """Print each error on its own line."""
        for label, error in self.errors:
            tables.note(f"failed: {_without_traceback(label, error)}")

    def finish(self, total: int) -> None:
        """Raise an error if some of `total` inputs failed; several errors are printed first.

        A bug that one of several inputs reveals is reported as a line, and the exit code is 1.
        """
        if not self.errors:
            return
        if total == 1:
            raise self.errors[0][1]
        self.show()
        names = first_names([label for label, _ in self.errors])  # each has a line of its own above
        summary = InputError(names, f"{len(self.errors)} of {total} inputs failed")
        if not all(isinstance(error, IdiscError) for _, error in self.errors):
            summary.exit_code = 1
        raise summary


def _without_traceback(label: str, error: Exception) -> IdiscError:
    """Return an error of this package as it is; any other one is a bug, and becomes a line."""
    if isinstance(error, IdiscError):
        return error
    reason = f"a bug ({type(error).__name__}: {first_line(error)})"
    return IdiscError(label, reason, "repeat it with this input alone to see where")
