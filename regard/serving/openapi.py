"""Descriptions of endpoints for OpenAPI, with the schemas of request bodies and answers.

FastAPI cannot derive them, because the server parses bodies and encodes answers itself.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic
from fastapi import FastAPI

from regard.serving.request_bodies import FORM, JSON, MULTIPART
from regard.serving.service import Answer

_REASONS = {
    200: "The answer",
    400: "A parameter is missing or wrong, or the answer would be too large; the sentence says "
    "which",
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
ERRORS = (400, 403, 408, 413, 415, 429, 456, 503, 504)
"""Error statuses of every endpoint that translates."""
_REFERENCE = "#/components/schemas/{name}"
Responses = dict[int | str, dict[str, Any]]


FILE: Responses = {
    200: {
        "description": "The translated file",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""The answer that is a file."""


class Problem(Answer, frozen=True):
    """Problem details (RFC 9457): an error of the endpoints under /v1."""

    title: str
    status: int
    detail: str
    request_id: str


def answers(kind: Any, *statuses: int) -> Responses:
    """Describe the answers with the given statuses (by default 200) and JSON of type `kind`."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    media_type = "application/problem+json" if kind is Problem else JSON
    content = {media_type: {"schema": schema}}
    return {
        status: {"description": _REASONS[status], "content": content}
        for status in statuses or (200,)
    }


def example(**values: Any) -> pydantic.ConfigDict:
    """Return the configuration of a pydantic model that OpenAPI shows with an example."""
    return pydantic.ConfigDict(json_schema_extra={"example": values})


def path_parameter(name: str) -> dict[str, Any]:
    """Describe a part of a path."""
    schema = {"type": "string"}
    parameter = {"name": name, "in": "path", "required": True, "schema": schema}
    return {"parameters": [parameter]}


def body(parameters: type[pydantic.BaseModel], *media: str) -> dict[str, Any]:
    """Describe the body of an endpoint, whose media types are by default JSON and forms."""
    schema = parameters.model_json_schema()
    media_types = media or (JSON, FORM, MULTIPART)
    content = {media_type: {"schema": schema} for media_type in media_types}
    return {"requestBody": {"required": True, "content": content}}


class DescribedApp(FastAPI):
    """An application whose OpenAPI document contains the schemas of answers."""

    def openapi(self) -> dict[str, Any]:
        """Return the document: all endpoints, and the schemas of all subclasses of `Answer`."""
        _, components = msgspec.json.schema_components(
            Answer.__subclasses__(), ref_template=_REFERENCE
        )
        return super().openapi() | {"components": {"schemas": components}}
