"""Full stops and other marks at the ends of translations, as their sources have them: a model that
has learnt from sentences ends headings and labels with a full stop, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from regard.common.lazy import lazy_pattern
from regard.data.sentence_marks import (
    BEFORE_SMALL,
    CLOSERS,
    KOREAN_ENDINGS,
    NEVER_LAST,
)
from regard.data.sentences import has_letters
from regard.text.markup.tags import tokenize
from regard.text.text_path import LinePath
from regard.text.translation import Translation

_CLOSERS = f"{CLOSERS}“‘"
"""Characters after the end of a sentence, also those of German."""
_STOP = lazy_pattern(r"[^\s.][.。]$")
_MARK = lazy_pattern(r"[^\s.][.。:,?!]$")
_ORDINAL = lazy_pattern(r"(?<!\d)\d{1,2}[.。]$")
_BARE = lazy_pattern(rf"[^\W{KOREAN_ENDINGS}](?:\s?%)?$")
"""End of a text without a mark; one that ends as Korean verbs do may be a sentence."""
_OPEN = lazy_pattern(r"[^\W_\u0530-\u1dff\u2c80-\uabff]$")
"""End of a text in a script that has the full stop of English."""
_WORD = lazy_pattern(r"[^\W\d_]{2,}")
_WORDLESS = "all its words are lost in the translation, so it stays as it is"
_ABBREVIATIONS = NEVER_LAST | BEFORE_SMALL


def closed_path(path: LinePath, line: str) -> LinePath:
    """Translate a line by a path, and end its translation as the line ends. A line with words whose
    translation has some characters, but no letter, stays as it is.
    """
    translation = yield from path
    is_lost = translation.text.strip() and not has_letters(translation.text)
    if is_lost and len(_WORD.findall(line)) > 1:
        notes = (*translation.notes, _WORDLESS)
        return Translation(line, (), 0.0, broken=True, notes=notes)
    return closed_as(line, translation)


def closed_as(line: str, translation: Translation) -> Translation:
    """Return a translation without a full stop that its line does not end with, or with the mark
    that it has lost.
    """
    source = line.rstrip(_CLOSERS)
    text = translation.text.rstrip(_CLOSERS)
    if _MARK.search(source):
        is_lost = text == translation.text and _OPEN.search(text)
        if is_lost and not _is_abbreviated(source):
            mark = source[-1].replace("。", ".")
            return _edited(translation, f"{{}}{mark}".format)
        return translation
    is_gained = _BARE.search(source) and _STOP.search(text)
    is_ordinal = _ORDINAL.search(text) and not source[-1:].isdecimal()
    if is_gained and not is_ordinal and not _is_abbreviated(text):
        return _edited(translation, _without_stop)
    return translation


def _is_abbreviated(text: str) -> bool:
    """Return whether the last word of a text has a full stop wherever it stands."""
    word = re.split(r"\W", text[:-1].lower())[-1]
    is_initial = len(word) == 1 and word != word.upper()
    return is_initial or word in _ABBREVIATIONS


def _edited(translation: Translation, edit: Callable[[str], str]) -> Translation:
    """Return a translation with its text, its markup and its last part edited."""
    *before, last = translation.parts or [None]
    parts = (*before, last._replace(text=edit(last.text))) if last else ()
    markup = translation.markup and edit(translation.markup)
    return replace(translation, text=edit(translation.text), markup=markup, parts=parts)


def _without_stop(text: str) -> str:
    """Return a text, or markup, without the full stop at its end, before tags."""
    tokens = [token for token in tokenize(text, "xml") if token.kind == "text"]
    for _, start, end, _ in reversed(tokens):
        body = text[start:end].rstrip(_CLOSERS)
        if body:
            stop = start + len(body)
            is_stop = body[-1] in ".。"
            return text[: stop - is_stop] + text[stop:]
    return text
