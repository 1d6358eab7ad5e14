"""The outermost middleware: checks of the request head, log with request ids, metrics, and security
headers.

Starlette's TrustedHostMiddleware cannot accept every IP address and restrict host names at once.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
import time
import traceback
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.requests.server_settings import ServerSettings
from regard.serving.calls import AT_END, LOG, REQUEST_ID
from regard.serving.http_errors import CLIENT_GONE, HttpError, error_response
from regard.serving.prometheus_metrics import Metrics
from regard.serving.request_bodies import CLOSE, excerpt

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""Default headers of every answer; the page of the server sets some of them itself."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
)
"""Methods that appear in log and metrics; a client may send any word of any length."""
_FRAMES = 12  # innermost stack frames of an unexpected exception that the log shows
HEAD_BYTES = 1 << 18
"""Maximum number of bytes of a request head; some clients send the text in the URL."""
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:/@\s]+)(?::[0-9]{1,5})?")


class HeadCheck:
    """Checks of a request by its target and headers alone."""

    def __init__(self, settings: ServerSettings) -> None:
        self.hosts = {host.lower().strip("[]") for host in settings.hosts}
        self.origins = set(settings.cors_origins)

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise HttpError if a request is refused.

        With both Content-Length and Transfer-Encoding, a proxy might see another end of the request
        (request smuggling; RFC 9112, section 6.3). Unknown host names are refused because of DNS
        rebinding; IP addresses are allowed, since no name is involved. Requests of pages of other
        origins are refused, because they would use the server even if they could not read the
        answers.
        """
        size = len(scope["raw_path"]) + len(scope["query_string"])
        for name, value in headers.raw:
            size += len(name) + len(value) + len(": \r\n")
        if size > HEAD_BYTES:
            raise HttpError(
                431,
                f"the head has {size:,} bytes; send at most {HEAD_BYTES:,}",
                headers=CLOSE,
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            sentence = "the request has both Content-Length and Transfer-Encoding; send one of them"
            raise HttpError(400, sentence, headers=CLOSE)
        if "host" not in headers:  # h11 refuses several
            raise HttpError(400, "wanted one header Host, got 0")
        if not self._is_own(headers["host"]):
            raise HttpError(
                421,
                f"this server is not {excerpt(headers['host'])}; its settings name its hosts",
            )
        if "origin" not in headers:
            return
        origin = headers["origin"]
        if not self._is_allowed(origin, headers["host"]):
            raise HttpError(
                403,
                f"pages of {excerpt(origin)} may not call this server; its settings name origins",
            )

    def _is_own(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        name = match["name"].lower().strip("[]").rstrip(".") if match else ""
        return match is not None and (
            "*" in self.hosts or name in self.hosts or _is_address(name)
        )

    def _is_allowed(self, origin: str, host: str) -> bool:
        """Return whether a page of an origin may call; browser extensions are always allowed."""
        if "*" in self.origins or origin in self.origins:
            return True
        scheme, _, origin_host = origin.partition("://")
        if scheme not in ("http", "https"):
            # Browser extensions have schemes of their own. Files and sandboxed pages have the
            # origin "null", which has no host and is refused.
            return origin_host != ""
        return origin_host.lower() == host.lower()


class RequestLog:
    """Middleware that gives each request an id, logs and counts it, and answers every exception.

    A line of the log has method, route, status, milliseconds and id. It contains no texts, no keys
    and no unknown paths. Of an unexpected exception it has only the class and the stack, because
    the message may quote texts.
    """

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, metrics: Metrics | None = None
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.log_texts = settings.log_texts
        self.head = HeadCheck(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")
        if not _ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        at_end = list[Callable[[int], None]]()
        scope[REQUEST_ID] = request_id
        scope[AT_END] = at_end
        started = time.perf_counter()
        status = CLIENT_GONE  # stays so until an answer begins

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer_headers = {
                    **HEADERS,
                    **dict(message["headers"]),
                    b"x-request-id": request_id.encode(),
                }
                message["headers"] = list(answer_headers.items())
            await send(message)

        if self.metrics is not None:
            self.metrics.in_flight.inc()
        try:
            self.head.check(scope, headers)
            await self.app(scope, receive, send_with_headers)
        except Exception as problem:
            if not isinstance(problem, HttpError):
                log_exception(request_id, problem, self.log_texts)
            if status == CLIENT_GONE:  # no answer has begun
                response = error_response(problem, scope["path"], request_id)
                await response(scope, receive, send_with_headers)
        finally:
            for end in at_end:
                end(status)
            self._log_request(scope, status, time.perf_counter() - started, request_id)

    def _log_request(
        self, scope: Scope, status: int, seconds: float, request_id: str
    ) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        LOG.info(
            "%s %s %d %.1f ms %s", method, route, status, 1000 * seconds, request_id
        )
        if self.metrics is not None:
            self.metrics.in_flight.dec()
            self.metrics.count_request(route, method, status, seconds)


def log_exception(request_id: str, problem: Exception, log_texts: bool) -> None:
    """Log an unexpected exception; its message only if texts may be logged."""
    frames = "".join(traceback.format_tb(problem.__traceback__, -_FRAMES))
    message = f": {problem}" if log_texts else ""
    LOG.error(
        "%s failed with %s%s\n%s", request_id, type(problem).__name__, message, frames
    )


def _is_address(name: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
