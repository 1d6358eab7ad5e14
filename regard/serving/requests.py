"""Parameters of a request: query, form and JSON merged, then checked against a pydantic model, errors as sentences."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from json import scanner
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import pydantic
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field as FormField
from python_multipart.multipart import File, FormParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from regard.common.settings import TOKENS
from regard.serving.http_errors import ClientGone, HttpError, bad_request

MOST_FIELDS = 100
"""Fields of a form that are no texts, and names of a request."""
_FEW = 5
"""Wrong texts and unknown names that an error lists."""
_DIGITS = 30
"""Digits of a whole number in JSON: no parameter is as large, and Python takes quadratic time to read them."""
FORM, MULTIPART, JSON = "application/x-www-form-urlencoded", "multipart/form-data", "application/json"
CLOSE = {"Connection": "close"}  # so that the rest of a body need not be read

P = TypeVar("P", bound="Parameters")


class Parameters(pydantic.BaseModel):
    """Parameters of LibreTranslate and DeepL: forms send numbers as text, and clients send more than is documented."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())


class StrictParameters(Parameters):
    """Parameters of Regard's own API: JSON of the right types, and an unknown name is an error."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


def _check_texts(value: Any) -> Any:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(text, str) for text in value)):
        return value
    if isinstance(value, list):
        wrong = (f"text {n} is {excerpt(text)}" for n, text in enumerate(value, 1) if not isinstance(text, str))
        raise ValueError(f"{', '.join(islice(wrong, _FEW))}; give texts")
    raise ValueError(f"wanted a text or a list of texts, got {excerpt(value)}")


Texts = Annotated[str | list[str], pydantic.BeforeValidator(_check_texts)]
"""One text or several."""


def listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Read the body of a request, and no more than `limit` bytes of it.

    Raises HttpError: 413 if there is more, 408 if it takes longer than `seconds`. Raises ClientGone.
    """
    refusal = HttpError(413, f"the request has more than {limit:,} bytes; send less at once", headers=CLOSE)
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 20 or int(length) > limit):
        raise refusal
    body = bytearray()

    async def read() -> None:
        async for chunk in request.stream():
            body.extend(chunk)
            if len(body) > limit:
                raise refusal

    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise HttpError(408, f"the request was not received whole within {seconds:g} seconds", headers=CLOSE) from None
    except ClientDisconnect:
        raise ClientGone from None
    return bytes(body)


def request_values(request: Request, body: bytes, most_texts: int) -> dict[str, Any]:
    """Merge the parameters of query, form and JSON; if several have a name, the last of these has it.

    A name that a query or form repeats gets a list. Files of a form are bytes. Raises HttpError: 400 for what cannot be
    read, 415 for bodies of another kind.
    """
    most = most_texts + MOST_FIELDS
    values = _grouped(_urlencoded(request.scope.get("query_string", b""), "query", most))
    if not body:
        return values
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpError(415, "compressed requests are not read; send the body as it is, without Content-Encoding")
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    media = kind.decode("latin-1").strip().lower()
    if media == JSON or (media.startswith("application/") and media.endswith("+json")):
        return values | parse_json_object(body, most + TOKENS)
    if media == FORM:
        return values | _grouped(_urlencoded(body, "form", most))
    if media == MULTIPART:
        return values | _grouped(_multipart(body, options.get(b"boundary", b""), most))
    raise HttpError(415, f"Content-Type {excerpt(media)}: wanted {JSON}, {FORM} or {MULTIPART}")


def parse(kind: type[P], values: dict[str, Any]) -> P:
    """Check values against a model. Raises HttpError (400) with a sentence for each that is wrong."""
    if len(values) > MOST_FIELDS:
        raise bad_request(f"the request has {len(values):,} names, more than {MOST_FIELDS}; send known parameters only")
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as problem:
        raise bad_request(*_sentences(kind, problem)) from None


class _JsonReader(json.JSONDecoder):
    """Reads JSON value by value in Python, so that other threads go on meanwhile, and no more than `most` values."""

    parse_array: Any
    parse_object: Any

    def __init__(self, most: int) -> None:
        super().__init__(object_pairs_hook=_unique, parse_constant=_no_number, parse_int=_whole_number)
        array, an_object, numbers = self.parse_array, self.parse_object, iter(range(most))

        def counted(scan: Callable[..., Any], *place: Any) -> Any:
            if next(numbers, None) is None:
                raise ValueError(f"it has more than {most:,} values; send fewer texts at once")
            return scan(*place)

        self.parse_array = lambda start, scan: array(start, partial(counted, scan))
        self.parse_object = lambda start, strict, scan, *rest: an_object(start, strict, partial(counted, scan), *rest)
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def parse_json_object(body: bytes, most: int) -> dict[str, Any]:
    """Parse a JSON object. Raises HttpError (400): no JSON, not UTF-8, halves of characters, names given twice."""
    try:
        text = body.decode("utf-8-sig")
        values = _JsonReader(most).decode(text)
    except UnicodeDecodeError as problem:
        raise bad_request(f"the JSON is not UTF-8 at byte {problem.start}; send it in UTF-8") from None
    except json.JSONDecodeError as problem:
        raise bad_request(
            f"no valid JSON at line {problem.lineno}, column {problem.colno}: {problem.msg[0].lower()}{problem.msg[1:]}"
        ) from None
    except RecursionError:
        raise bad_request("the JSON is nested too deeply; send one object of texts, numbers and lists") from None
    except ValueError as problem:  # of the functions below
        raise bad_request(f"the JSON cannot be read: {problem}") from None
    if not isinstance(values, dict):
        raise bad_request(f'wanted a JSON object, as {{"name": …}}, got {excerpt(values)}')
    if re.search(rb"\\u[dD]", body):
        try:
            json.dumps(values, ensure_ascii=False).encode()
        except UnicodeEncodeError as problem:
            half = ord(problem.object[problem.start])
            raise bad_request(f"a text has half of a character, \\u{half:04x}, which UTF-8 cannot hold") from None
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"it has {excerpt(name)} twice")
    return values


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits, more than {_DIGITS}")
    return int(digits)


def _urlencoded(data: bytes, where: str, most: int) -> list[tuple[str, str]]:
    try:
        return parse_qsl(data.decode(), keep_blank_values=True, errors="strict", max_num_fields=most)
    except UnicodeDecodeError:
        raise bad_request(f"the {where} is not UTF-8; send it in UTF-8") from None
    except ValueError:
        raise bad_request(f"the {where} has more than {most:,} fields; send fewer texts at once") from None


def _multipart(body: bytes, boundary: bytes, most: int) -> list[tuple[str, Any]]:
    """Return the fields of a form in parts: texts, and bytes of files, which stay in memory."""
    fields: list[tuple[str, Any]] = []

    def add(name: bytes | None, value: Any) -> None:
        fields.append(((name or b"").decode(), value))
        if len(fields) > most:
            raise bad_request(f"the form has more than {most:,} fields; send fewer texts at once")

    def add_text(field: FormField) -> None:
        add(field.field_name, (field.value or b"").decode())

    def add_file(file: File) -> None:
        file.file_object.seek(0)
        add(file.field_name, file.file_object.read())

    if not boundary:
        raise bad_request("the form has no boundary in its Content-Type")
    try:
        parser = FormParser(
            MULTIPART, add_text, add_file, boundary=boundary, config={"MAX_MEMORY_FILE_SIZE": len(body) + 1}
        )
        parser.write(body)
        parser.finalize()
    except UnicodeDecodeError:
        raise bad_request("the form is not UTF-8; send it in UTF-8") from None
    except FormParserError as problem:
        raise bad_request(f"the form is damaged: {problem}") from None
    return fields


def _grouped(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    lists = dict[str, list[Any]]()
    for name, value in fields:
        lists.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in lists.items()}


def _sentences(kind: type[Parameters], problem: pydantic.ValidationError) -> list[str]:
    """Return a sentence for each parameter that is wrong."""
    known = [field.alias or name for name, field in kind.model_fields.items()]
    sentences = dict[str, str]()  # a union reports each of its kinds
    for error in problem.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            close = difflib.get_close_matches(name[:50], known, 1)
            are_named = any("; there are: " in sentence for sentence in sentences.values())
            names = "" if are_named else f"; there are: {', '.join(known)}"
            sentence = f"unknown parameter {excerpt(name)}" + (f"; did you mean `{close[0]}`?" if close else names)
        elif error["type"] == "missing":
            sentence = f"`{name}` is missing"
        elif error["type"] == "value_error":
            sentence = f"`{name}`: {message}" if name else message
        else:
            sentence = f"`{name}`: {message[0].lower()}{message[1:]}, got {excerpt(error['input'])}"
        sentences.setdefault(name, sentence)
    return list(sentences.values())[:20]


def excerpt(value: Any) -> str:
    """Return how a value is written, shortened."""
    if isinstance(value, bytes):
        return f"a file of {len(value):,} bytes"
    if isinstance(value, (list, dict)):
        kind = "a list" if isinstance(value, list) else "an object"
        return f"{kind} of {len(value):,}" if value else f"an empty {kind.split()[1]}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"
