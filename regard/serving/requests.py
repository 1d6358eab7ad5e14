"""Parameters of a request: query, form and JSON merged, then checked against a pydantic model,
errors as sentences.

JSON is read by msgspec into a structure of the known names: what else is sent is passed over in the
time it takes to read it, or refused at once, and nothing is nested. Forms in parts are read by
Starlette.
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
from typing import Annotated, Any, TypeVar
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
"""Fields of a form that are no texts, and names of a request."""
_LONG_FORM = 10_000
"""Bytes of a form from which on it is read in a thread."""
_MEDIA = 500
"""Characters of the media type of a form in parts, which is read in quadratic time."""
_FEW, _NAMED = 5, 20
"""Wrong texts that an error lists, and wrong parameters."""
_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
JSON = "application/json"
CLOSE = {"Connection": "close"}  # so that the rest of a body need not be read
KEYS = ("api_key", "apiKey")
"""Names that a key may have among the parameters."""

P = TypeVar("P", bound="Parameters")
_Value = None | bool | int | float | str


class Parameters(pydantic.BaseModel):
    """Parameters of LibreTranslate and DeepL: forms send numbers as text, and clients send more
    than is documented.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=()
    )


class StrictParameters(Parameters):
    """Parameters of Regard's own API: JSON of the right types, and an unknown name is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


def _check_texts(value: Any) -> Any:
    if isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(text, str) for text in value)
    ):
        return value
    if isinstance(value, list):
        wrong = (
            f"text {n} is {excerpt(text)}"
            for n, text in enumerate(value, 1)
            if not isinstance(text, str)
        )
        raise ValueError(f"{', '.join(islice(wrong, _FEW))}; give texts")
    raise ValueError(f"wanted a text or a list of texts, got {excerpt(value)}")


Texts = Annotated[str | list[str], pydantic.BeforeValidator(_check_texts)]
"""One text or several."""


def listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Read the body of a request, and no more than `limit` bytes of it.

    Raises HttpError: 413 if there is more, 408 if it takes longer than `seconds`, 499 if the client
    is gone.
    """
    refusal = HttpError(
        413,
        f"the request has more than {limit:,} bytes; send less at once",
        headers=CLOSE,
    )
    # H11 has checked that it is a number.
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
    """Merge the parameters of query, form and JSON; if several have a name, the last of these has
    it.

    A name that a query or form repeats gets a list. Files of a form are bytes. Raises HttpError:
    400 for what cannot be read, 415 for bodies of another kind.
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
    """Check values against a model. Raises HttpError (400) with a sentence for each that is
    wrong.
    """
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
    """Parse a JSON object of the names of a model. Raises HttpError (400) with a sentence that says
    what is wrong.
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
        if half := _HALF.search(body):
            raise bad_request(
                f"a text has half of a character, {half[0].decode()}, which UTF-8 cannot hold"
            ) from None
        message = str(problem).removeprefix("JSON is malformed: ")
        raise bad_request(f"no valid JSON: {message[0].lower()}{message[1:]}") from None
    present: dict[str, Any] = msgspec.to_builtins(values)
    return present


@lru_cache
def _decoder(kind: type[Parameters], most: int) -> msgspec.json.Decoder[Any]:
    """Return the reader of the JSON of a model: single values, and lists of no more than `most`."""
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


async def _urlencoded(data: bytes, where: str, most: int) -> dict[str, Any]:
    def read() -> list[tuple[str, str]]:
        return parse_qsl(
            data.decode(), keep_blank_values=True, errors="strict", max_num_fields=most
        )

    try:
        return _grouped(
            await asyncio.to_thread(read) if len(data) > _LONG_FORM else read()
        )
    except UnicodeDecodeError:
        raise bad_request(f"the {where} is not UTF-8; send it in UTF-8") from None
    except ValueError:
        raise bad_request(
            f"the {where} has more than {most:,} fields; send fewer texts at once"
        ) from None


class _InMemory(MultiPartParser):
    """Starlette's reader of forms in parts, which would else write files above a size to the
    disk.
    """

    spool_max_size = 0


async def _multipart(request: Request, body: bytes, most: int) -> dict[str, Any]:
    """Read a form in parts, in UTF-8 alone: Starlette would take any codec, some of which need
    quadratic time.

    What is not of that codec it takes for Latin-1, which would be wrong.
    """
    media = request.headers["content-type"]
    if len(media) > _MEDIA:
        raise HttpError(
            415, f"Content-Type has {len(media):,} characters; send at most {_MEDIA}"
        )
    if "charset" in media.lower().replace('"', "").replace("charset=utf-8", ""):
        raise HttpError(415, "the form is not UTF-8; send it in UTF-8")

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    limits = {"max_fields": most, "max_files": 1, "max_part_size": len(body)}
    try:
        form = await _InMemory(request.headers, stream(), **limits).parse()
    except MultiPartException as problem:
        raise bad_request(f"the form cannot be read: {problem.message}") from None
    fields = [
        (name, await value.read() if isinstance(value, UploadFile) else value)
        for name, value in form.multi_items()
    ]
    await form.close()
    try:
        _ = any(isinstance(value, bytes) for _, value in fields) or body.decode()
    except UnicodeDecodeError:
        raise bad_request("the form is not UTF-8; send it in UTF-8") from None
    return _grouped(fields)


def _grouped(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    lists = dict[str, list[Any]]()
    for name, value in fields:
        lists.setdefault(name, []).append(value)
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in lists.items()
    }


def _sentences(kind: type[Parameters], problem: pydantic.ValidationError) -> list[str]:
    """Return a sentence for each parameter that is wrong."""
    sentences = dict[str, str]()  # a union reports each of its kinds
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
    return [*sentences.values(), *_unknown(kind, unknown)][:_NAMED]


def _json_sentence(kind: type[Parameters], message: str, most: int) -> str:
    """Return what msgspec says in the words of the others: it names Python's types."""
    what, _, place = message.removesuffix("`").partition(" - at `$.")
    if match := re.fullmatch("Object contains unknown field `(.*)", what, re.DOTALL):
        return _unknown(kind, [match[1]])[0]
    got = re.search(r"got `(\w+)", what)
    if not place:
        return f'wanted a JSON object, as {{"name": …}}, got {got[1] if got else what}'
    if "of length" in what:
        return f"`{place}` has more than {most:,} values; send fewer texts at once"
    what = (
        f"wanted a text, a number or a list of these, got an {got[1]}" if got else what
    )
    return f"`{place}`: {what[0].lower()}{what[1:]}"


def _unknown(kind: type[Parameters], names: Sequence[str]) -> list[str]:
    """Return a sentence for each unknown name that is like a known one, and one for all others."""
    known = list(kind.model_fields)
    sentences = list[str]()
    others = list[str]()
    for name in names[:_NAMED]:
        if close := difflib.get_close_matches(name[:50], known, 1):
            sentences.append(
                f"unknown parameter {excerpt(name)}; did you mean `{close[0]}`?"
            )
        else:
            others.append(excerpt(name))
    if others:
        noun = "parameter" if len(others) == 1 else "parameters"
        sentences.append(
            f"unknown {noun} {', '.join(others)}; there are: {', '.join(known)}"
        )
    return sentences


def excerpt(value: Any) -> str:
    """Return how a value is written, shortened."""
    if isinstance(value, bytes):
        return f"a file of {len(value):,} bytes"
    if isinstance(value, list):
        return f"a list of {len(value):,}" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"
