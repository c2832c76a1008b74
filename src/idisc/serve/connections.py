"""Connections: silent clients and slow readers are disconnected, and a full server makes room.

uvicorn closes a connection that is silent after a response. It waits without limit for the first
request, for the rest of a request's headers, and for a client that does not read its response.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from idisc.serve.admission import MAX_HEADER_BYTES
from idisc.serve.sharing import client_group, first_to_drop

if TYPE_CHECKING:
    from idisc.serve.admission import AdmissionMiddleware

_CHECK_INTERVAL_S = 1.0


def server_config(app: AdmissionMiddleware, proxies: str = "") -> uvicorn.Config:
    """Return the configuration of uvicorn; `X-Forwarded-For` of these `proxies` is trusted."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="warning",
        access_log=False,  # it would contain the tokens of results
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


class Connection(H11Protocol):
    """A connection of a client, which is checked every second."""

    def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        admission: AdmissionMiddleware = config.app  # type: ignore[assignment]  # see server_config
        self.limits, self.open_connections = admission.limits, admission.connections
        self.last_activity = self.loop.time()  # opened, answered, or progress of a response
        self.last_unsent = 0  # bytes of responses at that time

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and drop one if there are too many."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.client_group = client_group(peer[0] if peer else "")
        self.open_connections.add(self)
        if len(self.open_connections) > self.limits.connections:
            # This connection is idle as well, so there is always one to drop.
            idle = [connection for connection in self.open_connections if not connection.busy]
            silent = [connection for connection in idle if not connection.unsent]
            first_to_drop(silent or idle, lambda _: 1).drop()
        self.next_check = self.loop.call_later(_CHECK_INTERVAL_S, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.next_check.cancel()
        self.open_connections.discard(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.last_activity = self.loop.time()
        super().on_response_complete()

    @property
    def busy(self) -> bool:
        """Whether a request is being uploaded or processed, which has limits of its own."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unsent(self) -> int:
        """Bytes of responses that the client has not read."""
        return self.transport.get_write_buffer_size()

    def drop(self) -> None:
        """Close the connection at once and discard unsent bytes."""
        self.open_connections.discard(self)
        self.transport.abort()

    def _check(self) -> None:
        self.next_check = self.loop.call_later(_CHECK_INTERVAL_S, self._check)
        now, unsent = self.loop.time(), self.unsent
        if not unsent:
            self.last_unsent = 0
            if not self.busy and now - self.last_activity > self.limits.idle_s:
                self.transport.close()
            return
        least_progress = self.limits.min_rate * self.limits.stall_s
        if unsent > self.last_unsent or unsent <= self.last_unsent - least_progress:
            self.last_activity, self.last_unsent = now, unsent
        elif now - self.last_activity > self.limits.stall_s:
            self.drop()
        self._limit_unsent()

    def _limit_unsent(self) -> None:
        """Drop a reader if unsent responses need too much memory."""
        readers = [connection for connection in self.open_connections if connection.unsent]
        total = sum(connection.unsent for connection in readers)
        if len(readers) > 1 and total > self.limits.unsent_mb * 1e6:
            first_to_drop(readers, lambda connection: connection.unsent).drop()
