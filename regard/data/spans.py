"""Spans of a line that are not language: placeholders, tags, addresses, paths, code, emoji,
symbols, numbers.

A translation should hold each of them exactly once and unchanged. Spans are found from left to
right by the patterns of the table below. If two begin at the same character, the kind that comes
first in the table wins.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
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
    # The start of an ICU message. The texts within it are language; the parts of its syntax between
    # and after them are found by `_MESSAGE_PART`.
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
        r"\w(?:[\w.-]{0,30}\w)?[™®]|(?<!\d)\d{1,2}'\d{1,2}\"",
        r"\[[A-Z]\d{1,4}[A-Z]\]|\#\#\#\w{1,20}\#\#\#|@@\w{1,20}@@|\[\[\w{1,60}\]\]|[\U000f1900-\U000f1917]",
    ),
    "code": (
        r"`[^`\n]{1,200}`",
        r"(?<![\w])\w{1,60}(?:\.\w{1,60}){0,4}\(\)",
        r"(?<![\w-])--[a-z][\w-]{1,40}(?:=[\w./-]{1,60})?|(?<=[^\s.!?] )-[A-Za-z](?![\w'’-])",
        # Identifiers with underscores, but not labels of buttons such as E_xit.
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
        r"(?:-(?:F\d{1,2}|[A-Z])(?![\w-])|\s?\+\s?(?:[A-Z][a-z]{2,8}|F\d{1,2}|[0-9A-Za-z=+.,;'/\\\[\]-](?![\w-]))){1,4}",
        r"(?<![\w])F\d{1,2}(?![\w])",
    ),
    "emoji": (
        r"[\U0001f1e6-\U0001f1ff]{2}",
        r"[\d\#*]\ufe0f?\u20e3",
        rf"{_PICTURE}(?:\u200d{_PICTURE}){{0,8}}",
    ),
    "symbol": (r"[©®™°§¶†‡•\u2190-\u21ff\u25a0-\u25ff\u2300-\u2319☆★]",),
    "number": (
        r"(?:(?<![\w])[A-Za-z]{1,8})?\d{1,40}(?:[.,:;|/\u00a0\u202f'’-]\d{1,40}){0,20}(?:%(?![\w%$(])|[A-Za-z]{1,3}(?![\w]))?",
    ),
}
"""Patterns by kind of span; each matches a bounded number of characters, so that time is linear.

`\\w` matches ASCII only, since letters of other scripts may follow without a space, as Korean
particles do. Only in lookarounds, which make sure that a span is no part of a word of language, it
also matches Latin letters with accents (U+00C0 to U+024F).
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
"""Kinds of spans that are hidden from the model; a model often translates keys, symbols and numbers
well, because its training text had them.
"""
KEPT_ON_RETRY = KEPT | {"key", "symbol", "number"}
"""Kinds of spans that are hidden in a second attempt, if the model lost any that it saw."""
_ALL = "|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in KINDS.items())
_PATTERN = lazy_pattern(_ALL.replace(r"![\w", "![\\w\u00c0-\u024f"), re.ASCII)
_SIGN = lazy_pattern(
    r"[^\w\s.,;!?'\"’“”…)\]]|''|[\d_\u2190-\u2bff\U0001f000-\U0001faff]|\.\w"
)
"""Characters of which every span has one in its first or second word. Searching for them first is
much faster than searching for spans.
"""
LONGEST_OWN = 500
"""Maximum number of characters that a user's pattern matches; a search reads twice as many, so that
time is linear.
"""
_CACHED = 500
"""Characters of the longest lines whose spans are cached."""
_MESSAGE_PART = lazy_pattern(r"\}\s*=?\w{1,20}\s*\{|\}\s*\}")
"""Syntax of an ICU message between two of its texts, or at its end."""


class Span(NamedTuple):
    """A span of a line between two offsets, and its kind."""

    start: int
    end: int
    kind: str


@lru_cache(maxsize=8)
def own_pattern(patterns: Sequence[str]) -> Any:
    """Compile the patterns of a user, for `find_spans`; None if there are none.

    They have the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), which takes linear time
    for any pattern, and match at most `LONGEST_OWN` characters. Raises UsageError, with all causes,
    for patterns that are malformed, or that match the empty text or whole sentences.
    """
    if not patterns:
        return None
    with needs_extra("keep", "patterns of your own", ["re2"]):
        import re2
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # only the offsets of a match are needed
    causes = list[str]()
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
    alternatives = [f"(?:{_closed(nfc(pattern))})" for pattern in patterns]
    return re2.compile("|".join(alternatives), options)


def _closed(pattern: str) -> str:
    """Return a pattern with a closing \\E, if a literal text that begins with \\Q is left open."""
    is_open = pattern.rfind(r"\Q") > pattern.rfind(r"\E")
    return pattern + r"\E" if is_open else pattern


def may_have_spans(line: str) -> bool:
    """Return whether a line may have spans; a line for which this is False certainly has none."""
    return _SIGN.search(line) is not None


def find_spans(line: str, own: Any = None) -> Sequence[Span]:
    """Return the spans of a line in order; no two overlap.

    `own` are the compiled patterns of a user. Spans are found in the NFC form of the line, but
    their offsets count the characters of the line as it was given.
    """
    spans_of = _cached_spans if len(line) <= _CACHED else _cached_spans.__wrapped__
    if unicodedata.is_normalized("NFC", line):
        return spans_of(line, own)
    composed, places = nfc_with_places(line)
    spans = list[Span]()
    end = 0
    for span in spans_of(composed, own):
        # If two spans share a letter that is decomposed in `line`, the first takes it.
        start = max(end, places[span.start][0])
        end = max(end, places[span.end - 1][1])
        if start < end:
            spans.append(Span(start, end, span.kind))
    return tuple(spans)


def _own_spans(line: str, own: Any) -> Iterator[Span]:
    """Yield the matches of a user's patterns in order; each search reads a window of the line.

    Searching the whole line would take quadratic time, since each search may read it to its end.
    """
    offset = 0
    while offset < len(line):
        # The window has one more character on either side, for anchors and word boundaries.
        first = max(0, offset - 1)
        window = line[first : offset + 2 * LONGEST_OWN + 1]
        match = own.search(window, offset - first, offset - first + 2 * LONGEST_OWN)
        if match is None:
            # A match that begins before this offset would end within the window.
            offset += LONGEST_OWN + 1
            continue

        start, end = match.span()
        if first + start > offset + LONGEST_OWN:
            offset = first + start  # the match may continue beyond the window
            continue
        if end > start + LONGEST_OWN:
            match = own.match(window, start, start + LONGEST_OWN)
            end = match.end() if match else start
        if end > start:
            yield Span(first + start, first + end, "own")
        offset = first + max(end, start + 1)


def _search_span(line: str, offset: int) -> Span | None:
    """Return the first span of `KINDS` at or after an offset."""
    sign = _SIGN.search(line, offset)
    if sign is None:
        return None
    # The span begins in the word of the sign, or in the word before it.
    word_start = max(offset, line.rfind(" ", offset, sign.start()))
    start = max(offset, line.rfind(" ", offset, word_start) + 1)
    match = _PATTERN.search(line, start)
    return Span(*match.span(), match.lastgroup or "") if match else None


def _search_message_part(line: str, offset: int) -> Span | None:
    """Return the first part of an ICU message's syntax at or after an offset."""
    match = _MESSAGE_PART.search(line, offset)
    return Span(*match.span(), "message") if match else None


@lru_cache(maxsize=1024)
def _cached_spans(line: str, own: Any) -> Sequence[Span]:
    """Return the spans of a line in NFC."""
    spans = list[Span]()
    own_spans = deque(_own_spans(line, own) if own else ())
    # The next span of `KINDS` and the next part of a message are kept until they are passed, since
    # searching for them again at each span would take quadratic time.
    match: Span | None = Span(-1, -1, "")
    part: Span | None = Span(-1, -1, "")
    open_messages = 0
    offset = 0
    while offset < len(line):
        if match and match.start < offset:
            match = _search_span(line, offset)
        if open_messages and part and part.start < offset:
            part = _search_message_part(line, offset)
        while own_spans and own_spans[0].start < offset:
            own_spans.popleft()

        # If several begin at the same offset, the first of these is taken.
        own_span = own_spans[0] if own_spans else None
        ahead = (own_span, part if open_messages else None, match)
        candidates = [span for span in ahead if span]
        if not candidates:
            break

        span = min(candidates, key=lambda candidate: candidate.start)
        spans.append(span)
        if span is match and span.kind == "message":
            open_messages += 1
        elif span is part and line[span.end - 1] == "}":
            open_messages -= 1
        offset = span.end
    return tuple(spans)
