"""The paths of the service: who may ask, what is refused with which status, and where each answer comes from."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPBasic, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from threadpoolctl import threadpool_limits

from hotvae.errors import HotVAEError, speaking
from hotvae.serve.desk import Deadline, Desk, Refusal
from hotvae.serve.explorer import Explorer
from hotvae.serve.hearing import listening, warnings_heard
from hotvae.serve.ledger import LOGGER, Counts, Ledger
from hotvae.serve.questions import (
    DecideQuestion,
    Draws,
    Lists,
    Probabilities,
    Question,
    SampleQuestion,
    Served,
    body_schema,
    parsed,
)
from hotvae.training.prediction import one_torch_thread_each

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine: without a token, a request must call the service by one of them."""


class Problem(BaseModel):
    """Why there is no answer, in a sentence."""

    error: str


def make_app(served: Served, token: str | None = None, explorer: Explorer | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    served : Served
        The model.
    token : str, optional
        What a request must show as ``Authorization: Bearer TOKEN``; only ``/health`` is open. Without one, pages of
        other sites that a browser on this machine has open are kept out by the name they call it by.
    explorer : Explorer, optional
        The page at ``/``; a browser asks for the token as a password.

    Returns
    -------
    FastAPI
    """
    counts, desk = Counts(), Desk(served.limits)
    counts.under_way.set_function(lambda: desk.n_taken)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with warnings_heard(), one_torch_thread_each(), threadpool_limits(1):
            yield
            desk.close()

    app = FastAPI(
        title="hotvae",
        version=version("hotvae"),
        summary=f"Answers of {served.description['kind']} {served.description['model']}: {len(served.labels)} labels.",
        docs_url=None,  # these pages fetch scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # for those with a token, as all else
        lifespan=lifespan,
        dependencies=[Depends(_guard(token))],
    )
    _answer_refusals(app)

    def answers(path: str, kind: type[Question], answer: type[BaseModel], find: Callable[..., dict[str, Any]]) -> None:
        async def asked(request: Request) -> Response:
            desk.refuse_if_full()  # before the body is read
            body = await _read_body(request, served.limits.body, served.limits.body_seconds)

            def work(deadline: Deadline) -> bytes:
                with speaking("service"), listening() as heard:
                    found = find(parsed(kind, body), deadline)
                    found["warnings"] += heard
                    request.scope["note"]["rows"] = len(found["ids"])
                    return to_json(found)

            return Response(await desk.answer(work, lambda: _left(request)), media_type="application/json")

        schema = body_schema(kind, served)
        app.add_api_route(
            path,
            asked,
            methods=["POST"],
            operation_id=path[1:],
            summary=find.__doc__,
            response_model=answer,
            responses=_described(400, 401, 403, 408, 413, 415, 422, 429, 503, 504),
            openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
        )

    answers("/predict", Question, Probabilities, served.predict)
    answers("/sample", SampleQuestion, Draws, served.sample)
    answers("/decide", DecideQuestion, Lists, served.decide)

    @app.get("/model", summary="What the model is, how it was trained and on what.", responses=_described(401, 403))
    async def model() -> dict[str, Any]:
        return served.description

    @app.get("/species", summary="The labels, and how common they were in training.", responses=_described(401, 403))
    async def species() -> list[dict[str, Any]]:
        return served.species()

    @app.get("/health", summary="Whether the service is there; needs no token.", responses=_described(403))
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics", summary="Counts for Prometheus.", response_class=Response, responses=_described(401, 403))
    async def metrics() -> Response:
        return Response(generate_latest(counts.registry), media_type=CONTENT_TYPE_LATEST)

    if explorer is not None:
        pages = explorer

        @app.get(
            "/",
            summary="The community explorer, of all or of a part of its grid.",
            response_class=HTMLResponse,
            responses=_described(401, 403, 422, 429, 503, 504),
        )
        async def explore(request: Request, window: str | None = None) -> Response:
            def work(_: Deadline) -> bytes:
                with speaking("service"):
                    return pages.page(window)

            return HTMLResponse(await desk.answer(work, lambda: _left(request)) if window else pages.whole)

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> dict[str, Any]:
        return app.openapi()

    paths = frozenset(app.openapi()["paths"])
    app.add_middleware(Ledger, counts=counts, paths=paths)
    return app


def _guard(token: str | None) -> Callable[..., Any]:
    """Make what each request must pass first."""
    if token is None:

        async def called_by_name(request: Request) -> None:
            if request.url.hostname not in LOCAL_NAMES:
                raise Refusal(
                    403,
                    f"host must be one of {', '.join(sorted(LOCAL_NAMES))} where no token is set; got "
                    f"{request.url.hostname!r}. Call the service by such a name, or start it with a token.",
                )

        return called_by_name
    bearer, basic = HTTPBearer(auto_error=False), HTTPBasic(auto_error=False, realm="hotvae")

    async def has_token(request: Request, shown: Annotated[Any, Depends(bearer)]) -> None:
        path, given = request.url.path, None if shown is None else shown.credentials
        if path == "/" and given is None:  # a browser knows passwords only
            with suppress(HTTPException):
                asked = await basic(request)
                given = None if asked is None else asked.password
        if path != "/health" and (given is None or not hmac.compare_digest(given.encode(), token.encode())):
            got = "none" if given is None else "another"
            raise Refusal(401, f"token must be that of the service; got {got}. Send Authorization: Bearer TOKEN.")

    return has_token


def _described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem} for status in statuses}


async def _read_body(request: Request, most: int, seconds: float) -> bytes:
    """Read a body as long as it is short enough and comes quickly enough."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"content type must be application/json; got {kind or 'none'!r}. Send JSON, and say so.")
    too_long = Refusal(413, f"body must be at most {most:,} bytes; got more. Ask for fewer rows at a time.")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise Refusal(408, f"body must arrive within {seconds:g} seconds; got a part of it. Send it faster.") from None
    except ClientDisconnect:
        raise Refusal(499, "body must arrive whole; got a closed connection. Send it again.") from None
    return bytes(body)


async def _left(request: Request) -> None:
    """Wait until the client is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer_refusals(app: FastAPI) -> None:
    """Say every refusal in a sentence, and note it."""

    def problem(request: Request, status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
        request.scope.get("note", {})["error"] = sentence
        return JSONResponse({"error": sentence}, status, headers)

    @app.exception_handler(Refusal)
    async def refused(request: Request, refusal: Refusal) -> Response:
        headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
        if refusal.status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="hotvae"' if request.url.path == "/" else "Bearer"
        return problem(request, refusal.status, str(refusal), headers)

    @app.exception_handler(HotVAEError)
    async def mistaken(request: Request, error: HotVAEError) -> Response:
        return problem(request, 422, " ".join(str(error).split()))

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        sentence = f"method and path must be those of the service; got {request.method} {request.url.path[:200]}. "
        return problem(request, error.status_code, f"{sentence}See /openapi.json.", dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        LOGGER.error({"event": "bug", "path": request.url.path[:200]}, exc_info=error)
        return problem(request, 500, "the service must not fail; got an error of its own, which its log has.")
