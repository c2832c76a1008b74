"""Incomplete uploads: how slow they may be, and how much memory they may hold.

An incomplete upload has no slot of the queue. If there are too many of them, or if they hold too
much memory, the client that holds most loses the upload that has been silent longest.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import HTTPException
from starlette.types import Message, Receive

from idisc.serve.sharing import first_to_drop

MAX_UPLOADS = 32  # at the same time


@dataclass(eq=False)
class IncompleteUpload:
    """An upload whose bytes have not all arrived."""

    client_group: str
    timeout: asyncio.Timeout
    last_activity: float  # by the clock of the event loop
    size: int = 0  # bytes
    dropped: bool = False


class Uploads:
    """All incomplete uploads of a server."""

    def __init__(self, memory: int, stall_s: float, min_rate: float) -> None:
        """`memory` is in bytes, `min_rate` in bytes per second."""
        self.memory, self.stall_s, self.min_rate = memory, stall_s, min_rate
        self._incomplete: set[IncompleteUpload] = set()

    async def read(
        self,
        receive: Receive,
        client_group: str,
        deadline: float,
        check_size: Callable[[int], None],
    ) -> Receive:
        """Read a request to its end, and return a `receive` that repeats its messages.

        An HTTPException is raised if the upload is too slow or is dropped. `check_size` raises one
        for too many bytes.
        """
        clock = asyncio.get_running_loop()
        messages = deque[Message]()
        started = clock.time()
        upload = IncompleteUpload(client_group, asyncio.timeout_at(deadline), started)
        self._incomplete.add(upload)
        try:
            async with upload.timeout:
                more = True
                while more and not upload.dropped:
                    slowest = started + self.stall_s + upload.size / self.min_rate
                    latest = min(deadline, upload.last_activity + self.stall_s, slowest)
                    upload.timeout.reschedule(latest)
                    self._make_room()
                    messages.append(await receive())
                    upload.last_activity = clock.time()
                    upload.size += len(messages[-1].get("body", b""))
                    check_size(upload.size)
                    more = messages[-1].get("more_body", False)
            if upload.dropped:
                raise TimeoutError
        except TimeoutError:
            raise self._refusal(upload) from None
        finally:
            self._incomplete.discard(upload)

        async def repeat() -> Message:
            return messages.popleft() if messages else await receive()

        return repeat

    def _refusal(self, upload: IncompleteUpload) -> HTTPException:
        if upload.dropped:
            wait_s = str(math.ceil(self.stall_s))  # until silent uploads are gone
            headers = {"Connection": "close", "Retry-After": wait_s}
            return HTTPException(503, "too many uploads at once; send it again", headers)
        return HTTPException(
            408,
            f"the upload stopped for {self.stall_s:g} s, came with less than"
            f" {self.min_rate / 1000:g} kB/s, or took too long",
            {"Connection": "close"},
        )

    def _make_room(self) -> None:
        while sum(map(self._cost, self._incomplete)) > self.memory:
            upload = first_to_drop(self._incomplete, self._cost)
            self._incomplete.discard(upload)
            upload.dropped = True
            if not upload.timeout.expired():
                upload.timeout.reschedule(asyncio.get_running_loop().time())

    def _cost(self, upload: IncompleteUpload) -> float:
        """Return the share of the memory that is set aside for an upload, in bytes."""
        return max(upload.size, self.memory / MAX_UPLOADS)
