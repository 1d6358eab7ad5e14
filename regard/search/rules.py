"""Small objects that steer a search: they change what is chosen, never the probability that is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.data.vocabulary import BOS, EOS, PAD, UNK
from regard.search.hypothesis import BannedPhrase, Task

if TYPE_CHECKING:
    from regard.search.beams import Beams

__all__ = [
    "Array",
    "BannedPhrases",
    "Bans",
    "LengthPenalty",
    "MinLength",
    "NoRepeat",
    "Prefix",
    "Rule",
    "SuppressTokens",
    "is_edge",
]

FORCED = -1e9  # what a forced piece ranks that the model or another rule would never write

Array = npt.NDArray[Any]
Bans = tuple[Array, Array]
"""Pieces that may not come next: row numbers, and beside each the piece."""


class Rule:
    """Steers a search in one of three ways, cheapest first; by default it does nothing.

    `never`: pieces that are written nowhere. `bans`: what may not come next, known before the model is asked.
    `reweigh`: what to choose by instead of the log-probabilities; such a rule sees whole distributions, and must say
    that it is `whole`.
    """

    suppressed: Sequence[int] = ()
    needs_all_logits: bool = False

    def applies_to(self, task: Task) -> bool:  # noqa: ARG002
        """Whether the rule has anything to say about this sentence; where it concerns none, it costs nothing."""
        return True

    def bans(self, front: Beams) -> Bans | None:  # noqa: ARG002
        """What may not be written next."""
        return None

    def adjust(self, choice: Array, front: Beams) -> Array:  # noqa: ARG002
        """Other numbers (N, V) to choose by; −∞ is never chosen. It may change what it is given."""
        return choice


@dataclass(frozen=True)
class SuppressTokens(Rule):
    """Pieces that are never written; by default those that mean nothing in a text."""

    suppressed: Sequence[int] = (PAD, UNK, BOS)


@dataclass(frozen=True)
class MinLength(Rule):
    """No end before so many pieces."""

    pieces: int

    def bans(self, front: Beams) -> Bans:
        rows = np.flatnonzero((front.lengths < self.pieces).repeat(front.width))
        return rows, np.full(len(rows), EOS)


@dataclass(frozen=True)
class NoRepeat(Rule):
    """No run of n pieces a second time (Paulus et al. 2018, section 2.5)."""

    n: int

    def bans(self, front: Beams) -> Bans | None:
        lengths, n = front.lengths.repeat(front.width), self.n
        most = int(lengths.max(initial=0))
        if most < n:
            return None
        runs = np.lib.stride_tricks.sliding_window_view(front.history[:, :most], n, axis=1)  # (N, t − n + 1, n)
        ends = lengths[:, None] + np.arange(1 - n, 0)  # where the last n − 1 pieces stand
        last = np.take_along_axis(front.history, np.maximum(ends, 0), 1)
        written = np.arange(runs.shape[1]) + n <= lengths[:, None]
        rows, places = np.nonzero((runs[:, :, : n - 1] == last[:, None, :]).all(2) & written)
        keys = np.unique(rows * (1 << 32) + runs[rows, places, n - 1])
        return keys >> 32, keys & ((1 << 32) - 1)


@dataclass(frozen=True)
class Prefix(Rule):
    """The pieces that a sentence must begin with."""

    whole = True

    def concerns(self, task: Task) -> bool:
        return bool(task.prefix)

    def reweigh(self, choice: Array, front: Beams) -> Array:
        for a, task in enumerate(front.tasks):
            if (length := int(front.lengths[a])) < len(task.prefix):
                piece, rows = task.prefix[length], slice(a * front.width, (a + 1) * front.width)
                kept = choice[rows, piece].copy()
                choice[rows] = -np.inf
                choice[rows, piece] = np.where(kept > -np.inf, kept, FORCED)
        return choice


@dataclass(frozen=True)
class BannedPhrases(Rule):
    """Words and phrases that must not be written, however they may be cut into pieces."""

    def concerns(self, task: Task) -> bool:
        return bool(task.banned)

    def bans(self, front: Beams) -> Bans:
        found = []
        for a, task in enumerate(front.tasks):
            if not task.banned:
                continue
            surfaces = task.banned[0].surfaces
            for row in range(a * front.width, (a + 1) * front.width):
                text = b"".join([surfaces[piece] for piece in front.prefix_of(row)])
                found += [(row, piece) for piece in dict.fromkeys(_completing(text, task.banned))]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def _completing(text: bytes, words: Sequence[BannedPhrase]) -> Iterator[int]:
    """The pieces that would write one of the words, or its end, after this text."""
    for word in words:
        for before, piece, begins in word.endings:
            if text.endswith(before) and (not begins or is_edge(text[: len(text) - len(before)])):
                yield piece


def is_edge(text: bytes) -> bool:
    """Whether a word may begin after this text: what stands last is no letter and no digit."""
    return not text[-4:].decode("utf-8", "ignore")[-1:].isalnum()


@dataclass(frozen=True)
class LengthPenalty:
    """The divisor of a log-probability: ((5 + length) / 6)^α (Wu et al. 2016, equation 14), with end of sentence."""

    alpha: float

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)
