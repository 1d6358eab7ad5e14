"""Errors as the clients of each API understand them: a status, a sentence, and the shape that the
API wraps it in.
"""

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
CLIENT_GONE = 499  # in the log alone: nobody is there to read it


class HttpError(RegardError):
    """A request that is answered with an error: `status`, the causes as sentences, and further
    headers.
    """

    def __init__(
        self, status: int, *causes: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(*causes)
        self.status = status
        self.headers = dict(headers or {})


def bad_request(*causes: str) -> HttpError:
    return HttpError(400, *causes)


def http_error(problem: Exception) -> HttpError:
    """Return the status and sentences of an exception; of an unexpected one, nothing but that it
    happened.
    """
    if isinstance(problem, HttpError):
        return problem
    if isinstance(problem, Overloaded):
        return HttpError(
            503, *problem.causes, headers={"Retry-After": str(problem.retry_after)}
        )
    if isinstance(problem, DeadlineExceeded):
        return HttpError(504, *problem.causes)
    # Of data, such as images, that the request holds.
    if isinstance(problem, (UsageError, DataError)):
        return HttpError(400, *problem.causes)
    if isinstance(problem, RegardError):  # a model that is gone, for instance
        return HttpError(503, *problem.causes, headers={"Retry-After": "2"})
    return HttpError(
        500,
        "an error of the server, which its log describes; give the request id to its operator",
    )


def error_response(problem: Exception, path: str, request_id: str) -> Response:
    """Return an exception in the shape of the API that the path belongs to.

    DeepL's clients take 429 for overload, and of the statuses from 500 they know 503 alone.
    """
    error = http_error(problem)
    status = error.status
    message = "; ".join(error.causes)
    api, _, _ = path.removeprefix("/").partition("/")
    if api in DEEPL:
        status = (
            429 if isinstance(problem, Overloaded) else 503 if status == 504 else status
        )
        return json_response({"message": message}, status, error.headers)
    if api == OWN:
        content = problem_details(error, request_id)
        return json_response(content, status, error.headers, "application/problem+json")
    return json_response({"error": message}, status, error.headers)


def problem_details(error: HttpError, request_id: str) -> dict[str, Any]:
    """Return an error as problem details (RFC 9457)."""
    title = (
        HTTPStatus(error.status).phrase if error.status in set(HTTPStatus) else "Error"
    )
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
    """Return JSON in UTF-8. Numbers that JSON lacks become null."""
    try:
        body = msgspec.json.encode(content)
    except UnicodeEncodeError:
        # Half of a character, as in the name of a file that is not UTF-8.
        body = json.dumps(msgspec.to_builtins(content)).encode()
    return Response(body, status, headers, media_type)
