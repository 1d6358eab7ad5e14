"""Logits processors: rules that change the scores by which a search selects tokens.

They never change the log-probabilities that the search reports.
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

_LONGEST_CHARACTER = 4
"""Maximum number of bytes of a character in UTF-8."""
FORCED = -1e9
"""Score of a forced token that the model or another rule excludes."""
Bans = tuple[Array, Array]
"""Tokens that may not come next, as two arrays: row i of the first may not select token i."""


class BeamView(Protocol):
    """Read-only view of the beams that a rule may see; row b·K + k is beam k of sentence b."""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Tasks of the B sentences."""

    @property
    def tokens(self) -> Array:
        """Newest token of each row, (N,)."""

    @property
    def history(self) -> Array:
        """All tokens so far, (N, t); undefined beyond a sentence's length."""

    @property
    def lengths(self) -> Array:
        """Number of tokens so far, (B,)."""

    @property
    def width(self) -> int:
        """Number of beams K of each sentence."""

    @property
    def constraint_states(self) -> dict[int, ConstraintState]:
        """State of the required terms, for each row whose task has terms."""

    @property
    def missing_copies(self) -> dict[int, list[int]]:
        """Copy tokens that a row has not produced yet, for each row whose task has copies."""

    def prefix_of(self, row: int) -> tuple[int, ...]:
        """Return the token ids of a row's hypothesis."""


class Rule:
    """Logits processor: steers a search in one or more of three ways; by default it does nothing.

    From the cheapest to the dearest: `suppressed` tokens are never selected; `bans` excludes tokens
    in a step, before the model is asked; `adjust` replaces the log-probabilities by other scores.
    A rule with `adjust` sees whole distributions, and must set `needs_all_logits`.
    """

    suppressed: Sequence[int] = ()
    needs_all_logits: bool = False

    def applies_to(self, task: Task) -> bool:  # noqa: ARG002
        """Return whether the rule is needed for this task; one that no task needs costs nothing."""
        return True

    def bans(self, beams: BeamView) -> Bans | None:  # noqa: ARG002
        """Return the tokens that may not come next in each row."""
        return None

    def adjust(self, scores: Array, beams: BeamView) -> Array:  # noqa: ARG002
        """Return the scores (N, V) to select by; a token of score −∞ is never selected.

        The argument may be changed in place.
        """
        return scores


@dataclass(frozen=True)
class SuppressTokens(Rule):
    """Never select these tokens; by default those that stand for no text."""

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
        is_defined = np.arange(ngrams.shape[1]) + n <= lengths[:, None]
        begins_with_suffix = (ngrams[:, :, : n - 1] == suffix[:, None, :]).all(2)
        rows, starts = np.nonzero(begins_with_suffix & is_defined)

        # Row and token as one number, so that `unique` drops duplicate pairs.
        pairs = np.unique(rows * (1 << 32) + ngrams[rows, starts, n - 1])
        return pairs >> 32, pairs & ((1 << 32) - 1)


@dataclass(frozen=True)
class Prefix(Rule):
    """Force the tokens that a target must begin with."""

    needs_all_logits = True

    def applies_to(self, task: Task) -> bool:
        return bool(task.prefix)

    def adjust(self, scores: Array, beams: BeamView) -> Array:
        for b, task in enumerate(beams.tasks):
            length = int(beams.lengths[b])
            if length >= len(task.prefix):
                continue
            token = task.prefix[length]
            rows = slice(b * beams.width, (b + 1) * beams.width)
            forced = scores[rows, token].copy()
            scores[rows] = -np.inf
            scores[rows, token] = np.where(forced > -np.inf, forced, FORCED)
        return scores


@dataclass(frozen=True)
class RequiredTerms(Rule):
    """Ban end of sentence until every term is complete.

    Also ban tokens that would continue the last word of a term that has just been completed.
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
                prefix = beams.prefix_of(row)
                text = _last_bytes(surfaces, prefix, size + _LONGEST_CHARACTER)
                tokens = dict.fromkeys(_completing_tokens(text, task.banned))
                banned += [(row, token) for token in tokens]
        pairs = np.array(banned, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def _completing_tokens(text: bytes, phrases: Sequence[BannedPhrase]) -> Iterator[int]:
    """Yield the tokens that would complete one of the phrases after this text."""
    for phrase in phrases:
        for length in phrase.lengths:
            start = len(text) - length
            if start < 0:
                continue
            for token, at_boundary in phrase.by_start.get(text[start:], ()):
                if not at_boundary or is_word_boundary(text[:start]):
                    yield token


def _last_bytes(surfaces: Sequence[bytes], ids: Sequence[int], size: int) -> bytes:
    """Return the end of the text of these tokens: `size` bytes or more, or all if it is shorter."""
    parts = list[bytes]()
    total = 0
    for token in reversed(ids):
        if total >= size:
            break
        parts.append(surfaces[token])
        total += len(parts[-1])
    return b"".join(reversed(parts))


def is_word_boundary(text: bytes) -> bool:
    """Return whether a word may begin after this text.

    That is so if its last character is neither a letter nor a digit.
    """
    return not text[-_LONGEST_CHARACTER:].decode("utf-8", "ignore")[-1:].isalnum()


@dataclass(frozen=True)
class WholeCharacters(Rule):
    """Ban bytes that begin a character for which the target has no room left.

    Also ban end of sentence and a second space after a space: no training text ends with spaces or
    has two of them, and a target of nothing but spaces would be empty.
    """

    def applies_to(self, task: Task) -> bool:
        return bool(task.byte_tokens)

    def bans(self, beams: BeamView) -> Bans:
        banned: list[tuple[int, int]] = []
        for row, token in enumerate(beams.tokens.tolist()):
            b = row // beams.width
            task = beams.tasks[b]
            byte_tokens = task.byte_tokens
            if byte_tokens.get(token) == b" ":
                spaces = [t for t, byte in byte_tokens.items() if byte == b" "]
                banned += [(row, t) for t in (EOS, *spaces)]

            missing = len(beams.missing_copies.get(row, ()))
            room = max(0, task.max_steps - 1 - int(beams.lengths[b]) - missing)
            if room < _LONGEST_CHARACTER:
                # From this byte on, a byte begins a character of more than `room` bytes.
                least = (b"\x80", b"\xc0", b"\xe0", b"\xf0")[room]
                for t, byte in byte_tokens.items():
                    if byte >= least or (room == 1 and byte == b" "):
                        banned.append((row, t))
        pairs = np.array(banned, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def next_bytes(ids: Sequence[int], byte_tokens: Mapping[int, bytes]) -> list[int]:
    """Return the only tokens that may follow if a prefix ends within a character, else none."""
    text = b"".join(
        byte_tokens.get(token, b" ") for token in ids[-_LONGEST_CHARACTER + 1 :]
    )
    _, decoded = codecs.utf_8_decode(text, "ignore", False)
    begun = text[decoded:]
    if not begun:
        return []
    return [
        token for token, byte in byte_tokens.items() if begins_character(begun + byte)
    ]


@lru_cache(1 << 12)
def begins_character(text: bytes) -> bool:
    """Return whether there is a character in UTF-8 that begins with these bytes."""
    # The lowest and the highest continuation byte complete every valid beginning.
    completed = (
        (text + 3 * last).decode("utf-8", "ignore") for last in (b"\x80", b"\xbf")
    )
    return any(character.encode().startswith(text) for character in completed)


@dataclass(frozen=True)
class LengthPenalty:
    """Divisor of a log-probability: ((5 + length) / 6)^α (Wu et al. 2016, equation 14).

    The length includes end of sentence.
    """

    alpha: float

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)
