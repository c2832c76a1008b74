"""The routes of the server, and the responses for errors.

Handlers read the request, pass the work to the thread of `queue`, and make the response. The static
files of the page are in `static`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from idisc import __version__
from idisc.errors import CheckpointError, IdiscError, InputError
from idisc.images import TooManyPixels
from idisc.serve import forms, schemas, service, static
from idisc.serve.admission import AdmissionMiddleware, Limits, problem
from idisc.serve.explorer import Opened
from idisc.serve.metrics import Metrics
from idisc.serve.queue import PREDICT, WorkQueue
from idisc.serve.results import Kept, ResultExpired, Results
from idisc.serve.service import WEB_FORMATS, File, InferenceService

BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": dict.fromkeys(sorted({row.media_type for row in WEB_FORMATS.values()}), BYTES)}
}
STATUSES: dict[type[Exception], int] = {  # of errors; 400 for others
    TooManyPixels: 413,
    ResultExpired: 404,
    CheckpointError: 500,
}
SWEEP_INTERVAL_S = 30.0


@dataclass(frozen=True)
class ServerState:
    """The state that all handlers share."""

    service: InferenceService
    queue: WorkQueue
    metrics: Metrics
    examples: dict[str, static.StaticFile]  # by name
    page: dict[str, static.StaticFile]  # by address


async def _server_of(request: Request) -> ServerState:
    state: ServerState = request.app.state.server
    return state


async def _check_query(request: Request) -> None:
    """Raise an error for query fields that are unknown or given twice."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    given = (name for name, _ in request.query_params.multi_items())
    forms.check_names(given, known, "query")


router = APIRouter(responses=schemas.PROBLEMS, dependencies=[Depends(_check_query)])
Server = Annotated[ServerState, Depends(_server_of)]
Token = Annotated[str, Path(min_length=1, max_length=100, description="Token of POST /predict")]
KnownDistance = Annotated[
    str | None, Query(max_length=2000, description=schemas.KNOWN_DISTANCE_FORMAT)
]


async def _result_of(server: Server, token: Token) -> Kept:
    return server.service.results.find(token)


Result = Annotated[Kept, Depends(_result_of)]  # 404 before the request waits in the queue


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
    state = ServerState(inference, queue, metrics, static.read_examples(), static.read_page())
    metrics.watch("idisc_slots_taken", "Running and waiting requests.", lambda: queue.taken)
    metrics.watch("idisc_results_kept", "Results that a page may request.", lambda: len(results))

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
    app.state.server = state
    app.include_router(router)
    for address in state.page:
        app.add_api_route(address, page_file, include_in_schema=False)
    for error in (IdiscError, StarletteHTTPException, RequestValidationError, Exception):
        app.add_exception_handler(error, _error_response)
    return AdmissionMiddleware(app, limits, metrics, hosts)


async def page_file(request: Request, server: Server) -> Response:
    """Send a static file of the page, or 304 if the client has it."""
    content, media_type, etag = server.page[request.url.path]
    headers = {"Cache-Control": "no-cache", "ETag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


@router.post(
    "/predict",
    response_model=schemas.Result,
    responses=FILES,
    openapi_extra=forms.described(schemas.PredictFields),
)
async def predict(
    request: Request,
    server: Server,
    format: Annotated[schemas.Format, Query(description="Format of the answer")] = "png16",  # noqa: A002
) -> Any:
    """Predict a picture; the answer is a file, or with format=json a summary that is kept."""
    upload, fields = await forms.read(request, schemas.PredictFields)

    def predict_upload() -> File | dict[str, Any]:
        photo = server.service.photo(upload)
        prediction = server.service.predict(photo, fields.fov, fields.known_distance)
        if format == "json":
            return server.service.keep(prediction)
        return server.service.file(prediction, WEB_FORMATS[format])

    answer = await server.queue.run(request, PREDICT, predict_upload)
    return _download(answer) if isinstance(answer, File) else answer


@router.post(
    "/explain",
    response_model=schemas.Explained,
    responses=FILES,
    openapi_extra=forms.described(schemas.NoFields),
)
async def explain(
    request: Request,
    server: Server,
    format: Annotated[Literal["json", "npz"], Query(description="Of the answer")] = "json",  # noqa: A002
) -> Any:
    """Explain a picture by its IDRs: a summary that is kept, or all arrays."""
    upload, _ = await forms.read(request, schemas.NoFields)

    def explain_upload() -> File | dict[str, Any]:
        photo = server.service.photo(upload)
        explanation = server.service.explain(photo.image)
        if format == "npz":
            name = f"{PurePath(photo.name).stem}_explanation.npz"
            return File(service.explanation_npz(explanation), WEB_FORMATS["npz"].media_type, name)
        prediction = server.service.predict(photo)
        return server.service.summary(server.service.results.keep(prediction, explanation))

    answer = await server.queue.run(request, "explain", explain_upload)
    return _download(answer) if isinstance(answer, File) else answer


@router.get("/results/{token}/view", response_model=schemas.View)
async def view(
    request: Request, server: Server, kept: Result, known_distance: KnownDistance = None
) -> Any:
    """Return a result as the page shows it."""
    function = partial(server.service.view, kept, known_distance)
    return await server.queue.run(request, "view", function)


@router.post("/results/{token}/explain", response_model=schemas.Explained)
async def explain_result(request: Request, server: Server, kept: Result) -> Any:
    """Return the summary of the IDRs of a result."""
    return await server.queue.run(request, "explain", partial(server.service.summary, kept))


@router.get("/results/{token}/maps", response_class=Response, responses=FILES)
async def maps(request: Request, server: Server, kept: Result) -> Response:
    """Return the maps of all IDRs as deflated bytes: for each level attention, then partition."""

    def maps_of_result() -> bytes:
        return service.maps_bytes(server.service.explanation_of(kept))

    content = await server.queue.run(request, "explain", maps_of_result)
    return Response(content, media_type="application/octet-stream")


@router.post("/results/{token}/mute", response_model=schemas.Muted)
async def mute(request: Request, server: Server, kept: Result, without: schemas.Mute) -> Any:
    """Return depth without some IDRs."""
    muted = {int(level): idrs for level, idrs in without.muted.items()}
    return await server.queue.run(request, "mute", partial(server.service.muted, kept, muted))


@router.get("/results/{token}/file", response_class=Response, responses=FILES)
async def download(
    request: Request,
    server: Server,
    kept: Result,
    format: Annotated[schemas.Download, Query(description="Format of the file")] = "png16",  # noqa: A002
    known_distance: KnownDistance = None,
) -> Response:
    """Return a result as a file."""

    def file_of_result() -> File:
        prediction = service.rescaled(kept.prediction, known_distance)
        return server.service.file(prediction, WEB_FORMATS[format])

    return _download(await server.queue.run(request, "file", file_of_result))


@router.delete("/results/{token}", status_code=204)
async def forget(server: Server, token: Token) -> None:
    """Drop a result."""
    server.service.results.drop(token)


@router.get("/examples", response_model=schemas.Examples)
async def examples(server: Server) -> Any:
    """List the example photos."""
    files = server.examples.items()
    photos = [name for name, file in files if file.media_type.startswith("image/")]
    return {
        "photos": [
            {"file": name, "title": PurePath(name).stem.replace("_", " ")} for name in photos
        ],
        "credits": next((name for name in server.examples if name not in photos), ""),
    }


@router.get(
    "/examples/{name}",
    response_class=Response,
    responses={200: {"content": {"image/*": BYTES, "text/plain": {}}}},
)
async def example(server: Server, name: str) -> Response:
    """Return an example photo, or the credits."""
    file = server.examples.get(name)
    if file is None:
        raise HTTPException(404, "there is no example with this name")
    headers = {"Cache-Control": "max-age=3600"}
    return Response(file.content, media_type=file.media_type, headers=headers)


@router.get("/health", response_model=schemas.Health)
async def health(server: Server) -> Any:
    """Return the state of the server, its queue and its limits."""
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
async def metrics(server: Server) -> Response:
    """Return the metrics for Prometheus."""
    text = server.metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _download(file: File) -> Response:
    """Return a file to save; its name may have any characters."""
    plain = file.name.encode("ascii", "replace").decode().translate(str.maketrans('?"\\;', "____"))
    name = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name)}"
    return Response(file.content, media_type=file.media_type, headers={"Content-Disposition": name})


async def _error_response(_: Request, error: Exception) -> JSONResponse:
    """Return the error as one line of JSON; the log of the server has the traceback of a bug."""
    match error:
        case StarletteHTTPException():
            return problem(error)
        case IdiscError():
            return problem(HTTPException(STATUSES.get(type(error), 400), str(error)))
        case RequestValidationError():
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"][1:]) or "request"
            return problem(HTTPException(422, f"{place}: {first['msg']}"))
    return problem(HTTPException(500, "internal error; see the log of the server"))


async def _sweep(results: Results) -> None:
    while True:
        await asyncio.sleep(SWEEP_INTERVAL_S)
        results.thin_out()
