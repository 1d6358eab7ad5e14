"""HTTP errors, in the format that the clients of each API expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from regard.common.errors import DataError, RegardError, UsageError
from regard.serving.service import DeadlineExceeded, Overloaded

DEEPL = ("v2", "v3")
OWN = "v1"
QUOTA_EXCEEDED = 456  # DeepL's own status
CLIENT_GONE = 499  # nginx's status for the log: the client has closed the connection


class HttpError(RegardError):
    """An error response: its status, its causes as sentences, and further headers."""

    def __init__(
        self, status: int, *causes: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(*causes)
        self.status = status
        self.headers = dict(headers or {})


def bad_request(*causes: str) -> HttpError:
    return HttpError(400, *causes)


def http_error(problem: Exception) -> HttpError:
    """Convert an exception to an error response; an unexpected exception is not described, since
    its message may quote texts.
    """
    if isinstance(problem, HttpError):
        return problem
    if isinstance(problem, Overloaded):
        return HttpError(
            503, *problem.causes, headers={"Retry-After": str(problem.retry_after)}
        )
    if isinstance(problem, DeadlineExceeded):
        return HttpError(504, *problem.causes)
    # A DataError comes from data in the request, such as an image.
    if isinstance(problem, (UsageError, DataError)):
        return HttpError(400, *problem.causes)
    if isinstance(problem, RegardError):  # for instance, a model is not ready
        return HttpError(503, *problem.causes, headers={"Retry-After": "2"})
    return HttpError(
        500,
        "an error of the server, which its log describes; give the request id to its operator",
    )


def error_response(problem: Exception, path: str, request_id: str) -> Response:
    """Return the response to an exception, in the format of the API that the path belongs to.

    DeepL's clients expect 429 if the server is overloaded, and of the 5xx statuses only 503.
    """
    error = http_error(problem)
    status = error.status
    message = "; ".join(error.causes)
    api, _, _ = path.removeprefix("/").partition("/")
    if api in DEEPL:
        if isinstance(problem, Overloaded):
            status = 429
        elif status == 504:
            status = 503
        return json_response({"message": message}, status, error.headers)
    if api == OWN:
        content = problem_details(error, request_id)
        return json_response(content, status, error.headers, "application/problem+json")
    return json_response({"error": message}, status, error.headers)


def problem_details(error: HttpError, request_id: str) -> dict[str, Any]:
    """Return an error as problem details (RFC 9457)."""
    is_standard = error.status in set(HTTPStatus)
    title = HTTPStatus(error.status).phrase if is_standard else "Error"
    return {
        "title": title,
        "status": error.status,
        "detail": "; ".join(error.causes),
        "request_id": request_id,
    }


def json_response(
    content: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """Return a response with JSON in UTF-8; NaN and infinities become null."""
    try:
        body = msgspec.json.encode(content)
    except UnicodeEncodeError:
        # The content has a lone surrogate, such as a file name that is not UTF-8.
        body = json.dumps(msgspec.to_builtins(content)).encode()
    return Response(body, status, headers, media_type)
