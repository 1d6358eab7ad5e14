"""Realise a derivation as a Korean and an English sentence with their word alignment."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest

from regard.learn.samples import english, korean
from regard.learn.samples.aligned_pairs import AlignedPair
from regard.learn.samples.derivation import Sentence, Word, fixed, with_mark

Words = list[Word]


def realise(sentence: Sentence) -> AlignedPair:
    """Realise both sentences, and link words that realise the same part of the derivation."""
    source: Words = []
    target: Words = []
    links: list[tuple[int, int]] = []
    for korean_words, english_words in _segments(sentence):
        segment_links = _links(korean_words, english_words)
        links += [(i + len(source), j + len(target)) for i, j in segment_links]
        source += korean_words
        target += english_words

    source_text = " ".join(word.text for word in source)
    target_text = " ".join(word.text for word in target)
    capitalised = target_text[0].upper() + target_text[1:]
    return AlignedPair(source_text, capitalised, tuple(sorted(links)))


def _segments(sentence: Sentence) -> list[tuple[Words, Words]]:
    """Return the Korean and English words of the greeting and the vocative, then of each clause."""
    polite = bool(sentence.vocative or sentence.greeting)
    segments: list[tuple[Words, Words]] = []

    opening = {"greeting": sentence.greeting, "vocative": sentence.vocative}
    roles = [role for role, entry in opening.items() if entry]
    for role in roles:
        mark = "," if sentence.clauses or role != roles[-1] else ""
        source = with_mark(fixed(opening[role], role, "korean"), mark)
        target = with_mark(fixed(opening[role], role, "english"), mark)
        segments.append((source, target))

    for clause, connective in zip_longest(sentence.clauses, sentence.connectives):
        source = korean.clause(clause, connective, polite)
        target = english.clause(clause, connective)
        segments.append((source, target))

    if sentence.full_stop:
        source, target = segments[-1]
        segments[-1] = (with_mark(source, "."), with_mark(target, "."))
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
