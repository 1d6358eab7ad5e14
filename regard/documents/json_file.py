"""JSON files of strings: nested keys, i18next, ARB, and messages with descriptions, such as those
of browser extensions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    EditedText,
    value_slot,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.key_values import (
    LAST,
    QUOTED,
    TOO_DEEP,
    Escapes,
    joined_path,
    key_values,
)

_TOKEN = lazy_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_LIMIT = lazy_pattern(r"[0-9]{1,9}")
_LOCALE = ("@@locale",)
_MESSAGE_KEYS = {
    *("message", "description", "placeholders", "hash", "id", "defaultMessage"),
    *("string", "developer_comment", "character_limit", "context"),
}
Path = tuple[str, ...]


class _Scalar(NamedTuple):
    """A string or the like between two offsets of a file."""

    start: int
    end: int
    text: str
    is_string: bool


class _Flavour(NamedTuple):
    """Kind of file: the dialect of its texts, and the keys of a text, its description and its limit
    in the object of an entry; the description may be in an entry whose key begins with a `sign`.
    """

    text: str
    dialect: str
    comment: str = "description"
    limit: str = ""
    sign: str = ""


_ARB = _Flavour("", "icu", sign="@")
_FLAVOURS = (
    _Flavour("message", "webextension"),  # browser extensions
    _Flavour("defaultMessage", "icu"),  # FormatJS
    _Flavour("string", "icu", "developer_comment", "character_limit"),  # Transifex
)


def read_json(data: bytes, name: str, options: DocumentOptions) -> EditedText:
    """Read a file of JSON. Raises DataError for one that is no JSON, or has a key twice."""
    source = decode_file(data, name)
    text = source.text
    scalars = _scalars(source)
    is_ascii = text.isascii() and "\\u" in text
    escapes = Escapes.of(text, "\x7f" if is_ascii else LAST, QUOTED)
    slots = [
        value_slot(scalar.start + 1, scalar.end - 1, value, escapes.write)
        for scalar, value in _texts(scalars, name)
    ]
    locale = scalars.get(_LOCALE)
    bounds = None
    if locale and locale.is_string:
        bounds = (locale.start + 1, locale.end - 1)
    return key_values(source, slots, options, bounds, separator="_")


def _texts(
    scalars: Mapping[Path, _Scalar], name: str
) -> Iterator[tuple[_Scalar, DocumentText]]:
    """Yield the strings that may be language, in the dialect of their flavour."""
    is_arb = _LOCALE in scalars or name.lower().endswith(".arb")
    flavour = _ARB if is_arb else _flavour_of(scalars)

    def at(*path: str) -> str:
        return scalars[path].text if path in scalars else ""

    for path, scalar in scalars.items():
        key = path[0] if path else ""
        is_about = key[:1] == "@" and (is_arb or len(path) > 1)
        if not scalar.is_string or is_about or key == "$schema":
            continue
        if flavour is None:
            yield scalar, DocumentText(scalar.text, f"key {joined_path(path)}")
        elif path[1:] in ((flavour.text,), ()):
            limit = at(key, flavour.limit)
            text = DocumentText(
                scalar.text,
                f"key {key}",
                flavour.dialect,
                int(limit) if _LIMIT.fullmatch(limit) else None,
                at(f"{flavour.sign}{key}", flavour.comment),
            )
            yield scalar, text


def _flavour_of(scalars: Mapping[Path, _Scalar]) -> _Flavour | None:
    """Return the flavour that all entries of a file have the keys of."""
    keys = {path[1] for path in scalars if len(path) > 1} if all(scalars) else set()
    entries = {path[0] for path in scalars if path and path != ("$schema",)}
    for flavour in _FLAVOURS:
        texts = {path[0] for path in scalars if path[1:] == (flavour.text,)}
        if texts and texts == entries and keys <= _MESSAGE_KEYS:
            return flavour
    return None


def _scalars(source: EncodedText) -> dict[Path, _Scalar]:
    """Return the strings, numbers and the like of a file by their paths."""
    _check(source)
    scalars = dict[Path, _Scalar]()
    levels = list[str | int | None]()  # the key or number of each, None before a key
    keys = set[tuple[str | int | None, ...]]()
    for match in _TOKEN.finditer(source.text):
        token = match[0]
        is_string = token[0] == '"'
        if token in ("{", "["):
            levels.append(None if token == "{" else 0)
        elif token in ("}", "]"):
            levels.pop()
        elif token == ",":
            number = levels[-1]
            levels[-1] = number + 1 if isinstance(number, int) else None
        elif is_string and levels and levels[-1] is None:
            levels[-1] = json.loads(token)
            if tuple(levels) in keys:
                problem = (
                    f"the key {levels[-1]!r} stands twice in one object, and programs read only "
                    "one; take the other away"
                )
                raise source.refused(match.start(), problem)
            keys.add(tuple(levels))
        elif token.lstrip("-") in ("NaN", "Infinity"):
            cause = f"no JSON: {token} is no number of it; write null"
            raise source.refused(match.start(), cause)
        elif token != ":":
            value = json.loads(token) if is_string else token
            path = tuple(
                f"[{level}]" if isinstance(level, int) else str(level)
                for level in levels
            )
            scalars[path] = _Scalar(*match.span(), value, is_string)
    return scalars


def _check(source: EncodedText) -> None:
    """Raise DataError for a text that is no JSON."""
    try:
        json.loads(source.text, parse_int=str)
    except json.JSONDecodeError as problem:
        cause = f"no JSON: {problem.msg}; mend the file"
        raise source.refused(problem.pos, cause) from None
    except RecursionError:
        raise source.refused(0, TOO_DEEP) from None
