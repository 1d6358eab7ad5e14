"""Variation of training pairs: copy tokens for spans, single words, typos and the like, which users
translate but corpora lack.

Another share of the pairs is varied in each epoch. Both sides change alike, so that a pair remains
a translation.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from pydantic import Field

from regard.common.settings import Settings
from regard.data.copy_tokens import Place, copied_spans, with_copies
from regard.data.sentence_marks import MARKS

AGREEING = 0.5
"""Share of the pairs with the same spans on both sides in which copy tokens replace the spans."""
MOST_SPANS = 6
"""Maximum number of copy tokens that are put into a pair without spans."""
LEXICON_PAIRS = 10_000
"""Maximum number of pairs from which a lexicon is counted; they are evenly spread."""
LONGEST_SURE = 3
"""Letters of the longest words without typos, since a typo may turn a short word into another."""
Pair = tuple[str, str]
Link = tuple[Place, Place]
"""A place in the source and the place in the target that corresponds to it."""
ReadPairs = Callable[[Sequence[int]], Iterable[Pair]]
"""Returns the texts of some of the pairs, by their positions among the indices of a batch."""
_LEAST = 2  # pairs that two words of a lexicon share
_DICE = 0.3  # least Dice coefficient of two words of a lexicon
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_END = re.compile(rf"[{re.escape(MARKS)}]+$")


class VariationSettings(Settings):
    """Shares of the training pairs that are varied in each epoch."""

    spans: float = Field(
        0.0,
        ge=0,
        le=1,
        description="copy tokens in the place of words that translate each other, or behind them; "
        "where both sides have the same placeholders, addresses or code, they stand "
        "for these in half of the epochs",
    )
    endings: float = Field(
        0.0, ge=0, le=1, description="without the punctuation at the end of both sides"
    )
    words: float = Field(
        0.0,
        ge=0,
        le=1,
        description="one word of the source, and the word that translates it",
    )
    typos: float = Field(
        0.0,
        ge=0,
        le=1,
        description="a source with two letters swapped, or one left out or doubled",
    )


MEASURED = VariationSettings(spans=0.1, endings=0.03, words=0.03, typos=0.01)
"""Shares that make a model robust without loss of quality, measured on strings of software."""


class Lexicon:
    """Bilingual lexicon of the words that best translate each other, by the Dice coefficient of
    their occurrences in the same pairs.
    """

    def __init__(self, pairs: Iterable[Pair]) -> None:
        source_counts = Counter[str]()
        target_counts = Counter[str]()
        joint_counts = Counter[tuple[str, str]]()
        for source, target in pairs:
            source_words = {word.lower() for word in _WORD.findall(source)}
            target_words = {word.lower() for word in _WORD.findall(target)}
            source_counts.update(source_words)
            target_counts.update(target_words)
            joint_counts.update((s, t) for s in source_words for t in target_words)

        ranked = []
        for (s, t), count in joint_counts.items():
            if count >= _LEAST:
                dice = 2 * count / (source_counts[s] + target_counts[t])
                if dice >= _DICE:
                    ranked.append((dice, (s, t)))
        ranked.sort()
        # The last entry of a word, which stays in the dictionary, is its best translation.
        best_targets = {s: t for _, (s, t) in ranked}
        best_sources = {t: s for _, (s, t) in ranked}
        self.translations = {
            s: t for s, t in best_targets.items() if best_sources[t] == s
        }

    def links(self, pair: Pair) -> list[Link]:
        """Return the places of words that are the same or translate each other, if each occurs once
        on its side.
        """
        sources, targets = (
            [(match[0].lower(), match.span()) for match in _WORD.finditer(side)]
            for side in pair
        )
        source_counts = Counter(word for word, _ in sources)
        target_counts = Counter(word for word, _ in targets)
        target_places = dict(targets)
        links = []
        for word, place in sources:
            translation = word
            if word not in target_places or len(word) <= 2:
                translation = self.translations.get(word, "")
            if source_counts[word] == target_counts[translation] == 1:
                links.append((place, target_places[translation]))
        return links


class PairVariation:
    """Varies the pairs of a corpus of `size` pairs; another share of them for each seed."""

    def __init__(
        self, settings: VariationSettings, lexicon: Lexicon, copies: str, size: int
    ) -> None:
        """`copies` are the characters of the copy tokens that the vocabularies have."""
        self._lexicon = lexicon
        self._copies = copies
        shares = settings.model_dump()
        if not copies:
            shares["spans"] = 0.0
        self._limits = list(zip(shares, accumulate(shares.values()), strict=True))
        # One byte a pair: 1 if its sides are known to have no spans in common.
        self._is_plain = bytearray(b"\0" if copies else b"\1") * size

    def vary(
        self, indices: Sequence[int], read: ReadPairs, seed: int
    ) -> dict[int, Pair]:
        """Return the varied pairs by their positions among the indices.

        `read` returns the texts of the pairs at such positions.
        """
        rng = random.Random(seed)
        kinds = [self._draw_kind(rng) for _ in indices]
        positions = [
            position
            for position, kind in enumerate(kinds)
            if kind or not self._is_plain[indices[position]]
        ]
        varied = dict[int, Pair]()
        for position, pair in zip(positions, read(positions), strict=True):
            index = indices[position]
            spans: Sequence[Link] = ()
            if not self._is_plain[index]:
                spans = agreeing_spans(pair, len(self._copies))
            self._is_plain[index] = not spans
            changed = self._varied(kinds[position], pair, spans, rng)
            if changed is not None:
                varied[position] = changed
        return varied

    def _draw_kind(self, rng: random.Random) -> str:
        """Draw the kind of variation of a pair; empty if it is not varied."""
        draw = rng.random()
        return next((kind for kind, limit in self._limits if draw < limit), "")

    def _varied(
        self, kind: str, pair: Pair, spans: Sequence[Link], rng: random.Random
    ) -> Pair | None:
        """Return a pair varied by this kind; copy tokens replace the `spans` that both sides have.

        Returns None if the pair does not change.
        """
        if spans and (kind or rng.random() < AGREEING):
            pair = self._with_copies(pair, spans, rng)
            without_ending = _without_ending(pair) if kind == "endings" else None
            return without_ending or pair
        if kind == "endings":
            return _without_ending(pair)
        if kind == "typos":
            return _with_typo(pair, rng)

        links = self._lexicon.links(pair) if kind else []
        if not links:
            return None
        if kind == "spans":
            words = rng.sample(links, rng.randint(1, min(MOST_SPANS, len(links))))
            after_words = [
                ((source_end, source_end), (target_end, target_end))
                for (_, source_end), (_, target_end) in words
            ]
            return self._with_copies(pair, rng.choice((words, after_words)), rng)
        source_place, target_place = rng.choice(links)
        return pair[0][slice(*source_place)], pair[1][slice(*target_place)]

    def _with_copies(
        self, pair: Pair, links: Sequence[Link], rng: random.Random
    ) -> Pair:
        """Return a pair with the same copy token in both places of each link."""
        characters = rng.sample(self._copies, min(len(links), len(self._copies)))
        source_copies = []
        target_copies = []
        for (source, target), character in zip(links, characters, strict=False):
            source_copies.append((source, character))
            target_copies.append((target, character))
        return with_copies(pair[0], source_copies), with_copies(pair[1], target_copies)


def _without_ending(pair: Pair) -> Pair | None:
    """Remove the punctuation at the end of both sides; None if a side has none, or nothing else."""
    source, target = (_END.sub("", side).rstrip() for side in pair)
    if not source or not target or source == pair[0] or target == pair[1]:
        return None
    return source, target


def _with_typo(pair: Pair, rng: random.Random) -> Pair | None:
    """Swap two letters of a source word, or drop or double one; None if all words are short."""
    source, target = pair
    words = [
        match
        for match in _WORD.finditer(source)
        if len(match[0]) > LONGEST_SURE and match[0].isalpha()
    ]
    if not words:
        return None
    word = rng.choice(words)
    index = word.start() + rng.randrange(1, len(word[0]) - 1)
    letters = source[index : index + 2]
    swapped = letters[::-1]
    dropped = letters[0]
    doubled = letters[0] + letters
    typo = rng.choice((swapped, dropped, doubled))
    return source[:index] + typo + source[index + 2 :], target


def agreeing_spans(pair: Pair, most: int) -> list[Link]:
    """Link the spans of both sides if they are the same in any order; empty if they differ, or are
    more than `most`.
    """
    sources, targets = (
        sorted((text[start:end], (start, end)) for start, end in copied_spans(text))
        for text in pair
    )
    source_texts = [text for text, _ in sources]
    target_texts = [text for text, _ in targets]
    if len(sources) > most or source_texts != target_texts:
        return []
    return [
        (source, target)
        for (_, source), (_, target) in zip(sources, targets, strict=True)
    ]
