"""From what a person asks for, in words, to the pieces that a search can look out for."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.data.text import clean
from regard.data.vocabulary import EOS, UNK, Vocabulary
from regard.errors import UsageError
from regard.search.hypothesis import BannedPhrase, Term
from regard.search.rules import Array, is_edge

__all__ = ["NO_CONSTRAINTS", "ConstraintEncoder", "Constraints", "check_constraints", "contradictions"]

_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts that are written without spaces between words, by the first word of their letters' names."""

KNOWN = 10_000
"""Words, or phrases, whose pieces are remembered at most."""


@dataclass(frozen=True)
class Constraints:
    """What is asked of the translation of one line, in words.

    It begins with `prefix`, holds each of `terms`, and none of `forbid`. Empty: nothing is asked.
    """

    prefix: str = ""
    terms: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()


class ConstraintEncoder:
    """Turns words into the pieces of a vocabulary, each only once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._terms: dict[str, Term] = {}
        self._words: dict[str, BannedPhrase] = {}

    def check(self, wish: Constraints, where: str = "") -> list[str]:
        """What is wrong with a wish, a sentence for each cause."""
        unwritable = [
            f"{where}{kind} {text!r}: has characters that the model cannot write; leave them out"
            for kind, text in _named(wish)
            if kind != "forbid" and UNK in self.vocabulary.encode(text)
        ]
        return [*unwritable, *contradictions(wish, where)]

    def prefix(self, text: str) -> tuple[int, ...]:
        """The pieces of what a target is to begin with."""
        return tuple(self.vocabulary.encode(text))

    def terms(self, texts: tuple[str, ...]) -> tuple[Term, ...]:
        return tuple(self._term(clean(text)) for text in texts)

    def words(self, texts: tuple[str, ...]) -> tuple[BannedPhrase, ...]:
        return tuple(self._word(clean(text)) for text in texts)

    def _term(self, text: str) -> Term:
        """A word or phrase as it would be cut; with a capital letter too, where it opens the sentence."""
        if text not in self._terms:
            _bound(self._terms)
            forms = [tuple(self.vocabulary.encode(text))]
            if _script(text[0]) in _UNSPACED:
                forms.append(self._inside(forms[0]))
            capital = text[0].upper() + text[1:]
            opening = () if capital == text else (tuple(self.vocabulary.encode(capital)),)
            self._terms[text] = Term(tuple(dict.fromkeys(forms)), opening, self._after(text[-1]))
        return self._terms[text]

    def _inside(self, form: tuple[int, ...]) -> tuple[int, ...]:
        """The same pieces without the space before the first."""
        first, *rest = self.vocabulary.tokens(form)
        own = [first.removeprefix("▁")] if first != "▁" else []
        ids = [self.vocabulary.id_of(piece) for piece in own]
        if UNK in ids:
            ids = [self.vocabulary.id_of(character) for character in own[0]]
        whole = (*ids, *form[1:])
        return form if UNK in whole or (not rest and not ids) else whole

    def _after(self, last: str) -> Array | None:
        """Which pieces may follow a word that ends with this character: those that begin another, and the end.

        In Korean a particle may follow; in scripts without spaces, and after a sign, anything.
        """
        if not last.isalnum() or _script(last) in (*_UNSPACED, "HANGUL"):
            return None
        return self._edges

    @cached_property
    def _edges(self) -> Array:
        """The pieces (V,) that do not go on with a word, and the end."""
        surfaces = self.vocabulary.surface_bytes
        firsts = [surface.decode("utf-8", "replace")[:1] for surface in surfaces]
        found = np.array([first not in ("", "\ufffd") and not first.isalnum() for first in firsts])
        found[EOS] = True
        found.setflags(write=False)  # all terms share it
        return found

    def _word(self, text: str) -> BannedPhrase:
        """A word or phrase as it is given, and with a capital letter."""
        if text not in self._words:
            _bound(self._words)
            forms = dict.fromkeys([text, text[0].upper() + text[1:]])
            found = dict.fromkeys(ending for form in forms for ending in self._endings(form.encode()))
            self._words[text] = BannedPhrase(self.vocabulary.surface_bytes, tuple(found))
        return self._words[text]

    def _endings(self, word: bytes) -> Iterator[tuple[bytes, int, bool]]:
        """How each piece could complete the word: the bytes before it, and whether the word begins among them."""
        for length in range(1, len(word)):
            for surface, piece in self._beginning(word[-length:]):
                if _opens(surface[length:]):
                    yield word[:-length], piece, True
        for piece, surface in enumerate(self.vocabulary.surface_bytes):
            start = surface.find(word)
            while start >= 0:
                if is_edge(surface[:start]) and _opens(surface[start + len(word) :]):
                    yield b"", piece, start == 0
                start = surface.find(word, start + 1)

    def _beginning(self, start: bytes) -> Iterator[tuple[bytes, int]]:
        """The pieces whose surfaces begin so."""
        for place in range(bisect_left(self._sorted, (start, 0)), len(self._sorted)):
            if not self._sorted[place][0].startswith(start):
                return
            yield self._sorted[place]

    @cached_property
    def _sorted(self) -> list[tuple[bytes, int]]:
        return sorted((surface, piece) for piece, surface in enumerate(self.vocabulary.surface_bytes))


def contradictions(wish: Constraints, where: str = "") -> list[str]:
    """What is wrong with a wish whatever the model, a sentence for each cause."""
    causes = [f"{where}{kind} {text!r}: is empty; give a word" for kind, text in _named(wish) if not clean(text)]
    wanted = [clean(wish.prefix), *map(clean, wish.terms)]
    return causes + [
        f"{where}forbid {word!r}: is also asked for, in {text!r}; leave one of them out"
        for word in wish.forbid
        for text in wanted
        if clean(word) and _holds(text, clean(word))
    ]


def _holds(text: str, word: str) -> bool:
    """Whether a text holds this word or phrase, as it is given or with a capital letter."""
    forms = (re.escape(form) for form in (word, word[0].upper() + word[1:]))
    return re.search(rf"(?<![^\W_])(?:{'|'.join(forms)})(?![^\W_])", text) is not None


def _bound(known: dict[str, Any]) -> None:
    """What is remembered of words must not grow with the text."""
    if len(known) >= KNOWN:
        known.clear()


def _named(wish: Constraints) -> list[tuple[str, str]]:
    """All that is asked for, each with what it is."""
    named = [("prefix", wish.prefix)] * bool(wish.prefix)
    return named + [(kind, text) for kind, some in (("term", wish.terms), ("forbid", wish.forbid)) for text in some]


def check_constraints(wishes: list[Constraints], wording: ConstraintEncoder) -> None:
    """Raises UsageError with all that is wrong with any wish."""
    distinct = dict.fromkeys(wishes)
    causes = [cause for wish in distinct for cause in wording.check(wish)]
    if causes:
        raise UsageError(*dict.fromkeys(causes))


def _opens(surface: bytes) -> bool:
    """Whether a word that stands before these bytes ends there."""
    return not surface.decode("utf-8", "replace")[:1].isalnum()


def _script(character: str) -> str:
    return unicodedata.name(character, "").split(" ")[0]
