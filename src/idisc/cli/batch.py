"""The failures of a command with many inputs: they are reported at the end and stop nothing."""

from __future__ import annotations

from collections.abc import Sequence

from idisc.cli import tables
from idisc.errors import IdiscError, InputError


class Failures:
    """The inputs that failed, each with its error."""

    def __init__(self, problems: Sequence[IdiscError] = ()) -> None:
        """`problems` are known before the start; their subjects are the inputs."""
        self.found = [(error.subject, error) for error in problems]

    def add(self, label: str, error: IdiscError | OSError) -> None:
        """Add the error of one input."""
        if isinstance(error, OSError):
            error = InputError(error.filename or label, error.strerror or str(error))
        self.found.append((label, error))

    def tell(self) -> None:
        """Print each error on its own line."""
        for _, error in self.found:
            tables.note(f"failed: {error}")

    def finish(self, total: int) -> None:
        """Raise an error if some of `total` inputs failed; several errors are printed first."""
        if not self.found:
            return
        if total == 1:
            raise self.found[0][1]
        self.tell()
        names = ", ".join(label for label, _ in self.found)
        raise InputError(names, f"{len(self.found)} of {total} inputs failed")
