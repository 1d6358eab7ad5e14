"""Decoding tasks (one sentence with its constraints, in token ids) and their hypotheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Term:
    """Required phrase: one of the token sequences `forms` must occur in the target.

    `initial_forms` are valid only at the start of the target. `may_follow` is a mask of the tokens
    that may come next, so that the phrase ends with a whole word; None: any token may.
    """

    forms: tuple[tuple[int, ...], ...]
    initial_forms: tuple[tuple[int, ...], ...] = ()
    may_follow: npt.NDArray[np.bool_] | None = None  # (V,)


@dataclass(frozen=True, eq=False)
class BannedPhrase:
    """Forbidden words or phrases, as the tokens that would complete them.

    `surfaces` are the bytes of each token of the vocabulary. Each of `completions` consists of the
    bytes of the phrase before the token, the token, and whether those bytes must begin at a word
    boundary (they need not if the phrase begins inside the token).
    """

    surfaces: Sequence[bytes] = field(repr=False)
    completions: tuple[tuple[bytes, int, bool], ...] = field(repr=False)

    @cached_property
    def by_start(self) -> dict[bytes, list[tuple[int, bool]]]:
        """Completing tokens, and whether they need a word boundary, by the bytes before them."""
        by_start: dict[bytes, list[tuple[int, bool]]] = {}
        for before, token, at_boundary in self.completions:
            by_start.setdefault(before, []).append((token, at_boundary))
        return by_start

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Distinct lengths of the bytes before a completing token, longest first."""
        return tuple(sorted({len(before) for before in self.by_start}, reverse=True))


@dataclass(frozen=True, eq=False)
class Task:
    """One target to decode, and its constraints.

    `id` is chosen by the caller, and unique within a call. A target has at most `max_steps` tokens,
    end of sentence included; it begins with the tokens of `prefix`, contains each of `terms`, and
    contains none of `banned`. Samples depend only on `sampling_key` and the settings' seed.
    `byte_tokens` are those of `Vocabulary.byte_tokens`. The target contains each of `copies`
    exactly once, if `max_steps` leaves room for them, and no others of the vocabulary's
    `copy_tokens`.
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
    """A finished target.

    `ids` are its tokens without end of sentence; `log_prob` includes end of sentence; hypotheses
    are ranked by `score`. A `complete` hypothesis contains all required terms, and its copy tokens
    were not forced; incomplete hypotheses rank after complete ones.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    complete: bool = True
