"""Realisation of a derivation as a Korean and an English sentence with their word alignment."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest

from regard.learn.samples import english, korean
from regard.learn.samples.aligned_pairs import AlignedPair
from regard.learn.samples.derivation import Sentence, Word, fixed, with_mark

Words = list[Word]


def realise(sentence: Sentence) -> AlignedPair:
    """Realise both sentences, and link the words that realise the same part of the derivation."""
    source: Words = []
    target: Words = []
    links: list[tuple[int, int]] = []
    for korean_words, english_words in _segments(sentence):
        links += [
            (i + len(source), j + len(target))
            for i, j in _links(korean_words, english_words)
        ]
        source += korean_words
        target += english_words
    text = " ".join(word.text for word in target)
    return AlignedPair(
        " ".join(word.text for word in source),
        text[0].upper() + text[1:],
        tuple(sorted(links)),
    )


def _segments(sentence: Sentence) -> list[tuple[Words, Words]]:
    """Return the Korean and English words of the greeting and the vocative, then of each clause."""
    polite = bool(sentence.vocative or sentence.greeting)
    segments: list[tuple[Words, Words]] = []
    opening = {"greeting": sentence.greeting, "vocative": sentence.vocative}
    roles = [role for role, entry in opening.items() if entry]
    for role in roles:
        mark = "," if sentence.clauses or role != roles[-1] else ""
        source, target = (
            with_mark(fixed(opening[role], role, side), mark)
            for side in ("korean", "english")
        )
        segments.append((source, target))
    for clause, connective in zip_longest(sentence.clauses, sentence.connectives):
        segments.append(
            (
                korean.clause(clause, connective, polite),
                english.clause(clause, connective),
            )
        )
    if sentence.full_stop:
        segments[-1] = (
            with_mark(segments[-1][0], "."),
            with_mark(segments[-1][1], "."),
        )
    return segments


def _links(source: Words, target: Words) -> set[tuple[int, int]]:
    """Return the pairs of positions whose words share a part of the derivation."""
    positions = defaultdict(list)
    for j, word in enumerate(target):
        for part in word.realises:
            positions[part].append(j)
    return {
        (i, j)
        for i, word in enumerate(source)
        for part in word.realises
        for j in positions.get(part, ())
    }
