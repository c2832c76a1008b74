"""Results that a page may come back to, each under a name that cannot be guessed.

The name is the only way to a result: nothing is listed, and nobody is told another's name. Results
go when they have not been asked for in a while, when there are too many, when they need too much
memory, or when their page says so. They live in memory alone.
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
from idisc.predict.prediction import Prediction
from idisc.serve.limits import Limits

if TYPE_CHECKING:
    from idisc.explain.idrs import Explanation


class Gone(InputError):
    """A result that is not kept, or not any more."""


@dataclass
class Kept:
    """A prediction, and what its IDRs say if somebody asked."""

    prediction: Prediction
    asked: float  # when, last time, seconds
    explanation: Explanation | None = None

    @property
    def nbytes(self) -> int:
        """Of the arrays at the picture's size, and of the explanation."""
        found = self.prediction
        arrays = (found.image, found.depth, found.spread, found.normals)
        explanation = 0 if self.explanation is None else self.explanation.nbytes
        return explanation + sum(array.nbytes for array in arrays if array is not None)


class Results:
    """All that are kept, those asked for last at the end; used by several threads."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, prediction: Prediction, explanation: Explanation | None = None) -> str:
        """The name under which it can be found."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._kept[token] = Kept(prediction, self._clock(), explanation)
            self._thin_out()
        return token

    def find(self, token: str) -> Kept:
        """The result of that name; Gone if there is none (any more)."""
        with self._lock:
            self._thin_out()
            if token not in self._kept:
                raise Gone("this result is not kept any more; send the photo again")
            self._kept.move_to_end(token)
            self._kept[token].asked = self._clock()
            return self._kept[token]

    def keep_explanation(self, token: str, explanation: Explanation) -> None:
        """Keep an explanation with its result; the oldest ones make room."""
        with self._lock:
            if token in self._kept:
                self._kept[token].explanation = explanation
            self._thin_out()

    def drop(self, token: str) -> None:
        """Forget a result, if it is there."""
        with self._lock:
            self._kept.pop(token, None)

    def thin_out(self) -> None:
        """Forget what is too old."""
        with self._lock:
            self._thin_out()

    def _thin_out(self) -> None:
        oldest = self._clock() - self._limits.keep_s
        for token in [name for name, kept in self._kept.items() if kept.asked < oldest]:
            del self._kept[token]
        explained = [kept for kept in self._kept.values() if kept.explanation is not None]
        for kept in explained[: -self._limits.explanations]:
            kept.explanation = None  # made again when it is asked for
        most = self._limits.results_mb * 1e6
        while len(self._kept) > 1 and (
            len(self._kept) > self._limits.results
            or sum(kept.nbytes for kept in self._kept.values()) > most
        ):
            self._kept.popitem(last=False)
