"""Tokenise constraints: prefix, required terms and forbidden words as text, into the token ids that a search checks."""

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
from regard.search.rules import is_word_boundary
from regard.search.task import BannedPhrase, Term
from regard.shapes import Array

_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts written without spaces between words, by the first word of their letters' Unicode names."""
CACHE_SIZE = 10_000
"""Most words or phrases whose token ids are cached."""


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one line, in words.

    It begins with `prefix`, holds each of `terms`, and none of `forbid`. Empty: unconstrained.
    """

    prefix: str = ""
    terms: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()


class ConstraintEncoder:
    """Tokenises constraints with a vocabulary, and caches the result for each word or phrase."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._terms: dict[str, Term] = {}
        self._phrases: dict[str, BannedPhrase] = {}

    def check(self, constraints: Constraints, where: str = "") -> list[str]:
        """Return what is wrong with the constraints, a sentence for each cause, beginning with `where`."""
        unwritable = [
            f"{where}{kind} {text!r}: has characters that the model cannot write; leave them out"
            for kind, text in _named_texts(constraints)
            if kind != "forbid" and UNK in self.vocabulary.encode(text)
        ]
        return [*unwritable, *contradictions(constraints, where)]

    def encode_prefix(self, text: str) -> tuple[int, ...]:
        """Tokenise the beginning of a target."""
        return tuple(self.vocabulary.encode(text))

    def encode_terms(self, texts: tuple[str, ...]) -> tuple[Term, ...]:
        """Tokenise words or phrases that must appear."""
        return tuple(self._term(clean(text)) for text in texts)

    def encode_forbidden(self, texts: tuple[str, ...]) -> tuple[BannedPhrase, ...]:
        """Tokenise words or phrases that must not appear, in every possible segmentation."""
        return tuple(self._banned_phrase(clean(text)) for text in texts)

    def _term(self, text: str) -> Term:
        """Tokenise a word or phrase; capitalised too, for the start of the sentence."""
        if text not in self._terms:
            _limit(self._terms)
            forms = [tuple(self.vocabulary.encode(text))]
            if _script(text[0]) in _UNSPACED:
                forms.append(self._without_space(forms[0]))
            capitalised = text[0].upper() + text[1:]
            initial = () if capitalised == text else (tuple(self.vocabulary.encode(capitalised)),)
            self._terms[text] = Term(tuple(dict.fromkeys(forms)), initial, self._may_follow(text[-1]))
        return self._terms[text]

    def _without_space(self, form: tuple[int, ...]) -> tuple[int, ...]:
        """Return the same tokens without the space before the first; unchanged if that cannot be written."""
        first, *rest = self.vocabulary.tokens(form)
        unspaced = [first.removeprefix("▁")] if first != "▁" else []
        ids = [self.vocabulary.id_of(token) for token in unspaced]
        if UNK in ids:
            ids = [self.vocabulary.id_of(character) for character in unspaced[0]]
        inner = (*ids, *form[1:])
        return form if UNK in inner or (not rest and not ids) else inner

    def _may_follow(self, last: str) -> Array | None:
        """Return the tokens (V,) that may follow a word ending with this character: those that begin another, and EOS.

        None: any. In Korean a particle may follow; in scripts without spaces, and after punctuation, anything.
        """
        if not last.isalnum() or _script(last) in (*_UNSPACED, "HANGUL"):
            return None
        return self._boundaries

    @cached_property
    def _boundaries(self) -> Array:
        """Tokens (V,) that do not continue a word, and end of sentence."""
        firsts = [surface.decode("utf-8", "replace")[:1] for surface in self.vocabulary.surface_bytes]
        mask = np.array([first not in ("", "\ufffd") and not first.isalnum() for first in firsts])
        mask[EOS] = True
        mask.setflags(write=False)  # all terms share it
        return mask

    def _banned_phrase(self, text: str) -> BannedPhrase:
        """Find every way to complete a word or phrase, as it is and capitalised."""
        if text not in self._phrases:
            _limit(self._phrases)
            forms = dict.fromkeys([text, text[0].upper() + text[1:]])
            completions = dict.fromkeys(way for form in forms for way in self._completions(form.encode()))
            self._phrases[text] = BannedPhrase(self.vocabulary.surface_bytes, tuple(completions))
        return self._phrases[text]

    def _completions(self, phrase: bytes) -> Iterator[tuple[bytes, int, bool]]:
        """Yield each token that could complete the phrase: the bytes before it, the token, and if they begin a word."""
        for length in range(1, len(phrase)):
            for surface, token in self._tokens_starting_with(phrase[-length:]):
                if _ends_word(surface[length:]):
                    yield phrase[:-length], token, True
        for token, surface in enumerate(self.vocabulary.surface_bytes):
            start = surface.find(phrase)
            while start >= 0:
                if is_word_boundary(surface[:start]) and _ends_word(surface[start + len(phrase) :]):
                    yield b"", token, start == 0
                start = surface.find(phrase, start + 1)

    def _tokens_starting_with(self, start: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the surface and id of each token whose surface begins with `start`."""
        for i in range(bisect_left(self._sorted_surfaces, (start, 0)), len(self._sorted_surfaces)):
            if not self._sorted_surfaces[i][0].startswith(start):
                return
            yield self._sorted_surfaces[i]

    @cached_property
    def _sorted_surfaces(self) -> list[tuple[bytes, int]]:
        return sorted((surface, token) for token, surface in enumerate(self.vocabulary.surface_bytes))


def contradictions(constraints: Constraints, where: str = "") -> list[str]:
    """Return what is wrong with constraints for any model, a sentence for each cause, beginning with `where`."""
    causes = [
        f"{where}{kind} {text!r}: is empty; give a word" for kind, text in _named_texts(constraints) if not clean(text)
    ]
    required = [clean(constraints.prefix), *map(clean, constraints.terms)]
    return causes + [
        f"{where}forbid {phrase!r}: is also required, by {text!r}; leave one of them out"
        for phrase in constraints.forbid
        for text in required
        if clean(phrase) and _has_phrase(text, clean(phrase))
    ]


def _has_phrase(text: str, phrase: str) -> bool:
    """Return whether a text holds this word or phrase, as it is or capitalised."""
    forms = (re.escape(form) for form in (phrase, phrase[0].upper() + phrase[1:]))
    return re.search(rf"(?<![^\W_])(?:{'|'.join(forms)})(?![^\W_])", text) is not None


def _limit(cache: dict[str, Any]) -> None:
    """Empty a full cache: it must not grow with the text."""
    if len(cache) >= CACHE_SIZE:
        cache.clear()


def _named_texts(constraints: Constraints) -> list[tuple[str, str]]:
    """Return the kind and the text of each constraint."""
    named = [("prefix", constraints.prefix)] * bool(constraints.prefix)
    named += [("term", text) for text in constraints.terms]
    return named + [("forbid", text) for text in constraints.forbid]


def check_constraints(constraints: list[Constraints], encoder: ConstraintEncoder) -> None:
    """Raise UsageError with all that is wrong with any line's constraints."""
    causes = [cause for distinct in dict.fromkeys(constraints) for cause in encoder.check(distinct)]
    if causes:
        raise UsageError(*dict.fromkeys(causes))


def _ends_word(following: bytes) -> bool:
    """Return whether a word ends before these bytes."""
    return not following.decode("utf-8", "replace")[:1].isalnum()


def _script(character: str) -> str:
    return unicodedata.name(character, "").split(" ")[0]
