"""The routes of the server, and the responses for errors.

Handlers read the request, pass the work to the thread of `queue`, and make the response. The files
of the page are a fixed table in memory; no path or address of a client is ever opened.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query as QueryField
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from idisc import __version__
from idisc.errors import CheckpointError, IdiscError, InputError
from idisc.images import TooManyPixels
from idisc.predict.inputs import PICTURES
from idisc.serve import forms, schemas, service
from idisc.serve.admission import AdmissionMiddleware, Limits, problem
from idisc.serve.explorer import Opened
from idisc.serve.metrics import Metrics
from idisc.serve.queue import PREDICT, WorkQueue
from idisc.serve.results import ResultExpired, Results
from idisc.serve.service import WEB_FORMATS, File, InferenceService, Upload

PAGE = {  # address -> file and media type
    "/": ("serve/page/index.html", "text/html; charset=utf-8"),
    "/page/style.css": ("serve/page/style.css", "text/css; charset=utf-8"),
    "/page/page.js": ("serve/page/page.js", "text/javascript; charset=utf-8"),
    "/page/explorer.js": ("serve/page/explorer.js", "text/javascript; charset=utf-8"),
    "/page/viewer.css": ("assets/viewer.css", "text/css; charset=utf-8"),
    "/page/viewer.js": ("assets/viewer.js", "text/javascript; charset=utf-8"),
    "/page/known_distances.js": ("assets/known_distances.js", "text/javascript; charset=utf-8"),
    "/page/three.min.js": ("assets/three.min.js", "text/javascript; charset=utf-8"),
}
BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": dict.fromkeys(sorted({row.media_type for row in WEB_FORMATS.values()}), BYTES)}
}
Token = Annotated[str, Path(min_length=1, max_length=100, description="Token of POST /predict")]
KnownText = Annotated[str | None, Query(max_length=2000, description=schemas.KNOWN)]
STATUSES: dict[type[Exception], int] = {  # of errors; 400 for others
    TooManyPixels: 413,
    ResultExpired: 404,
    CheckpointError: 500,
}


@cache
def _query_names(handler: Callable[..., Any]) -> list[str]:
    """Return the names of the query fields of a handler."""
    hints = get_type_hints(handler, include_extras=True)
    return [
        name
        for name, hint in hints.items()
        if any(isinstance(each, QueryField) for each in getattr(hint, "__metadata__", ()))
    ]


async def _check_query(request: Request) -> None:
    """Raise an error for query fields that are unknown or given twice."""
    given = (name for name, _ in request.query_params.multi_items())
    forms.check_names(given, _query_names(request.scope["route"].endpoint), "query")


router = APIRouter(responses=schemas.PROBLEMS, dependencies=[Depends(_check_query)])


class StaticFile(NamedTuple):
    """A static file served with the web page."""

    content: bytes
    media: str
    etag: str  # hash of the content


@dataclass(frozen=True)
class Server:
    """The state that all handlers share."""

    service: InferenceService
    queue: WorkQueue
    metrics: Metrics
    examples: dict[str, tuple[bytes, str]]  # name -> content and media type
    page: dict[str, StaticFile]  # by address

    @classmethod
    def of(cls, request: Request) -> Server:
        """Return the state of the application of a request."""
        server: Server = request.app.state.server
        return server


def create_app(
    opened: Opened, limits: Limits | None = None, *, hosts: frozenset[str] | None = None
) -> AdmissionMiddleware:
    """Create the application; `hosts` are the host names it answers to, None: all."""
    engine = opened.predictor.engine
    if not engine.task.metric:
        raise InputError(engine.name, f"predicts {engine.task.name}", "the page needs depth")
    limits, metrics = limits or Limits(), Metrics()
    queue = WorkQueue(limits.queue, limits.timeout_s, metrics)
    results = Results(limits)
    inference = InferenceService(opened, limits, results)
    server = Server(inference, queue, metrics, read_examples(), read_page())
    metrics.watch("idisc_slots_taken", "Requests at work or waiting.", lambda: queue.taken)
    metrics.watch("idisc_results_kept", "Results that a page may ask for.", lambda: len(results))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.ensure_future(_sweep(results))
        yield
        sweeping.cancel()
        queue.close()

    app = FastAPI(
        title="idisc",
        summary="Metric depth from a single photo",
        version=__version__,
        docs_url=None,  # it would load scripts from other servers
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.server = server
    app.include_router(router)
    for address in PAGE:
        app.add_api_route(address, page_file, include_in_schema=False)
    app.add_exception_handler(IdiscError, _input_problem)
    app.add_exception_handler(StarletteHTTPException, _http_problem)
    app.add_exception_handler(RequestValidationError, _field_problem)
    app.add_exception_handler(Exception, _bug)
    return AdmissionMiddleware(app, limits, metrics, hosts)


def read_examples() -> dict[str, tuple[bytes, str]]:
    """Return the example photos of the package, and their credits."""
    found: dict[str, tuple[bytes, str]] = {}
    folder = resources.files("idisc").joinpath("assets", "examples")
    for each in sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ():
        ending = each.name.lower().rpartition(".")[2]
        if f".{ending}" in PICTURES:
            found[each.name] = each.read_bytes(), f"image/{ending.replace('jpg', 'jpeg')}"
        elif each.name.lower().startswith("credits"):
            found[each.name] = each.read_bytes(), "text/plain; charset=utf-8"
    return found


def read_page() -> dict[str, StaticFile]:
    """Return the static files of the page by address."""
    found: dict[str, StaticFile] = {}
    package = resources.files("idisc")
    parts = {
        name: package.joinpath("assets", f"{name}.html").read_text("utf-8")
        for name in ("space", "known_distances")
    }
    for address, (name, media) in PAGE.items():
        content = package.joinpath(name).read_bytes()
        if address == "/":  # 3D view and known distances are those of the viewer
            page = Template(content.decode()).substitute(parts, downloads=_download_buttons())
            content = page.encode()
        found[address] = StaticFile(content, media, f'"{hashlib.sha256(content).hexdigest()}"')
    return found


def _download_buttons() -> str:
    """Return the buttons for all formats of the server."""
    return "\n".join(
        f'<button type="button" data-format="{row.name}" title="{escape(row.description)}">'
        f"{row.name.upper()}</button>"
        for row in WEB_FORMATS.values()
    )


async def page_file(request: Request) -> Response:
    """Send a static file, or 304 if the client has it."""
    content, media, etag = Server.of(request).page[request.url.path]
    headers = {"Cache-Control": "no-cache", "ETag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


@router.post(
    "/predict",
    response_model=schemas.Result,
    responses=FILES,
    openapi_extra=forms.described(schemas.PredictFields),
)
async def predict(
    request: Request,
    format: Annotated[schemas.Format, Query(description="Format of the answer")] = "png16",  # noqa: A002
) -> Any:
    """Predict a picture; the answer is a file, or with format=json a summary that is kept."""
    server = Server.of(request)
    picture, fields = await forms.read(request, schemas.PredictFields)
    upload = Upload(picture.content, picture.name, fields.fov, fields.known_distance)

    def work() -> File | dict[str, Any]:
        prediction = server.service.predict(upload)
        if format == "json":
            return server.service.keep(prediction)
        return server.service.file(prediction, WEB_FORMATS[format])

    found = await server.queue.run(request, PREDICT, work)
    return _attached(found) if isinstance(found, File) else found


@router.post(
    "/explain",
    response_model=schemas.Explained,
    responses=FILES,
    openapi_extra=forms.described(schemas.NoFields),
)
async def explain(
    request: Request,
    format: Annotated[Literal["json", "npz"], Query(description="Of the answer")] = "json",  # noqa: A002
) -> Any:
    """Explain a picture by its IDRs: a summary that is kept, or all arrays."""
    server = Server.of(request)
    picture, _ = await forms.read(request, schemas.NoFields)
    upload = Upload(picture.content, picture.name)

    def work() -> File | dict[str, Any]:
        photo = server.service.photo(upload)
        found = server.service.explain(photo.image)
        if format == "npz":
            name = f"{PurePath(photo.name).stem}_explanation.npz"
            return File(service.explanation_npz(found), WEB_FORMATS["npz"].media_type, name)
        prediction = server.service.predict(upload, photo)
        return server.service.summary(server.service.results.keep(prediction, found))

    found = await server.queue.run(request, "explain", work)
    return _attached(found) if isinstance(found, File) else found


@router.get("/results/{token}/view", response_model=schemas.View)
async def view(request: Request, token: Token, known_distance: KnownText = None) -> Any:
    """Return a result as the page shows it."""
    server = Server.of(request)
    kept = server.service.results.find(token)
    return await server.queue.run(
        request, "view", partial(server.service.view, kept, known_distance)
    )


@router.post("/results/{token}/explain", response_model=schemas.Explained)
async def explain_result(request: Request, token: Token) -> Any:
    """Return the summary of the IDRs of a result."""
    server = Server.of(request)
    _check_kept(server, token)
    return await server.queue.run(request, "explain", partial(server.service.summary, token))


@router.get("/results/{token}/maps", response_class=Response, responses=FILES)
async def maps(request: Request, token: Token) -> Response:
    """Return the maps of all IDRs as deflated bytes: for each level attention, then partition."""
    server = Server.of(request)
    _check_kept(server, token)

    def work() -> bytes:
        return service.maps_bytes(server.service.explanation_of(token))

    content = await server.queue.run(request, "explain", work)
    return Response(content, media_type="application/octet-stream")


@router.post("/results/{token}/mute", response_model=schemas.Muted)
async def mute(request: Request, token: Token, without: schemas.Mute) -> Any:
    """Return depth without some IDRs."""
    server = Server.of(request)
    _check_kept(server, token)
    muted = {int(level): idrs for level, idrs in without.muted.items()}
    work = partial(server.service.muted, token, muted)
    return await server.queue.run(request, "mute", work)


@router.get("/results/{token}/file", response_class=Response, responses=FILES)
async def download(
    request: Request,
    token: Token,
    format: Annotated[schemas.Download, Query(description="Format of the file")] = "png16",  # noqa: A002
    known_distance: KnownText = None,
) -> Response:
    """Return a result as a file."""
    server = Server.of(request)
    kept = server.service.results.find(token)

    def work() -> File:
        prediction = service.rescaled(kept.prediction, known_distance)
        return server.service.file(prediction, WEB_FORMATS[format])

    return _attached(await server.queue.run(request, "file", work))


@router.delete("/results/{token}", status_code=204)
async def forget(request: Request, token: Token) -> None:
    """Drop a result."""
    Server.of(request).service.results.drop(token)


@router.get("/examples", response_model=schemas.Examples)
async def examples(request: Request) -> Any:
    """List the example photos."""
    found = Server.of(request).examples
    photos = [name for name, (_, kind) in found.items() if kind.startswith("image/")]
    return {
        "photos": [
            {"file": name, "title": name.rpartition(".")[0].replace("_", " ")} for name in photos
        ],
        "credits": next((name for name in found if name not in photos), ""),
    }


@router.get(
    "/examples/{name}",
    response_class=Response,
    responses={200: {"content": {"image/*": BYTES, "text/plain": {}}}},
)
async def example(request: Request, name: str) -> Response:
    """Return an example photo, or the credits."""
    found = Server.of(request).examples.get(name)
    if found is None:
        raise HTTPException(404, "there is no example with this name")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "max-age=3600"})


@router.get("/health", response_model=schemas.Health)
async def health(request: Request) -> Any:
    """Return the state of the server, its queue and its limits."""
    server = Server.of(request)
    opened, limits = server.service.opened, server.service.limits
    model = opened.predictor.model
    return {
        "status": "ok",
        "version": __version__,
        "model": model.name,
        "domain": model.domain,
        "waiting": server.queue.taken,
        "slots": server.queue.slots,
        "typical_s": server.queue.typical_s(),
        "upload_mb": limits.upload_mb,
        "megapixels": limits.megapixels,
        "explorer_missing": "" if opened.explain else str(opened.missing),
    }


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Return the metrics for Prometheus."""
    text = Server.of(request).metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _check_kept(server: Server, token: str) -> None:
    """Raise ResultExpired (404) before waiting in the queue."""
    server.service.results.find(token)


def _attached(file: File) -> Response:
    """Return a download; its name may have any characters."""
    plain = file.name.encode("ascii", "replace").decode().translate(str.maketrans('?"\\;', "____"))
    name = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name)}"
    return Response(file.content, media_type=file.media, headers={"Content-Disposition": name})


async def _input_problem(_: Request, error: Exception) -> JSONResponse:
    return problem(HTTPException(STATUSES.get(type(error), 400), str(error)))


async def _http_problem(_: Request, error: Exception) -> JSONResponse:
    status, detail = getattr(error, "status_code", 400), getattr(error, "detail", "")
    return problem(HTTPException(status, detail, getattr(error, "headers", None)))


async def _field_problem(_: Request, error: Exception) -> JSONResponse:
    """Report the first invalid field."""
    first: dict[str, Any] = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ())[1:]) or "request"
    return problem(HTTPException(422, f"{place}: {first.get('msg', 'not understood')}"))


async def _bug(_: Request, __: Exception) -> JSONResponse:
    """Hide a bug from the client; the log of the server has the traceback."""
    return problem(HTTPException(500, "internal error; see the log of the server"))


async def _sweep(results: Results) -> None:
    while True:
        await asyncio.sleep(30)
        results.thin_out()
