"""What a run tells of its steps: log.jsonl, events for TensorBoard, how fast it is.

log.jsonl has one line for each step, each validation and each roll-back; a resumed run cuts off
what came after its checkpoint, so that the file reads as if nothing had happened. Numbers that are
not finite are null there. Events are written without torch's writer: its thread would answer a full
disk with a traceback.
"""

from __future__ import annotations

import json
import math
import os
import resource
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from idisc import files

NAME, EVENTS = "log.jsonl", "events"
RECENT = 50  # steps that the pace is taken over


class Log:
    """The records of a run from `step` on, of which the last validation was after `validated`."""

    def __init__(self, run: Path, step: int, validated: int) -> None:
        path, folder = run / NAME, run / EVENTS
        ends = {"validation": validated}
        kept = [
            line
            for line in _lines(path)
            if (row := json.loads(line))["step"] <= ends.get(row["kind"], step)
        ]
        with files.atomic(path) as draft:
            draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file = path.open("ab", buffering=0)
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self.events = (folder / name).open("ab", buffering=0)
        self._record(Event(file_version="brain.Event:2"))
        # From here on what earlier files have is void.
        self._record(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """One line; numbers also go to TensorBoard as kind/name."""
        row = {name: _as_json(value) for name, value in values.items()}
        self._file.write(f"{json.dumps({'kind': kind, 'step': step, **row})}\n".encode())
        scalars = [
            Summary.Value(tag=f"{kind}/{name}", simple_value=value)
            for name, value in values.items()
            if isinstance(value, (int, float))
        ]
        self._record(Event(step=step, summary=Summary(value=scalars)))

    def close(self) -> None:
        """No more lines."""
        self._file.close()
        self.events.close()

    def _record(self, event: Any) -> None:
        event.wall_time = time.time()
        RecordWriter(self.events).write(event.SerializeToString())


class Pace:
    """How fast the latest steps were, validation apart."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque(maxlen=RECENT)

    def add(self, seconds: float, waited: float) -> None:
        """A step, and how much of it was spent waiting for pictures."""
        self._steps.append((seconds, waited))

    @property
    def seconds(self) -> float:
        """Of one step, on average."""
        return sum(seconds for seconds, _ in self._steps) / len(self._steps)

    @property
    def wait_share(self) -> float:
        """Share of the time spent waiting."""
        return sum(waited for _, waited in self._steps) / (self.seconds * len(self._steps))


def _as_json(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(run: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of one kind of a run's log."""
    rows = [json.loads(line) for line in _lines(run / NAME)]
    return [row for row in rows if row["kind"] == kind]


def _lines(path: Path) -> list[str]:
    """Whole lines: the last one may be cut off where a process was killed."""
    if not path.is_file():
        return []
    whole = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            json.loads(line)
        except ValueError:
            break
        whole.append(line)
    return whole


def memory_gb(device: torch.device) -> float:
    """Largest memory so far: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
