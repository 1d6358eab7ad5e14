"""Contracts of lines: the code that a translation has to keep, and what it has broken of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from regard.contracts.dialects import get_dialect, table
from regard.contracts.faults import Fault
from regard.contracts.judge import judge_code
from regard.contracts.recognise import recognise
from regard.contracts.spans import Span as ContractSpan
from regard.contracts.spans import scan
from regard.data.spans import Span, find_spans
from regard.data.text import INVISIBLE
from regard.text.protected_line import CodeSpan, ProtectedLine, in_markup
from regard.text.translation import TranslatedPart, Translation

AUTO = "auto"
"""Stands for the dialect that each line speaks for by itself."""
NUMBER, SIGN = "number", "symbol"
CODE = re.compile(r"[^\d\s.,'’:/-]")
"""A sign that numbers do not have."""
JOINED = frozenset({NUMBER, SIGN, "unit"})
"""Kinds of spans that are one if they stand beside a number."""
SHOWN = 3
"""Faults that a note names."""


@lru_cache(maxsize=256)
def _recognised(line: str) -> str:
    return recognise([line])


def checked_dialect(dialect: str) -> str:
    """Return the name of a dialect, `auto`, or nothing. Raises UsageError for other names."""
    return get_dialect(dialect).name if dialect not in ("", AUTO) else dialect


def dialect_of(line: str, dialect: str) -> str:
    """Return the dialect of a line: the given one, or for `auto` what it speaks for by itself."""
    return _recognised(line) if dialect == AUTO else dialect


def breaches(line: str, translation: str, dialect: str = AUTO) -> list[Fault]:
    """Return the faults by which a translation breaks the contract of its line; none if the line
    has no code.
    """
    if not code_spans(line, dialect):
        return []
    return judge_code(line, translation, dialect_of(line, dialect))


def is_of_number(fault: Fault) -> bool:
    """Return whether a fault is of a number, and not of code."""
    return not CODE.search(fault.what)


def breaks_code(line: str, translation: str, dialect: str = AUTO) -> bool:
    """Return whether a translation breaks code of its line, and not only numbers."""
    return not all(map(is_of_number, breaches(line, translation, dialect)))


def describe_breaches(faults: list[Fault]) -> str:
    """Say in a note what is broken."""
    shown = "; ".join(f"{fault.what} {fault.detail}" for fault in faults[:SHOWN])
    rest = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
    return f"the translation does not keep what its line has: {shown}{rest}"


def code_spans(line: str, dialect: str = AUTO, own: object = None) -> list[CodeSpan]:
    """Return the code of a line in order: what the contracts of its dialect know, then what
    `find_spans` finds, then single signs. Signs beside a number are part of it.
    """
    rules = get_dialect(dialect_of(line, dialect))
    contract = [
        span
        for span in scan(line, rules)
        if span.end > span.start and not span.rule.free
    ]
    spans = [*_paired(contract), *map(CodeSpan, find_spans(line, own))]
    is_counted = bool(rules.grammar and rules.grammar.counted)
    signs = {*table()["signs"]} - {"#"} | ({"#"} if is_counted else set())
    spans += (
        CodeSpan(Span(start, start + 1, SIGN))
        for start, letter in enumerate(line)
        if letter in signs
    )
    taken = [False] * len(line)
    free = list[CodeSpan]()
    for code in spans:
        start, end, _ = code.span
        if not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            free.append(code)
    return _with_signs(sorted(free, key=lambda code: code.span.start))


def _with_signs(spans: list[CodeSpan]) -> list[CodeSpan]:
    """Join signs and units with the number beside them."""
    joined = list[CodeSpan]()
    for code in spans:
        last = joined[-1].span if joined else None
        kinds = {code.span.kind, last.kind} if last else set[str]()
        if last and last.end == code.span.start and NUMBER in kinds <= JOINED:
            joined[-1] = CodeSpan(Span(last.start, code.span.end, NUMBER))
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
        yield CodeSpan(Span(span.start, span.end, kind), pair, closes)


def protect_code(
    line: str, dialect: str = AUTO, own: object = None
) -> ProtectedLine | None:
    """Replace all code of a line, by the contract of its dialect, by tags in XML; return None if
    it has none.
    """
    line = INVISIBLE.sub("", line)
    spans = code_spans(line, dialect, own)
    return in_markup(line, spans, sentences=False) if spans else None


def mark_broken(
    result: Translation, line: str, dialect: str, faults: list[Fault]
) -> Translation:
    """Return a translation that breaks the contract of its line, marked; the parts whose code it
    would break stand as they were. Where numbers alone differ, the translation stands, since it
    breaks no program.
    """
    notes = (*result.notes, describe_breaches(faults))
    result = replace(result, broken=True, notes=notes)
    if all(is_of_number(fault) for fault in faults):
        return result
    whole = line.strip()
    parts = [_unbroken(part, dialect) for part in result.parts]
    text = _with_texts(result, parts)
    if text is None or breaks_code(whole, text, dialect):
        text = whole
        parts = [TranslatedPart(whole, whole, result.score)]
    return replace(result, text=text, tokens=(), parts=tuple(parts))


def _unbroken(part: TranslatedPart, dialect: str) -> TranslatedPart:
    """Return a part as it was if its translation would break its code."""
    if breaks_code(part.source, part.text, dialect):
        return part._replace(text=part.source.strip())
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
