"""Descriptions of endpoints for OpenAPI: bodies that are read by hand, and errors in the shape of each API."""

from __future__ import annotations

from typing import Any

import pydantic

from regard.serving.requests import FORM, JSON, MULTIPART

_REASONS = {
    400: "A parameter is missing or wrong, or the answer would be too large; the sentence says which",
    403: "The API key is missing or not known, or the function is not offered",
    404: "There is nothing of this name",
    408: "The request was not received in time",
    413: "Too much at once",
    415: "The body is of a kind that is not read",
    429: "Too many requests or characters; Retry-After says when to try again",
    456: "The quota of characters does not suffice",
    503: "No room for the request now, or no model; Retry-After says when to try again",
    504: "Not done before the deadline",
}
COMMON = (400, 403, 408, 413, 415, 429, 456, 503, 504)
"""Statuses of errors of every endpoint that translates."""


class Problem(pydantic.BaseModel):
    """Problem details (RFC 9457): an error of the endpoints under /v1."""

    title: str
    status: int
    detail: str
    request_id: str


def errors(shape: type[pydantic.BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of an endpoint."""
    media = "application/problem+json" if shape is Problem else JSON
    schema = shape.model_json_schema()
    return {
        status: {"description": _REASONS[status], "content": {media: {"schema": schema}}}
        for status in statuses or COMMON
    }


def example(**values: Any) -> pydantic.ConfigDict:
    """Return the configuration of a model of parameters that OpenAPI shows with an example."""
    return pydantic.ConfigDict(json_schema_extra={"example": values})


def body(shape: type[pydantic.BaseModel], *media: str) -> dict[str, Any]:
    """Describe the body of an endpoint, as JSON or as a form."""
    schema = shape.model_json_schema()
    kinds = media or (JSON, FORM, MULTIPART)
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}
