"""Contracts of lines: the code that a translation has to keep, and what it has broken of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from regard.common.lazy import lazy_pattern
from regard.contracts.dialects import compiled, get_dialect, table
from regard.contracts.faults import Fault
from regard.contracts.judge import judge_code
from regard.contracts.messages import Syntax, syntax
from regard.contracts.recognise import recognise
from regard.contracts.spans import Span as ContractSpan
from regard.contracts.spans import scan
from regard.data.sentences import has_letters
from regard.data.spans import KEPT, Span, find_spans
from regard.data.text import INVISIBLE, nfc
from regard.text.casing import split_language_code
from regard.text.particles import both_particles
from regard.text.protected_line import (
    CodeSpan,
    FindSpans,
    ProtectedLine,
    disjoint,
    in_markup,
    no_spans,
)
from regard.text.translation import TranslatedPart, Translation

AUTO = "auto"
"""Stands for the dialect that each line speaks for by itself."""
NUMBER, SIGN, OWN, KEY, NAME = "number", "symbol", "own", "key", "name"
CODE_SIGNS = frozenset(table()["signs"]) - {"#"}
"""Signs that are code even if no rule knows them; # is written before numbers as a word is."""
DOUBLED_QUOTE = "''"
"""Apostrophe of a message in text."""
JOINED = frozenset({NUMBER, SIGN, "unit", "percent", "escape"})
"""Kinds of spans that are one if they stand beside a number."""
OPENING = " \u00a0([{<\"'“„‚‘«‹¿¡/=+-–—"
"""Characters that belong to the code after them if the texts beside it are apart."""
CLOSING = OPENING + ")]}>”’»›.,;:!?…*_|"
"""Characters that belong to the code before them."""
CONSTANT = lazy_pattern(r"\{\s*-|'")
"""Beginning of a placeholder whose value is known when the text is written."""
WORDLESS = "length"
"""Kind of the fault of a translation without words."""
FEWEST = 2
"""Fewest letters outside of code that need a word in the translation: that of 3번 may be 3."""
SHOWN = 3
"""Faults that a note names."""


@lru_cache(maxsize=256)
def _recognised(line: str) -> str:
    return recognise([line])


def checked_dialect(dialect: str) -> str:
    """Return the name of a dialect, or `auto`. Raises UsageError for other names."""
    return dialect if dialect == AUTO else get_dialect(dialect).name


def dialect_of(line: str, dialect: str) -> str:
    """Return the dialect of a line: the given one, or for `auto` what it speaks for by itself."""
    return _recognised(line) if dialect == AUTO else dialect


@lru_cache(maxsize=256)
def _read_code(line: str, dialect: str) -> tuple[list[Syntax], list[ContractSpan]]:
    """Return the syntax of messages and the spans of a line, which each try needs."""
    rules = get_dialect(dialect_of(line, dialect))
    return syntax(line, rules), scan(line, rules)


def breaches(
    line: str, translation: str, dialect: str = AUTO, own: object = None
) -> list[Fault]:
    """Return the faults by which a translation breaks the contract of its line, and those of the
    spans of a user's patterns. In a line without code, numbers and signs are words.
    """
    faults = judge_code(line, translation, dialect_of(line, dialect))
    if faults and not code_spans(line, dialect):
        faults = [fault for fault in faults if fault.breaks_programs]
    line, translation = nfc(line), nfc(translation)
    return [
        *faults,
        *_unknown_faults(line, translation, dialect),
        *_own_faults(line, translation, own),
        *_word_faults(line, translation, dialect),
    ]


def _word_faults(line: str, translation: str, dialect: str) -> Iterator[Fault]:
    """Yield a fault if of a line with words and code only code is left."""
    words = translation.split()
    if not words or any(has_letters(word) and word not in line for word in words):
        return
    spans = code_spans(line, dialect)
    if not spans:
        return
    rest = line
    for start, end, *_ in reversed(spans):
        rest = f"{rest[:start]} {rest[end:]}"
        translation = translation.replace(line[start:end], " ")
    if sum(map(str.isalpha, rest)) >= FEWEST and not has_letters(translation):
        yield Fault(WORDLESS, " ".join(words), "has none of its words")


def _unknown_faults(line: str, translation: str, dialect: str) -> Iterator[Fault]:
    """Yield the lost spans that are hidden from the model but unknown to the dialect, and keys and
    names, which have to stay as they are.
    """
    kinds = {
        line[start:end]: kind
        for start, end, kind in [*find_spans(line), *_names(line)]
        if kind in KEPT or kind in (KEY, NAME)
    }
    lost = [text for text in kinds if translation.count(text) < line.count(text)]
    if not lost:
        return
    marks, spans = _read_code(line, dialect)
    known = [
        *((start, end) for start, end, _ in marks),
        *((span.start, span.end) for span in spans if span.kind != KEY),
    ]
    for text in lost:
        start = line.find(text)
        end = start + len(text)
        if not any(
            first <= start < last or start <= first < last <= end
            for first, last in known
        ):
            yield Fault(
                "lost", text, "occurs less often than in the source", kinds[text]
            )


def _own_faults(line: str, translation: str, own: object) -> Iterator[Fault]:
    """Yield the spans of a user's patterns that are lost or invented."""
    if own is None:
        return
    wanted, given = (
        Counter(
            text[start:end] for start, end, kind in find_spans(text, own) if kind == OWN
        )
        for text in (line, translation)
    )
    for text in wanted - given:
        yield Fault("lost", text, "occurs less often than in the source")
    for text in given - wanted:
        yield Fault("invented", text, "occurs more often than in the source")


def _is_useless(faults: list[Fault]) -> bool:
    """Return whether a program may fail that shows a translation, or this has no words."""
    return any(fault.breaks_programs or fault.kind == WORDLESS for fault in faults)


def described(faults: list[Fault]) -> str:
    """Say what is broken."""
    shown = "; ".join(f"{fault.what} {fault.detail}" for fault in faults[:SHOWN])
    rest = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return f"{shown}{rest}"


def code_spans(
    line: str,
    dialect: str = AUTO,
    own: object = None,
    foreign: FindSpans = no_spans,
) -> list[CodeSpan]:
    """Return the code of a line in order: what the contracts of its dialect know, then what
    `find_spans` finds, words that the model cannot read, and single signs. Signs beside a number
    are part of it.
    """
    marks, known = _read_code(line, dialect)
    contract = [
        span
        for span in known
        if span.end > span.start and not span.rule.free and span.kind != NUMBER
    ]
    spans: list[Span | CodeSpan] = [
        *(
            Span(start, end, "message" if divides else "placeholder")
            for start, end, divides in marks
            if line[start:end] != DOUBLED_QUOTE
        ),
        *_paired(contract),
        *_names(line),
        *find_spans(line, own),
        *foreign(line),
        *(
            Span(start, start + 1, SIGN)
            for start, letter in enumerate(line)
            if letter in CODE_SIGNS
        ),
    ]
    return _with_signs(disjoint(spans, len(line)))


def _names(line: str) -> list[Span]:
    """Return the names of products and the like, which people may translate, and models mangle."""
    matches = compiled(table()["names"]).finditer(line)
    return [Span(*match.span(), NAME) for match in matches]


def _with_signs(spans: list[CodeSpan]) -> list[CodeSpan]:
    """Join signs and units with the number beside them."""
    joined = list[CodeSpan]()
    for code in spans:
        last = joined[-1] if joined else None
        kinds = {code.kind, last.kind} if last else set[str]()
        if last and last.end == code.start and NUMBER in kinds <= JOINED:
            joined[-1] = CodeSpan(last.start, code.end, NUMBER)
        else:
            joined.append(code)
    return joined


def _paired(spans: list[ContractSpan]) -> Iterator[CodeSpan]:
    """Yield spans with the number of the pair that each opens or closes."""
    partners = dict[int, tuple[int, bool]]()
    opened = list[int]()
    for number, span in enumerate(spans):
        is_open = opened and spans[opened[-1]].name == span.name
        role = span.rule.role
        if role == "close" or (role == "toggle" and is_open):
            if is_open:
                first = opened.pop()
                partners[first] = (first, False)
                partners[number] = (first, True)
        elif role:
            opened.append(number)
    for number, span in enumerate(spans):
        kind = "message" if span.kind == "block" else span.kind
        pair, closes = partners.get(number, (None, False))
        if kind == "message":
            pair = None
        yield CodeSpan(span.start, span.end, kind, pair, closes)


def protect_code(
    line: str,
    dialect: str = AUTO,
    own: object = None,
    foreign: FindSpans = no_spans,
    apart: bool = False,
) -> ProtectedLine | None:
    """Replace all code of a line, by the contract of its dialect, by tags in XML; return None if
    it has none. `apart`: the texts between are translated by themselves.
    """
    line = INVISIBLE.sub("", line)
    spans = code_spans(line, dialect, own, foreign)
    if not spans:
        return None
    if apart:
        spans = [*widened(line, spans)]
    return in_markup(line, spans, apart)


def widened(line: str, spans: list[CodeSpan]) -> Iterator[CodeSpan]:
    """Yield spans with the brackets, quotes and the like beside them, which belong to no text."""
    end = 0
    limits = [*(code.start for code in spans[1:]), len(line)]
    for code, limit in zip(spans, limits, strict=False):
        start = end + len(line[end : code.start].rstrip(OPENING))
        end = limit - len(line[code.end : limit].lstrip(CLOSING))
        yield code._replace(start=start, end=end)


def particles_written(line: str, result: Translation, dialect: str) -> Translation:
    """Return a Korean translation with the particles after placeholders in both forms, but not
    after terms of Fluent and quoted braces, which are constant.
    """
    dialect = dialect_of(line, dialect)

    def written(text: str) -> str:
        spans = [
            (start, end)
            for start, end, kind, *_ in code_spans(text, dialect)
            if kind == "placeholder" and not CONSTANT.match(text[start:end])
        ]
        return both_particles(text, spans)

    parts = tuple(part._replace(text=written(part.text)) for part in result.parts)
    markup = None if result.markup is None else written(result.markup)
    return replace(result, text=written(result.text), parts=parts, markup=markup)


def keep_source(
    result: Translation, line: str, dialect: str, faults: list[Fault]
) -> Translation:
    """Return a translation in which the parts whose code it breaks stand as they were, and those of
    which only code is left. One that breaks no program, since only numbers, signs or names differ,
    stands.
    """
    if not _is_useless(faults):
        return result
    whole = line.strip()
    parts = [_unbroken(part, dialect) for part in result.parts]
    text = None if result.markup else _with_texts(result, parts)
    if text is None or _is_useless(breaches(whole, text, dialect)):
        text = whole
        parts = [TranslatedPart(whole, whole, result.score, quality=0.0)]
    return replace(
        result, text=text, tokens=(), parts=tuple(parts), alignments=None, markup=None
    )


def _unbroken(part: TranslatedPart, dialect: str) -> TranslatedPart:
    """Return a part as it was if its translation would break its code."""
    _, source = split_language_code(part.source)
    if _is_useless(breaches(source, part.text, dialect)):
        return part._replace(text=source.strip(), quality=0.0)
    return part


def _with_texts(result: Translation, parts: Sequence[TranslatedPart]) -> str | None:
    """Return the text of a translation with other texts of its parts; None if these do not follow
    each other in it.
    """
    text = ""
    end = 0
    for old, new in zip(result.parts, parts, strict=True):
        start = result.text.find(old.text, end)
        if start < 0:
            return None
        text += result.text[end:start] + new.text
        end = start + len(old.text)
    return text + result.text[end:]
