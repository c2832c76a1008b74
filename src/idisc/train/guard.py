"""Steps that would ruin a run: skipped and counted, and after several the run is rolled back.

A batch without a valid pixel has no loss, which is nobody's fault: it is skipped and counted by
itself. A loss or gradient that is not finite is skipped, too; `patience` of them in a row mean that
the weights are on their way to ruin, and the run goes back to its last checkpoint at half the rate.
What was in the batches is written down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from idisc import files
from idisc.errors import DataError
from idisc.train.loader import Batch

MAX_ROLLBACKS = 3
SLOWER = 0.5  # of the rate, with each roll-back
NAMED = 8  # pictures in the message
Verdict = Literal["step", "skip", "roll back"]


@dataclass
class Guard:
    """Counts of what went wrong; part of a run's state."""

    patience: int  # failed steps in a row before a roll-back
    empty: int = 0  # batches without a valid pixel
    skipped: int = 0  # steps with a non-finite loss or gradient
    in_a_row: int = 0
    rollbacks: int = 0

    @property
    def slower(self) -> float:
        """What roll-backs have left of the rate."""
        return SLOWER**self.rollbacks

    def judge(self, loss: float, norm: float, *, scale: float = 1.0) -> Verdict:
        """What to do with a step whose batch had valid pixels.

        Under a scale (fp16) gradients overflow now and then until it is low enough. That says
        nothing against the weights, so such a step is skipped and not held against the run; but a
        scale that has come down to 1 is no excuse any more.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            return "step"
        self.skipped += 1
        if math.isfinite(loss) and scale > 1:
            return "skip"
        self.in_a_row += 1
        return "skip" if self.in_a_row < self.patience else "roll back"

    def roll_back(self, names: Sequence[str]) -> None:
        """Count a roll-back; too many are an error that names the pictures."""
        if self.rollbacks == MAX_ROLLBACKS:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            raise DataError(
                f"{', '.join(names[:NAMED])}{more}",
                (
                    f"loss or gradient not finite again and again, after {MAX_ROLLBACKS}"
                    " roll-backs with lower rates"
                ),
                ("look at failed/ in the run's folder, or start again with a lower train.lr"),
            )
        self.in_a_row = 0
        self.rollbacks += 1

    def __str__(self) -> str:
        counts = {
            "steps skipped, their loss or gradient not finite": self.skipped,
            "batches without a valid pixel": self.empty,
            "roll-backs": self.rollbacks,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def write_batch(run: Path, step: int, part: int, batch: Batch) -> Path:
    """Keep a batch, one part of a step over all passes and processes, that was not finite."""
    path = run / "failed" / f"step_{step:06d}_{part}.npz"
    with files.atomic(path) as draft, draft.open("wb") as file:
        np.savez_compressed(
            file,
            image=batch.image.cpu().numpy(),
            target=batch.target.cpu().numpy(),
            valid=batch.valid.cpu().numpy(),
            names=np.array(batch.names),
        )
    return path
