"""Connections: silent ones and slow readers are dropped, and a full server makes room.

uvicorn closes a connection that is silent after an answer. It waits for ever for the first request,
for the rest of a request's head, and for a client that does not read its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from idisc.serve.admission import CONNECTION, HEAD_BYTES
from idisc.serve.sharing import client_group, first_to_drop

if TYPE_CHECKING:
    from idisc.serve.admission import AdmissionMiddleware

_CHECK_S = 1.0


def server_config(app: AdmissionMiddleware, proxies: str = "") -> uvicorn.Config:
    """Return the configuration of uvicorn; `X-Forwarded-For` of these `proxies` is believed."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,  # it would contain the tokens of results
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


class Connection(H11Protocol):
    """A connection of a client, which is checked every second."""

    def __init__(self, config: uvicorn.Config, app_state: dict[str, Any], **others: Any) -> None:
        # The state of the application is part of every scope, by which requests find this object.
        super().__init__(config=config, app_state={**app_state, CONNECTION: self}, **others)
        admission: AdmissionMiddleware = config.app  # type: ignore[assignment]  # see server_config
        self.limits, self.open_connections = admission.limits, admission.connections
        self.clock = asyncio.get_running_loop()
        self.heard = self.clock.time()  # when it was opened, answered, or last read an answer
        self.busy = False  # a request is uploaded or at work, which has limits of its own
        self.unsent = 0  # bytes of answers when `heard` was set

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and drop another one if there are too many."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = client_group(peer[0] if peer else "")
        self.open_connections.add(self)
        if len(self.open_connections) > self.limits.connections:
            # This connection is idle as well, so there is always one to drop.
            idle = [each for each in self.open_connections if not each.busy]
            silent = [each for each in idle if not each.transport.get_write_buffer_size()]
            first_to_drop(silent or idle, lambda _: 1).drop()
        self.next_check = self.clock.call_later(_CHECK_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.next_check.cancel()
        self.open_connections.discard(self)
        super().connection_lost(exc)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Mark the connection as busy."""
        self.busy = True
        try:
            yield
        finally:
            self.busy, self.heard = False, self.clock.time()

    def drop(self) -> None:
        """Close the connection at once, whatever is unsent."""
        self.open_connections.discard(self)
        self.transport.abort()

    def _check(self) -> None:
        self.next_check = self.clock.call_later(_CHECK_S, self._check)
        now, unsent = self.clock.time(), self.transport.get_write_buffer_size()
        enough = self.limits.rate * self.limits.stall_s
        if unsent and (unsent > self.unsent or unsent <= self.unsent - enough):
            self.heard, self.unsent = now, unsent  # a new answer, or progress of one
        elif unsent and now - self.heard > self.limits.stall_s:
            self.drop()
        elif not unsent and not self.busy and now - self.heard > self.limits.silent_s:
            self.transport.close()
        if unsent:
            self._bound_answers()
        else:
            self.unsent = 0

    def _bound_answers(self) -> None:
        """Drop a reader if unsent answers need too much memory."""

        def unsent(connection: Connection) -> int:
            return connection.transport.get_write_buffer_size()

        readers = [each for each in self.open_connections if unsent(each)]
        if len(readers) > 1 and sum(map(unsent, readers)) > self.limits.answers_mb * 1e6:
            first_to_drop(readers, unsent).drop()
