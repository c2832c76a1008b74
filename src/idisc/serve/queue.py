"""A queue with one worker thread, because all requests share one network.

A request takes a slot when it is complete and keeps it until its work is done. Work whose client
has disconnected or waited too long is removed from the queue; work that has started is finished,
and its result is dropped.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import HTTPException, Request

from idisc.serve.metrics import Metrics

T = TypeVar("T")
PREDICT = "predict"  # a kind of work
ADDRESS = "idisc.address"  # key of a scope: who its client is, see `sharing.client_group`
DEADLINE = "idisc.deadline"  # key of a scope: when its request times out, by the loop's clock


@dataclass(eq=False)
class Job:
    """Work that waits or runs."""

    kind: str
    address: str
    started: float | None = None  # by `time.monotonic`


class WorkQueue:
    """Slots of requests that are at work or waiting, and the thread that does their work.

    One client may hold half of the slots. This limit never leaves the thread idle, because the
    thread does one job at a time.
    """

    def __init__(self, slots: int, timeout_s: float, metrics: Metrics) -> None:
        self.slots, self.timeout_s, self.metrics = slots, timeout_s, metrics
        self.share = (slots + 1) // 2
        self._jobs: list[Job] = []  # in order of arrival; the thread removes them
        self._worker: ThreadPoolExecutor | None = None  # created with the first work
        self._recent: dict[str, deque[float]] = {}  # seconds by kind

    @property
    def taken(self) -> int:
        """The number of slots that are taken."""
        return len(self._jobs)

    def typical_s(self, kind: str = PREDICT) -> float:
        """Return the median duration of recent work, without waiting; 1 if there was none."""
        return statistics.median(self._recent.get(kind) or [1.0])

    async def run(self, request: Request, kind: str, work: Callable[[], T]) -> T:
        """Take a slot, run `work` in the thread and return its result.

        An HTTPException is raised if there is no slot (429) or no result in time (503).
        """
        job = Job(kind, request.scope[ADDRESS])
        self._take_slot(job)
        self._worker = self._worker or ThreadPoolExecutor(1, thread_name_prefix="idisc-serve")
        loop = asyncio.get_running_loop()
        remaining_s = max(0.0, request.scope[DEADLINE] - loop.time())
        done = self._worker.submit(self._timed, job, work)
        done.add_done_callback(lambda _: self._jobs.remove(job))
        result = asyncio.wrap_future(done)
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            either: set[asyncio.Future[Any]] = {result, disconnected}
            await asyncio.wait(either, timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            self.metrics.abandoned.inc()
            raise HTTPException(
                503,
                f"no answer within {self.timeout_s:g} s; try again later or with a smaller picture",
                {"Retry-After": str(self._free_in_s(job.address))},
            )
        finally:
            disconnected.cancel()
            result.cancel()

    def _take_slot(self, job: Job) -> None:
        own = sum(each.address == job.address for each in self._jobs)
        if self.taken < self.slots and own < self.share:
            self._jobs.append(job)
            return
        wait_s = self._free_in_s(job.address)
        who = f"{own} of your" if own >= self.share else f"{self.taken}"
        raise HTTPException(
            429,
            f"{who} requests are waiting; try again in {wait_s} s",
            {"Retry-After": str(wait_s)},
        )

    def _free_in_s(self, address: str) -> int:
        """Return in how many seconds a client can expect a slot, at least 1."""
        jobs, seconds = [*self._jobs], 0.0  # a copy, because the thread removes jobs
        has_share = sum(job.address == address for job in jobs) >= self.share
        for job in jobs:
            typical_s = self.typical_s(job.kind)
            ran_s = 0.0 if job.started is None else time.monotonic() - job.started
            # Work that already takes longer than usual is expected to take as long again.
            seconds += typical_s - ran_s if ran_s < typical_s else ran_s
            if job.address == address or not has_share:
                break
        return max(1, math.ceil(seconds))

    def close(self) -> None:
        """Finish the work that runs and cancel the rest."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None

    def _timed(self, job: Job, work: Callable[[], T]) -> T:
        job.started = time.monotonic()
        try:
            return work()
        finally:
            seconds = time.monotonic() - job.started
            self.metrics.seconds.labels(job.kind).observe(seconds)
            self._recent.setdefault(job.kind, deque(maxlen=15)).append(seconds)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
