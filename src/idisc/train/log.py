"""Log: the records of a run in log.jsonl and as TensorBoard events, and its speed.

log.jsonl has one line for each step, each validation and each roll-back. A resumed run removes the
lines after its checkpoint, so the file looks like that of an uninterrupted run. Numbers that are
not finite are null.
"""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.utils.tensorboard import SummaryWriter

from idisc import files

NAME, EVENTS = "log.jsonl", "events"
FLUSH_S = 10  # seconds between two writes of events
RECENT = 50  # steps over which the speed is averaged


class Log:
    """The records of a run from `step` on; the last validation to keep is that of `validated`."""

    def __init__(self, run: Path, step: int, validated: int) -> None:
        path = run / NAME
        last = {"validation": validated}
        kept = [row for row in _rows(path) if row["step"] <= last.get(row["kind"], step)]
        with files.atomic(path) as draft:
            draft.write_text("".join(f"{json.dumps(row)}\n" for row in kept), encoding="utf-8")
        self._file = path.open("ab", buffering=0)
        # From the step `purge_step` on, events of earlier files are void.
        self._events = SummaryWriter(run / EVENTS, purge_step=step + 1, flush_secs=FLUSH_S)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write one line, and its numbers to TensorBoard as kind/name."""
        row = {name: _as_json(value) for name, value in values.items()}
        self._file.write(f"{json.dumps({'kind': kind, 'step': step, **row})}\n".encode())
        for name, value in values.items():
            if isinstance(value, (int, float)):
                self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Close both files."""
        self._file.close()
        self._events.close()


class StepTimes:
    """The durations of the latest steps, without validations."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=RECENT)

    def add(self, seconds: float, waited: float) -> None:
        """Add a step; `waited` is the part of it that was spent waiting for pictures."""
        self._steps.append((seconds, waited))

    @property
    def seconds(self) -> float:
        """The mean duration of a step in seconds."""
        return sum(seconds for seconds, _ in self._steps) / len(self._steps)

    @property
    def wait_share(self) -> float:
        """The share of the time that was spent waiting for pictures."""
        return sum(waited for _, waited in self._steps) / (self.seconds * len(self._steps))


def _as_json(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(run: Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of one kind in the log of a run."""
    return [row for row in _rows(run / NAME) if row["kind"] == kind]


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return all complete lines; the last one is incomplete if the process was killed."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows: list[dict[str, Any]] = []
    with suppress(ValueError):
        for line in lines:
            rows.append(json.loads(line))
    return rows


def memory_gb(device: torch.device) -> float:
    """Return the peak memory of the GPU or of this process; NaN if it is not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
