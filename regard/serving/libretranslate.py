"""Endpoints of LibreTranslate's API, implemented from its documentation."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, Literal

import pydantic
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.calls import Call, CallRoutes, Server
from regard.serving.document_calls import (
    begin_document,
    document_response,
    suffixes,
)
from regard.serving.http_errors import HttpError, json_response
from regard.serving.language_names import language_name
from regard.serving.language_pairs import AUTO
from regard.serving.openapi import ERRORS, FILE, answers, example, path_parameter
from regard.serving.request_bodies import (
    MULTIPART,
    DocumentParameters,
    Parameters,
    Texts,
    listed,
)
from regard.serving.service import Answer, SearchRequest, ServedText
from regard.text.text_format import TextFormat

MOST_ALTERNATIVES = 20


class LibreError(Answer, frozen=True):
    """An error."""

    error: str


class TranslateParameters(Parameters):
    """Parameters of /translate; `q` may be one text or a list."""

    model_config = example(q="나는 빵을 먹는다.", source="ko", target="en")
    q: Texts
    source: str = AUTO
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = pydantic.Field(0, ge=0, le=MOST_ALTERNATIVES)
    api_key: str = ""  # for OpenAPI: `Server.read` takes it out


class FileParameters(DocumentParameters):
    """Parameters of /translate_file."""

    source: str = AUTO
    target: str
    api_key: str = ""  # for OpenAPI: `Server.read` takes it out


class DetectParameters(Parameters):
    """Parameters of /detect."""

    model_config = example(q="나는 빵을 먹는다.")
    q: str
    api_key: str = ""  # for OpenAPI: `Server.read` takes it out


class Detection(Answer, frozen=True):
    """A language, and its probability as a percentage."""

    confidence: float
    language: str


class LibreAnswer(Answer, frozen=True, rename="camel"):
    """A translation, or a list of them if a list was sent; `alternatives` is a list for each
    then.
    """

    translated_text: str | Sequence[str]
    detected_language: Detection | Sequence[Detection] | None = None
    alternatives: Sequence[str | Sequence[str]] | None = None


class FileAnswer(Answer, frozen=True, rename="camel"):
    """The address of a translated file."""

    translated_file_url: str


class Language(Answer, frozen=True):
    """A language, and those it can be translated to."""

    code: str
    name: str
    targets: Sequence[str]


def libretranslate(server: Server) -> APIRouter:
    """Return the endpoints of LibreTranslate."""
    router = APIRouter(tags=["LibreTranslate"])

    async def languages() -> Response:
        """List the languages, each with those it can be translated to."""
        language_list = [
            Language(code, language_name(code), targets)
            for code, targets in server.pairs().languages.items()
        ]
        return json_response(language_list)

    async def not_offered() -> Response:
        """Refuse suggestions of better translations, which are not offered."""
        raise HttpError(403, "suggesting translations is not offered by this server")

    add = CallRoutes(server, router).add
    errors = answers(LibreError, *ERRORS)
    add("/translate", translate, TranslateParameters, answers(LibreAnswer) | errors)
    add("/detect", detect, DetectParameters, answers(list[Detection]) | errors)
    listed_languages = answers(list[Language])
    router.get("/languages", responses=listed_languages, operation_id="languages")(
        languages
    )
    router.post(
        "/languages", responses=listed_languages, operation_id="languages_by_post"
    )(languages)
    router.post("/suggest", responses=answers(LibreError, 403))(not_offered)
    add(
        "/translate_file",
        translate_file,
        FileParameters,
        answers(FileAnswer) | errors,
        MULTIPART,
    )

    @router.get(
        "/download_file/{id}",
        responses=FILE | answers(LibreError, 404),
        openapi_extra=path_parameter("id"),
    )
    async def download_file(request: Request) -> Response:
        """Send a translated file, as often as it is asked for while it is kept."""
        return document_response(server.documents.get(request.path_params["id"]))

    _add_states(router, server)
    return router


async def translate(call: Call[TranslateParameters]) -> Any:
    """Translate a text or a list of texts, plain or HTML. Parameters may also come in the query."""
    parameters = call.parameters
    alternatives = parameters.alternatives if parameters.format == "text" else 0
    results = await call.translate(
        listed(parameters.q),
        (parameters.source, parameters.target),
        SearchRequest(nbest=1 + alternatives),
        TextFormat(parameters.format),
    )
    return _answer(parameters, results)


async def translate_file(call: Call[FileParameters]) -> Any:
    """Translate a document; the address in the answer has it for a while."""
    parameters = call.parameters
    documents = call.server.documents
    languages = (parameters.source, parameters.target)
    document, work = await begin_document(call, languages)
    try:
        await documents.translate(document, work)
    finally:
        if document.result is None:
            await documents.remove(document.id)
    return FileAnswer(f"{call.request.base_url}download_file/{document.id}")


async def detect(call: Call[DetectParameters]) -> Any:
    """Detect the language of a text."""
    server = call.server
    text = call.parameters.q
    call.charge([text])
    detected = server.service.detect(text)
    if not detected:
        first_language = next(iter(server.pairs().languages), "")
        detected = [(first_language, 0.0)]
    return [_detection(code, probability) for code, probability in detected]


def _add_states(router: APIRouter, server: Server) -> None:
    """Add the endpoints that report the state of the server itself."""

    @router.get("/frontend/settings", responses=answers(dict[str, Any]))
    async def frontend_settings() -> Response:
        """Describe the server to pages and apps."""
        return json_response(_frontend_settings(server))

    @router.get("/health", responses=answers(dict[str, str]))
    async def health() -> Response:
        """Say that the server is alive."""
        return json_response({"status": "ok"})

    readiness = answers(dict[str, str | list[str]], 200, 503)
    readiness[503]["description"] = "Not ready"

    @router.get("/ready", responses=readiness)
    async def ready() -> Response:
        """Say that all models are loaded and whole, with status 503 until then, and again once the
        server stops.
        """
        await server.service.check()
        if server.service.is_ready:
            return json_response({"status": "ok"})
        models = server.service.models.values()
        away = [model.name for model in models if not model.is_ready]
        return json_response({"status": "not ready", "away": away}, 503)

    metrics = server.metrics
    token = server.settings.metrics_token
    if metrics is None:
        return

    @router.get("/metrics", include_in_schema=False)
    async def exposition(request: Request) -> Response:
        """Write measurements in Prometheus' text format."""
        sent = request.headers.get("authorization", "")
        if token and not hmac.compare_digest(sent.encode(), f"Bearer {token}".encode()):
            raise HttpError(
                401,
                "/metrics needs the token, as Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return Response(
            metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


def _answer(
    parameters: TranslateParameters, results: Sequence[ServedText]
) -> LibreAnswer:
    """Return LibreTranslate's answer to a request.

    Each field is a list if the request has a list of texts, and a single value otherwise.
    """
    columns: dict[str, list[Any]] = {
        "translated_text": [result.text for result in results]
    }
    if parameters.source == AUTO:
        columns["detected_language"] = [
            _detection(result.source, result.confidence or 0.0) for result in results
        ]
    if parameters.alternatives:
        columns["alternatives"] = [result.alternatives or () for result in results]
    if isinstance(parameters.q, list):
        return LibreAnswer(**columns)
    return LibreAnswer(**{name: column[0] for name, column in columns.items()})


def _detection(code: str, probability: float) -> Detection:
    return Detection(round(100 * probability, 1), code)


def _frontend_settings(server: Server) -> dict[str, Any]:
    settings = server.settings
    target = next(iter(server.pairs().targets), "")
    return {
        "charLimit": settings.char_limit or -1,
        "frontendTimeout": 500,
        "apiKeys": bool(settings.key_file),
        "keyRequired": settings.require_key,
        "suggestions": False,
        "filesTranslation": bool(settings.document_limit),
        "supportedFilesFormat": suffixes() if settings.document_limit else [],
        "language": {
            "source": {"code": AUTO, "name": "Detect language"},
            "target": {"code": target, "name": language_name(target)},
        },
    }
