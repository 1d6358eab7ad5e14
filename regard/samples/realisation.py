"""From a derivation to its two sentences and the links between their words."""

from __future__ import annotations

from collections import defaultdict

from regard.samples import english, korean
from regard.samples.derivation import Sentence, Word, fixed
from regard.samples.lexicon import Vocative
from regard.samples.pairs import AlignedPair

__all__ = ["realise"]

Words = list[Word]


def realise(sentence: Sentence) -> AlignedPair:
    """The Korean sentence, the English one, and links between words that realise the same part of the derivation."""
    source: Words = []
    target: Words = []
    links: list[tuple[int, int]] = []
    for here, there in _segments(sentence):
        links += [(i + len(source), j + len(target)) for i, j in _links(here, there)]
        source += here
        target += there
    text = " ".join(word.text for word in target)
    return AlignedPair(" ".join(word.text for word in source), text[0].upper() + text[1:], tuple(sorted(links)))


def _segments(sentence: Sentence) -> list[tuple[Words, Words]]:
    """Korean and English of whoever is addressed, then of each clause."""
    polite = sentence.vocative is not None
    segments = [_address(sentence.vocative)] if sentence.vocative else []
    for clause, connective in zip(sentence.clauses, (*sentence.connectives, None), strict=True):
        segments.append((korean.clause(clause, connective, polite), english.clause(clause, connective)))
    return segments


def _address(vocative: Vocative) -> tuple[Words, Words]:
    return _with_comma(fixed(vocative, "vocative", "korean")), _with_comma(fixed(vocative, "vocative", "english"))


def _with_comma(words: tuple[Word, ...]) -> Words:
    return [*words[:-1], words[-1]._replace(text=words[-1].text + ",")]


def _links(here: Words, there: Words) -> set[tuple[int, int]]:
    """The pairs of positions whose words share a part of the derivation."""
    places = defaultdict(list)
    for j, word in enumerate(there):
        for part in word.realises:
            places[part].append(j)
    return {(i, j) for i, word in enumerate(here) for part in word.realises for j in places.get(part, ())}
