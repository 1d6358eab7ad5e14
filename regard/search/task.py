"""Decoding tasks and their results: constraints of one sentence in token ids, and the hypotheses
found for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Term:
    """Required phrase of a lexical constraint: one of the token sequences `forms` must occur in the
    target.

    `initial_forms` count at the very start of the target only. `may_follow` marks the tokens that
    may come next, so that the last word is a whole one; None: any.
    """

    forms: tuple[tuple[int, ...], ...]
    initial_forms: tuple[tuple[int, ...], ...] = ()
    may_follow: npt.NDArray[np.bool_] | None = None  # (V,)


@dataclass(frozen=True, eq=False)
class BannedPhrase:
    """Forbidden words or phrases, as the tokens that would complete them, by the bytes that stand
    before them.

    `surfaces`: the bytes that each token of the vocabulary stands for. `completions`: the bytes
    before, the token, and whether those bytes must begin at a word boundary (False: the phrase
    begins inside the token).
    """

    surfaces: Sequence[bytes] = field(repr=False)
    completions: tuple[tuple[bytes, int, bool], ...] = field(repr=False)

    @cached_property
    def by_start(self) -> dict[bytes, list[tuple[int, bool]]]:
        """The tokens, and whether a word boundary is needed, by the bytes before."""
        by_start: dict[bytes, list[tuple[int, bool]]] = {}
        for before, token, at_boundary in self.completions:
            by_start.setdefault(before, []).append((token, at_boundary))
        return by_start

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The different numbers of bytes before, longest first."""
        return tuple(sorted({len(before) for before in self.by_start}, reverse=True))


@dataclass(frozen=True, eq=False)
class Task:
    """One target to decode, and its constraints.

    `id` is the caller's, and unique within a call. A target has at most `max_steps` tokens, end of
    sentence included; it begins with the tokens of `prefix`, holds every one of `terms` and none of
    `banned`. Samples depend on `sampling_key` and the settings' seed alone. `byte_tokens`: see
    `Vocabulary.byte_tokens`. Of the vocabulary's `copy_tokens` it holds each of `copies` exactly
    once, where `max_steps` has room for them, and no others.
    """

    id: int
    max_steps: int
    prefix: tuple[int, ...] = ()
    terms: tuple[Term, ...] = ()
    banned: tuple[BannedPhrase, ...] = ()
    sampling_key: int = 0
    byte_tokens: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    copies: tuple[int, ...] = ()
    copy_tokens: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hypothesis:
    """A finished target: token ids without end of sentence, their log-probability with it, and the
    score it ranks by.

    `complete`: it holds all required terms, and the model has placed its copy tokens itself;
    incomplete hypotheses rank after complete ones.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    complete: bool = True
