"""Middlewares (pure ASGI) around all endpoints: the log with request ids, host names, origins, security headers."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import time
import traceback
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.calls import LOG, REQUEST_ID
from regard.serving.http_errors import CLIENT_GONE, HttpError, error_response
from regard.serving.metrics import Metrics
from regard.serving.requests import CLOSE, excerpt

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer that does not set them itself, as the page does."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"))
"""Methods that log and metrics name; a client may send any word, of any length."""
_FRAMES = 12  # innermost calls that the log shows of an unexpected exception
_LENGTHS = {"content-length", "transfer-encoding"}
"""With both, a proxy may see the end of a request elsewhere (RFC 9112, section 6.3)."""
HEAD_BYTES = 1 << 18
"""Most bytes of a request's head: some clients send the text in the address."""
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:/@\s]+)(?::[0-9]{1,5})?")


class RequestLog:
    """The outermost middleware: an id for each request, its line in the log, its metrics; no exception passes it.

    A line has method, route, status, milliseconds and id. Texts and keys are not in it, nor paths that are no route's,
    and of an unexpected exception only its class and where it was raised, because its message may quote texts.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics | None = None, log_texts: bool = False) -> None:
        self.app, self.metrics, self.log_texts = app, metrics, log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent_headers = Headers(scope=scope)
        sent = sent_headers.get("x-request-id", "")
        request_id = sent if _ID.fullmatch(sent) else secrets.token_hex(8)
        scope[REQUEST_ID] = request_id
        started, status = time.perf_counter(), CLIENT_GONE

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self.metrics is not None:
            self.metrics.in_flight.inc()
        try:
            await self.app(scope, receive, send_noted)
        except Exception as problem:
            self._log_exception(request_id, problem)
            if status == CLIENT_GONE:  # nothing was sent yet
                await error_response(problem, scope["path"], request_id)(scope, receive, send_noted)
        finally:
            self._note(scope, status, time.perf_counter() - started, request_id)

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        LOG.info("%s %s %d %.1f ms %s", method, route, status, 1000 * seconds, request_id)
        if self.metrics is not None:
            self.metrics.in_flight.dec()
            self.metrics.count_request(route, method, status, seconds)

    def _log_exception(self, request_id: str, problem: Exception) -> None:
        frames = "".join(traceback.format_tb(problem.__traceback__)[-_FRAMES:])
        message = f": {problem}" if self.log_texts else ""
        LOG.log(logging.ERROR, "%s failed with %s%s\n%s", request_id, type(problem).__name__, message, frames)


class HeadCheck:
    """A middleware that refuses requests by their heads: `check` returns why; None if a request is not refused."""

    def __init__(self, app: ASGIApp, check: Callable[[Scope], HttpError | None]) -> None:
        self.app, self.check = app, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self.check(scope) if scope["type"] == "http" else None
        if problem is None:
            await self.app(scope, receive, send)
        else:
            await error_response(problem, scope["path"], scope[REQUEST_ID])(scope, receive, send)


def check_head(scope: Scope) -> HttpError | None:
    """Refuse heads that are too large (431), or that say the length of their body in two ways (400)."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
    if size > HEAD_BYTES:
        return HttpError(431, f"the head has {size:,} bytes; send at most {HEAD_BYTES:,}", headers=CLOSE)
    if set(Headers(scope=scope)) >= _LENGTHS:
        return HttpError(
            400, "the request has both Content-Length and Transfer-Encoding; send one of them", headers=CLOSE
        )
    return None


class HostCheck:
    """Refuse requests for other hosts (421): a page that lets its own name lead to this machine gets no answer.

    IP addresses are allowed, since no name leads to them. ("DNS rebinding" is the attack.)
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = {host.lower().strip("[]") for host in hosts}

    def __call__(self, scope: Scope) -> HttpError | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return HttpError(400, f"wanted one header Host, got {len(hosts)}")
        match = _HOST.fullmatch(hosts[0])
        name = match["name"].lower().strip("[]").rstrip(".") if match else ""
        if match and ("*" in self.hosts or name in self.hosts or _is_address(name)):
            return None
        return HttpError(421, f"this server is not {excerpt(hosts[0])}; its settings name its hosts")


class OriginCheck:
    """Refuse requests that pages of other origins make (403), which would use the server without being able to read.

    What has no header Origin is no page's request; browsers' own addresses, as of extensions, are allowed.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self.origins = set(origins)

    def __call__(self, scope: Scope) -> HttpError | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None or self._is_allowed(origin, headers.get("host", "")):
            return None
        return HttpError(403, f"pages of {excerpt(origin)} may not call this server; its settings name origins")

    def _is_allowed(self, origin: str, host: str) -> bool:
        if "*" in self.origins or origin in self.origins:
            return True
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https"):
            return bool(rest)  # "null" is the origin of files and sandboxes
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
