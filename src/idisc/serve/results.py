"""Results that a page may request again, each under a secret token.

A result can be found by its token only; there is no list. Results are dropped when they have not
been used for some time, when there are too many, when they need too much memory, or when their page
asks for it. They are kept in memory only.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idisc.errors import InputError
from idisc.prediction import Prediction
from idisc.serve.admission import Limits

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation


class ResultExpired(InputError):
    """There is no result with this token, or it has been dropped."""


@dataclass
class Kept:
    """A prediction and, if it was requested, its explanation."""

    token: str
    prediction: Prediction
    used: float  # time of the last request, seconds
    explanation: Explanation | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of prediction and explanation."""
        prediction = self.prediction
        arrays = (prediction.image, prediction.depth, prediction.level_std, prediction.normals)
        explanation = 0 if self.explanation is None else self.explanation.nbytes
        return explanation + sum(array.nbytes for array in arrays if array is not None)


class Results:
    """All results, the most recently used ones last; several threads use them."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, prediction: Prediction, explanation: Explanation | None = None) -> Kept:
        """Keep a prediction under a new token."""
        kept = Kept(secrets.token_urlsafe(24), prediction, self._clock(), explanation)
        with self._lock:
            self._kept[kept.token] = kept
            self.thin_out()
        return kept

    def find(self, token: str) -> Kept:
        """Return the result with a token; ResultExpired if there is none."""
        with self._lock:
            self.thin_out()
            if token not in self._kept:
                raise ResultExpired("result", "not kept any more", "send the photo again")
            self._kept.move_to_end(token)
            self._kept[token].used = self._clock()
            return self._kept[token]

    def keep_explanation(self, kept: Kept, explanation: Explanation) -> None:
        """Keep an explanation with its result; the oldest ones are dropped."""
        with self._lock:
            kept.explanation = explanation
            self.thin_out()

    def drop(self, token: str) -> None:
        """Drop the result with a token, if there is one."""
        with self._lock:
            self._kept.pop(token, None)

    def thin_out(self) -> None:
        """Drop the results that are too old, and the oldest ones if there are too many."""
        limits, oldest = self._limits, self._clock() - self._limits.keep_s
        with self._lock:
            for kept in [kept for kept in self._kept.values() if kept.used < oldest]:
                del self._kept[kept.token]
            explained = [kept for kept in self._kept.values() if kept.explanation is not None]
            for kept in explained[: -limits.explanations]:
                kept.explanation = None  # computed again on request
            while len(self._kept) > 1 and (
                len(self._kept) > limits.results
                or sum(kept.nbytes for kept in self._kept.values()) > limits.results_mb * 1e6
            ):
                self._kept.popitem(last=False)
