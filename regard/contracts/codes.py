"""Faults of spans, and of single signs: lost, doubled, invented, altered, glued, out of their pair
or place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from regard.contracts.dialects import compiled, table
from regard.contracts.faults import Fault
from regard.contracts.messages import Part
from regard.contracts.spans import Span

_GLUED = {
    *("placeholder", "tag", "block", "marker", "link", "code", "command", "math"),
    *("entity", "address", "mail", "path", "identifier", "emoji", "date", "version"),
    "phone",
}
"""Kinds of spans that no letter may stand beside, unless one does so in the source."""
_HALF_DAY = re.compile(r"[0-9] ?[ap]\.?m\b|오전|오후", re.IGNORECASE)
_SMALL = 12
"""Hours of half a day."""
_LARGEST = 100
"""Largest number that may be written as a word."""
Keys = Counter[tuple[str, str]]


def code_faults(source: Part, target: Part) -> Iterator[Fault]:
    """Yield the faults of the spans and signs of a part."""
    if source.spans or target.spans:
        yield from _count_faults(source, target)
        yield from _pair_faults(source, target)
        yield from _glue_faults(source, target)
        yield from _place_faults(source, target)
    yield from _raw_faults(source, target)
    yield from _sign_faults(source.prose, target.prose)
    yield from _quotation_faults(source.prose, target.prose)


def _count(part: Part) -> Keys:
    return Keys((span.kind, span.key) for span in part.spans if not span.rule.free)


def _count_faults(source: Part, target: Part) -> Iterator[Fault]:
    wanted = _count(source)
    given = _count(target)
    if wanted == given:
        return
    lost = wanted - given
    extra = given - wanted
    _excuse_numbers(source, target, lost, extra)
    _excuse_numbers(target, source, extra, lost)
    gone, come = _texts(source, lost), _texts(target, extra)
    for kind, text in gone & come:
        detail = "stands for another argument than in the source"
        yield Fault("moved", text, detail, kind)
    known = {span.text for span in source.spans}
    for kind in dict.fromkeys(kind for kind, _ in gone | come):
        former = [
            text for text_kind, text in (gone - come).elements() if text_kind == kind
        ]
        later = [
            text for text_kind, text in (come - gone).elements() if text_kind == kind
        ]
        for one, other in zip_longest(former, later):
            if one and other:
                yield Fault("altered", one, f"has become {other}", kind)
            elif one:
                detail = "occurs less often than in the source"
                yield Fault("lost", one, detail, kind)
            elif other in known:
                detail = "occurs more often than in the source"
                yield Fault("doubled", other, detail, kind)
            else:
                detail = "does not occur in the source"
                yield Fault("invented", str(other), detail, kind)


def _texts(part: Part, keys: Keys) -> Keys:
    """Count the kinds and texts of the spans with some keys."""
    texts = {(span.kind, span.key): span.text for span in part.spans}
    return Keys((kind, texts[kind, key]) for kind, key in keys.elements())


def _has_word(text: str, number: str) -> bool:
    """Return whether a text has one of the words of a number. In Korean these stand alone, or
    before a counter or a particle: 세 is three in 세 개, and nothing in 하세요.
    """
    words = "|".join(table()["number_words"].get(number, ["(?!)"]))
    pattern = compiled(rf"(?i)(?<![A-Za-z가-힣])(?:{words}){table()['number_end']}")
    return bool(pattern.search(text))


def _excuse_numbers(one: Part, other: Part, missing: Keys, given: Keys) -> None:
    """Take out the numbers of one part that the other has as words, or by another clock."""
    is_clock = _HALF_DAY.search(one.text) or _HALF_DAY.search(other.text)
    for kind, number in list(missing):
        if kind != "number" or not number.isdecimal() or int(number) > _LARGEST:
            continue
        later = (kind, str((int(number) + _SMALL) % (2 * _SMALL)))
        if _has_word(other.prose, number):
            del missing[kind, number]
        elif is_clock and given[later]:
            del missing[kind, number], given[later]


def _nest(part: Part) -> tuple[Counter[tuple[str, str]], list[Span], list[str]]:
    """Return spans with the pair that encloses each, those without a partner, and empty pairs."""
    enclosing = Counter[tuple[str, str]]()
    unpaired = []
    empty = list[str]()
    opened: list[Span] = []
    for span in part.spans:
        closes = opened and opened[-1].name == span.name
        role = span.rule.role
        if role == "close" or (role == "toggle" and closes):
            if not closes:
                unpaired.append(span)
                continue
            start = opened.pop()
            if not part.text[start.end : span.start].strip():
                empty.append(start.key)
            continue
        if span.kind != "number" and not span.rule.free:
            enclosing[span.key, opened[-1].key if opened else ""] += 1
        if role:
            opened.append(span)
    return enclosing, unpaired + opened, empty


def _pair_faults(source: Part, target: Part) -> Iterator[Fault]:
    wanted, unpaired, empty = _nest(source)
    if unpaired:
        return
    given, unpaired, target_empty = _nest(target)
    for span in unpaired:
        yield Fault("unpaired", span.text, "has no partner, or crosses another pair")
    for key in dict.fromkeys(target_empty):
        if key not in empty:
            yield Fault("unpaired", key, "has nothing between it and its partner")
    moved = () if unpaired else given - wanted
    lost = {key for key, _ in wanted - given}
    for key, pair in moved:
        if key in lost:
            position = f"stands inside {pair}" if pair else "stands outside its pair"
            yield Fault("moved", key, f"{position}, unlike in the source", "tag")


def _glue(part: Part) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, text, side and letter of each span beside a letter that needs a space there."""
    joined = table()["joined"]
    before, after = compiled(joined["before"]), compiled(joined["after"])
    opened = set[str]()
    for span in part.spans:
        role = span.rule.role
        if role == "toggle":
            role = "close" if span.key in opened else "open"
            opened ^= {span.key}
        left = part.prose[span.start - 1 : span.start]
        right = part.prose[span.end : span.end + 1]
        if span.kind not in _GLUED or span.rule.free:
            continue
        if left.isalnum() and role != "close" and not before.match(left):
            yield span.key, span.text, "before", left
        if right.isalnum() and role != "open" and not after.match(right):
            yield span.key, span.text, "after", right


def _glue_faults(source: Part, target: Part) -> Iterator[Fault]:
    usual = {(key, side) for key, _, side, _ in _glue(source)}
    keys = {span.key for span in source.spans}
    for key, text, side, letter in _glue(target):
        if key in keys and (key, side) not in usual:
            yield Fault("glued", text, f"has {letter!r} directly {side} it")


def _firsts(part: Part) -> dict[str, Span]:
    """Return the marks, by their keys, at the beginning that have to stand there."""
    return {
        span.key: span
        for span in part.spans
        if span.rule.anchor and not part.text[: span.start].strip()
    }


def _place_faults(source: Part, target: Part) -> Iterator[Fault]:
    firsts = _firsts(target)
    for key, span in _firsts(source).items():
        if key not in firsts:
            detail = "has to stand at the beginning"
            yield Fault("moved", span.text, detail, span.kind)


def _raw_faults(source: Part, target: Part) -> Iterator[Fault]:
    for escaped, raw in target.dialect.raw:
        match = compiled(raw).search(target.prose)
        is_raw = compiled(raw).search(source.prose)
        if match and escaped in source.text and not is_raw:
            remedy = f"; write {escaped}" if escaped else ""
            detail = f"needs an escape, as in the source{remedy}"
            yield Fault("escape", match[0], detail, "escape")


def _sign_faults(source: str, target: str) -> Iterator[Fault]:
    code_signs = table()["code_signs"]
    for sign, words in table()["signs"].items():
        if sign not in source and sign not in target:
            continue
        wanted, given = source.count(sign), target.count(sign)
        if given + sum(map(target.count, words)) < wanted:
            yield Fault("lost", sign, "is a sign that the source has")
        is_counted = wanted or sign in code_signs
        if is_counted and given > wanted + sum(map(source.count, words)):
            yield Fault("invented", sign, "is a sign that the source has not")


def _quotation_faults(source: str, target: str) -> Iterator[Fault]:
    """Yield the lost quotation marks and ellipses, and quotation marks around nothing."""

    def count(pattern: str, text: str) -> int:
        return len(compiled(pattern).findall(text))

    quotation = table()["quotation"]
    marks = count(quotation["marks"], source)
    # One alone may be the sign of inches.
    if marks > 1 and count(quotation["any"], target) < marks:
        yield Fault("lost", '"', "is a quotation mark that the source has")
    empty = compiled(quotation["empty"]).search(target)
    if empty and not count(quotation["empty"], source):
        yield Fault("invented", empty[0], "stands around nothing")
    ellipsis = table()["ellipsis"]
    wanted = count(ellipsis, source)
    if wanted and count(ellipsis, target) < wanted:
        yield Fault("lost", "…", "is an ellipsis that the source has")
