"""The front of a search: the beginnings that are still open, of any number of sentences, as plain arrays on the host.

It knows no model. Whoever drives it feeds `tokens` to one, asks for the `wanted` likeliest pieces, and hands them to
`advance`, which answers with the next front and with the rows that the model's state has to follow:

    front = Front.open(tasks, settings)
    while len(front):
        best = …                       # the model's: Best(likely, pieces, end) for front.tokens
        moved = front.advance(best)
        …                              # state.select(moved.rows), source.select(moved.staying), where they are not None
        front = moved.front            # moved.finished are the sentences that are done

Greedy search is a beam of one, through the same lines. Nothing here is done sentence by sentence unless one ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.data.tokenizer import BOS, EOS
from regard.search.hypothesis import Hypothesis, SearchSettings, Task
from regard.search.rules import Array, Bans, Forbid, LengthPenalty, Rule

__all__ = ["Best", "Finished", "Front", "Moved"]

LAST_RESORT = -1e30  # what ending ranks where rules leave nothing else: behind every beam that can go on


class Best(NamedTuple):
    """What a model says may come next, in log-probabilities over the full vocabulary, unmodified.

    The k likeliest pieces of each row, likeliest first, lower numbers first among equals; and the end of sentence,
    wherever it stands. Where whole distributions are wanted: `likely` is (N, V), and there is nothing else.
    """

    likely: Array  # (N, k)
    pieces: Array | None = None  # (N, k)
    end: Array | None = None  # (N,)


class Finished(NamedTuple):
    """A sentence that is done, and its hypotheses, best first."""

    task: Task
    hypotheses: list[Hypothesis]


class Moved(NamedTuple):
    """One step further: what is open now, how to follow it, and what is done."""

    front: Front
    rows: Array | None  # (N',) the old row that each new row continues; None: each its own
    staying: Array | None  # (A',) the old sentences that are still open; None: all
    finished: list[Finished]


class _Options(NamedTuple):
    """The next pieces among which is chosen, k for each beam."""

    likely: Array  # (A, K, k) what the model says
    choice: Array  # (A, K, k) what is chosen by; −∞: not at all
    pieces: Array  # (A, K, k)


class _Picked(NamedTuple):
    """Continuations of each sentence, best first."""

    beams: Array  # (A, C) which beam each goes on from
    pieces: Array  # (A, C)
    totals: Array  # (A, C)
    ranks: Array  # (A, C) −∞: there is none


@dataclass(frozen=True)
class Front:
    """A sentences with K beams each; row a·K + k is beam k of sentence a.

    A hypothesis is finished when end of sentence is among the `beam` best continuations of its sentence; a sentence
    leaves when it has `beam` of them, has reached its longest, or cannot go on.
    """

    settings: SearchSettings
    rules: tuple[Rule, ...]
    tasks: tuple[Task, ...]  # (A)
    tokens: Array  # (N,) the piece that each row takes in next
    history: Array  # (N, t) the pieces written so far, from the left; what lies beyond a sentence's length is noise
    lengths: Array  # (A,) pieces written so far
    longest: Array  # (A,)
    totals: Array  # (A, K) log-probabilities
    ranks: Array  # (A, K) the same as the rules would have them, to choose by; −∞ where a beam is empty
    counts: Array  # (A,) hypotheses found
    found: tuple[tuple[Hypothesis, ...], ...]  # (A)

    @classmethod
    def open(cls, tasks: Sequence[Task], settings: SearchSettings, rules: Sequence[Rule] = (Forbid(),)) -> Front:
        """Sentences of which nothing is written yet: one beam each, which its first step turns into `beam`.

        The state of a model for them is `begin(source)`.
        """
        A = len(tasks)
        return cls(
            settings,
            tuple(rules),
            tuple(tasks),
            tokens=np.full(A, BOS),
            history=np.zeros((A, 16), np.int64),
            lengths=np.zeros(A, np.int64),
            longest=np.array([task.longest for task in tasks], np.int64),
            totals=np.zeros((A, 1)),
            ranks=np.zeros((A, 1)),
            counts=np.zeros(A, np.int64),
            found=((),) * A,
        )

    def __len__(self) -> int:
        """How many sentences are open."""
        return len(self.tasks)

    @property
    def beams(self) -> int:
        """Rows of each sentence."""
        return int(self.totals.shape[1])

    # --- what is asked of the model

    @cached_property
    def never(self) -> tuple[int, ...]:
        """Pieces that no row may write: the model leaves them out of its best."""
        return tuple(dict.fromkeys(piece for rule in self._active for piece in rule.never))

    @cached_property
    def wanted(self) -> int | None:
        """How many pieces of each row to ask the model for; None: a rule must see whole distributions.

        A sentence goes on with at most K pieces of a row, and end of sentence may stand among them; what is banned
        may stand before them.
        """
        if any(rule.whole for rule in self._active):
            return None
        width, bans = self.settings.beam, self._bans
        most = 0 if bans is None or not len(bans[0]) else int(np.bincount(bans[0]).max())
        return width + (width > 1) + most

    @cached_property
    def _active(self) -> tuple[Rule, ...]:
        """The rules that concern a sentence here."""
        return tuple(rule for rule in self.rules if any(map(rule.concerns, self.tasks)))

    @cached_property
    def _bans(self) -> Bans | None:
        found = [bans for rule in self._active if (bans := rule.bans(self)) is not None]
        if not found:
            return None
        rows, pieces = (np.concatenate(some) for some in zip(*found, strict=True))
        return rows, pieces

    # --- one step

    def advance(self, best: Best) -> Moved:
        """Choose what to write next, given what the model says of each row."""
        width = self.settings.beam
        picked = _likeliest(self.totals, self.ranks, self._options(best), 2 * width)
        is_end = picked.pieces[:, :width] == EOS
        ended = is_end & (picked.ranks[:, :width] > -np.inf) if is_end.any() else None
        going = _first(picked, width) if ended is None else _first_open(picked, width)
        counts, found = self.counts, self.found
        if ended is not None:
            counts, found = counts + ended.sum(1), self._with(picked, ended)
        stays = (self.lengths + 1 < self.longest) & (going.ranks[:, 0] > -np.inf)
        if ended is not None:
            stays &= counts < width
        return self._moved(going, counts, found, stays)

    def _options(self, best: Best) -> _Options:
        A, K = self.totals.shape
        if best.pieces is None or best.end is None:
            likely, choice, pieces, end = self._chosen_by_rules(best.likely)
        else:
            likely, choice, pieces, end = best.likely, self._unbanned(best), best.pieces, best.end
        due = self.lengths + 1 >= self.longest
        most = choice[:, 0] if choice.shape[1] == 1 else choice.max(1)
        stuck = ~(most > -np.inf)  # no numbers at all (NaN) leave nothing to choose either
        if due.any() or stuck.any():
            rows = np.flatnonzero(due.repeat(K) | stuck)
            likely, choice, pieces = likely.copy(), choice.copy(), pieces.copy()
            choice[rows] = -np.inf
            choice[rows, 0] = np.where(stuck[rows], LAST_RESORT, 0.0)
            likely[rows, 0], pieces[rows, 0] = end[rows], EOS
        return _Options(*(some.reshape(A, K, -1) for some in (likely, choice, pieces)))

    def _unbanned(self, best: Best) -> Array:
        """The likeliest pieces with −∞ where a rule bans one."""
        if self._bans is None:
            return best.likely
        assert best.pieces is not None, "whole distributions go another way"
        rows, pieces = self._bans
        size = 1 + max(int(best.pieces.max()), int(pieces.max(initial=0)))
        keys = best.pieces + size * np.arange(len(best.pieces))[:, None]
        return np.where(np.isin(keys, rows * size + pieces), -np.inf, best.likely)

    def _chosen_by_rules(self, likely: Array) -> tuple[Array, Array, Array, Array]:
        """Of whole distributions (N, V), the pieces that the rules like best."""
        choice = likely.astype(np.float64)
        choice[:, list(self.never)] = -np.inf
        if self._bans is not None:
            choice[self._bans] = -np.inf
        for rule in self._active:
            if rule.whole:
                choice = rule.reweigh(choice, self)
        choice = np.where(np.isnan(choice), -np.inf, choice)
        pieces = _tops(choice, self.settings.beam + 1)
        rows = np.arange(len(choice))[:, None]
        return likely[rows, pieces], choice[rows, pieces], pieces, likely[:, EOS]

    def _with(self, picked: _Picked, ended: Array) -> tuple[tuple[Hypothesis, ...], ...]:
        """What was found, and what ended now."""
        penalty, found = LengthPenalty(self.settings.length_penalty), list(self.found)
        for a, column in np.argwhere(ended).tolist():
            length = int(self.lengths[a])
            ids = self.history[a * self.beams + picked.beams[a, column], :length]
            total = float(picked.totals[a, column])
            found[a] = (*found[a], Hypothesis(tuple(ids.tolist()), total, total / penalty(length + 1)))
        return tuple(found)

    def _moved(self, going: _Picked, counts: Array, found: tuple[tuple[Hypothesis, ...], ...], stays: Array) -> Moved:
        """The front of the sentences that stay, each with the beams that go on."""
        K, tasks, lengths, longest, staying = self.beams, self.tasks, self.lengths, self.longest, None
        finished: list[Finished] = []
        if not stays.all():
            staying = np.flatnonzero(stays)
            for a in np.flatnonzero(~stays).tolist():
                finished.append(Finished(tasks[a], sorted(found[a], key=_by_score)[: self.settings.beam]))
            going = _Picked(*(some[staying] for some in going))
            counts, lengths, longest = counts[staying], lengths[staying], longest[staying]
            tasks, found = (tuple(some[a] for a in staying.tolist()) for some in (tasks, found))  # type: ignore[assignment]
        tokens, rows, history = going.pieces.reshape(-1), None, self.history
        firsts = np.arange(len(tasks)) if staying is None else staying
        if staying is not None or K > 1 or going.beams.shape[1] > 1:
            rows = (firsts[:, None] * K + going.beams).reshape(-1)
            history = history.take(rows, 0)
        else:
            history = history.copy()
        if len(tasks) and lengths.max() == history.shape[1]:
            history = np.pad(history, ((0, 0), (0, history.shape[1])))
        history[np.arange(len(tokens)), lengths.repeat(going.beams.shape[1])] = tokens
        totals, ranks = going.totals, going.ranks
        front = Front(
            self.settings, self.rules, tasks, tokens, history, lengths + 1, longest, totals, ranks, counts, found
        )
        return Moved(front, rows, staying, finished)

    # --- sentences come and go

    def select(self, sentences: Array) -> Front:
        """The front of some of the sentences, in the order named."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        return replace(
            self,
            tasks=tuple(self.tasks[a] for a in sentences.tolist()),
            tokens=self.tokens[rows],
            history=self.history[rows],
            found=tuple(self.found[a] for a in sentences.tolist()),
            **{name: getattr(self, name)[sentences] for name in ("lengths", "longest", "totals", "ranks", "counts")},
        )

    def widened(self) -> tuple[Front, Array]:
        """The same with all beams that the settings allow, the new ones empty; and the old row of each new row.

        Sentences that are opened while others are on their way are widened, and then join them.
        """
        A, K = self.totals.shape
        more = self.settings.beam - K
        rows = np.concatenate([np.arange(A * K).reshape(A, K), np.repeat(np.arange(A)[:, None] * K, more, 1)], 1)
        rows = rows.reshape(-1)
        totals, ranks = (
            np.pad(some, ((0, 0), (0, more)), constant_values=-np.inf) for some in (self.totals, self.ranks)
        )
        return replace(self, tokens=self.tokens[rows], history=self.history[rows], totals=totals, ranks=ranks), rows

    def join(self, other: Front) -> Front:
        """The sentences of both: others enter in the middle. Both have the same settings, rules and beams."""
        assert self.settings == other.settings, "sentences that are searched together have the same settings"
        assert self.beams == other.beams, "sentences that join have as many beams: widen them first"
        most = max(self.history.shape[1], other.history.shape[1])
        histories = [np.pad(one.history, ((0, 0), (0, most - one.history.shape[1]))) for one in (self, other)]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("tokens", "lengths", "longest", "totals", "ranks", "counts")
        }
        return replace(
            self,
            tasks=self.tasks + other.tasks,
            history=np.concatenate(histories),
            found=self.found + other.found,
            **joined,
        )


def _by_score(hypothesis: Hypothesis) -> float:
    return -hypothesis.score


def _likeliest(totals: Array, ranks: Array, options: _Options, count: int) -> _Picked:
    """The best continuations of each sentence; of equals, that of the lower beam, then of the lower piece."""
    A, K, k = options.pieces.shape
    all_ranks = (ranks[:, :, None] + options.choice).reshape(A, K * k)
    if K * k == 1:
        return _Picked(np.zeros((A, 1), np.int64), options.pieces[:, 0], totals + options.likely[:, 0], all_ranks)
    order = np.argsort(-all_ranks, axis=1, kind="stable")[:, :count]
    beams = order // k
    firsts = np.arange(A)[:, None]
    flat = order + firsts * (K * k)
    return _Picked(
        beams,
        options.pieces.reshape(-1).take(flat),
        totals.reshape(-1).take(beams + firsts * K) + options.likely.reshape(-1).take(flat),
        all_ranks.reshape(-1).take(flat),
    )


def _first(picked: _Picked, width: int) -> _Picked:
    """The first `width` continuations; where there are fewer, the rest are empty."""
    C = picked.pieces.shape[1]
    if width <= C:
        return _Picked(*(some[:, :width] for some in picked))
    beams, pieces = (np.pad(some, ((0, 0), (0, width - C))) for some in picked[:2])
    totals, ranks = (np.pad(some, ((0, 0), (0, width - C)), constant_values=-np.inf) for some in picked[2:])
    return _Picked(beams, pieces, totals, ranks)


def _first_open(picked: _Picked, width: int) -> _Picked:
    """The first `width` continuations that do not end."""
    is_end = picked.pieces == EOS
    order = np.argsort(is_end, axis=1, kind="stable")
    ranks = np.where(is_end, -np.inf, picked.ranks)
    parts = (picked.beams, picked.pieces, picked.totals, ranks)
    return _first(_Picked(*(np.take_along_axis(some, order, 1) for some in parts)), width)


def _tops(choice: Array, count: int) -> Array:
    """The columns of the largest numbers in each row, largest first, lower columns first among equals."""
    V = choice.shape[1]
    if count >= V:
        return np.argsort(-choice, axis=1, kind="stable")
    least = np.partition(choice, V - count, axis=1)[:, V - count]
    places = np.empty((len(choice), count), np.int64)
    for row, above in enumerate(choice >= least[:, None]):
        columns = np.flatnonzero(above)
        places[row] = columns[np.argsort(-choice[row, columns], kind="stable")[:count]]
    return places
