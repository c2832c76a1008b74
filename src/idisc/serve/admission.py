"""Limits, and the middleware that enforces them before and while a request is read.

`AdmissionMiddleware` refuses other host names and requests from other web pages, and stops uploads
that are too large or too slow. It adds security headers to every response. The slots of the queue
are assigned by `queue`, after an upload is complete.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from idisc.errors import InputError
from idisc.serve.metrics import Metrics
from idisc.serve.queue import ADDRESS, DEADLINE
from idisc.serve.sharing import client_group
from idisc.serve.uploads import Uploads

if TYPE_CHECKING:
    from idisc.serve.connections import Connection

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FORM_NEEDED = "send the picture as the field file of a form (multipart/form-data)"
HEAD_BYTES = 16 * 1024  # of address and headers of a request
CONNECTION = "idisc.connection"  # key of the state in a scope: the `Connection` of its request
_FORM_BYTES = 64 * 1024  # of a form without its file


def names_at(host: str) -> frozenset[str] | None:
    """Return the host names that a server at an address answers to; None, all, if it is public."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return LOOPBACK | {f"[{host}]" if ":" in host else host} if local else None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the server; each is a number above 0."""

    upload_mb: float = 25.0  # of one picture; a phone's JPEG has 3 to 12
    megapixels: float = 25.0  # of one picture; a phone's has 12 to 24
    queue: int = 8  # requests at work or waiting; more are answered 429
    timeout_s: float = 120.0  # from a request's first byte to its answer
    connections: int = 256  # idle ones give way to new ones
    silent_s: float = 5.0  # for which a connection may be open without a request
    stall_s: float = 10.0  # for which an upload or a download may stop
    rate: float = 16_000.0  # bytes per second, of uploads and downloads, after the first stall_s
    answers_mb: float = 1024.0  # of memory for answers that clients have not read yet
    results: int = 16  # kept for the page
    results_mb: float = 1024.0  # of memory for them; the oldest go first
    explanations: int = 4  # kept with the most recent results, because muting needs them
    keep_s: float = 900.0  # after a result was last asked for

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{each.name} {value:g}", "a number above 0 is needed")

    @property
    def pixels(self) -> int:
        """Pixels of one picture."""
        return round(self.megapixels * 1e6)

    @property
    def body_bytes(self) -> int:
        """Bytes of one request."""
        return round(self.upload_mb * 1e6) + _FORM_BYTES

    @property
    def uploads_bytes(self) -> int:
        """Memory of all incomplete uploads: as much as that of a full queue, in bytes."""
        return self.queue * self.body_bytes


class AdmissionMiddleware:
    """ASGI middleware that checks requests and adds headers to responses."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, hosts: frozenset[str] | None
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts = hosts  # host names that the server answers to; None: all
        self.uploads = Uploads(limits.uploads_bytes, limits.stall_s, limits.rate)
        self.connections: set[Connection] = set()  # open ones

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        # One deadline for upload, waiting and work
        scope[DEADLINE] = asyncio.get_running_loop().time() + self.limits.timeout_s
        scope[ADDRESS] = client_group((scope.get("client") or ("",))[0])

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            with _busy(scope):
                self._admit(scope)
                with self._bounded(receive, scope) as bounded:
                    await self.app(scope, bounded, answered)
        except HTTPException as refusal:
            with suppress(asyncio.TimeoutError):
                draining = _drain(receive, self.limits.body_bytes)
                await asyncio.wait_for(draining, self.limits.silent_s)
            await problem(refusal)(scope, receive, answered)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, str(status)).inc()

    def _admit(self, scope: Scope) -> None:
        """Raise an HTTPException for a request that can be refused without reading it."""
        headers = Headers(scope=scope)
        head = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if head + len(scope["path"]) + len(scope["query_string"]) > HEAD_BYTES:
            raise HTTPException(431, f"headers of more than {HEAD_BYTES} bytes are not read")
        host = headers.get("host", "")
        before, _, port = host.rpartition(":")
        name = before if port.isdigit() else host
        if self.hosts is not None and name.lower() not in self.hosts:
            raise HTTPException(
                403,
                "this server answers to localhost only; open it by that name, or start it with"
                " --host",
            )
        if scope["method"] not in ("GET", "HEAD") and _is_foreign(headers):
            raise HTTPException(403, "other web pages may not send pictures here")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._most(scope):
            raise self._too_large(headers)

    def _most(self, scope: Scope) -> int:
        """Return how many bytes a request may have."""
        kind = Headers(scope=scope).get("content-type", "")
        return self.limits.body_bytes if kind.startswith("multipart/") else _FORM_BYTES

    @contextmanager
    def _bounded(self, receive: Receive, scope: Scope) -> Iterator[Receive]:
        """Wrap `receive`: an upload that is too large or too slow raises an HTTPException."""
        seen, most, headers = 0, self._most(scope), Headers(scope=scope)
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            yield receive  # there is nothing to upload
            return

        async def measured() -> Message:
            nonlocal seen
            message = await in_time()
            seen += len(message.get("body", b""))
            if seen > most:
                raise self._too_large(headers)
            return message

        with self.uploads.receiver(receive, scope[ADDRESS], scope[DEADLINE]) as in_time:
            yield measured

    def _too_large(self, headers: Headers) -> HTTPException:
        kind = headers.get("content-type", "").partition(";")[0]
        if kind == "application/json":
            return HTTPException(413, f"JSON of more than {_FORM_BYTES} bytes is not read")
        if not kind.startswith("multipart/"):
            return HTTPException(415, FORM_NEEDED)
        limit = self.limits.upload_mb
        return HTTPException(413, f"a picture may have {limit:g} MB here; reduce it first")


def problem(error: HTTPException) -> JSONResponse:
    """Return the JSON response for an error."""
    return JSONResponse(
        {"error": " ".join(str(error.detail).split())}, error.status_code, error.headers
    )


def _is_foreign(headers: Headers) -> bool:
    """Tell whether a request comes from a page of another server.

    Browsers send Sec-Fetch-Site to localhost and HTTPS only, and Origin everywhere; other programs
    send neither.
    """
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    host = headers.get("host", "").lower()
    return "origin" in headers and headers["origin"].partition("://")[2].lower() != host


def _busy(scope: Scope) -> AbstractContextManager[None]:
    """Mark the connection of a request as busy; servers other than ours have no `Connection`."""
    connection: Connection | None = scope.get("state", {}).get(CONNECTION)
    return connection.request() if connection else nullcontext()


async def _drain(receive: Receive, most: int) -> None:
    """Read the rest of a request: many clients read the answer only after sending all of it."""
    seen, more = 0, True
    while more and seen <= most:
        message = await receive()
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)
