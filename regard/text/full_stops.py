"""Full stops and other marks at the ends of translations, as their sources have them: a model that
has learnt from sentences ends headings, labels and questions with a full stop, too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data import sentence_marks as tables
from regard.text.translation import Translation

_ARROWS = ((0x2190, 0x21FF), (0x25A0, 0x25FF), (0x2B00, 0x2BFF))
_SIGNS = " \t\n\u00a0\u202f“‘" + "".join(
    [
        *(closer for closer in tables.CLOSERS if closer not in "]}"),
        *(
            chr(code)
            for first, last in (*tables.NOTES, *_ARROWS)
            for code in range(first, last + 1)
        ),
    ]
)
"""Spaces, closing quotation marks and brackets, also those of German, and signs."""
_USUAL: dict[int, int | str] = {
    **dict.fromkeys(map(ord, f"{tables.GLUED}．"), "."),
    **str.maketrans("？؟⸮፧！，،、፣：；؛፤", "????!,,,,:;;;"),
}
"""The marks of English that marks of other scripts stand for."""
_MARKS = "".join([*map(chr, _USUAL), ".,:;!?…⋯‥"])
_GREEK = tables.character_class(tables.GREEK)
_WRITTEN = (
    (tables.character_class(tables.UNSPACED), str.maketrans(".?!,:;", "。？！，：；")),
    ("\u0600-\u06ff", str.maketrans("?,;", "؟،؛")),
    (_GREEK, str.maketrans("?;", ";·")),
)
"""Letters of scripts with marks of their own, and these."""
_OTHER_STOP = lazy_pattern(r"[\u0530-\u05ff\u0700-\u1dff\ua000-\uabff]$")
"""End of a text in a script that has another full stop, or none."""
_SENTENCE = lazy_pattern(
    rf"[{tables.KOREAN_ENDINGS}냐뇨랴라{tables.character_class(tables.CLAUSES)}]$"
)
"""End of what may be a sentence without a mark: as Korean verbs end, or in a script without full
stops.
"""
_ORDINAL = lazy_pattern(r"(?<!\d)\d{1,2}$")
_ABBREVIATIONS = tables.NEVER_LAST | tables.BEFORE_SMALL


class _End(NamedTuple):
    """A text up to the last marks at its end, these as English writes them, and the signs that
    follow them.
    """

    body: str
    marks: str
    signs: str


def closed_as(line: str, translation: Translation) -> Translation:
    """Return a translation with the marks at its end that its line has there, as its own script
    writes them.
    """
    text = _closed(line, translation.text)
    if text == translation.text:
        return translation
    *before, last = translation.parts or [None]
    parts = (*before, last._replace(text=_closed(line, last.text))) if last else ()
    links = translation.alignments
    if links is not None:
        words = len(text.split())
        links = tuple(link for link in links if link[1] < words)
    return replace(translation, text=text, parts=parts, alignments=links)


def _closed(line: str, text: str) -> str:
    source, target = _read_end(line), _read_end(text)
    if source.marks == target.marks or not target.body or _may_differ(source):
        return text
    body = target.body
    is_ordinal = _ORDINAL.search(body) and not source.body[-1:].isdecimal()
    if target.marks[:1] == "." and (is_ordinal or _is_abbreviated(body)):
        body += "."
    marks = _written(source.marks, body)
    if marks is None:
        return text
    text = f"{body}{target.signs}"
    # The marks stand before as many signs as in the source.
    end = len(text)
    for _ in "".join(source.signs.split()):
        end = max(len(text.rstrip(_SIGNS)), len(text[:end].rstrip()) - 1)
    before = text[:end].rstrip()
    behind = text[len(before) :]
    if end < len(body):  # inside of quotation marks that had marks behind them
        before = before.rstrip(_MARKS)
    return f"{before}{marks}{behind}"


def _read_end(text: str) -> _End:
    before = text.rstrip(_SIGNS)
    body = before.rstrip(_MARKS)
    marks = before[len(body) :].translate(_USUAL)
    body = body.rstrip()
    if re.search(f"[{_GREEK}]$", body):
        marks = marks.replace(";", "?")
    return _End(body, marks, text[len(before) :])


def _may_differ(source: _End) -> bool:
    """Return whether a translation may end otherwise than its source: this ends in an abbreviation,
    or may be a sentence without a mark.
    """
    if source.marks == ".":
        return _is_abbreviated(source.body)
    return not source.marks and bool(_SENTENCE.search(source.body))


def _written(marks: str, body: str) -> str | None:
    """Return marks as the script of a text writes them; None if that is not known."""
    for letters, forms in _WRITTEN:
        if re.search(f"[{letters}]$", body):
            return marks.translate(forms)
    return None if marks == "." and _OTHER_STOP.search(body) else marks


def _is_abbreviated(text: str) -> bool:
    """Return whether the last word of a text has a full stop wherever it stands."""
    word = re.split(r"\W", text.lower())[-1]
    is_initial = len(word) == 1 and word != word.upper()
    return is_initial or word in _ABBREVIATIONS
