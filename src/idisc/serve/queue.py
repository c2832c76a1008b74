"""A queue with one worker thread, because all requests share one network.

A request takes a slot when it arrives and keeps it until it is answered. Work whose client has
disconnected or waited too long is removed from the queue; work that has started is finished, and
its result is dropped.
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
PREDICT = "predict"  # the kind of work whose duration is reported to waiting clients
DEADLINE = "idisc.deadline"  # key of a scope: when its request times out, by the loop's clock


class WorkQueue:
    """The slots of waiting requests, and the thread that does their work."""

    def __init__(self, slots: int, timeout_s: float, metrics: Metrics) -> None:
        self.slots, self.timeout_s, self.metrics = slots, timeout_s, metrics
        self.taken = 0  # slots; only the event loop changes it
        self._worker: ThreadPoolExecutor | None = None  # created with the first work
        self._recent: deque[float] = deque(maxlen=15)  # seconds

    @property
    def typical_s(self) -> float:
        """The median duration of recent predictions, without waiting."""
        return statistics.median(self._recent) if self._recent else 1.0

    @contextmanager
    def slot(self, wanted: bool = True) -> Iterator[None]:
        """Take a slot if one is `wanted`; HTTPException 429 if all are taken."""
        if not wanted:
            yield
            return
        if self.taken >= self.slots:
            wait_s = max(1, math.ceil(self.typical_s))
            raise HTTPException(
                429,
                f"{self.taken} requests are waiting; try again in {wait_s} s",
                {"Retry-After": str(wait_s)},
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, request: Request, kind: str, work: Callable[[], T]) -> T:
        """Run `work` in the thread and return its result."""
        self._worker = self._worker or ThreadPoolExecutor(1, thread_name_prefix="idisc-serve")
        loop = asyncio.get_running_loop()
        left_s = max(0.0, request.scope[DEADLINE] - loop.time())
        result = loop.run_in_executor(self._worker, self._timed, kind, work)
        left = asyncio.ensure_future(_left(request))
        try:
            either: set[asyncio.Future[Any]] = {result, left}
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
            left.cancel()
            result.cancel()

    def close(self) -> None:
        """Finish the work that runs and cancel the rest."""
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
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
