"""Guard against non-finite steps: they are skipped, and after several the run rolls back.

A batch without a valid pixel has no loss; it is skipped and counted separately. A step whose loss
or gradient is not finite is skipped as well. After `patience` of them in a row the run continues
from its last checkpoint at half the learning rate, and the batches are written to `failed/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from idisc import files
from idisc.errors import DataError, first_names
from idisc.train.loader import Batch

MAX_ROLLBACKS = 3
RATE_FACTOR = 0.5  # of the learning rate, with each roll-back
MAX_NAMED = 8  # pictures in an error
Verdict = Literal["step", "skip", "roll back"]


@dataclass
class Guard:
    """Counts of failed steps; part of the state of a run."""

    patience: int  # failed steps in a row before a roll-back
    empty: int = 0  # batches without a valid pixel
    skipped: int = 0  # steps with a loss or gradient that was not finite
    in_a_row: int = 0
    rollbacks: int = 0

    @property
    def rate_factor(self) -> float:
        """The reduction of the learning rate by roll-backs."""
        return RATE_FACTOR**self.rollbacks

    def judge(self, loss: float, norm: float, *, scale: float = 1.0) -> Verdict:
        """Decide about a step whose batch had valid pixels.

        With a gradient scale above 1 (fp16), gradients overflow now and then until the scale is low
        enough. This does not mean that the weights are wrong, so such a step is skipped but not
        counted towards a roll-back.
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
        """Count a roll-back; DataError with the names of the pictures if there were too many."""
        if self.rollbacks == MAX_ROLLBACKS:
            raise DataError(
                first_names(names, MAX_NAMED),
                "loss or gradient is not finite, also after"
                f" {MAX_ROLLBACKS} roll-backs with lower rates",
                "look at failed/ in the folder of the run, or start again with a lower train.lr",
            )
        self.in_a_row = 0
        self.rollbacks += 1


def write_batch(run: Path, step: int, part: int, batch: Batch) -> None:
    """Write a batch whose loss was not finite; `part` counts passes and processes of the step."""
    path = run / "failed" / f"step_{step:06d}_{part}.npz"
    with files.atomic(path) as draft, draft.open("wb") as file:
        np.savez_compressed(
            file,
            image=batch.image.cpu().numpy(),
            target=batch.target.cpu().numpy(),
            valid=batch.valid.cpu().numpy(),
            names=np.array(batch.names),
        )
