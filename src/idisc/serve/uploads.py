"""Uploads that are not complete: how slow they may be, and how much memory they may hold.

An incomplete upload has no slot of the queue. If there are too many of them, or if they hold too
much memory, the client that holds most loses the one that has been silent longest.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from fastapi import HTTPException
from starlette.types import Message, Receive

from idisc.serve.sharing import first_to_drop

_MOST = 32  # uploads at once


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(eq=False)
class IncompleteUpload:
    """An upload of which bytes are missing."""

    address: str
    deadline: float  # of the whole request
    started: float = field(default_factory=_now)
    heard: float = field(default_factory=_now)
    size: int = 0  # bytes
    waiting: asyncio.Timeout | None = None  # for the next bytes
    dropped: bool = False


class Uploads:
    """All incomplete uploads of a server."""

    def __init__(self, memory: int, stall_s: float, least_rate: float) -> None:
        """`memory` is in bytes, `least_rate` in bytes per second."""
        self.memory, self.stall_s, self.least_rate = memory, stall_s, least_rate
        self._open: set[IncompleteUpload] = set()

    @contextmanager
    def receiver(self, receive: Receive, address: str, deadline: float) -> Iterator[Receive]:
        """Wrap `receive`: it raises an HTTPException if the upload is too slow or is dropped."""
        upload: IncompleteUpload | None = None
        complete = False

        async def bounded() -> Message:
            nonlocal upload, complete
            if complete:  # the next message is the disconnection of the client
                return await receive()
            if upload is None:
                upload = IncompleteUpload(address, deadline)
                self._open.add(upload)
                self._make_room()
            message = await self._next(upload, receive)
            complete = not message.get("more_body", False)
            if complete:
                self._open.discard(upload)
            return message

        try:
            yield bounded
        finally:
            if upload is not None:
                self._open.discard(upload)

    async def _next(self, upload: IncompleteUpload, receive: Receive) -> Message:
        """Return the next message of an upload."""
        slowest = upload.started + self.stall_s + upload.size / self.least_rate
        latest = min(upload.deadline, upload.heard + self.stall_s, slowest)
        message: Message | None = None
        if not upload.dropped:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(latest) as upload.waiting:
                    message = await receive()
            upload.waiting = None
        if message is not None:
            upload.heard = _now()
            upload.size += len(message.get("body", b""))
            self._make_room()
        if message is None or upload.dropped:
            raise self._refusal(upload)
        return message

    def _refusal(self, upload: IncompleteUpload) -> HTTPException:
        if upload.dropped:
            wait_s = str(math.ceil(self.stall_s))  # until silent uploads are gone
            headers = {"Connection": "close", "Retry-After": wait_s}
            return HTTPException(503, "too many uploads at once; send it again", headers)
        return HTTPException(
            408,
            f"the upload stopped for {self.stall_s:g} s, came with less than"
            f" {self.least_rate / 1000:g} kB/s, or took too long",
            {"Connection": "close"},
        )

    def _make_room(self) -> None:
        while sum(map(self._cost, self._open)) > self.memory:
            upload = first_to_drop(self._open, self._cost)
            self._open.discard(upload)
            upload.dropped = True
            if upload.waiting is not None:
                upload.waiting.reschedule(_now())

    def _cost(self, upload: IncompleteUpload) -> float:
        """Return the share of the memory that is set aside for an upload, in bytes."""
        return max(upload.size, self.memory / _MOST)
