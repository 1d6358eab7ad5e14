"""Parse the parameters of a request: merge query, form and JSON, and validate them with a pydantic
model.

msgspec parses JSON into a flat structure with the known names; it skips or refuses all others
without building objects. Starlette parses multipart forms.
"""

from __future__ import annotations

import asyncio
import codecs
import difflib
import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import parse_qsl

import anyio
import msgspec
import pydantic
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from regard.common.settings import TOKENS
from regard.serving.http_errors import CLIENT_GONE, HttpError, bad_request

MOST_FIELDS = 100
"""Maximum number of names of a request, and most fields of a form besides its texts."""
_LONG_FORM = 10_000
"""Bytes above which a form is parsed in a thread."""
_MOST_MEDIA_CHARACTERS = 500
"""Characters of the media type of a multipart form, which Starlette parses in quadratic time."""
_LISTED_TEXTS = 5
"""Maximum number of wrong texts that an error lists."""
_LISTED_PARAMETERS = 20
"""Maximum number of wrong parameters that an error lists."""
_LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
JSON = "application/json"
CLOSE = {"Connection": "close"}  # so that the rest of a body need not be read
KEYS = ("api_key", "apiKey")
"""Names of the parameter that holds the API key."""

P = TypeVar("P", bound="Parameters")
_Value = None | bool | int | float | str


class Parameters(pydantic.BaseModel):
    """Parameters of LibreTranslate and DeepL.

    Validation is lenient: forms send numbers as text, and clients send undocumented parameters.
    `IS_DOCUMENT`: a document is among them, whose limits hold.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=()
    )
    IS_DOCUMENT: ClassVar[bool] = False


class StrictParameters(Parameters):
    """Parameters of Regard's own API, which must have the right JSON types and known names."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


def _check_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError(f"wanted a text or a list of texts, got {excerpt(value)}")
    causes = (
        f"text {number} is {excerpt(text)}"
        for number, text in enumerate(value, 1)
        if not isinstance(text, str)
    )
    listed_causes = list(islice(causes, _LISTED_TEXTS))
    if listed_causes:
        raise ValueError(f"{', '.join(listed_causes)}; give texts")
    return value


Texts = Annotated[str | list[str], pydantic.BeforeValidator(_check_texts)]
"""One text or several."""


class FileBytes(bytes):
    """The bytes of a file of a form; `name` is that which the client gives it."""

    name = ""


def _check_file(value: Any) -> FileBytes:
    if isinstance(value, FileBytes):
        return value
    raise ValueError(f"wanted a file of a form ({MULTIPART}), got {excerpt(value)}")


class DocumentParameters(Parameters):
    """Parameters of a document to translate. `column`: that of a table."""

    IS_DOCUMENT: ClassVar[bool] = True
    file: Annotated[
        Any,
        pydantic.PlainValidator(_check_file),
        pydantic.WithJsonSchema({"type": "string", "format": "binary"}),
    ]
    column: str = ""


def listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Read the body of a request, which may have at most `limit` bytes.

    Raises HttpError: 413 if the body is larger, 408 if it takes longer than `seconds`, 499 if the
    client has disconnected.
    """
    refusal = HttpError(
        413,
        f"the request has more than {limit:,} bytes; send less at once",
        headers=CLOSE,
    )
    # h11 has validated that the length is a number.
    if int(request.headers.get("content-length", 0)) > limit:
        raise refusal
    body = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for chunk in request.stream():
                body.extend(chunk)
                if len(body) > limit:
                    raise refusal
    except TimeoutError:
        raise HttpError(
            408,
            f"the request was not received whole within {seconds:g} seconds",
            headers=CLOSE,
        ) from None
    except ClientDisconnect:
        raise HttpError(CLIENT_GONE, "the client has closed the connection") from None
    return bytes(body)


async def request_values(
    request: Request, body: bytes, kind: type[Parameters], most_texts: int
) -> dict[str, Any]:
    """Merge the parameters of the query with those of the body, which take precedence.

    If a query or form repeats a name, its value is a list. Files of a form are bytes. Raises
    HttpError: 400 if a part cannot be parsed, 415 if the body has an unsupported media type.
    """
    most = most_texts + MOST_FIELDS
    query = request.scope.get("query_string", b"")
    values = await _urlencoded(query, "query", most) if query else {}
    if not body:
        return values
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpError(
            415,
            "compressed requests are not read; send the body as it is, without Content-Encoding",
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == JSON or (media.startswith("application/") and media.endswith("+json")):
        return values | parse_json_object(body, kind, most + TOKENS)
    if media == FORM:
        return values | await _urlencoded(body, "form", most)
    if media == MULTIPART:
        return values | await _multipart(request, body, most)
    raise HttpError(
        415, f"Content-Type {excerpt(media)}: wanted {JSON}, {FORM} or {MULTIPART}"
    )


def parse(kind: type[P], values: dict[str, Any]) -> P:
    """Validate parameters. Raises HttpError (400) with a sentence for each wrong one."""
    if len(values) > MOST_FIELDS:
        raise bad_request(
            f"the request has {len(values):,} names, more than {MOST_FIELDS}; send known "
            "parameters only"
        )
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as problem:
        raise bad_request(*_sentences(kind, problem)) from None


def parse_json_object(body: bytes, kind: type[Parameters], most: int) -> dict[str, Any]:
    """Parse a JSON object with the names of a pydantic model.

    `most`: the most values of a list. Raises HttpError (400) with a sentence about the error.
    """
    try:
        values = _decoder(kind, most).decode(body.removeprefix(codecs.BOM_UTF8))
    except UnicodeDecodeError:
        raise bad_request("the JSON is not UTF-8; send it in UTF-8") from None
    except RecursionError:
        raise bad_request(
            "the JSON is nested too deeply; send one object of texts, numbers and lists"
        ) from None
    except msgspec.ValidationError as problem:
        raise bad_request(_json_sentence(kind, str(problem), most)) from None
    except msgspec.DecodeError as problem:
        if match := _LONE_SURROGATE.search(body):
            raise bad_request(
                f"a text has half of a character, {match[0].decode()}, which UTF-8 cannot hold"
            ) from None
        message = str(problem).removeprefix("JSON is malformed: ")
        raise bad_request(f"no valid JSON: {message[0].lower()}{message[1:]}") from None
    parameters: dict[str, Any] = msgspec.to_builtins(values)
    return parameters


@lru_cache
def _decoder(kind: type[Parameters], most: int) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a pydantic model: its values are scalars, or lists of at most
    `most` scalars.
    """
    value = (
        _Value
        | Annotated[list[_Value], msgspec.Meta(max_length=most)]
        | msgspec.UnsetType
    )
    names = dict.fromkeys((*kind.model_fields, *KEYS))
    forbids = kind.model_config.get("extra") == "forbid"
    fields = [(name, value, msgspec.UNSET) for name in names]
    return msgspec.json.Decoder(
        msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=forbids)
    )


async def _urlencoded(data: bytes, part: str, most: int) -> dict[str, Any]:
    def decode() -> list[tuple[str, str]]:
        return parse_qsl(
            data.decode(), keep_blank_values=True, errors="strict", max_num_fields=most
        )

    try:
        is_long = len(data) > _LONG_FORM
        fields = await asyncio.to_thread(decode) if is_long else decode()
        return _grouped(fields)
    except UnicodeDecodeError:
        raise bad_request(f"the {part} is not UTF-8; send it in UTF-8") from None
    except ValueError:
        raise bad_request(
            f"the {part} has more than {most:,} fields; send fewer texts at once"
        ) from None


class _InMemoryParser(MultiPartParser):
    """Starlette's parser of multipart forms, which must not write large files to the disk."""

    spool_max_size = 0


async def _multipart(request: Request, body: bytes, most: int) -> dict[str, Any]:
    """Parse a multipart form in UTF-8.

    Starlette would accept any codec, some of which need quadratic time, and would decode bytes that
    are invalid in that codec as Latin-1.
    """
    media = request.headers["content-type"]
    if len(media) > _MOST_MEDIA_CHARACTERS:
        raise HttpError(
            415,
            f"Content-Type has {len(media):,} characters; send at most "
            f"{_MOST_MEDIA_CHARACTERS}",
        )
    if "charset" in media.lower().replace('"', "").replace("charset=utf-8", ""):
        raise HttpError(415, "the form is not UTF-8; send it in UTF-8")

    if b"filename=" in body and not body.rstrip().endswith(b"--"):
        # Starlette would leave an incomplete file out, and not close it.
        raise bad_request(
            "the form has no end, so its file is not whole; send it again"
        )

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    limits = {"max_fields": most, "max_files": 1, "max_part_size": len(body)}
    try:
        form = await _InMemoryParser(request.headers, stream(), **limits).parse()
    except MultiPartException as problem:
        raise bad_request(f"the form cannot be read: {problem.message}") from None

    has_file = False
    fields = list[tuple[str, Any]]()
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            has_file = True
            content = FileBytes(await value.read())
            content.name = value.filename or ""
            fields.append((name, content))
        else:
            fields.append((name, value))
    await form.close()

    try:
        if not has_file:
            body.decode()
    except UnicodeDecodeError:
        raise bad_request("the form is not UTF-8; send it in UTF-8") from None
    return _grouped(fields)


def _grouped(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the value of each name, as a list if the name is repeated."""
    lists = dict[str, list[Any]]()
    for name, value in fields:
        lists.setdefault(name, []).append(value)
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in lists.items()
    }


def _sentences(kind: type[Parameters], problem: pydantic.ValidationError) -> list[str]:
    """Return a sentence for each wrong parameter."""
    # By name, since pydantic reports an error for each member of a union.
    sentences = dict[str, str]()
    unknown = list[str]()
    for error in problem.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            unknown.append(name)
            continue
        if error["type"] == "missing":
            sentence = f"`{name}` is missing"
        elif error["type"] == "value_error":
            sentence = f"`{name}`: {message}" if name else message
        else:
            sentence = f"`{name}`: {message[0].lower()}{message[1:]}, got {excerpt(error['input'])}"
        sentences.setdefault(name, sentence)
    return [*sentences.values(), *_unknown_names(kind, unknown)][:_LISTED_PARAMETERS]


def _json_sentence(kind: type[Parameters], message: str, most: int) -> str:
    """Reword an error message of msgspec, which names Python's types."""
    cause, _, name = message.removesuffix("`").partition(" - at `$.")
    if match := re.fullmatch("Object contains unknown field `(.*)", cause, re.DOTALL):
        return _unknown_names(kind, [match[1]])[0]

    match = re.search(r"got `(\w+)", cause)
    got = match[1] if match else ""
    if not name:
        return f'wanted a JSON object, as {{"name": …}}, got {got or cause}'
    if "of length" in cause:
        return f"`{name}` has more than {most:,} values; send fewer texts at once"
    if got:
        cause = f"wanted a text, a number or a list of these, got an {got}"
    return f"`{name}`: {cause[0].lower()}{cause[1:]}"


def _unknown_names(kind: type[Parameters], names: Sequence[str]) -> list[str]:
    """Return a sentence for each unknown name that is similar to a parameter, and one for all
    others.
    """
    parameters = list(kind.model_fields)
    sentences = list[str]()
    others = list[str]()
    for name in names[:_LISTED_PARAMETERS]:
        if matches := difflib.get_close_matches(name[:50], parameters, 1):
            sentences.append(
                f"unknown parameter {excerpt(name)}; did you mean `{matches[0]}`?"
            )
        else:
            others.append(excerpt(name))
    if others:
        noun = "parameter" if len(others) == 1 else "parameters"
        sentences.append(
            f"unknown {noun} {', '.join(others)}; there are: {', '.join(parameters)}"
        )
    return sentences


def excerpt(value: Any) -> str:
    """Return a shortened representation of a value for messages."""
    if isinstance(value, bytes):
        return f"a file of {len(value):,} bytes"
    if isinstance(value, list):
        return f"a list of {len(value):,}" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"
