"""Logits processors: rules that steer what a search selects, and never the log-probabilities that
it reports.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from regard.common.shapes import Array
from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.search.constraints import ConstraintState
from regard.search.task import BannedPhrase, Task

_LONGEST_CHARACTER = 4  # bytes of UTF-8
FORCED = -1e9
"""Score of a forced token that the model or another rule excludes."""
Bans = tuple[Array, Array]
"""Tokens that may not come next: row numbers, and beside each the token."""


class BeamView(Protocol):
    """Read-only view of the beams, which is all that a rule may see; row b·K + k is beam k of
    sentence b.
    """

    @property
    def tasks(self) -> tuple[Task, ...]: ...  # (B)
    @property
    def tokens(self) -> Array: ...  # (N,) the newest token of each row
    @property
    def history(
        self,
    ) -> Array: ...  # (N, t) all tokens so far; undefined beyond a sentence's length
    @property
    def lengths(self) -> Array: ...  # (B,) tokens so far
    @property
    def width(self) -> int: ...  # K
    @property
    def constraint_states(
        self,
    ) -> dict[int, ConstraintState]: ...  # of each row whose task has terms
    @property
    # Of each row whose task has copies.
    def missing_copies(self) -> dict[int, list[int]]: ...

    def prefix_of(self, row: int) -> tuple[int, ...]:
        """Return the token ids that a row has written."""


class Rule:
    """Logits processor: steers a search in one of three ways, cheapest first; by default it does
    nothing.

    `suppressed`: tokens that are never written. `bans`: tokens that may not come next, known before
    the model is asked. `adjust`: other scores in place of the log-probabilities; such a rule sees
    whole distributions, and must set `needs_all_logits`.
    """

    suppressed: Sequence[int] = ()
    needs_all_logits: bool = False

    def applies_to(self, task: Task) -> bool:  # noqa: ARG002
        """Return whether the rule concerns this sentence; a rule that concerns none costs
        nothing.
        """
        return True

    def bans(self, beams: BeamView) -> Bans | None:  # noqa: ARG002
        """Return the tokens that may not come next in each row."""
        return None

    def adjust(self, scores: Array, beams: BeamView) -> Array:  # noqa: ARG002
        """Return other scores (N, V) to select by; −∞ is never selected. The argument may be
        changed in place.
        """
        return scores


@dataclass(frozen=True)
class SuppressTokens(Rule):
    """Never write these tokens; by default those that stand for no text."""

    suppressed: Sequence[int] = (PAD, UNK, BOS)


@dataclass(frozen=True)
class MinLength(Rule):
    """Ban end of sentence before a target has `length` tokens."""

    length: int

    def bans(self, beams: BeamView) -> Bans:
        rows = np.flatnonzero((beams.lengths < self.length).repeat(beams.width))
        return rows, np.full(len(rows), EOS)


@dataclass(frozen=True)
class NoRepeat(Rule):
    """Ban tokens that would complete an n-gram a second time (Paulus et al. 2018, section 2.5)."""

    n: int

    def bans(self, beams: BeamView) -> Bans | None:
        lengths = beams.lengths.repeat(beams.width)
        n = self.n
        longest = int(lengths.max(initial=0))
        if longest < n:
            return None
        # (N, t − n + 1, n)
        ngrams = np.lib.stride_tricks.sliding_window_view(
            beams.history[:, :longest], n, axis=1
        )
        positions = lengths[:, None] + np.arange(1 - n, 0)  # of the last n − 1 tokens
        suffix = np.take_along_axis(beams.history, np.maximum(positions, 0), 1)
        written = np.arange(ngrams.shape[1]) + n <= lengths[:, None]
        rows, starts = np.nonzero(
            (ngrams[:, :, : n - 1] == suffix[:, None, :]).all(2) & written
        )
        keys = np.unique(rows * (1 << 32) + ngrams[rows, starts, n - 1])
        return keys >> 32, keys & ((1 << 32) - 1)


@dataclass(frozen=True)
class Prefix(Rule):
    """Force the tokens that a target must begin with."""

    needs_all_logits = True

    def applies_to(self, task: Task) -> bool:
        return bool(task.prefix)

    def adjust(self, scores: Array, beams: BeamView) -> Array:
        for b, task in enumerate(beams.tasks):
            if (length := int(beams.lengths[b])) < len(task.prefix):
                token = task.prefix[length]
                rows = slice(b * beams.width, (b + 1) * beams.width)
                forced = scores[rows, token].copy()
                scores[rows] = -np.inf
                scores[rows, token] = np.where(forced > -np.inf, forced, FORCED)
        return scores


@dataclass(frozen=True)
class RequiredTerms(Rule):
    """Ban end of sentence until every term is there, and tokens that would run on the last word of
    a term.
    """

    needs_all_logits = True

    def applies_to(self, task: Task) -> bool:
        return bool(task.terms)

    def adjust(self, scores: Array, beams: BeamView) -> Array:
        for row, state in beams.constraint_states.items():
            if not state.is_complete:
                scores[row, EOS] = -np.inf
            if state.may_follow is not None:
                scores[row, ~state.may_follow] = -np.inf
        return scores


@dataclass(frozen=True)
class BannedPhrases(Rule):
    """Ban the tokens that would complete a forbidden word or phrase, however it is segmented."""

    def applies_to(self, task: Task) -> bool:
        return bool(task.banned)

    def bans(self, beams: BeamView) -> Bans:
        banned: list[tuple[int, int]] = []
        for b, task in enumerate(beams.tasks):
            if not task.banned:
                continue
            surfaces = task.banned[0].surfaces
            size = max(max(phrase.lengths, default=0) for phrase in task.banned)
            for row in range(b * beams.width, (b + 1) * beams.width):
                text = _last_bytes(
                    surfaces, beams.prefix_of(row), size + _LONGEST_CHARACTER
                )
                banned += [
                    (row, token)
                    for token in dict.fromkeys(_completing_tokens(text, task.banned))
                ]
        pairs = np.array(banned, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def _completing_tokens(text: bytes, phrases: Sequence[BannedPhrase]) -> Iterator[int]:
    """Yield the tokens that would complete one of the phrases after this text."""
    for phrase in phrases:
        for length in phrase.lengths:
            before = len(text) - length
            for token, at_boundary in (
                phrase.by_start.get(text[before:], ()) if before >= 0 else ()
            ):
                if not at_boundary or is_word_boundary(text[:before]):
                    yield token


def _last_bytes(surfaces: Sequence[bytes], ids: Sequence[int], size: int) -> bytes:
    """Return at least the last `size` bytes of the text of these tokens, if it has as many."""
    parts = list[bytes]()
    total = 0
    for token in reversed(ids):
        if total >= size:
            break
        parts.append(surfaces[token])
        total += len(parts[-1])
    return b"".join(reversed(parts))


def is_word_boundary(text: bytes) -> bool:
    """Return whether a word may begin after this text: its last character is neither letter nor
    digit.
    """
    return not text[-_LONGEST_CHARACTER:].decode("utf-8", "ignore")[-1:].isalnum()


@dataclass(frozen=True)
class WholeCharacters(Rule):
    """Begin no character byte by byte that would end beyond the longest target, and end none with a
    space or two.

    No training text has spaces there, and a target of nothing else would be empty.
    """

    def applies_to(self, task: Task) -> bool:
        return bool(task.byte_tokens)

    def bans(self, beams: BeamView) -> Bans:
        late: list[tuple[int, int]] = []
        for row, token in enumerate(beams.tokens.tolist()):
            byte_tokens = beams.tasks[row // beams.width].byte_tokens
            if byte_tokens.get(token) == b" ":
                late += [
                    (row, EOS),
                    *(
                        (row, other)
                        for other, byte in byte_tokens.items()
                        if byte == b" "
                    ),
                ]
        for row in range(len(beams.tokens)):
            task = beams.tasks[row // beams.width]
            missing = beams.missing_copies.get(row, ())
            room = max(
                0,
                task.max_steps
                - 1
                - int(beams.lengths[row // beams.width])
                - len(missing),
            )
            if room < _LONGEST_CHARACTER:
                # Bytes that begin more than so many.
                least = (b"\x80", b"\xc0", b"\xe0", b"\xf0")[room]
                too_late = [
                    t
                    for t, byte in task.byte_tokens.items()
                    if byte >= least or (room == 1 and byte == b" ")
                ]
                late += ((row, token) for token in too_late)
        pairs = np.array(late, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def next_bytes(ids: Sequence[int], byte_tokens: Mapping[int, bytes]) -> list[int]:
    """Return the only tokens that may follow a prefix that ends within a character; none if that is
    whole.
    """
    text = b"".join(
        byte_tokens.get(token, b" ") for token in ids[-_LONGEST_CHARACTER + 1 :]
    )
    begun = text[codecs.utf_8_decode(text, "ignore", False)[1] :]
    return [
        token
        for token, byte in byte_tokens.items()
        if begun and begins_character(begun + byte)
    ]


@lru_cache(1 << 12)
def begins_character(text: bytes) -> bool:
    """Return whether there is a character in UTF-8 that begins with these bytes."""
    completed = (
        (text + 3 * last).decode("utf-8", "ignore") for last in (b"\x80", b"\xbf")
    )
    return any(character.encode().startswith(text) for character in completed)


@dataclass(frozen=True)
class LengthPenalty:
    """Divisor of a log-probability: ((5 + length) / 6)^α (Wu et al. 2016, equation 14), end of
    sentence counted.
    """

    alpha: float

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)
