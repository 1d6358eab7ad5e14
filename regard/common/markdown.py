"""Texts from users in Markdown, displayed literally and never interpreted as markup."""

from __future__ import annotations

import re
import shlex

_MARKUP = re.compile(r"[\\`*\[\]<>|$]|(?<!/)~|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
"""Characters that begin or end markup. An underscore inside a word, as in file_name, does not."""
_JOINERS = "\u200c\u200d"
_LAST_FOUR_DIGIT_CODE = 0xFFFF
"""Last code point that bash writes as `\\uXXXX`; further ones are written as `\\UXXXXXXXX`."""


def escape_text(text: str) -> str:
    """Return a text as one line of Markdown. Control characters and direction marks become
    spaces.
    """
    return _MARKUP.sub(r"\\\g<0>", _printable_line(text))


def escape_around_code(text: str) -> str:
    """Return a text as one line of Markdown, in which the parts between backticks are code."""
    parts = _printable_line(text).split("`")
    parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = map(code_span, parts[1::2])
    return "".join(parts)


def _printable_line(text: str) -> str:
    printable = "".join(
        character if character.isprintable() or character in _JOINERS else " "
        for character in text
    )
    return " ".join(printable.split())


def code_span(code: str) -> str:
    """Return a code span, whose fence is one backtick longer than the longest run in the code."""
    fence = "`" * (1 + max(map(len, re.findall("`+", code)), default=0))
    is_padded = (
        code.startswith("`")
        or code.endswith("`")
        or (code.startswith(" ") and code.endswith(" "))
    )
    return f"{fence} {code} {fence}" if is_padded else f"{fence}{code}{fence}"


def quote_argument(argument: str) -> str:
    """Quote an argument for a shell, in one line.

    An argument that is not printable is quoted as `$'…'`, which bash reads.
    """
    if argument.isprintable():
        return shlex.quote(argument)
    return "$'" + "".join(map(_escape_for_bash, argument)) + "'"


def quote_command(*words: str) -> str:
    """Return a command line of `regard`, quoted for a shell."""
    return " ".join(["regard", *map(quote_argument, words)])


def _escape_for_bash(character: str) -> str:
    """Return a character as bash writes it in $'…'."""
    code = ord(character)
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= _LAST_FOUR_DIGIT_CODE else f"\\U{code:08x}"
