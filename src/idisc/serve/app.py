"""The routes: what an address does, and how errors become answers.

Handlers read the request, hand the work to the one thread of `jobs`, and shape the answer. The page
and its files are a fixed table in memory; no path or address that a client sends is ever opened.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

from fastapi import (
    APIRouter,
    Depends,
    FastAPI,
    Form,
    HTTPException,
    Path,
    Query,
    Request,
    UploadFile,
)
from fastapi import File as FormFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.formparsers import MultiPartParser

from idisc import __version__
from idisc.errors import CheckpointError, IdiscError, InputError
from idisc.images import TooManyPixels
from idisc.predict.inputs import PICTURES
from idisc.serve import answers, schemas
from idisc.serve.answers import Answers, File, Upload
from idisc.serve.explorer import Opened
from idisc.serve.jobs import PREDICT, Jobs
from idisc.serve.limits import FORM_NEEDED, Door, Limits, problem
from idisc.serve.metrics import Metrics
from idisc.serve.results import Gone, Results

PAGE = {  # address -> file, and what it is
    "/": ("serve/page/index.html", "text/html; charset=utf-8"),
    "/page/style.css": ("serve/page/style.css", "text/css; charset=utf-8"),
    "/page/page.js": ("serve/page/page.js", "text/javascript; charset=utf-8"),
    "/page/explorer.js": ("serve/page/explorer.js", "text/javascript; charset=utf-8"),
    "/page/viewer.css": ("assets/viewer.css", "text/css; charset=utf-8"),
    "/page/viewer.js": ("assets/viewer.js", "text/javascript; charset=utf-8"),
    "/page/three.min.js": ("assets/three.min.js", "text/javascript; charset=utf-8"),
}
BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": dict.fromkeys(sorted({*answers.MEDIA.values()}), BYTES)}
}
Token = Annotated[str, Path(min_length=1, max_length=100, description="Of POST /predict")]
KnownText = Annotated[
    str | None,
    Query(max_length=200, description="Two points and their distance: x1,y1 x2,y2 = 2.40m"),
]
Picture = Annotated[UploadFile, FormFile(description="JPEG, PNG, WebP, TIFF, HEIC ...")]


async def _check_fields(request: Request) -> None:
    """An error for fields of a request that are a slip, not a wish."""
    asked = request.scope["route"].dependant
    form = request.headers.get("content-type", "").startswith("multipart/")
    if any(field.alias == "file" for field in asked.body_params) and not form:
        raise HTTPException(415, FORM_NEEDED)
    filled = (await request.form()).multi_items() if form else []
    for place, given, fields in (
        ("query", request.query_params.multi_items(), asked.query_params),
        ("body", filled, asked.body_params),
    ):
        names, seen = [field.alias for field in fields], set[str]()
        for name, value in given:
            if slip := _slip(name, value, names, seen):
                raise RequestValidationError([{"loc": (place, name), "msg": slip}])
            seen.add(name)


def _slip(name: str, value: object, names: list[str], seen: set[str]) -> str:
    """What is wrong with a field of an address that has those names, some of them seen already."""
    if name not in names:
        return f"unknown; there is {', '.join(names) or 'none'}"
    if name in seen:
        return "given twice; once is enough"
    if name == "file" and isinstance(value, str):
        return "text; the picture itself is needed, as a file"
    return ""


router = APIRouter(responses=schemas.PROBLEMS, dependencies=[Depends(_check_fields)])


class Part(NamedTuple):
    """Of the page."""

    content: bytes
    media: str
    etag: str  # the same as long as its content is


@dataclass(frozen=True)
class Server:
    """What all handlers share."""

    answers: Answers
    jobs: Jobs
    metrics: Metrics
    examples: dict[str, tuple[bytes, str]]  # by name: content and kind
    page: dict[str, Part]  # by address

    @classmethod
    def of(cls, request: Request) -> Server:
        """That of the application that a request reached."""
        server: Server = request.app.state.server
        return server


def create_app(
    opened: Opened, limits: Limits | None = None, *, hosts: frozenset[str] | None = None
) -> Door:
    """The application around a network; `hosts` are the names it answers to, None: all."""
    engine = opened.predictor.engine
    if engine.task != "depth":
        raise InputError(f"{engine.name} predicts normals; the page needs depth")
    limits, metrics = limits or Limits(), Metrics()
    # A photo stays in memory; starlette would put all but the first megabyte into a file
    MultiPartParser.spool_max_size = limits.body_bytes
    jobs = Jobs(limits.queue, limits.timeout_s, metrics)
    results = Results(limits)
    kept = Answers(opened, limits, results)
    server = Server(kept, jobs, metrics, read_examples(), read_page())
    metrics.watch("idisc_places_taken", "Requests at work or waiting.", lambda: jobs.taken)
    metrics.watch("idisc_results_kept", "Results that a page may ask for.", lambda: len(results))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.ensure_future(_sweep(results))
        yield
        sweeping.cancel()
        jobs.close()

    app = FastAPI(
        title="idisc",
        summary="Metric depth from a single photo",
        version=__version__,
        docs_url=None,  # its page loads scripts from elsewhere
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
    return Door(app, limits, jobs, metrics, hosts)


def read_examples() -> dict[str, tuple[bytes, str]]:
    """Photos in the package to try the page with, and whose they are."""
    found: dict[str, tuple[bytes, str]] = {}
    folder = resources.files("idisc").joinpath("assets", "examples")
    for each in sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ():
        ending = each.name.lower().rpartition(".")[2]
        if f".{ending}" in PICTURES:
            found[each.name] = each.read_bytes(), f"image/{ending.replace('jpg', 'jpeg')}"
        elif each.name.lower().startswith("credits"):
            found[each.name] = each.read_bytes(), "text/plain; charset=utf-8"
    return found


def read_page() -> dict[str, Part]:
    """The page and what belongs to it, by address."""
    found: dict[str, Part] = {}
    package = resources.files("idisc")
    space = package.joinpath("assets", "space.html").read_text("utf-8")
    for address, (name, media) in PAGE.items():
        content = package.joinpath(name).read_bytes()
        if address == "/":  # the point cloud is that of the viewer's page
            content = Template(content.decode()).substitute(space=space).encode()
        found[address] = Part(content, media, f'"{hashlib.sha256(content).hexdigest()}"')
    return found


async def page_file(request: Request) -> Response:
    """A part of the page; who has it already is told so."""
    content, media, etag = Server.of(request).page[request.url.path]
    headers = {"Cache-Control": "no-cache", "ETag": etag}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)


@router.post("/predict", response_model=schemas.Result, responses=FILES)
async def predict(
    request: Request,
    file: Picture,
    format: Annotated[schemas.Format, Query(description="Of the answer")] = "png16",  # noqa: A002
    fov: Annotated[
        float | None, Form(ge=1, le=179, allow_inf_nan=False, description="Horizontal, degrees")
    ] = None,
    known: Annotated[str | None, Form(max_length=200, description="x1,y1 x2,y2 = 2.40m")] = None,
) -> Any:
    """Depth of a picture in metres, as a file; as json, in short and kept for a while."""
    server = Server.of(request)
    upload = Upload(await file.read(), file.filename or "", fov, known or None)

    def work() -> File | dict[str, Any]:
        prediction = server.answers.predict(upload)
        if format == "json":
            return server.answers.keep(prediction)
        return server.answers.file(prediction, format)

    found = await server.jobs.run(request, PREDICT, work)
    return _attached(found) if isinstance(found, File) else found


@router.post("/explain", response_model=schemas.Explained, responses=FILES)
async def explain(
    request: Request,
    file: Picture,
    format: Annotated[Literal["json", "npz"], Query(description="Of the answer")] = "json",  # noqa: A002
) -> Any:
    """Which IDRs a picture's pixels belong to: in short and kept for a while, or all arrays."""
    server = Server.of(request)
    upload = Upload(await file.read(), file.filename or "")

    def work() -> File | dict[str, Any]:
        photo = server.answers.photo(upload)
        found = server.answers.explain(photo.image)
        if format == "npz":
            name = f"{PurePath(photo.name).stem}_explanation.npz"
            return File(answers.explanation_npz(found), answers.MEDIA[".npz"], name)
        prediction = server.answers.predict(upload, photo)
        return server.answers.summary(server.answers.results.keep(prediction, found))

    found = await server.jobs.run(request, "explain", work)
    return _attached(found) if isinstance(found, File) else found


@router.get("/results/{token}/view", response_model=schemas.View)
async def view(request: Request, token: Token, known: KnownText = None) -> Any:
    """What the page shows of a result."""
    server = Server.of(request)
    kept = server.answers.results.find(token)
    return await server.jobs.run(request, "view", partial(server.answers.view, kept, known))


@router.post("/results/{token}/explain", response_model=schemas.Explained)
async def explain_result(request: Request, token: Token) -> Any:
    """The IDRs of a result, in short."""
    server = Server.of(request)
    _check_kept(server, token)
    return await server.jobs.run(request, "explain", partial(server.answers.summary, token))


@router.get("/results/{token}/maps", response_class=Response, responses=FILES)
async def maps(request: Request, token: Token) -> Response:
    """All maps of all IDRs as deflated bytes: for each level attention, then partition."""
    server = Server.of(request)
    _check_kept(server, token)

    def work() -> bytes:
        return answers.maps_bytes(server.answers.explanation_of(token))

    content = await server.jobs.run(request, "explain", work)
    return Response(content, media_type="application/octet-stream")


@router.post("/results/{token}/mute", response_model=schemas.Muted)
async def mute(request: Request, token: Token, without: schemas.Mute) -> Any:
    """Depth without some IDRs."""
    server = Server.of(request)
    _check_kept(server, token)
    work = partial(server.answers.muted, token, without.muted, without.known)
    return await server.jobs.run(request, "mute", work)


@router.get("/results/{token}/file", response_class=Response, responses=FILES)
async def download(
    request: Request,
    token: Token,
    format: Annotated[schemas.Download, Query(description="Of the file")] = "png16",  # noqa: A002
    known: KnownText = None,
) -> Response:
    """A result as a file."""
    server = Server.of(request)
    kept = server.answers.results.find(token)

    def work() -> File:
        return server.answers.file(answers.rescaled(kept.prediction, known), format)

    return _attached(await server.jobs.run(request, "file", work))


@router.delete("/results/{token}", status_code=204)
async def forget(request: Request, token: Token) -> None:
    """Forget a result now."""
    Server.of(request).answers.results.drop(token)


@router.get("/examples", response_model=schemas.Examples)
async def examples(request: Request) -> Any:
    """Photos to try."""
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
    """One of them."""
    found = Server.of(request).examples.get(name)
    if found is None:
        raise HTTPException(404, "no example of that name")
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "max-age=3600"})


@router.get("/health", response_model=schemas.Health)
async def health(request: Request) -> Any:
    """Whether the server works, how long the line is, and what it takes."""
    server = Server.of(request)
    opened, limits = server.answers.opened, server.answers.limits
    facts = opened.predictor.facts
    return {
        "status": "ok",
        "version": __version__,
        "model": facts.name,
        "domain": facts.domain,
        "waiting": server.jobs.taken,
        "places": server.jobs.places,
        "typical_s": server.jobs.typical_s,
        "upload_mb": limits.upload_mb,
        "megapixels": limits.megapixels,
        "explorer_missing": opened.missing,
    }


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    text = Server.of(request).metrics.text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _check_kept(server: Server, token: str) -> None:
    """Gone, and so 404, now and not after a wait in the line."""
    server.answers.results.find(token)


def _attached(file: File) -> Response:
    """A file to be saved under its name, of whatever letters."""
    plain = file.name.encode("ascii", "replace").decode().translate(str.maketrans('?"\\;', "____"))
    name = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name)}"
    return Response(file.content, media_type=file.media, headers={"Content-Disposition": name})


async def _input_problem(_: Request, error: Exception) -> JSONResponse:
    statuses: dict[type[Exception], int] = {TooManyPixels: 413, Gone: 404, CheckpointError: 500}
    return problem(HTTPException(statuses.get(type(error), 400), str(error)))


async def _http_problem(_: Request, error: Exception) -> JSONResponse:
    status, detail = getattr(error, "status_code", 400), getattr(error, "detail", "")
    return problem(HTTPException(status, detail, getattr(error, "headers", None)))


async def _field_problem(_: Request, error: Exception) -> JSONResponse:
    """The first of the fields that are wrong."""
    first: dict[str, Any] = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place = ".".join(str(part) for part in first.get("loc", ())[1:]) or "request"
    return problem(HTTPException(422, f"{place}: {first.get('msg', 'not understood')}"))


async def _bug(_: Request, __: Exception) -> JSONResponse:
    """Nothing of it for the client; the traceback goes to the log of the server."""
    return problem(HTTPException(500, "a mistake of ours; the server's log has it"))


async def _sweep(results: Results) -> None:
    while True:
        await asyncio.sleep(30)
        results.thin_out()
