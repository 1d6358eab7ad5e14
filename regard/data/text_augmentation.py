"""Variation of training pairs: spans as copy tokens, single words, typos … which a model meets, and
a corpus lacks.

A share of the pairs is varied in each epoch, another one each time; both sides change alike, so
that a pair stays a translation.
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
"""Share of the pairs with the same spans on both sides in which copy tokens stand for these."""
MOST_SPANS = 6
"""Words of a pair without spans in whose place, or behind which, copy tokens stand, at most."""
LEXICON_PAIRS = 10_000
"""Pairs that a lexicon is counted from, evenly spread, at most."""
LONGEST_SURE = 3
"""Letters of a word up to which a typo would make another word of it."""
Pair = tuple[str, str]
Link = tuple[Place, Place]
ReadPairs = Callable[[Sequence[int]], Iterable[Pair]]
_LEAST = 2
_DICE = 0.3
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
"""Shares that cost nothing on strings of a program, and make a model robust."""


class Lexicon:
    """Words of two languages that translate each other best: those that most often occur in the
    same pairs.
    """

    def __init__(self, pairs: Iterable[Pair]) -> None:
        both = Counter[tuple[str, str]]()
        left = Counter[str]()
        right = Counter[str]()
        for pair in pairs:
            words = [{word.lower() for word in _WORD.findall(side)} for side in pair]
            left.update(words[0])
            right.update(words[1])
            both.update((a, b) for a in words[0] for b in words[1])
        dice = {
            (a, b): 2 * n / (left[a] + right[b])
            for (a, b), n in both.items()
            if n >= _LEAST
        }
        ranked = sorted(
            (item for item in dice.items() if item[1] >= _DICE),
            key=lambda item: (item[1], item[0]),
        )
        best_left = {a: b for (a, b), _ in ranked}
        best_right = {b: a for (a, b), _ in ranked}
        self.translations = {a: b for a, b in best_left.items() if best_right[b] == a}

    def links(self, pair: Pair) -> list[Link]:
        """Return where words stand that translate each other, or are the same, and occur once on
        each side.
        """
        words = [
            [(match[0].lower(), match.span()) for match in _WORD.finditer(side)]
            for side in pair
        ]
        counts = [Counter(word for word, _ in side) for side in words]
        places = dict(words[1])
        links = []
        for word, place in words[0]:
            other = (
                word
                if word in places and len(word) > 2
                else self.translations.get(word, "")
            )
            if counts[0][word] == counts[1][other] == 1:
                links.append((place, places[other]))
        return links


class PairVariation:
    """Varies the pairs of a corpus of `size` pairs; another share of them for each seed."""

    def __init__(
        self, settings: VariationSettings, lexicon: Lexicon, copies: str, size: int
    ) -> None:
        """`copies`: the characters of the copy tokens that the vocabularies have."""
        self._lexicon = lexicon
        self._copies = copies
        shares = settings.model_dump() | ({} if copies else {"spans": 0.0})
        self._limits = [*zip(shares, accumulate(shares.values()), strict=True)]
        # Pairs known to have no spans in common.
        self._is_plain = bytearray(b"\0" if copies else b"\1") * size

    def vary(
        self, indices: Sequence[int], read: ReadPairs, seed: int
    ) -> dict[int, Pair]:
        """Return the pairs that change, by their place among the indices; `read` returns the texts
        of such places.
        """
        rng = random.Random(seed)
        draws = (rng.random() for _ in indices)
        names = [
            next((name for name, limit in self._limits if draw < limit), "")
            for draw in draws
        ]
        places = [
            n for n, name in enumerate(names) if name or not self._is_plain[indices[n]]
        ]
        varied = dict[int, Pair]()
        for place, pair in zip(places, read(places), strict=True):
            agreeing = (
                ()
                if self._is_plain[indices[place]]
                else agreeing_spans(pair, len(self._copies))
            )
            self._is_plain[indices[place]] = not agreeing
            if (changed := self._varied(names[place], pair, agreeing, rng)) is not None:
                varied[place] = changed
        return varied

    def _varied(
        self, name: str, pair: Pair, agreeing: Sequence[Link], rng: random.Random
    ) -> Pair | None:
        """Return a pair in the form of this name; copy tokens stand for the spans that both sides
        have, if any.
        """
        if agreeing and (name or rng.random() < AGREEING):
            pair = self._with_copies(pair, agreeing, rng)
            return (_endings(pair) if name == "endings" else None) or pair
        if name == "endings":
            return _endings(pair)
        if name == "typos":
            return _with_typo(pair, rng)
        if not name or not (links := self._lexicon.links(pair)):
            return None
        if name == "spans":
            chosen = rng.sample(links, rng.randint(1, min(MOST_SPANS, len(links))))
            behind = [((end, end), (other, other)) for (_, end), (_, other) in chosen]
            return self._with_copies(pair, rng.choice((chosen, behind)), rng)
        (start, end), (other, other_end) = rng.choice(links)
        return pair[0][start:end], pair[1][other:other_end]

    def _with_copies(
        self, pair: Pair, links: Sequence[Link], rng: random.Random
    ) -> Pair:
        """Return a pair with a copy token in the place of both ends of each link."""
        characters = rng.sample(self._copies, min(len(links), len(self._copies)))
        source, target = (
            [*zip(places, characters, strict=False)]
            for places in zip(*links, strict=True)
        )
        return with_copies(pair[0], source), with_copies(pair[1], target)


def _endings(pair: Pair) -> Pair | None:
    source, target = (_END.sub("", side).rstrip() for side in pair)
    return (
        (source, target)
        if source and target and source != pair[0] and target != pair[1]
        else None
    )


def _with_typo(pair: Pair, rng: random.Random) -> Pair | None:
    words = [
        match
        for match in _WORD.finditer(pair[0])
        if len(match[0]) > LONGEST_SURE and match[0].isalpha()
    ]
    if not words:
        return None
    word = rng.choice(words)
    source = pair[0]
    at = word.start() + rng.randrange(1, len(word[0]) - 1)
    two = source[at : at + 2]
    return source[:at] + rng.choice((two[::-1], two[0], two[0] + two)) + source[
        at + 2 :
    ], pair[1]


def agreeing_spans(pair: Pair, most: int) -> list[Link]:
    """Return the spans of both sides, linked, if they are the same in any order; none if they are
    more than `most`.
    """
    sides = [
        sorted((text[slice(*place)], place) for place in copied_spans(text))
        for text in pair
    ]
    if len(sides[0]) > most or [text for text, _ in sides[0]] != [
        text for text, _ in sides[1]
    ]:
        return []
    return [(place, other) for (_, place), (_, other) in zip(*sides, strict=True)]
