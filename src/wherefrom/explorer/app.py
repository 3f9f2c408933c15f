"""The addresses of the server: the page, and the data it requests."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from wherefrom.errors import BadFile, WherefromError
from wherefrom.explorer.guard import Guard
from wherefrom.explorer.limits import TooBusy, TooMuch
from wherefrom.explorer.loading import NotReady, Shelf
from wherefrom.explorer.questions import ValidationError

if TYPE_CHECKING:
    from wherefrom.explorer.service import Computation, ModelService, PlainData, Prepare

log = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATUS = {TooMuch: 413, TooBusy: 503, NotReady: 503}
LOOKS_EVERY = 0.1  # seconds after which a closed stream is noticed
INTERNAL = "This went wrong inside of Wherefrom ({}). The terminal in which `wherefrom serve` runs says more."


@dataclass(frozen=True)
class PageFile:
    content: bytes
    kind: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """Every file of the page by its address. Nothing else on this machine has one."""
    return {
        path.name: PageFile(
            content := path.read_bytes(),
            f"{KINDS[path.suffix]}; charset=utf-8",
            f'"{sha256(content).hexdigest()[:20]}"',
        )
        for path in sorted(PAGE.iterdir())
        if path.suffix in KINDS
    }


def error_of(error: BaseException) -> tuple[int, str]:
    """The status and the sentence for a reader of the page: no path, and nothing of the inside of the program."""
    if isinstance(error, WherefromError) and not isinstance(error, BadFile):
        return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 400), str(error)
    log.error("while answering a request", exc_info=error)
    return 500, INTERNAL.format(type(error).__name__)


def not_understood(place: Sequence[object], why: str) -> str:
    """What is wrong with a request that does not have the form it should have."""
    where = ".".join(str(part) for part in place if part != "body")
    return f"The request was not understood: {where}: {why}."


def refusal(status: int, why: str) -> Response:
    """The one form of errors. In ASCII, because what is quoted of a request may be no text."""
    return Response(json.dumps({"error": why}), status, media_type="application/json")


def problem(error: BaseException) -> Response:
    return refusal(*error_of(error))


async def answered(service: ModelService, prepare: Prepare) -> JSONResponse:
    """The answer to a click."""
    return JSONResponse(await asyncio.wrap_future(service.click(prepare)))


def streamed(request: Request, service: ModelService, steps: Iterator[PlainData]) -> StreamingResponse:
    """The results of a long computation, a line of JSON each. It ends with the request: closing that stops it."""
    loop, results = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def send(result: PlainData | BaseException | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(results.put_nowait, result)

    computation = service.compute(steps, send)
    return StreamingResponse(_lines(request, results, computation), media_type="application/x-ndjson")


async def _lines(request: Request, results: asyncio.Queue[Any], computation: Computation) -> AsyncIterator[bytes]:
    try:
        while True:
            try:
                result = await asyncio.wait_for(results.get(), LOOKS_EVERY)
            except TimeoutError:
                if await request.is_disconnected():
                    return
                continue
            if result is None:
                return
            if isinstance(result, BaseException):
                yield _line({"error": error_of(result)[1]})
                return
            yield _line(result)
    finally:
        computation.stop()


def _line(result: PlainData) -> bytes:
    return (json.dumps(result, ensure_ascii=False) + "\n").encode()


def make_app(shelf: Shelf, *, hosts: list[str] | None, token: str | None) -> Guard:
    """The application, wrapped in its guard."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        shelf.start()
        yield
        await asyncio.to_thread(shelf.close)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)

    @app.exception_handler(WherefromError)
    async def _mistake(_: Request, error: WherefromError) -> Response:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def _not_understood(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return refusal(422, not_understood(first["loc"], first["msg"]))

    @app.exception_handler(ValidationError)
    async def _not_valid(_: Request, error: ValidationError) -> Response:
        first = error.errors()[0]
        return refusal(422, not_understood(first["loc"], first["msg"]))

    @app.exception_handler(HTTPException)
    async def _refused(_: Request, error: HTTPException) -> Response:
        return refusal(
            error.status_code, "There is nothing at this address." if error.status_code == 404 else str(error.detail)
        )

    @app.exception_handler(Exception)
    async def _bug(_: Request, error: Exception) -> Response:
        return problem(error)

    @app.get("/")
    async def _index(request: Request) -> Response:
        return _file(request, "index.html")

    @app.get("/api/state")
    async def _state() -> JSONResponse:
        return JSONResponse(shelf.data())

    from wherefrom.explorer.routes import add_routes

    add_routes(app, shelf)

    @app.get("/{name}")
    async def _static(request: Request, name: str) -> Response:
        return _file(request, name)

    return Guard(app, hosts, token, shelf.limits.body, shelf.limits.patience)


def _file(request: Request, name: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise HTTPException(404)
    headers = {"etag": file.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)
