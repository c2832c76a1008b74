"""Limits, and the middleware that enforces them before and while a request is read.

`AdmissionMiddleware` refuses other host names and requests from other web pages, and stops uploads
that are too large or too slow. It adds security headers to every response. The slots of the queue
are assigned by `queue`, after an upload is complete.
"""

from __future__ import annotations

import asyncio
import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from idisc.serve.metrics import Metrics
from idisc.serve.sharing import client_group
from idisc.serve.uploads import Uploads

if TYPE_CHECKING:
    from idisc.serve.connections import Connection

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
FORM_NEEDED = "send the picture as the field file of a form (multipart/form-data)"
MAX_HEADER_BYTES = 16 * 1024  # of the address and headers of a request
MAX_FIELD_BYTES = 64 * 1024  # of a form without its file, and of JSON


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
    queue: int = 8  # running and waiting requests; more are answered 429
    timeout_s: float = 120.0  # from a request's first byte to its answer
    connections: int = 256  # if there are more, idle ones are closed
    idle_s: float = 5.0  # for which a connection may be open without a request
    stall_s: float = 10.0  # for which an upload or a download may stop
    min_rate: float = (
        16_000.0  # bytes per second, of uploads and downloads, after the first stall_s
    )
    unsent_mb: float = 1024.0  # of memory for answers that clients have not read yet
    results: int = 16  # kept for the page
    results_mb: float = 1024.0  # of memory for results; the oldest are dropped first
    explanations: int = 4  # kept with the most recent results, because muting needs them
    keep_s: float = 900.0  # since a result was last requested

    @property
    def pixels(self) -> int:
        """Pixels of one picture."""
        return round(self.megapixels * 1e6)

    @property
    def body_bytes(self) -> int:
        """Bytes of one request."""
        return round(self.upload_mb * 1e6) + MAX_FIELD_BYTES

    @property
    def uploads_bytes(self) -> int:
        """Memory of all incomplete uploads: as much as that of a full queue, in bytes."""
        return self.queue * self.body_bytes


class AdmissionMiddleware:
    """ASGI middleware that checks requests and adds headers to responses.

    Handlers find the group of the client and the deadline of the request in its state.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, hosts: frozenset[str] | None
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.hosts = hosts  # host names that the server answers to; None: all
        self.uploads = Uploads(limits.uploads_bytes, limits.stall_s, limits.min_rate)
        self.connections: set[Connection] = set()  # open ones

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, status = Headers(scope=scope), 500
        client = client_group((scope.get("client") or ("",))[0])
        # One deadline for the upload, the queue and the prediction
        deadline = asyncio.get_running_loop().time() + self.limits.timeout_s
        scope.setdefault("state", {}).update(client_group=client, deadline=deadline)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                sent.update(SECURITY_HEADERS)
                sent.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check_head(scope, headers)
            check_size = partial(self._check_size, headers)
            body = await self.uploads.read(receive, client, deadline, check_size)
            await self.app(scope, body, send_with_headers)
        except HTTPException as refusal:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.idle_s):
                    await _discard_body(receive, self.limits.body_bytes)
            await problem(refusal)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, str(status)).inc()

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        """Raise an HTTPException for a request that can be refused without its body."""
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size + len(scope["path"]) + len(scope["query_string"]) > MAX_HEADER_BYTES:
            raise HTTPException(431, f"headers of more than {MAX_HEADER_BYTES} bytes are not read")
        host = headers.get("host", "").lower()
        before, _, port = host.rpartition(":")
        if self.hosts is not None and (before if port.isdigit() else host) not in self.hosts:
            raise HTTPException(
                403,
                "this server answers to localhost only; open it by that name, or start it with"
                " --host",
            )
        if scope["method"] not in ("GET", "HEAD") and _is_foreign(headers, host):
            raise HTTPException(403, "other web pages may not send pictures here")
        length = headers.get("content-length", "")
        if length.isdecimal():
            self._check_size(headers, int(length))

    def _check_size(self, headers: Headers, size: int) -> None:
        """Raise an HTTPException if a body of `size` bytes is too large."""
        kind = headers.get("content-type", "").partition(";")[0]
        is_form = kind.startswith("multipart/")
        if size <= (self.limits.body_bytes if is_form else MAX_FIELD_BYTES):
            return
        if is_form:
            limit = self.limits.upload_mb
            raise HTTPException(413, f"a picture may have {limit:g} MB here; reduce it first")
        if kind == "application/json":
            raise HTTPException(413, f"JSON of more than {MAX_FIELD_BYTES} bytes is not read")
        raise HTTPException(415, FORM_NEEDED)


def problem(error: StarletteHTTPException) -> JSONResponse:
    """Return the JSON response for an error."""
    message = " ".join(str(error.detail).split())
    return JSONResponse({"error": message}, error.status_code, error.headers)


def _is_foreign(headers: Headers, host: str) -> bool:
    """Tell whether a request comes from a page of another server.

    Browsers send Sec-Fetch-Site to localhost and HTTPS only, and Origin everywhere; other programs
    send neither.
    """
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    return "origin" in headers and headers["origin"].partition("://")[2].lower() != host


async def _discard_body(receive: Receive, most: int) -> None:
    """Read the rest of a request: many clients read the response only after sending all of it."""
    size, more = 0, True
    while more and size <= most:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
