"""One model, one thread, and a line of those who wait for it; nobody waits for ever.

A request takes a place when it comes in and keeps it until its answer is out. Work runs in a single
thread, because all of them share one network. Work whose client has left, or has waited too long,
is taken out of the line; what runs already runs to its end, and nobody sees the result.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import HTTPException, Request

from idisc.serve.metrics import Metrics

T = TypeVar("T")
PREDICT = "predict"  # the kind of work whose time is told to those who wait
DEADLINE = "idisc.deadline"  # of a scope: until when its request is answered, by the loop's clock


class Jobs:
    """The line and the one who works it off."""

    def __init__(self, places: int, timeout_s: float, metrics: Metrics) -> None:
        self.places, self.timeout_s, self.metrics = places, timeout_s, metrics
        self.taken = 0  # places; changed by the event loop alone
        self._worker: ThreadPoolExecutor | None = None  # from the first work on
        self._recent: deque[float] = deque(maxlen=15)  # seconds

    @property
    def typical_s(self) -> float:
        """How long a prediction takes, once it is its turn."""
        return statistics.median(self._recent) if self._recent else 1.0

    @contextmanager
    def place(self, wanted: bool = True) -> Iterator[None]:
        """A place, if one is `wanted`; with none left, an HTTPException that says when to ask."""
        if not wanted:
            yield
            return
        if self.taken >= self.places:
            wait_s = max(1, math.ceil(self.typical_s))
            raise HTTPException(
                429,
                f"{self.taken} requests are waiting already; try again in {wait_s} s",
                {"Retry-After": str(wait_s)},
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, request: Request, kind: str, work: Callable[[], T]) -> T:
        """The result of `work`, done in the one thread when its turn comes."""
        self._worker = self._worker or ThreadPoolExecutor(1, thread_name_prefix="idisc-serve")
        loop = asyncio.get_running_loop()
        left_s = max(0.0, request.scope[DEADLINE] - loop.time())
        result = loop.run_in_executor(self._worker, self._timed, kind, work)
        gone = asyncio.ensure_future(_left(request))
        try:
            either: set[asyncio.Future[Any]] = {result, gone}
            done, _ = await asyncio.wait(
                either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            if result in done:
                return result.result()
            self.metrics.abandoned.inc()
            raise HTTPException(
                503,
                f"no answer within {self.timeout_s:g} s; try again later or with a smaller picture",
                {"Retry-After": str(max(1, math.ceil(self.typical_s)))},
            )
        finally:
            gone.cancel()
            result.cancel()

    def close(self) -> None:
        """Finish what runs, and nothing else."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None

    def _timed(self, kind: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return work()
        finally:
            seconds = time.perf_counter() - start
            self.metrics.seconds.labels(kind).observe(seconds)
            if kind == PREDICT:
                self._recent.append(seconds)


async def _left(request: Request) -> None:
    """Until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
