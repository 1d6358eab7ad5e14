"""Tokenise constraints: prefix, required terms and forbidden words become token ids."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from regard.common.errors import UsageError
from regard.common.shapes import Array
from regard.data.letter_case import PLAIN, LetterCase
from regard.data.text import clean
from regard.data.vocabulary import EOS, UNK
from regard.search.logits_processors import is_word_boundary
from regard.search.settings import SearchSettings
from regard.search.task import BannedPhrase, Term
from regard.text.constraints import Constraints

_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts that are written without spaces between words.

They are identified by the first word of the Unicode names of their letters.
"""
_EXCERPT = 60
"""Maximum number of characters of a text that a message quotes."""
CACHE_SIZE = 10_000
"""Maximum number of words or phrases whose token ids are cached."""


class TargetVocabulary(Protocol):
    """Vocabulary with which constraints are tokenised, from a model folder or a runtime file."""

    def encode(self, text: str, /) -> list[int]:
        """Encode a line, without BOS and EOS."""

    def tokens(self, ids: Sequence[int], /) -> list[str]:
        """Return the token of each id."""

    def id_of(self, token: str, /) -> int:
        """Return the id of a token; UNK if there is no such token."""

    @property
    def surface_bytes(self) -> list[bytes]:
        """Bytes that each token adds to a text."""


class ConstraintEncoder:
    """Tokenises constraints with a vocabulary, and caches the result for each word or phrase."""

    def __init__(self, vocabulary: TargetVocabulary, case: LetterCase = PLAIN) -> None:
        """Create an encoder; `case` holds the rules of the target language for capital letters."""
        self.vocabulary = vocabulary
        self._case = case
        self._terms: dict[str, Term] = {}
        self._phrases: dict[tuple[str, ...], BannedPhrase] = {}
        self._phrase_count = 0

    def check(
        self,
        constraints: Constraints,
        where: str = "",
        limits: SearchSettings | None = None,
    ) -> list[str]:
        """Return a sentence for each problem of the constraints, beginning with `where`.

        If they exceed `limits`, nothing else is checked.
        """
        if constraints != Constraints() and not any(self.vocabulary.surface_bytes):
            return [
                f"{where}a word cannot be required or forbidden: the tokenizer is of a plug-in, "
                "which does not say which text each token adds; leave prefix, terms and forbid out"
            ]
        limits = limits or SearchSettings()
        if len(constraints.forbid) > limits.max_forbidden:
            return [
                f"{where}forbid: wanted at most {limits.max_forbidden:,} words and phrases, got "
                f"{len(constraints.forbid):,}; leave some out, or raise that limit "
                "(`max_forbidden`)"
            ]

        required = [
            (kind, text, self.vocabulary.encode(text))
            for kind, text in _required_texts(constraints)
        ]
        total = sum(len(ids) for _, _, ids in required)
        if total > limits.max_required:
            kinds = " and ".join(dict.fromkeys(kind for kind, _, _ in required))
            return [
                f"{where}{kinds}: wanted at most {limits.max_required:,} tokens in all, got "
                f"{total:,}; require less, or raise that limit (`max_required`)"
            ]

        unwritable = [
            f"{where}{kind} {_excerpt(text)}: has characters that the model cannot write; leave "
            "them out"
            for kind, text, ids in required
            if UNK in ids
        ]
        return [*unwritable, *contradictions(constraints, where, self._case)]

    def encode_prefix(self, text: str) -> tuple[int, ...]:
        """Tokenise the beginning of a target."""
        return tuple(self.vocabulary.encode(text))

    def encode_terms(self, texts: tuple[str, ...]) -> tuple[Term, ...]:
        """Tokenise words or phrases that must appear."""
        return tuple(self._term(clean(text)) for text in texts)

    def encode_forbidden(self, texts: tuple[str, ...]) -> tuple[BannedPhrase, ...]:
        """Tokenise words or phrases that must not appear, in every possible segmentation."""
        if not texts:
            return ()
        phrases = tuple(dict.fromkeys(map(clean, texts)))
        banned = self._phrases.get(phrases)
        if banned is None:
            _limit(self._phrases, self._phrase_count)
            if not self._phrases:
                self._phrase_count = 0
            self._phrase_count += len(phrases)
            forms = dict.fromkeys(
                form for text in phrases for form in (text, self._case.initial(text))
            )
            completions = dict.fromkeys(
                completion
                for form in forms
                for completion in self._completions(form.encode())
            )
            banned = BannedPhrase(self.vocabulary.surface_bytes, tuple(completions))
            # Not read back from the cache below, which another thread may empty.
            self._phrases[phrases] = banned
        return (banned,)

    def _term(self, text: str) -> Term:
        """Tokenise a word or phrase, and its capitalised form for the start of a sentence."""
        term = self._terms.get(text)
        if term is None:
            _limit(self._terms, len(self._terms))
            forms = [tuple(self.vocabulary.encode(text))]
            if _script(text[0]) in _UNSPACED:
                forms.append(self._without_space(forms[0]))
            initial_forms: tuple[tuple[int, ...], ...] = ()
            capitalised = self._case.initial(text)
            if capitalised != text:
                initial_forms = (tuple(self.vocabulary.encode(capitalised)),)
            distinct_forms = tuple(dict.fromkeys(forms))
            term = Term(distinct_forms, initial_forms, self._may_follow(text[-1]))
            self._terms[text] = term
        return term

    def _without_space(self, form: tuple[int, ...]) -> tuple[int, ...]:
        """Return the form without the space before its first token.

        Returns it unchanged if the vocabulary has no tokens for that.
        """
        unspaced = self.vocabulary.tokens(form)[0].removeprefix("▁")
        ids = [self.vocabulary.id_of(unspaced)] if unspaced else []
        if UNK in ids:
            ids = [self.vocabulary.id_of(character) for character in unspaced]
        unspaced_form = (*ids, *form[1:])
        is_writable = bool(unspaced_form) and UNK not in unspaced_form
        return unspaced_form if is_writable else form

    def _may_follow(self, last: str) -> Array | None:
        """Return a mask (V,) of the tokens that may follow a word that ends with this character.

        They are EOS and the tokens that begin another word. Returns None if any token may follow:
        in Korean, where particles are attached, in scripts without spaces, and after punctuation.
        """
        if not last.isalnum() or _script(last) in (*_UNSPACED, "HANGUL"):
            return None
        return self._boundaries

    @cached_property
    def _boundaries(self) -> Array:
        """Mask (V,) of the tokens that do not continue a word, end of sentence included."""
        firsts = [
            surface.decode("utf-8", "replace")[:1]
            for surface in self.vocabulary.surface_bytes
        ]
        mask = np.array(
            [first not in ("", "\ufffd") and not first.isalnum() for first in firsts]
        )
        mask[EOS] = True
        mask.setflags(write=False)  # all terms share it
        return mask

    def _completions(self, phrase: bytes) -> Iterator[tuple[bytes, int, bool]]:
        """Yield the tokens that can complete the phrase.

        Each comes with the bytes of the phrase before it, and with whether these must begin at a
        word boundary.
        """
        for length in range(1, min(len(phrase), self._longest_surface + 1)):
            for surface, token in self._tokens_starting_with(phrase[-length:]):
                if _ends_word(surface[length:]):
                    yield phrase[:-length], token, True

        # Tokens that contain the whole phrase.
        joined, starts = self._joined_surfaces
        position = joined.find(phrase)
        while position >= 0:
            token = bisect_right(starts, position) - 1
            surface = self.vocabulary.surface_bytes[token]
            start = position - starts[token]
            end = start + len(phrase)
            if is_word_boundary(surface[:start]) and _ends_word(surface[end:]):
                yield b"", token, start == 0
            position = joined.find(phrase, position + 1)

    def _tokens_starting_with(self, start: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the surface and id of each token whose surface begins with `start`."""
        first = bisect_left(self._sorted_surfaces, (start, 0))
        for i in range(first, len(self._sorted_surfaces)):
            if not self._sorted_surfaces[i][0].startswith(start):
                return
            yield self._sorted_surfaces[i]

    @cached_property
    def _longest_surface(self) -> int:
        return max(map(len, self.vocabulary.surface_bytes))

    @cached_property
    def _joined_surfaces(self) -> tuple[bytes, list[int]]:
        """All surfaces, joined by a byte that no text has, and the start of each of them."""
        surfaces = self.vocabulary.surface_bytes
        ends = accumulate(len(surface) + 1 for surface in surfaces)
        starts = [0, *ends][:-1]
        return b"\xff".join(surfaces), starts

    @cached_property
    def _sorted_surfaces(self) -> list[tuple[bytes, int]]:
        return sorted(
            (surface, token)
            for token, surface in enumerate(self.vocabulary.surface_bytes)
        )


def contradictions(
    constraints: Constraints, where: str = "", case: LetterCase = PLAIN
) -> list[str]:
    """Return a sentence, beginning with `where`, for each problem that any model would have."""
    texts = _required_texts(constraints)
    texts += [("forbid", text) for text in constraints.forbid]
    causes = [
        f"{where}{kind} {_excerpt(text)}: is empty; give a word"
        for kind, text in texts
        if not clean(text)
    ]

    required = dict.fromkeys(clean(text) for _, text in _required_texts(constraints))
    all_required = "\n".join(required)
    for phrase in constraints.forbid:
        cleaned = clean(phrase)
        # One search in the joined texts settles most phrases.
        if not cleaned or not _has_phrase(all_required, cleaned, case):
            continue
        causes += [
            f"{where}forbid {_excerpt(phrase)}: is also required, by {_excerpt(text)}; leave "
            "one of them out"
            for text in required
            if _has_phrase(text, cleaned, case)
        ]
    return causes


def _has_phrase(text: str, phrase: str, case: LetterCase) -> bool:
    """Return whether a text contains this word or phrase, unchanged or capitalised."""
    forms = [form for form in (phrase, case.initial(phrase)) if form in text]
    pattern = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, forms))})(?![^\W_])"
    return bool(forms) and re.search(pattern, text) is not None


def _limit(
    cache: dict[str, Term] | dict[tuple[str, ...], BannedPhrase], size: int
) -> None:
    """Empty the cache if it is full, so that it does not grow without limit."""
    if size >= CACHE_SIZE:
        cache.clear()


def _required_texts(constraints: Constraints) -> list[tuple[str, str]]:
    """Return the kind and the text of everything that a target must contain."""
    prefix = [("prefix", constraints.prefix)] if constraints.prefix else []
    return prefix + [("term", text) for text in constraints.terms]


def _excerpt(text: str) -> str:
    """Quote a text, or the beginning of a long one."""
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")


def check_constraints(
    per_source: list[Constraints], encoder: ConstraintEncoder, settings: SearchSettings
) -> None:
    """Raise UsageError with all problems of the constraints of any source.

    Also raises UsageError if the settings exclude constraints of this kind.
    """
    causes = [
        cause
        for distinct in dict.fromkeys(per_source)
        for cause in encoder.check(distinct, "", settings)
    ]
    UsageError.raise_all(dict.fromkeys(causes))
    has_terms = any(constraints.terms for constraints in per_source)
    if has_terms and (settings.sample or settings.groups > 1):
        option = "sample" if settings.sample else "groups"
        raise UsageError(
            f"terms and {option}: terms need the whole beam of one search; leave one of them out"
        )


def check_required(constraints: Constraints, required: int, max_steps: int) -> None:
    """Raise UsageError if a target of `max_steps` tokens has no room for the `required` ones."""
    if required and required >= max_steps:
        phrases = ", ".join(repr(text) for _, text in _required_texts(constraints))
        raise UsageError(
            f"{phrases}: {required} tokens are required, and a target may have at most "
            f"{max_steps - 1} (`max_length`, or the model's limit); raise it, or require less"
        )


def _ends_word(following: bytes) -> bool:
    """Return whether a word ends before these bytes."""
    return not following.decode("utf-8", "replace")[:1].isalnum()


def _script(character: str) -> str:
    return unicodedata.name(character, "").split(" ")[0]
