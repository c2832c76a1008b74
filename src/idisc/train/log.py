"""What a run writes while it works: log.jsonl, TensorBoard events, pictures of validations.

log.jsonl has one line for each step and each validation; a resumed run cuts off what came after its
checkpoint, so that the file reads as if nothing had happened.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

NAME = "log.jsonl"


class Log:
    """The records of a run, from `step` on."""

    def __init__(self, run: Path, step: int) -> None:
        self.path = run / NAME
        kept = [line for line in _lines(self.path) if json.loads(line)["step"] <= step]
        self.path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file = self.path.open("a", encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # inside tensorboard
            from torch.utils.tensorboard import SummaryWriter

            self._events: Any = SummaryWriter(str(run / "events"), purge_step=step)

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """One line; numbers also go to TensorBoard as kind/name."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            if isinstance(value, (int, float)):
                self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Flush everything."""
        self._file.close()
        self._events.close()


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
