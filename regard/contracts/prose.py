"""Faults of the words between spans: left as they were, repeated, left out; signs and brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from regard.contracts.dialects import compiled, table
from regard.contracts.faults import Fault
from regard.contracts.messages import Part
from regard.contracts.spans import MASK

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ANY_WORD = re.compile(rf"[^\W_]|[^\x00-\x7f{MASK}]")
_DENSE = re.compile(r"[\u3040-\u30ff\uac00-\ud7a3]|([\u3400-\u9fff])")
_BRACKETS = ("()", "[]", "{}", "（）", "「」", "『』", "【】", "《》")
_DOUBLED_SPACE = re.compile(r"\S  +(?=\S)")
_MASKED = re.compile(f"{MASK}+")
_GLUED_NUMBER = re.compile(r"[a-zß-öø-ɏ]{3}[0-9]|[0-9%][A-Za-zÀ-ɏ]{4}")
_STOP_SPACE = re.compile(rf"[^\W{MASK}] [.,](?:\s|$)")
_LONGEST = 8
"""Words of the longest phrase whose repetition is looked for, and letters of the longest sound."""
_COPIED = 5
"""Words in a row that make a translation of a part of the source a copy of it."""
_SHORTEST = 4
"""Letters of the shortest text that has to have a word in its translation."""
_LEAST = 24
"""Letters of the shortest text whose length is compared."""
_RATIOS = (0.3, 3.2)
_SHORT = 0.7
"""Ratio of lengths below which fewer sentences than in the source are a fault."""


def prose_faults(source: Part, target: Part) -> Iterator[Fault]:
    """Yield the faults of the words of a part."""
    yield from _copy_faults(source.prose, target.prose)
    yield from _repetition_faults(source.prose, target.prose)
    yield from _length_faults(source.prose, target.prose)
    yield from _space_faults(source, target)
    yield from bracket_faults(source.prose, target.prose)


def bracket_faults(source: str, target: str) -> Iterator[Fault]:
    """Yield the kinds of brackets of which one has no partner, unlike in the source."""
    for pair in _BRACKETS:
        if _balances(source, pair) and not _balances(target, pair):
            yield Fault("bracket", pair, "are balanced in the source, and not here")


def _shown(text: str) -> str:
    """Return a text as messages have it: with … for spans."""
    return _MASKED.sub("…", text)


def _copy_faults(source: str, target: str) -> Iterator[Fault]:
    wanted = _WORD.findall(source)
    given = _WORD.findall(target)
    if wanted == given:
        if sum(word[0].islower() for word in wanted) >= 2:
            yield Fault("untranslated", " ".join(given), "is equal to the source")
        return
    copies = set(_windows(wanted, _COPIED))
    for window in _windows(given, _COPIED):
        words = {word for word in window if len(word) > 1 and word[0].islower()}
        if window in copies and len(words) >= 3:
            yield Fault("untranslated", " ".join(window), "stands as in the source")
            return


def _windows(words: list[str], size: int) -> Iterator[tuple[str, ...]]:
    yield from zip(*(words[start:] for start in range(size)), strict=False)


def _repetition_faults(source: str, target: str) -> Iterator[Fault]:
    words = _WORD.findall(target.casefold())
    original = " ".join(_WORD.findall(source.casefold()))
    for size in range(1, _LONGEST + 1):
        if end := _run(words, size, 3):
            phrase = " ".join(words[end - size : end])
            if " ".join([phrase] * 3) not in original:
                yield Fault("repeated", phrase, "stands three times in a row")
                return
    for size in range(1, _LONGEST + 1):
        end = _run(target, size, 4 if size > 1 else 5)
        sound = target[end - size : end] if end else ""
        if sound.strip(f"{MASK} ") and sound * 4 not in source:
            yield Fault("repeated", _shown(sound), "stands several times in a row")
            return


def _run(items: list[str] | str, size: int, times: int) -> int:
    """Return where the first `times` equal pieces of a size in a row end, or 0."""
    equal = 0
    for place in range(size, len(items)):
        equal = equal + 1 if items[place] == items[place - size] else 0
        if equal == size * (times - 1):
            return place + 1
    return 0


def _sentences(text: str) -> int:
    """Count the sentences that have letters."""
    marks = compiled(table()["sentence_end"]).finditer(text)
    ends = [0, *(match.end() for match in marks), len(text)]
    return sum(bool(_WORD.search(text, start, end)) for start, end in pairwise(ends))


def _weight(text: str) -> float:
    """Return the length of a text in letters of an alphabet."""
    letters = len(text) - text.count(MASK) - text.count(" ")
    return letters + sum(2 if match[1] else 1 for match in _DENSE.finditer(text))


def _length_faults(source: str, target: str) -> Iterator[Fault]:
    wanted = _weight(source)
    given = _weight(target)
    least, most = _RATIOS
    sentences = _sentences(source)
    shown = _shown(target)
    letters = len("".join(_WORD.findall(source)))
    enough = _SHORTEST if target.strip() else 1
    if letters >= enough and not _ANY_WORD.search(target):
        yield Fault("length", shown, "has no words")
    elif sentences > max(1, _sentences(target)) and given < _SHORT * wanted:
        detail = f"has {_sentences(target)} of {sentences} sentences"
        yield Fault("segment", shown, detail)
    elif wanted < _LEAST and given < _LEAST * most:
        return
    elif not least * wanted <= given <= most * max(wanted, _LEAST / 2):
        detail = f"has {given / max(wanted, 1):.1f} times the length of the source"
        yield Fault("length", shown, detail)


def _space_faults(source: Part, target: Part) -> Iterator[Fault]:
    for pattern in (_DOUBLED_SPACE, _STOP_SPACE, _GLUED_NUMBER):
        match = pattern.search(target.prose)
        if match and not pattern.search(source.prose):
            yield Fault("space", _shown(match[0]), "has other spaces than the source")
    if _edges(source.text) != _edges(target.text):
        yield Fault("space", _shown(target.prose), "begins or ends unlike the source")


def _edges(text: str) -> tuple[str, str]:
    """Return the white space at the beginning and at the end of a text."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]


def _balances(text: str, pair: str) -> bool:
    depth = 0
    for letter in text:
        depth += (letter == pair[0]) - (letter == pair[1])
        if depth < 0:
            return False
    return not depth
