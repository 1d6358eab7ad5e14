"""Spans of a line that are not language: placeholders, tags, addresses, paths, code, emoji,
symbols, numbers.

A translation should hold each of them exactly once and unchanged. They are found by the table
below, kind by kind, from left to right; where two begin at the same character, the kind that stands
first in the table wins.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from regard.common.errors import UsageError
from regard.common.lazy import lazy_pattern, needs_extra
from regard.data.text import nfc, nfc_with_places

_NAME = r"[A-Za-z_][\w.-]{0,60}"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,60}[A-Za-z0-9])?\.){1,5}"
_TOP = r"(?:com|org|net|edu|gov|info|io|dev|app|eu|de|fr|kr|uk|jp)"
_ENDINGS = (
    r"(?:exe|dll|py|js|json|xml|html?|txt|pdf|png|jpe?g|svg|zip|gz|[ct]sv|toml|ya?ml"
    r"|od[tsp]|docx?)"
)
_BRACKETS = r"\([!#-'*-;=?-~]{0,80}\)"
_FOLDER = r"[\w.()-]{1,60}"
_FLAGS = r"[-\#0+]{0,3}"
_SIZE = r"(?:\d{1,3}|\*)?(?:\.(?:\d{1,3}|\*))?"
_PICTURE = (
    r"(?:[\U0001f000-\U0001f2ff\U0001f300-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u231a-\u23ff\u203c\u2049\u3297\u3299]"
    r"|[\u2190-\u21ff\u24c2\u25aa-\u25fe]\ufe0f)[\ufe0f\U0001f3fb-\U0001f3ff]{0,2}[\U000e0020-\U000e007f]{0,8}"
)
KINDS: dict[str, tuple[str, ...]] = {
    "address": (
        rf"(?:https?|ftp|file)://(?:[!#-'*-;=?-~]|{_BRACKETS}){{0,500}}(?:[\w/#=&%+-]|{_BRACKETS})",
        rf"(?:mailto:)?[\w.+-]{{1,64}}@{_DOMAIN}[A-Za-z]{{2,10}}\b",
        r"(?:about|chrome|resource):[\w/.#?=-]{0,100}\w",
        rf"(?<![\w.]){_DOMAIN}{_TOP}\b(?:/[!#-;=?-~]{{0,200}}[\w/])?(?![\w.]*@)",
    ),
    "tag": (rf"</?{_NAME}(?:\s[^<>]{{0,300}})?/?>",),
    "entity": (r"&(?:\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,30});",),
    # Of an ICU message what stands around its texts, which are language; its other parts are found
    # as it is read.
    "message": (
        r"\{\s*\w{1,60}\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset:\d+\s*)?=?\w{1,20}\s*\{",
    ),
    "placeholder": (
        r"\{\{\{?[^{}\n]{1,100}\}?\}\}|[$%\#]\{[^{}\n]{1,100}\}|\$\(\w{1,60}\)|\{%[^%{}\n]{1,100}%\}|<%[^%<>\n]{1,100}%>",
        r"\{\s*[$-]?\s*[\w.-]{1,60}(?:\s*[(,:!][^{}\n]{0,100})?\s*\}",
        rf"%\(\w{{1,60}}\){_FLAGS}{_SIZE}[diouxXeEfFgGcrsa]",
        rf"(?<![\d%])%(?:\d{{1,2}}\$)?{_FLAGS}{_SIZE}(?:hh|h|ll|l|z)?[diouxXeEfFgGcspnS@]",
        r"(?<![\w%])%\d{1,2}(?![\w%])",
        r"(?<![\w$])\$[A-Za-z_]\w{0,60}",
        r"(?<![\w:]):\w{1,40}%(?!\w)|(?<![\w%])%\w{2,40}%",
        r"(?<![\w:]):[a-z_]\w{1,40}\b(?![\w:])",
        r"(?<![\w])__\w{1,40}?__(?![\w])",
    ),
    "token": (
        r"\[[A-Z]\d{1,4}[A-Z]\]|\#\#\#\w{1,20}\#\#\#|@@\w{1,20}@@|\[\[\w{1,60}\]\]|[\U000f1900-\U000f1917]",
    ),
    "code": (
        r"`[^`\n]{1,200}`",
        r"(?<![\w])\w{1,60}(?:\.\w{1,60}){0,4}\(\)",
        r"(?<![\w-])--[a-z][\w-]{1,40}(?:=[\w./-]{1,60})?|(?<=[^\s.!?] )-[A-Za-z](?![\w'’-])",
        # E_xit is a label.
        r"(?<![\w-])(?![A-Z]_[a-z]{1,20}(?![\w-]))[A-Za-z]\w{0,40}_\w{1,60}(?![\w-])",
    ),
    "path": (
        r"(?<![\w/])(?:~|\.{1,2})?(?:/[\w.@+-]{0,99}[\w@+-]){2,20}/?",
        rf"(?<![\w])(?:[A-Za-z]:|\\\\[\w.-]{{1,60}})\\(?:{_FOLDER}(?: {_FOLDER}){{0,3}}\\){{0,20}}"
        r"(?:[\w.-]{0,80}[\w-])?",
        r"(?<![\w\\])\w{1,40}(?:\\\w[\w.-]{0,80}){1,10}(?<=\w)",
        rf"(?<![\w/.])[\w-]{{1,60}}\.{_ENDINGS}\b",
    ),
    "key": (
        r"(?<![\w])(?:Ctrl|Alt|Shift|Cmd|Command|Option|Meta|Super|Strg)"
        r"(?:\s?\+\s?(?:[A-Z][a-z]{2,8}|F\d{1,2}|[0-9A-Za-z=+.,;'/\\\[\]-](?![\w-]))){1,4}",
        r"(?<![\w])F\d{1,2}(?![\w])",
    ),
    "emoji": (
        r"[\U0001f1e6-\U0001f1ff]{2}",
        r"[\d\#*]\ufe0f?\u20e3",
        rf"{_PICTURE}(?:\u200d{_PICTURE}){{0,8}}",
    ),
    "symbol": (r"[©®™°§¶†‡•\u2190-\u21ff\u25a0-\u25ff\u2300-\u2319☆★]",),
    "number": (
        r"(?:(?<![\w])[A-Za-z]{1,8})?\d{1,40}(?:[.,:;|/\u00a0\u202f'’-]\d{1,40}){0,20}(?:[A-Za-z]{1,3}(?![\w]))?",
    ),
}
"""Kinds of spans and their patterns; each takes a bounded number of characters, so that time is
linear.

Words in them are of ASCII, since letters of other scripts may follow without a space, as Korean
particles do. Right before and behind a span letters with accents (U+00C0 to U+024F) count, too:
they make a word of language of it.
"""
KEPT = frozenset(
    {
        "own",
        "address",
        "tag",
        "entity",
        "message",
        "placeholder",
        "token",
        "code",
        "path",
        "emoji",
    }
)
"""Kinds of spans that no model has to see; keys, symbols and numbers are often part of what it has
learnt.
"""
KEPT_ON_RETRY = KEPT | {"key", "symbol", "number"}
"""Kinds of spans that are kept where a model has lost any when it saw them."""
SHOWN = 3
"""Spans that a warning names."""
_ALL = "|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in KINDS.items())
_PATTERN = lazy_pattern(_ALL.replace(r"![\w", "![\\w\u00c0-\u024f"), re.ASCII)
_SIGN = lazy_pattern(
    r"[^\w\s.,;!?'\"’“”…)\]]|[\d_\u2190-\u2bff\U0001f000-\U0001faff]|\.\w"
)
"""A span has one of these, in its first word or its second: they are found in a fraction of the
time.
"""
LONGEST_OWN = 500
"""Characters that a user's pattern matches at most; a search reads twice as many, so that time is
linear.
"""
_CACHED = 500
"""Characters of a line whose spans are kept for when they are asked for again, at most."""
_MESSAGE_PART = lazy_pattern(r"\}\s*=?\w{1,20}\s*\{|\}\s*\}")
_DIGITS = lazy_pattern(r"\d+")
_LIST = lazy_pattern("[;|]")


class Span(NamedTuple):
    """A span of a line between two offsets, and its kind."""

    start: int
    end: int
    kind: str


@lru_cache(maxsize=8)
def own_pattern(patterns: Sequence[str]) -> Any:
    """Compile patterns of a user's own, which `find_spans` looks for, too; None without any.

    They are RE2's (https://github.com/google/re2/wiki/Syntax), and match at most `LONGEST_OWN`
    characters, in linear time whatever they are. Raises UsageError, with all causes, for those that
    are none, or match where there is nothing or whole sentences.
    """
    if not patterns:
        return None
    with needs_extra("keep", "patterns of your own", ["re2"]):
        import re2
    options = re2.Options()
    causes = list[str]()
    options.log_errors = False
    options.never_capture = True  # only where a match stands is asked for
    for pattern in patterns:
        try:
            compiled = re2.compile(nfc(pattern), options)
        except re2.error as error:
            reason = (
                f"{error.args[0].decode(errors='replace')}; "
                "https://github.com/google/re2/wiki/Syntax lists what is one"
            )
            causes.append(f"keep: {pattern!r} is no pattern of RE2: {reason}")
            continue
        if compiled.fullmatch("") or compiled.fullmatch("some words of a sentence"):
            causes.append(
                f"keep: {pattern!r} matches everything, or nothing at all; write what is not to be "
                "translated"
            )
    UsageError.raise_all(causes)
    return re2.compile(
        "|".join(f"(?:{_closed(nfc(pattern))})" for pattern in patterns), options
    )


def _closed(pattern: str) -> str:
    """Return a pattern whose literal text, which begins at \\Q, ends with it."""
    return pattern + (r"\E" if pattern.rfind(r"\Q") > pattern.rfind(r"\E") else "")


def may_have_spans(line: str) -> bool:
    """Return whether a line has a sign of a span, which one without certainly has none of."""
    return _SIGN.search(line) is not None


def find_spans(line: str, own: Any = None) -> Sequence[Span]:
    """Return the spans of a line in order; no two overlap. `own`: the compiled patterns of a user.

    They are found in the line as NFC composes it; where they stand is counted in the line as it was
    given.
    """
    spans_of = _cached_spans if len(line) <= _CACHED else _cached_spans.__wrapped__
    if unicodedata.is_normalized("NFC", line):
        return spans_of(line, own)
    composed, places = nfc_with_places(line)
    spans = spans_of(composed, own)
    given = list[Span]()
    end = 0
    for span in spans:
        # A letter and its mark, of which two spans have a part, stay together.
        start = max(end, places[span.start][0])
        end = max(end, places[span.end - 1][1])
        if start < end:
            given.append(Span(start, end, span.kind))
    return tuple(given)


def _own_spans(line: str, own: Any) -> Iterator[Span]:
    """Yield what the patterns of a user match, in order, each search within a window.

    A search of the whole line would take quadratic time, as each may read the line to its end.
    """
    at = 0
    while at < len(line):
        # With a character on either side of the window, which anchors look at.
        first = max(0, at - 1)
        window = line[first : at + 2 * LONGEST_OWN + 1]
        hit = own.search(window, at - first, at - first + 2 * LONGEST_OWN)
        if hit is None:
            # Any match that begins before that would have been seen.
            at += LONGEST_OWN + 1
            continue
        start, end = hit.span()
        if first + start > at + LONGEST_OWN:
            at = first + start  # it may end behind the window
            continue
        if end > start + LONGEST_OWN:
            hit = own.match(window, start, start + LONGEST_OWN)
            end = hit.end() if hit else start
        if end > start:
            yield Span(first + start, first + end, "own")
        at = first + max(end, start + 1)


@lru_cache(maxsize=1024)
def _cached_spans(line: str, own: Any) -> Sequence[Span]:
    spans = list[Span]()
    at = 0
    messages = 0
    match: Span | None = Span(-1, -1, "")
    part = match
    places = [*_own_spans(line, own)][::-1] if own else []
    while at < len(line):
        # A match ahead is kept until it is passed: a new search for it at each span would take
        # quadratic time.
        if match and match.start < at:
            if sign := _SIGN.search(line, at):
                second = max(at, line.rfind(" ", at, sign.start()))
            hit = (
                _PATTERN.search(line, max(at, line.rfind(" ", at, second) + 1))
                if sign
                else None
            )
            match = Span(*hit.span(), hit.lastgroup or "") if hit else None
        if messages and part and part.start < at:
            hit = _MESSAGE_PART.search(line, at)
            part = Span(*hit.span(), "message") if hit else None
        while places and places[-1].start < at:
            places.pop()
        ahead = [
            each for each in (*places[-1:], part if messages else None, match) if each
        ]
        if not ahead:
            break
        spans.append(min(ahead, key=lambda span: span.start))
        messages += spans[-1] is match and match.kind == "message"
        messages -= spans[-1] is part and line[part.end - 1] == "}"
        at = spans[-1].end
    return tuple(spans)


def differing_spans(
    source: str, output: str, own: Any = None
) -> tuple[list[str], list[str]]:
    """Return the spans of a source that its translation lacks, and those that it has invented or
    doubled.

    Numbers are compared by their digits, since languages write the separators in other ways; those
    of one digit, which may be a word in the other language, are not compared. A number of the
    translation is invented if another is lost.
    """
    before = Counter(_compared(source, own))
    after = Counter(_compared(output, own))
    lost = [*(before - after).elements()]
    invented = [*(after - before).elements()]
    if not any(map(str.isdigit, lost)):
        # It may stand for a word: twelve, 12.
        invented = [text for text in invented if not text.isdigit()]
    return lost, invented


def spans_note(source: str, output: str, own: Any = None) -> str | None:
    """Return a warning that names the spans in which a translation differs from its source; None if
    it has the same.
    """
    lost, invented = differing_spans(source, output, own)
    parts = [f"lacks {_listed(lost)} of its source"] if lost else []
    parts += [f"has {_listed(invented)}, which its source has not"] if invented else []
    return f"the translation {' and '.join(parts)}; mend it by hand" if parts else None


def _listed(spans: list[str]) -> str:
    shown = ", ".join(map(repr, spans[:SHOWN]))
    return shown + (f" and {len(spans) - SHOWN} more" if len(spans) > SHOWN else "")


def _compared(line: str, own: Any) -> Iterator[str]:
    for start, end, kind in find_spans(line, own):
        text = line[start:end]
        if kind != "number":
            yield nfc(text)
        else:
            groups = ("".join(_DIGITS.findall(group)) for group in _LIST.split(text))
            yield from (digits for digits in groups if len(digits) > 1)
