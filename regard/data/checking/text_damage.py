"""Damage that a text shows: garbled or lost letters, entities, errors of a spreadsheet."""

from __future__ import annotations

import html
import re

from regard.common.lazy import lazy_pattern

ENCODINGS = ("cp1252", "latin-1", "cp1250", "cp1251", "cp437", "mac-roman")
"""Encodings in which UTF-8 is often wrongly read."""
_HIGH = r"\x80-\u303f\ud7a4-\U0010ffff"  # but no letters of East Asia
_MAY_BE_GARBLED = lazy_pattern(rf"[{_HIGH}][{_HIGH} ?]|[\x80-\x9f]")
"""Signs that every garbled text has: a character of several bytes has become several."""
_LOST = lazy_pattern(
    r"\ufffd"  # the sign for a byte that could not be read
    r"|\?(?=[^\W\d_])(?!\w+=)"  # before a letter, but not the query of an address
    r"|\?\?"
)
_ENTITY = lazy_pattern(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});")
_SPREADSHEET_ERROR = lazy_pattern(
    r"\s*(?:#(?:REF|VALUE|NAME|DIV/0|NULL|NUM|SPILL|CALC)[!?]|#N/?A|#{2,})\s*"
)


def ungarbled(text: str) -> str:
    """Return a text that was UTF-8, but read in another encoding, as it was; any other text as it
    is.
    """
    if not _MAY_BE_GARBLED.search(text):
        return text
    for encoding in ENCODINGS:
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    import ftfy

    return ftfy.fix_encoding(text)


def unescaped(text: str) -> str:
    """Return a text with its entities, such as `&eacute;`, as letters."""
    return html.unescape(text) if _ENTITY.search(text) else text


def has_lost_letters(text: str, other: str) -> bool:
    """Return whether letters of a text have become question marks or U+FFFD; `other` is its
    translation, which may have question marks for the same reason as the text.
    """
    if not _LOST.search(text) or _LOST.search(other):
        return False
    return "\ufffd" in text or text.count("?") > other.count("?")


def is_spreadsheet_error(text: str) -> bool:
    """Return whether a text is what a spreadsheet writes for a value that it cannot compute."""
    return _SPREADSHEET_ERROR.fullmatch(text) is not None


def letters_of(text: str) -> str:
    """Return the letters and digits of a text, case-folded, by which near-duplicates are equal."""
    return re.sub(r"[\W_]+", "", text.casefold())
