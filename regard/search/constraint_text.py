"""Tokenise constraints: prefix, required terms and forbidden words as text, into the token ids that
a search checks.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

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
"""Scripts written without spaces between words, by the first word of their letters' Unicode
names.
"""
_EXCERPT = 60  # characters
CACHE_SIZE = 10_000
"""Most words or phrases whose token ids are cached."""


class TargetVocabulary(Protocol):
    """Vocabulary that constraints are tokenised with: that of a model folder, or of a runtime
    file.
    """

    def encode(self, text: str, /) -> list[int]:
        """Encode a line, without BOS and EOS."""

    def tokens(self, ids: Sequence[int], /) -> list[str]:
        """Return the token of each id."""

    def id_of(self, token: str, /) -> int:
        """Return the id of a token; UNK if there is no such token."""

    @property
    def surface_bytes(self) -> list[bytes]:
        """The bytes that each token adds to a text."""


class ConstraintEncoder:
    """Tokenises constraints with a vocabulary, and caches the result for each word or phrase."""

    def __init__(self, vocabulary: TargetVocabulary, case: LetterCase = PLAIN) -> None:
        """`case`: the rules of the target's language, by which a word begins a sentence."""
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
        """Return what is wrong with the constraints, a sentence for each cause, beginning with
        `where`.

        If they exceed `limits`, nothing else is checked.
        """
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
            self._phrase_count = len(phrases) + (
                self._phrase_count if self._phrases else 0
            )
            forms = dict.fromkeys(
                form for text in phrases for form in (text, self._case.initial(text))
            )
            completions = dict.fromkeys(
                way for form in forms for way in self._completions(form.encode())
            )
            banned = BannedPhrase(self.vocabulary.surface_bytes, tuple(completions))
            self._phrases[phrases] = banned  # another thread may empty the cache
        return (banned,)

    def _term(self, text: str) -> Term:
        """Tokenise a word or phrase; capitalised too, for the start of the sentence."""
        term = self._terms.get(text)
        if term is None:
            _limit(self._terms, len(self._terms))
            forms = [tuple(self.vocabulary.encode(text))]
            if _script(text[0]) in _UNSPACED:
                forms.append(self._without_space(forms[0]))
            capitalised = self._case.initial(text)
            initial = (
                ()
                if capitalised == text
                else (tuple(self.vocabulary.encode(capitalised)),)
            )
            term = Term(
                tuple(dict.fromkeys(forms)), initial, self._may_follow(text[-1])
            )
            self._terms[text] = term
        return term

    def _without_space(self, form: tuple[int, ...]) -> tuple[int, ...]:
        """Return the same tokens without the space before the first; unchanged if that cannot be
        written.
        """
        first, *rest = self.vocabulary.tokens(form)
        unspaced = [first.removeprefix("▁")] if first != "▁" else []
        ids = [self.vocabulary.id_of(token) for token in unspaced]
        if UNK in ids:
            ids = [self.vocabulary.id_of(character) for character in unspaced[0]]
        inner = (*ids, *form[1:])
        return form if UNK in inner or (not rest and not ids) else inner

    def _may_follow(self, last: str) -> Array | None:
        """Return the tokens (V,) that may follow a word ending with this character: those that
        begin another, and EOS.

        None: any. In Korean a particle may follow; in scripts without spaces, and after
        punctuation, anything.
        """
        if not last.isalnum() or _script(last) in (*_UNSPACED, "HANGUL"):
            return None
        return self._boundaries

    @cached_property
    def _boundaries(self) -> Array:
        """Tokens (V,) that do not continue a word, and end of sentence."""
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
        """Yield each token that could complete the phrase: the bytes before it, the token, and if
        they begin a word.
        """
        for length in range(1, min(len(phrase), self._longest_surface + 1)):
            for surface, token in self._tokens_starting_with(phrase[-length:]):
                if _ends_word(surface[length:]):
                    yield phrase[:-length], token, True
        surfaces, (joined, starts) = (
            self.vocabulary.surface_bytes,
            self._joined_surfaces,
        )
        position = joined.find(phrase)
        while position >= 0:
            token = bisect_right(starts, position) - 1
            start = position - starts[token]
            if is_word_boundary(surfaces[token][:start]) and _ends_word(
                surfaces[token][start + len(phrase) :]
            ):
                yield b"", token, start == 0
            position = joined.find(phrase, position + 1)

    def _tokens_starting_with(self, start: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the surface and id of each token whose surface begins with `start`."""
        for i in range(
            bisect_left(self._sorted_surfaces, (start, 0)), len(self._sorted_surfaces)
        ):
            if not self._sorted_surfaces[i][0].startswith(start):
                return
            yield self._sorted_surfaces[i]

    @cached_property
    def _longest_surface(self) -> int:
        return max(map(len, self.vocabulary.surface_bytes))

    @cached_property
    def _joined_surfaces(self) -> tuple[bytes, list[int]]:
        """All surfaces in one, with a byte between them that no text has, and where each of them
        starts.
        """
        lengths = (len(surface) + 1 for surface in self.vocabulary.surface_bytes)
        return b"\xff".join(self.vocabulary.surface_bytes), [0, *accumulate(lengths)][
            :-1
        ]

    @cached_property
    def _sorted_surfaces(self) -> list[tuple[bytes, int]]:
        return sorted(
            (surface, token)
            for token, surface in enumerate(self.vocabulary.surface_bytes)
        )


def contradictions(
    constraints: Constraints, where: str = "", case: LetterCase = PLAIN
) -> list[str]:
    """Return what is wrong with constraints for any model, a sentence for each cause, beginning
    with `where`.
    """
    causes = [
        f"{where}{kind} {_excerpt(text)}: is empty; give a word"
        for kind, text in [
            *_required_texts(constraints),
            *(("forbid", text) for text in constraints.forbid),
        ]
        if not clean(text)
    ]
    required = dict.fromkeys(clean(text) for _, text in _required_texts(constraints))
    together = "\n".join(required)
    for phrase in constraints.forbid:
        if (cleaned := clean(phrase)) and _has_phrase(together, cleaned, case):
            causes += [
                f"{where}forbid {_excerpt(phrase)}: is also required, by {_excerpt(text)}; leave "
                "one of them out"
                for text in required
                if _has_phrase(text, cleaned, case)
            ]
    return causes


def _has_phrase(text: str, phrase: str, case: LetterCase) -> bool:
    """Return whether a text holds this word or phrase, as it is or capitalised."""
    forms = [form for form in (phrase, case.initial(phrase)) if form in text]
    pattern = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, forms))})(?![^\W_])"
    return bool(forms) and re.search(pattern, text) is not None


def _limit(cache: dict[Any, Any], size: int) -> None:
    """Empty a full cache: it must not grow with the text."""
    if size >= CACHE_SIZE:
        cache.clear()


def _required_texts(constraints: Constraints) -> list[tuple[str, str]]:
    """Return the kind and the text of what a target must hold."""
    prefix = [("prefix", constraints.prefix)] if constraints.prefix else []
    return prefix + [("term", text) for text in constraints.terms]


def _excerpt(text: str) -> str:
    """Quote a text, a long one in part."""
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")


def check_constraints(
    per_source: list[Constraints], encoder: ConstraintEncoder, settings: SearchSettings
) -> None:
    """Raise UsageError with all that is wrong with any source's constraints, and for those that
    settings rule out.
    """
    causes = [
        cause
        for distinct in dict.fromkeys(per_source)
        for cause in encoder.check(distinct, "", settings)
    ]
    UsageError.raise_all(dict.fromkeys(causes))
    if any(item.terms for item in per_source) and (
        settings.sample or settings.groups > 1
    ):
        option = "sample" if settings.sample else "groups"
        raise UsageError(
            f"terms and {option}: terms need the whole beam of one search; leave one of them out"
        )


def check_required(constraints: Constraints, required: int, max_steps: int) -> None:
    """Raise UsageError if a target of at most `max_steps` tokens has no room for so many that are
    required.
    """
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
