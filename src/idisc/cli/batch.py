"""Many pictures in one call: what fails is kept for the end and does not stop the others."""

from __future__ import annotations

from collections.abc import Sequence

from idisc.cli import tables
from idisc.errors import InputError, told


class Failures:
    """What could not be done, and why."""

    def __init__(self, problems: Sequence[str] = ()) -> None:
        """`problems` are known before the start, each as "what: why"."""
        self.found = [(text.partition(": ")[0], text) for text in problems]  # what, and why

    def add(self, label: str, error: Exception) -> None:
        """One more."""
        self.found.append((label, told(error)))

    def tell(self) -> None:
        """Each on a line of its own."""
        for _, reason in self.found:
            tables.note(f"failed: {reason}")

    def finish(self, total: int) -> None:
        """InputError if some of `total` failed; of several, each is told."""
        if not self.found:
            return
        if total == 1:
            raise InputError(self.found[0][1])
        self.tell()
        names = ", ".join(label for label, _ in self.found)
        raise InputError(f"{len(self.found)} of {total} failed: {names}")
