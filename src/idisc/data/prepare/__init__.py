"""Raw datasets -> frames. `STEPS` has, by dataset, how its raw files are listed and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from idisc.data.decode import Target
from idisc.data.manifest import ListLine
from idisc.data.prepare.frames import Fault, Frame, PrepareConfig, Scene


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How one raw format becomes frames."""

    scenes: Callable[[Path, PrepareConfig, Sequence[ListLine] | None], list[Scene]]
    frames: Callable[[Scene, PrepareConfig], Iterator[Frame | Fault]]
    stored: Target  # how the prepared targets are stored
    needs: str  # what the raw folder has to hold, for people who have the wrong one


STEPS: dict[str, Steps] = {}
