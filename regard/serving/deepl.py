"""Endpoints of DeepL's API that its official clients call, implemented from its documentation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic
from fastapi import APIRouter
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.calls import Call, CallRoutes, Server
from regard.serving.document_calls import (
    begin_document,
    document_response,
    start_document,
)
from regard.serving.documents import KeptDocument
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.language_names import language_name
from regard.serving.language_pairs import AUTO
from regard.serving.openapi import ERRORS, FILE, answers, body, example, path_parameter
from regard.serving.request_bodies import (
    MULTIPART,
    DocumentParameters,
    Parameters,
    Texts,
    excerpt,
    listed,
    parse,
)
from regard.serving.service import OWN_SEARCH, Answer
from regard.text.markup.elements import MarkupOptions
from regard.text.text_format import TextFormat

UNLIMITED = 1_000_000_000_000
"""The limit of characters that DeepL reports for accounts without one."""
VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Targets that DeepL's clients take only with a region; one model serves both."""
_MOST_TAG_CHARACTERS = 10_000
"""Maximum number of characters of all tags of a parameter together."""
_STATUS_SECONDS = 1.0
"""Seconds for which an answer about a document waits until it is done: clients ask every five."""
_REFUSED = ("style_id", "translation_memory_id", "custom_instructions")


class DeeplError(Answer, frozen=True):
    """An error."""

    message: str


def _tags(value: Any) -> Any:
    """Split tags, which are sent as one text with commas, as several such texts, or as a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"wanted names of tags, with commas or as a list, got {excerpt(value)}"
        )
    size = sum(map(len, texts))
    if size > _MOST_TAG_CHARACTERS:
        raise ValueError(
            f"wanted at most {_MOST_TAG_CHARACTERS:,} characters, got {size:,}"
        )
    return [tag.strip() for text in texts for tag in text.split(",") if tag.strip()]


def _number_as_text(value: Any) -> Any:
    """Convert the numbers 0 and 1, and JSON's false and true, to the texts "0" and "1"."""
    return str(int(value)) if isinstance(value, (bool, int)) else value


Tags = Annotated[list[str], pydantic.BeforeValidator(_tags)]


class _WantedTranslation(Parameters):
    """The languages of a translation, and what it is to be like."""

    target_lang: str
    source_lang: str = ""
    formality: Literal["", "default", "prefer_more", "prefer_less", "more", "less"] = (
        "default"
    )
    glossary_id: str = ""
    glossary_ids: Tags = pydantic.Field(default_factory=list)
    style_id: Any = None
    translation_memory_id: Any = None
    custom_instructions: Any = None

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source_lang or AUTO, self.target_lang


class TranslateParameters(_WantedTranslation):
    """Parameters of /v2/translate; `text` is repeated in a form, and a list in JSON."""

    model_config = example(
        text=["나는 빵을 먹는다."], source_lang="KO", target_lang="EN-GB"
    )
    text: Texts
    context: str = ""
    show_billed_characters: bool = False
    split_sentences: Annotated[
        Literal["0", "1", "nonewlines"], pydantic.BeforeValidator(_number_as_text)
    ] = "1"
    preserve_formatting: bool = False
    model_type: Literal[
        "quality_optimized", "latency_optimized", "prefer_quality_optimized"
    ] = "latency_optimized"
    tag_handling: Literal["", "html", "xml"] = ""
    outline_detection: bool = True
    ignore_tags: Tags = pydantic.Field(default_factory=list)
    splitting_tags: Tags = pydantic.Field(default_factory=list)
    non_splitting_tags: Tags = pydantic.Field(default_factory=list)


class UploadParameters(_WantedTranslation, DocumentParameters):
    """Parameters of /v2/document. `filename`: unless the form names the file."""

    filename: str = ""
    output_format: str = ""


class DocumentKey(Parameters):
    """The key of a document, which its upload was answered with."""

    document_key: str


class LanguagesParameters(Parameters):
    """Parameters of /v2/languages."""

    type: Literal["source", "target"] = "source"


class DeeplTranslation(Answer, frozen=True):
    """A translation of one text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None


class DeeplAnswer(Answer, frozen=True):
    """The translations, in order."""

    translations: Sequence[DeeplTranslation]


class DocumentHandle(Answer, frozen=True):
    """The id and the key of a document, which are needed to fetch it."""

    document_id: str
    document_key: str


class DocumentStatus(Answer, frozen=True):
    """The status of a document; its characters once it is done, and the reason if it failed."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    billed_characters: int | None = None
    error_message: str | None = None


class DeeplLanguage(Answer, frozen=True):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = None


class LanguageOfResource(Answer, frozen=True):
    """A language, as /v3/languages describes it."""

    lang: str
    name: str
    usable_as_source: bool
    usable_as_target: bool
    features: Mapping[str, Any]


class Usage(Answer, frozen=True):
    """Characters that this client has had translated since the server was started, and may have
    translated.
    """

    character_count: int
    character_limit: int


def deepl(server: Server) -> APIRouter:
    """Return the endpoints of version 2 of DeepL's API, and the lists of version 3 that its clients
    request.
    """
    router = APIRouter(tags=["DeepL"])
    errors = answers(DeeplError, 400, 403, 404, 408, 413, 415, 429, 456, 503)
    CallRoutes(server, router).add(
        "/v2/translate", translate, TranslateParameters, answers(DeeplAnswer) | errors
    )
    errors = answers(DeeplError, 400, 403, 408, 413, 415)

    async def languages(request: Request) -> Response:
        """List the languages; of type source or target."""
        _, values, _ = await server.read(request, LanguagesParameters)
        side = parse(LanguagesParameters, values).type
        formality = False if side == "target" else None
        names = _names(server, side)
        return json_response(
            [DeeplLanguage(code, name, formality) for code, name in names.items()]
        )

    listed_languages = answers(list[DeeplLanguage]) | errors
    router.get(
        "/v2/languages", responses=listed_languages, operation_id="deepl_languages"
    )(languages)
    router.post(
        "/v2/languages",
        responses=listed_languages,
        operation_id="deepl_languages_by_post",
    )(languages)

    _add_documents(router, server)

    @router.get("/v2/usage", responses=answers(Usage) | errors)
    async def usage(request: Request) -> Response:
        """Report the characters that this client has had translated since the server was
        started.
        """
        client = server.client(request, {})
        quota = server.settings.character_quota or UNLIMITED
        return json_response(Usage(server.limits.used(client), quota))

    @router.get(
        "/v3/languages",
        responses=answers(list[LanguageOfResource]) | answers(DeeplError, 403),
    )
    async def languages_of_resource(request: Request) -> Response:
        """List the languages that texts can be translated from or to; none of other resources than
        translate_text.
        """
        server.client(request, {})
        if request.query_params.get("resource", "translate_text") != "translate_text":
            return json_response([])
        sources = _names(server, "source")
        targets = _names(server, "target")
        resource_languages = [
            LanguageOfResource(
                code, name, code in sources, code in targets, features={}
            )
            for code, name in sorted((sources | targets).items())
        ]
        return json_response(resource_languages)

    @router.get("/v2/glossary-language-pairs", include_in_schema=False)
    async def glossary_language_pairs() -> Response:
        return json_response({"supported_languages": []})

    @router.get("/v2/glossaries", include_in_schema=False)
    @router.get("/v3/glossaries", include_in_schema=False)
    async def glossaries() -> Response:
        return json_response({"glossaries": []})

    return router


def _add_documents(router: APIRouter, server: Server) -> None:
    """Add the endpoints of documents: upload, status and result."""
    errors = answers(DeeplError, *ERRORS[:-1], 404)
    CallRoutes(server, router).add(
        "/v2/document",
        upload_document,
        UploadParameters,
        answers(DocumentHandle) | errors,
        MULTIPART,
    )

    async def kept(request: Request) -> KeptDocument:
        """Return the document that a request is about."""
        client, values, _ = await server.read(request, DocumentKey)
        key = parse(DocumentKey, values).document_key
        return server.documents.get(request.path_params["id"], client, key)

    extra = body(DocumentKey) | path_parameter("id")

    @router.post(
        "/v2/document/{id}",
        responses=answers(DocumentStatus) | errors,
        openapi_extra=extra,
    )
    async def document_status(request: Request) -> Response:
        """Say how far a document is; the answer waits for a moment if it is not done."""
        document = await kept(request)
        if document.task is not None:
            await asyncio.wait([document.task], timeout=_STATUS_SECONDS)
        status = document.status
        billed = document.characters if status == "done" else None
        return json_response(
            DocumentStatus(document.id, status, billed, document.problem or None)
        )

    @router.post(
        "/v2/document/{id}/result", responses=FILE | errors, openapi_extra=extra
    )
    async def document_result(request: Request) -> Response:
        """Send a translated document, once; it is kept no longer."""
        document = await kept(request)
        end = BackgroundTask(server.documents.remove, document.id)
        return document_response(document, end)


async def upload_document(call: Call[UploadParameters]) -> Any:
    """Take a document to be translated. Its status says when it is done."""
    parameters = call.parameters
    _check_offered(parameters)
    _, _, suffix = (parameters.filename or parameters.file.name).rpartition(".")
    if parameters.output_format not in ("", suffix.lower()):
        raise bad_request(
            f"`output_format`: wanted {excerpt(suffix)}, as that of the document, got "
            f"{excerpt(parameters.output_format)}; leave it out"
        )
    document, work = await begin_document(
        call, parameters.languages, parameters.filename
    )
    start_document(call, document, work)
    return DocumentHandle(document.id, document.key)


async def translate(call: Call[TranslateParameters]) -> Any:
    """Translate texts, plain, HTML or XML. Wants the header `Authorization: DeepL-Auth-Key …` if
    keys are used.
    """
    parameters = call.parameters
    texts = listed(parameters.text)
    _check_offered(parameters)
    results = await call.translate(
        texts, parameters.languages, OWN_SEARCH, _text_format(parameters)
    )

    translations = []
    for text, result in zip(texts, results, strict=True):
        billed = len(text) if parameters.show_billed_characters else None
        translation = DeeplTranslation(result.source.upper(), result.text, billed)
        translations.append(translation)
    return DeeplAnswer(translations)


def _check_offered(parameters: _WantedTranslation) -> None:
    """Raise HttpError if parameters require what no model here offers; mere preferences are
    ignored.
    """
    formality = parameters.formality
    if formality in ("more", "less"):
        raise bad_request(
            f"`formality`: no model of this server can be {formality} formal; send "
            f"prefer_{formality} to take it as it comes"
        )
    if parameters.glossary_id or parameters.glossary_ids:
        number = parameters.glossary_id or parameters.glossary_ids[0]
        raise HttpError(
            404, f"there is no glossary {excerpt(number)}; this server has none yet"
        )
    causes = [
        f"`{name}` is not offered by this server; leave it out"
        for name in _REFUSED
        if getattr(parameters, name) is not None
    ]
    if causes:
        raise bad_request(*causes)


def _text_format(parameters: TranslateParameters) -> TextFormat:
    markup = MarkupOptions(
        splitting_tags=frozenset(parameters.splitting_tags),
        non_splitting_tags=frozenset(parameters.non_splitting_tags),
        ignore_tags=frozenset(parameters.ignore_tags),
        outline=parameters.outline_detection,
    )
    kind = parameters.tag_handling or "text"
    return TextFormat(kind, parameters.split_sentences, markup)


def _names(server: Server, side: Literal["source", "target"]) -> dict[str, str]:
    """Return the names of the source or target languages, by DeepL's codes."""
    pairs = server.pairs()
    codes = sorted(pairs.sources)
    if side == "target":
        codes = []
        for code in sorted(pairs.targets):
            codes.extend(VARIANTS.get(code, (code,)))
    return {code.upper(): language_name(code) for code in codes}
