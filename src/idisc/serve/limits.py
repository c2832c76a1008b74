"""What a stranger may ask of the server: sizes, places, seconds, and from where.

`Door` stands before the application and decides before a request is read: it turns away foreign
pages and host names, gives out the places of the queue, and stops uploads that are too large or too
slow. On the way out it adds the headers that keep the page's content to itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from idisc.errors import InputError
from idisc.serve.jobs import DEADLINE, Jobs
from idisc.serve.metrics import Metrics

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
_DRAIN_S = 10.0  # for what is still being sent to a request that is refused
_FORM_BYTES = 64 * 1024  # of what surrounds the file in a form


def names_at(host: str) -> frozenset[str] | None:
    """The names that a server at an address answers to; None, all, if others can reach it."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return LOOPBACK | {f"[{host}]" if ":" in host else host} if local else None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much there is for everybody; each is a number above 0."""

    upload_mb: float = 25.0  # of one picture; a phone's JPEG has 3 to 12
    megapixels: float = 25.0  # of one picture; a phone's has 12 to 24
    queue: int = 8  # requests at work or waiting; more are answered 429
    timeout_s: float = 120.0  # from a request's first byte to its answer
    results: int = 16  # kept for the page
    results_mb: float = 1024.0  # of memory for them; the oldest go first
    explanations: int = 4  # of them, with what muting needs
    keep_s: float = 900.0  # after a result was last asked for

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{each.name} {value:g}: a number above 0 is needed")

    @property
    def pixels(self) -> int:
        """Of one picture."""
        return round(self.megapixels * 1e6)

    @property
    def body_bytes(self) -> int:
        """Of one request."""
        return round(self.upload_mb * 1e6) + _FORM_BYTES


class Door:
    """ASGI middleware: who comes in, how much they may bring, what goes out with the answer."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        jobs: Jobs,
        metrics: Metrics,
        hosts: frozenset[str] | None,
    ) -> None:
        self.app, self.limits, self.jobs, self.metrics = app, limits, jobs, metrics
        self.hosts = hosts  # names under which the server answers; None: all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        # One for all of a request: what the upload took is not there for the work any more
        scope[DEADLINE] = asyncio.get_running_loop().time() + self.limits.timeout_s

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
            self._admit(scope)
            with self.jobs.place(wanted=_needs_place(scope)):
                await self.app(scope, self._bounded(receive, scope), answered)
        except HTTPException as refusal:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_drained(receive, self.limits.body_bytes), _DRAIN_S)
            await problem(refusal)(scope, receive, answered)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(route, str(status)).inc()

    def _admit(self, scope: Scope) -> None:
        """HTTPException for what need not be read to be refused."""
        headers = Headers(scope=scope)
        name = headers.get("host", "").rpartition(":")
        host = name[0] if name[2].isdigit() else headers.get("host", "")
        if self.hosts is not None and host.lower() not in self.hosts:
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
        """Bytes that a request may bring."""
        kind = Headers(scope=scope).get("content-type", "")
        return self.limits.body_bytes if kind.startswith("multipart/") else _FORM_BYTES

    def _bounded(self, receive: Receive, scope: Scope) -> Receive:
        """As `receive`, but an upload that is too large or too slow ends in an HTTPException."""
        clock, most = asyncio.get_running_loop().time, self._most(scope)
        seen, complete = 0, False

        async def bounded() -> Message:
            nonlocal seen, complete
            if complete:  # what comes now is the client's leaving
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), scope[DEADLINE] - clock())
            except TimeoutError:
                raise HTTPException(
                    408, f"the upload took more than {self.limits.timeout_s:g} s"
                ) from None
            seen += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if seen > most:
                raise self._too_large(Headers(scope=scope))
            return message

        return bounded

    def _too_large(self, headers: Headers) -> HTTPException:
        kind = headers.get("content-type", "").partition(";")[0]
        if kind == "application/json":
            return HTTPException(413, f"JSON of more than {_FORM_BYTES} bytes is not read")
        if not kind.startswith("multipart/"):
            return HTTPException(415, FORM_NEEDED)
        limit = self.limits.upload_mb
        return HTTPException(413, f"a picture may have {limit:g} MB here; reduce it first")


def problem(error: HTTPException) -> JSONResponse:
    """The answer for what went wrong: one line of JSON."""
    return JSONResponse(
        {"error": " ".join(str(error.detail).split())}, error.status_code, error.headers
    )


def _is_foreign(headers: Headers) -> bool:
    """Whether a request comes from a page of another server.

    Browsers send Sec-Fetch-Site to localhost and to HTTPS only, Origin everywhere; a program that
    is no browser sends neither.
    """
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    host = headers.get("host", "").lower()
    return "origin" in headers and headers["origin"].partition("://")[2].lower() != host


def _needs_place(scope: Scope) -> bool:
    """Whether a request makes the model or a writer work."""
    kept: bool = scope["path"].startswith("/results/") and scope["method"] == "GET"
    return kept or scope["method"] == "POST"


async def _drained(receive: Receive, most: int) -> None:
    """Read what is still being sent: a client that cannot finish never sees the answer."""
    seen, more = 0, True
    while more and seen <= most:
        message: dict[str, Any] = dict(await receive())
        seen += len(message.get("body", b""))
        more = bool(message.get("more_body", False))
