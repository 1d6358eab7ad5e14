"""JSON files of strings: nested keys, i18next, ARB, and messages with descriptions, such as those
of browser extensions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.common.errors import DataError
from regard.common.lazy import lazy_pattern
from regard.documents.document import DocumentOptions, DocumentText, EditedText
from regard.documents.encoding import decode_file
from regard.documents.key_values import (
    LAST,
    MOST_LEVELS,
    QUOTED,
    TOO_DEEP,
    Escapes,
    key_values,
    refused,
    value_slot,
)

_TOKEN = lazy_pattern(
    r'[ \t\r\n]*(?:(?P<string>"[^"\\\x00-\x1f]*'
    r'(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*")'
    r"|(?P<literal>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
    r"|(?P<mark>[{}\[\]:,])"
    r"|(?P<end>\Z))"
)
_VALUE = ("string", "literal", "{", "[")
_WANTED = {
    "string": "a value",
    "key": "a key in double quotation marks",
    "end": "the end of the file",
}
_LOCALE = ("@@locale",)
_MESSAGE_KEYS = {
    *("message", "description", "placeholders", "hash", "id", "defaultMessage"),
    *("string", "developer_comment", "character_limit", "context"),
}
Path = tuple[str, ...]


class _Scalar(NamedTuple):
    """A string or a literal, with its offsets in the file."""

    start: int
    end: int
    value: object


@dataclass
class _Level:
    """An object or array that is being read, with its present key and those that it has."""

    opening: str
    key: str = "0"
    keys: set[str] = field(default_factory=set)


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
    scalars = _Reader(text, name).read()
    is_ascii = text.isascii() and "\\u" in text
    escapes = Escapes.of(text, "\x7f" if is_ascii else LAST, QUOTED)
    slots = [
        value_slot(scalar.start + 1, scalar.end - 1, value, escapes.write)
        for scalar, value in _texts(scalars, name)
    ]
    locale = scalars.get(_LOCALE)
    bounds = (locale.start + 1, locale.end - 1) if locale else None
    document = key_values(source, slots, options, bounds, separator="_")
    document.media_type = "application/json"
    return document


def _texts(
    scalars: Mapping[Path, _Scalar], name: str
) -> Iterator[tuple[_Scalar, DocumentText]]:
    """Yield the strings that may be language, in the dialect of their flavour."""
    is_arb = _LOCALE in scalars or name.lower().endswith(".arb")
    flavour = _ARB if is_arb else _flavour_of(scalars)

    def at(path: Path) -> object:
        return scalars[path].value if path in scalars else None

    for path, scalar in scalars.items():
        text = scalar.value
        key = path[0] if path else "file"
        is_about = key[:1] == "@" and (is_arb or len(path) > 1)
        if not isinstance(text, str) or is_about or key == "$schema":
            continue
        if flavour is None:
            yield scalar, DocumentText(text, f"key {'.'.join(path)}")
        elif path[1:] in ((flavour.text,), ()):
            comment = at((f"{flavour.sign}{key}", flavour.comment))
            limit = at((key, flavour.limit))
            yield (
                scalar,
                DocumentText(
                    text,
                    f"key {key}",
                    flavour.dialect,
                    limit if isinstance(limit, int) and limit > 0 else None,
                    str(comment or ""),
                ),
            )


def _flavour_of(scalars: Mapping[Path, _Scalar]) -> _Flavour | None:
    """Return the flavour that all entries of a file have the keys of."""
    keys = {path[1] for path in scalars if len(path) > 1} if all(scalars) else set()
    entries = {path[0] for path in scalars if path and path != ("$schema",)}
    for flavour in _FLAVOURS:
        texts = {path[0] for path in scalars if path[1:] == (flavour.text,)}
        if texts and texts == entries and keys <= _MESSAGE_KEYS:
            return flavour
    return None


class _Reader:
    """Reader of the scalars of a file, which keeps its open objects on a list."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._levels = list[_Level]()
        self._scalars = dict[Path, _Scalar]()
        self._wanted: tuple[str, ...] = _VALUE

    def read(self) -> dict[Path, _Scalar]:
        """Return the scalars by their paths."""
        position = 0
        kind = ""
        while kind != "end":
            match = _TOKEN.match(self._text, position)
            kind = (match["mark"] or str(match.lastgroup)) if match else ""
            if kind == "string" and "key" in self._wanted:
                kind = "key"
            if not match or kind not in self._wanted:
                raise self._unexpected(position)
            start, position = match.span(str(match.lastgroup))
            self._take(kind, start, position)
        return self._scalars

    def _take(self, kind: str, start: int, end: int) -> None:
        if kind in ("{", "["):
            self._open(kind, start)
        elif kind == ",":
            self._go_on()
        elif kind == "key":
            self._add_key(start, end)
        elif kind == ":":
            self._wanted = _VALUE
        elif kind != "end":
            if kind in ("}", "]"):
                self._levels.pop()
            else:
                path = tuple(level.key for level in self._levels)
                value = json.loads(self._text[start:end])
                self._scalars[path] = _Scalar(start, end, value)
            self._wanted = ("end",)
            if self._levels:
                is_object = self._levels[-1].opening == "{"
                self._wanted = (",", "}" if is_object else "]")

    def _open(self, opening: str, start: int) -> None:
        if len(self._levels) == MOST_LEVELS:
            raise refused(self._text, self._name, start, TOO_DEEP)
        self._levels.append(_Level(opening))
        self._wanted = ("key", "}") if opening == "{" else (*_VALUE, "]")

    def _go_on(self) -> None:
        level = self._levels[-1]
        if level.opening == "{":
            self._wanted = ("key",)
        else:
            self._wanted = _VALUE
            level.key = str(int(level.key) + 1)

    def _add_key(self, start: int, end: int) -> None:
        level = self._levels[-1]
        level.key = json.loads(self._text[start:end])
        if level.key in level.keys:
            problem = (
                f"the key {level.key!r} stands twice in one object, and programs read only one; "
                "take the other away"
            )
            raise refused(self._text, self._name, start, problem)
        level.keys.add(level.key)
        self._wanted = (":",)

    def _unexpected(self, position: int) -> DataError:
        rest = self._text[position:].lstrip(" \t\r\n")
        start = len(self._text) - len(rest)
        got = repr(rest[:20]) if rest else _WANTED["end"]
        kinds = [kind for kind in self._wanted if kind not in _VALUE[1:]]
        wanted = " or ".join(_WANTED.get(kind, repr(kind)) for kind in kinds)
        problem = (
            f"no JSON: wanted {wanted}, got {got}; JSON has no comments, no single quotation "
            "marks, and no comma before a closing bracket"
        )
        return refused(self._text, self._name, start, problem)
