"""A queue with one worker thread, because all requests share one network.

A request takes a slot when its upload is complete and keeps it until its job is done. A job whose
client has disconnected or waited too long is removed from the queue; a job that has started is
finished, and its result is dropped.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import HTTPException, Request

from idisc.serve.metrics import Metrics

T = TypeVar("T")
PREDICT = "predict"  # a kind of job


@dataclass(eq=False)
class Job:
    """A function call that waits or runs."""

    kind: str
    client_group: str
    started: float | None = None  # by `time.monotonic`


class WorkQueue:
    """The slots of running and waiting jobs, and the thread that runs them.

    One client may hold half of the slots. This limit never leaves the thread idle, because the
    thread runs one job at a time.
    """

    def __init__(self, slots: int, timeout_s: float, metrics: Metrics) -> None:
        self.slots, self.timeout_s, self.metrics = slots, timeout_s, metrics
        self.slots_per_client = (slots + 1) // 2
        self._jobs: list[Job] = []  # in order of arrival; the thread removes them
        self._worker: ThreadPoolExecutor | None = None  # a new one after `close`
        self._durations: defaultdict[str, deque[float]] = defaultdict(partial(deque, maxlen=15))

    @property
    def taken(self) -> int:
        """The number of slots that are taken."""
        return len(self._jobs)

    def typical_s(self, kind: str = PREDICT) -> float:
        """Return the median duration of recent jobs, without waiting; 1 if there was none."""
        return statistics.median(self._durations[kind] or [1.0])

    async def run(self, request: Request, kind: str, function: Callable[[], T]) -> T:
        """Take a slot, call `function` in the thread and return its result.

        An HTTPException is raised if there is no slot (429) or no result in time (503).
        """
        job = Job(kind, request.state.client_group)
        self._take_slot(job)
        self._worker = self._worker or ThreadPoolExecutor(1, thread_name_prefix="idisc-serve")
        remaining_s = max(0.0, request.state.deadline - asyncio.get_running_loop().time())
        future = self._worker.submit(self._timed, job, function)
        future.add_done_callback(lambda _: self._jobs.remove(job))
        result = asyncio.wrap_future(future)
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
                {"Retry-After": str(self._free_in_s(job.client_group))},
            )
        finally:
            disconnected.cancel()
            result.cancel()

    def _take_slot(self, job: Job) -> None:
        own = sum(other.client_group == job.client_group for other in self._jobs)
        if self.taken < self.slots and own < self.slots_per_client:
            self._jobs.append(job)
            return
        wait_s = self._free_in_s(job.client_group)
        count = f"{own} of your" if own >= self.slots_per_client else f"{self.taken}"
        raise HTTPException(
            429,
            f"{count} requests are waiting; try again in {wait_s} s",
            {"Retry-After": str(wait_s)},
        )

    def _free_in_s(self, client_group: str) -> int:
        """Return in how many seconds a client can expect a slot, at least 1."""
        jobs, seconds = [*self._jobs], 0.0  # a copy, because the thread removes jobs
        own = [job.client_group == client_group for job in jobs]
        at_limit = sum(own) >= self.slots_per_client
        for job, is_own in zip(jobs, own, strict=True):
            typical_s = self.typical_s(job.kind)
            ran_s = 0.0 if job.started is None else time.monotonic() - job.started
            # A job that already takes longer than usual is expected to take as long again.
            seconds += typical_s - ran_s if ran_s < typical_s else ran_s
            if is_own or not at_limit:
                break
        return max(1, math.ceil(seconds))

    def close(self) -> None:
        """Finish the running job and cancel the others."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None

    def _timed(self, job: Job, function: Callable[[], T]) -> T:
        job.started = time.monotonic()
        try:
            return function()
        finally:
            seconds = time.monotonic() - job.started
            self.metrics.seconds.labels(job.kind).observe(seconds)
            self._durations[job.kind].append(seconds)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
