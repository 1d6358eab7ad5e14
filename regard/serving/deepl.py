"""The endpoints of DeepL's API that its own clients call, by its documented behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from regard.serving.calls import Call, CallRoutes, Server
from regard.serving.http_errors import HttpError, bad_request, json_response
from regard.serving.language_names import language_name
from regard.serving.language_pairs import AUTO
from regard.serving.openapi import answers, example
from regard.serving.requests import Parameters, Texts, excerpt, listed, parse
from regard.serving.service import OWN_SEARCH, Answer
from regard.text.markup.elements import MarkupOptions
from regard.text.text_format import TextFormat

UNLIMITED = 1_000_000_000_000
"""The limit of characters that DeepL reports for accounts without one."""
VARIANTS = {"en": ("en-GB", "en-US"), "pt": ("pt-BR", "pt-PT")}
"""Targets that DeepL's clients take only with a region; one model serves both."""
_MOST_TAGS = 10_000
"""Characters of all tags of a parameter together; every element of a text is looked up among
them.
"""
_REFUSED = ("style_id", "translation_memory_id", "custom_instructions")


class DeeplError(Answer, frozen=True):
    """An error."""

    message: str


def _tags(value: Any) -> Any:
    """Split tags that come as one text with commas, as several of them, or as a list."""
    tags = [value] if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(
            f"wanted names of tags, with commas or as a list, got {excerpt(value)}"
        )
    if (size := sum(map(len, tags))) > _MOST_TAGS:
        raise ValueError(f"wanted at most {_MOST_TAGS:,} characters, got {size:,}")
    return [tag.strip() for text in tags for tag in text.split(",") if tag.strip()]


def _written(value: Any) -> Any:
    """Take the numbers 0 and 1 for the texts."""
    return str(int(value)) if isinstance(value, (bool, int)) else value


Tags = Annotated[list[str], pydantic.BeforeValidator(_tags)]


class TranslateParameters(Parameters):
    """Parameters of /v2/translate; `text` is repeated in a form, and a list in JSON."""

    model_config = example(
        text=["나는 빵을 먹는다."], source_lang="KO", target_lang="EN-GB"
    )
    text: Texts
    target_lang: str
    source_lang: str = ""
    context: str = ""
    show_billed_characters: bool = False
    split_sentences: Annotated[
        Literal["0", "1", "nonewlines"], pydantic.BeforeValidator(_written)
    ] = "1"
    preserve_formatting: bool = False
    formality: Literal["", "default", "prefer_more", "prefer_less", "more", "less"] = (
        "default"
    )
    model_type: Literal[
        "quality_optimized", "latency_optimized", "prefer_quality_optimized"
    ] = "latency_optimized"
    glossary_id: str = ""
    glossary_ids: Tags = pydantic.Field(default_factory=list)
    tag_handling: Literal["", "html", "xml"] = ""
    outline_detection: bool = True
    ignore_tags: Tags = pydantic.Field(default_factory=list)
    splitting_tags: Tags = pydantic.Field(default_factory=list)
    non_splitting_tags: Tags = pydantic.Field(default_factory=list)
    style_id: Any = None
    translation_memory_id: Any = None
    custom_instructions: Any = None


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
    """Return the endpoints of version 2 of DeepL's API, and those lists that its clients ask of
    version 3.
    """
    router = APIRouter(tags=["DeepL"])
    known = answers(DeeplError, 400, 403, 404, 408, 413, 415, 429, 456, 503)
    CallRoutes(server, router).add(
        "/v2/translate", translate, TranslateParameters, answers(DeeplAnswer) | known
    )
    known = answers(DeeplError, 400, 403, 408, 413, 415)

    async def languages(request: Request) -> Response:
        """List the languages; of type source or target."""
        _, values, _ = await server.read(request, LanguagesParameters)
        side = parse(LanguagesParameters, values).type
        formality = False if side == "target" else None
        return json_response(
            [DeeplLanguage(*item, formality) for item in _names(server, side).items()]
        )

    listed_languages = answers(list[DeeplLanguage]) | known
    router.get(
        "/v2/languages", responses=listed_languages, operation_id="deepl_languages"
    )(languages)
    router.post(
        "/v2/languages",
        responses=listed_languages,
        operation_id="deepl_languages_by_post",
    )(languages)

    @router.get("/v2/usage", responses=answers(Usage) | known)
    async def usage(request: Request) -> Response:
        """Report the characters that this client has had translated since the server was
        started.
        """
        client = server.client(request, {})
        return json_response(
            Usage(
                server.limits.used(client), server.settings.character_quota or UNLIMITED
            )
        )

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
        names = sorted((sources | targets).items())
        return json_response(
            [
                LanguageOfResource(
                    code, name, code in sources, code in targets, features={}
                )
                for code, name in names
            ]
        )

    @router.get("/v2/glossary-language-pairs", include_in_schema=False)
    async def glossary_language_pairs() -> Response:
        return json_response({"supported_languages": []})

    @router.get("/v2/glossaries", include_in_schema=False)
    @router.get("/v3/glossaries", include_in_schema=False)
    async def glossaries() -> Response:
        return json_response({"glossaries": []})

    return router


async def translate(call: Call[TranslateParameters]) -> Any:
    """Translate texts, plain, HTML or XML. Wants the header `Authorization: DeepL-Auth-Key …` if
    keys are used.
    """
    asked = call.parameters
    texts = listed(call.parameters.text)
    _refuse(asked)
    results = await call.translate(
        texts,
        (asked.source_lang or AUTO, asked.target_lang),
        OWN_SEARCH,
        _layout(asked),
    )
    return DeeplAnswer(
        [
            DeeplTranslation(
                result.source.upper(),
                result.text,
                len(text) if asked.show_billed_characters else None,
            )
            for text, result in zip(texts, results, strict=True)
        ]
    )


def _refuse(asked: TranslateParameters) -> None:
    """Raise HttpError for wishes that no model here can fulfil; those that only prefer something
    are passed over.
    """
    if asked.formality in ("more", "less"):
        raise bad_request(
            f"`formality`: no model of this server can be {asked.formality} formal; send "
            f"prefer_{asked.formality} to take it as it comes"
        )
    if asked.glossary_id or asked.glossary_ids:
        number = asked.glossary_id or asked.glossary_ids[0]
        raise HttpError(
            404, f"there is no glossary {excerpt(number)}; this server has none yet"
        )
    refused = [name for name in _REFUSED if getattr(asked, name) is not None]
    if refused:
        raise bad_request(
            *(
                f"`{name}` is not offered by this server; leave it out"
                for name in refused
            )
        )


def _layout(asked: TranslateParameters) -> TextFormat:
    markup = MarkupOptions(
        splitting_tags=frozenset(asked.splitting_tags),
        non_splitting_tags=frozenset(asked.non_splitting_tags),
        ignore_tags=frozenset(asked.ignore_tags),
        outline=asked.outline_detection,
    )
    return TextFormat(asked.tag_handling or "text", asked.split_sentences, markup)


def _names(server: Server, side: Literal["source", "target"]) -> dict[str, str]:
    """Return the names of the languages that can be translated from or to, by DeepL's codes."""
    pairs = server.pairs()
    codes = sorted(pairs.sources)
    if side == "target":
        codes = [
            variant
            for code in sorted(pairs.targets)
            for variant in VARIANTS.get(code, (code,))
        ]
    return {code.upper(): language_name(code) for code in codes}
