"""The ASGI application: all endpoints over one service, with the middlewares around them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from regard.common.errors import RegardError
from regard.common.version import __version__
from regard.requests.server_settings import ServerSettings
from regard.serving.answers import AnswersInPieces
from regard.serving.calls import REQUEST_ID, Server
from regard.serving.crash_table import CallTable
from regard.serving.deepl import deepl
from regard.serving.documents import Documents
from regard.serving.endpoints import own_endpoints
from regard.serving.fair_starts import FairStarts
from regard.serving.http_errors import HttpError, error_response
from regard.serving.keys import KeyFile
from regard.serving.libretranslate import libretranslate
from regard.serving.limits import Limits
from regard.serving.models import Models
from regard.serving.openapi import DescribedApp
from regard.serving.prometheus_metrics import Metrics
from regard.serving.security import RequestLog

DESCRIPTION = """Translation and captions by the models of this server. The endpoints of
LibreTranslate and DeepL work with their clients; those under /v1 show more: scores, alternatives,
alignments, attention, words as they come."""
_REASONS = {
    404: "this server has no such path; /spec lists its paths",
    405: "this path does not take this method",
}
_COMPRESSED = 8_192
"""Least number of bytes of an answer that is compressed."""
_NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}


def create_app(
    service: Models,
    settings: ServerSettings,
    *,
    lifespan: Callable[[FastAPI], Any] | None = None,
    calls: CallTable | None = None,
) -> FastAPI:
    """Create the application that serves the models of `service`.

    `calls`: the table in which open calls are recorded. Rate limits and counters live in the memory
    of this process, so run a single one. Raises ConfigurationError for contradictory settings, and
    DataError if the key file is unusable.
    """
    limits = Limits(
        settings.requests_per_minute,
        settings.characters_per_minute,
        settings.character_quota,
    )
    keys = KeyFile(settings.key_file) if settings.key_file else None
    metrics = Metrics(service) if settings.metrics else None
    documents = Documents(settings)
    server = Server(service, settings, limits, documents, keys, metrics, calls)
    app = DescribedApp(
        title="Regard",
        description=DESCRIPTION,
        version=__version__,
        openapi_url="/spec",
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={RegardError: _answer, HTTPException: _answer},
        lifespan=lifespan,
        telemetry=_NO_TELEMETRY,  # it would contain the texts of users
    )
    for router in (libretranslate(server), deepl(server), own_endpoints(server)):
        app.include_router(router)
    if settings.page:
        _add_page(app)
    _add_middlewares(app, settings, metrics)
    return app


def _add_middlewares(
    app: FastAPI, settings: ServerSettings, metrics: Metrics | None
) -> None:
    """Add the middlewares; the last is the outermost."""
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "X-Deadline-Ms",
                "X-Request-Id",
            ],
            expose_headers=["Retry-After", "X-Request-Id"],
        )
    app.add_middleware(GZipMiddleware, minimum_size=_COMPRESSED, compresslevel=1)
    app.add_middleware(AnswersInPieces, max_bytes=4 * settings.answer_limit)
    app.add_middleware(FairStarts)
    if settings.proxies:
        app.add_middleware(
            ProxyHeadersMiddleware,
            trusted_hosts=[str(network) for network in settings.proxies],
        )
    app.add_middleware(RequestLog, settings=settings, metrics=metrics)


def _add_page(app: FastAPI) -> None:
    """Add the page at the root: one HTML document, whose script calls only the endpoints under /v1.

    Browsers may cache the page, and revalidate it by its ETag each time.
    """

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def front(request: Request) -> Response:
        """Send the page that translates."""
        html, headers = _page()
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(html, headers=headers, media_type="text/html; charset=utf-8")


@cache
def _page() -> tuple[str, dict[str, str]]:
    """Return the page and its headers.

    The page is rendered at the first request for it, so that it does not delay the start.
    """
    from regard.serving.server_page import render_server_page

    page = render_server_page()
    headers = {
        "Content-Security-Policy": page.policy,
        "Cache-Control": "no-cache",
        "ETag": f'"{hashlib.sha256(page.html.encode()).hexdigest()[:32]}"',
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }
    return page.html, headers


async def _answer(request: Request, problem: Exception) -> Response:
    """Return the response to an error, in the format of the API that was called."""
    if isinstance(problem, HTTPException):
        reason = _REASONS.get(problem.status_code, str(problem.detail))
        problem = HttpError(problem.status_code, reason, headers=problem.headers)
    return error_response(problem, request.url.path, request.scope[REQUEST_ID])
