"""The front of a search: the beginnings that are still open, of any number of sentences, as plain arrays on the host.

It knows no model. Whoever drives it feeds `tokens` to one, asks for the `wanted` likeliest pieces, and hands them to
`advance`, which answers with the next front and with the rows that the model's state has to follow:

    front = Front.open(tasks, settings)  # state = begin(source), then state.select(front.begins) where not None
    while len(front):
        best = …                       # the model's: Best(likely, pieces, end) for front.tokens
        moved = front.advance(best)
        …                              # state.select(moved.rows), source.select(moved.staying), where they are not None
        front = moved.front            # moved.finished are the sentences that are done

Greedy search is a beam of one, through the same lines. Nothing here is done sentence by sentence unless one ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.data.vocabulary import BOS, EOS
from regard.search.constraints import ConstraintState, RequiredTerms, is_complete, pieces_of
from regard.search.hypothesis import Hypothesis, SearchSettings, Task
from regard.search.rules import (
    Array,
    BannedPhrases,
    Bans,
    LengthPenalty,
    MinLength,
    NoRepeat,
    Prefix,
    Rule,
    SuppressTokens,
)
from regard.search.sampling import draw, uniform
from regard.search.selection import (
    Candidates,
    Chosen,
    Selection,
    select_constrained,
    select_diverse,
    select_top,
    stable_top_k,
)

__all__ = ["Beams", "Finished", "StepCandidates", "StepResult"]

LAST_RESORT = -1e30  # what ending ranks where rules leave nothing else: behind every beam that can go on


class StepCandidates(NamedTuple):
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


class StepResult(NamedTuple):
    """One step further: what is open now, how to follow it, and what is done."""

    beams: Beams
    rows: Array | None  # (N',) the old row that each new row continues; None: each its own
    staying: Array | None  # (A',) the old sentences that are still open; None: all
    finished: list[Finished]


@dataclass(frozen=True)
class _Steering:
    """The rules of a search, and which of them have something to say about its sentences."""

    rules: tuple[Rule, ...]
    active: tuple[Rule, ...]
    never: tuple[int, ...]
    whole: bool
    terms: bool

    @classmethod
    def of(cls, rules: tuple[Rule, ...], tasks: Sequence[Task]) -> _Steering:
        active = tuple(rule for rule in rules if any(map(rule.applies_to, tasks)))
        never = dict.fromkeys(piece for rule in active for piece in rule.suppressed)
        whole, terms = any(rule.needs_all_logits for rule in active), any(task.terms for task in tasks)
        return cls(rules, active, tuple(never), whole, terms)


@dataclass(frozen=True)
class Beams:
    """A sentences with K beams each; row a·K + k is beam k of sentence a.

    A hypothesis is finished when end of sentence is among the `beam` best continuations of its sentence; a sentence
    leaves when it has `beam` of them, has reached its longest, or cannot go on. Where the beams are cut into G groups
    (1 if nobody asked), all of this is said of each group.
    """

    settings: SearchSettings
    steering: _Steering
    tasks: tuple[Task, ...]  # (A)
    tokens: Array  # (N,) the piece that each row takes in next
    history: Array  # (N, t) the pieces written so far, from the left; what lies beyond a sentence's length is noise
    lengths: Array  # (A,) pieces written so far
    longest: Array  # (A,)
    totals: Array  # (A, K) log-probabilities
    ranks: Array  # (A, K) the same as the rules would have them, to choose by; −∞ where a beam is empty
    counts: Array  # (A, G) hypotheses found
    found: tuple[tuple[Hypothesis, ...], ...]  # (A)

    @classmethod
    def open(
        cls, tasks: Sequence[Task], settings: SearchSettings, rules: Sequence[Rule] = (SuppressTokens(),)
    ) -> Beams:
        """Sentences of which nothing is written yet: one beam each, which its first step turns into `beam`.

        Samples, and groups of beams, go separate ways from the start: there are all `beams` at once. The state of a
        model for them is that of `begin(source)`, its rows those of `begins`.
        """
        A, G = len(tasks), settings.groups
        K = settings.beam if settings.sample or G > 1 else 1
        ranks = np.zeros((A, K))
        if not settings.sample:  # the first of each group is split up
            ranks[:, np.arange(K) % max(1, K // G) > 0] = -np.inf
        return cls(
            settings,
            _Steering.of((*rules, *_asked(settings)), tasks),
            tuple(tasks),
            tokens=np.full(A * K, BOS),
            history=np.zeros((A * K, 16), np.int64),
            lengths=np.zeros(A, np.int64),
            longest=np.array([task.longest for task in tasks], np.int64),
            totals=np.zeros((A, K)),
            ranks=ranks,
            counts=np.zeros((A, G), np.int64),
            found=((),) * A,
        )

    def __len__(self) -> int:
        """How many sentences are open."""
        return len(self.tasks)

    @property
    def width(self) -> int:
        """Rows of each sentence."""
        return int(self.totals.shape[1])

    @property
    def initial_rows(self) -> Array | None:
        """The row of a model's first state that each row of a front just opened goes on from; None: each its own."""
        return None if self.width == 1 else np.arange(len(self)).repeat(self.width)

    def prefix_of(self, row: int) -> tuple[int, ...]:
        """The pieces that a row has written."""
        return tuple(self.history[row, : self.lengths[row // self.width]].tolist())

    @cached_property
    def progress(self) -> dict[int, ConstraintState]:
        """How far each row that has terms has come with them."""
        terms = [task.terms for task in self.tasks for _ in range(self.width)]
        return {row: ConstraintState(self.prefix_of(row), some) for row, some in enumerate(terms) if some}

    # --- what is asked of the model

    @property
    def suppressed(self) -> tuple[int, ...]:
        """Pieces that no row may write: the model leaves them out of its best."""
        return self.steering.never

    @cached_property
    def k_needed(self) -> int | None:
        """How many pieces of each row to ask the model for; None: whole distributions must be seen.

        A sentence goes on with at most K pieces of a row, and end of sentence may stand among them; what is banned, or
        avoided because another group wrote it, may stand before them.
        """
        s, bans = self.settings, self._bans
        if self.steering.whole or (s.sample and s.top_k is None):
            return None
        most = 0 if bans is None or not len(bans[0]) else int(np.bincount(bans[0]).max())
        if s.sample:
            return (s.top_k or 0) + most
        return s.beam + (s.beam > 1) + most

    @cached_property
    def _bans(self) -> Bans | None:
        found = [bans for rule in self.steering.active if (bans := rule.bans(self)) is not None]
        if not found:
            return None
        rows, pieces = (np.concatenate(some) for some in zip(*found, strict=True))
        return rows, pieces

    # --- one step

    def advance(self, best: StepCandidates) -> StepResult:
        """Choose what to write next, given what the model says of each row."""
        picked, ended, going = self._chosen(self._options(best))
        counts, found = self.counts, self.found
        stays = self.lengths + 1 < self.longest
        if ended is not None:
            A, G = counts.shape
            width = self.settings.beam // G
            counts, found = counts + ended.reshape(A, G, -1).sum(2), self._with(picked, ended)
            going = going._replace(ranks=np.where((counts >= width).repeat(width, 1), -np.inf, going.ranks))
        stays &= going.ranks.max(1) > -np.inf
        return self._moved(going, counts, found, stays)

    def _chosen(self, options: Candidates) -> Chosen:
        """The continuations that this search takes."""
        s = self.settings
        if s.groups > 1:
            return select_diverse(self.totals, self.ranks, options, s.beam, s.groups, s.diversity)
        chosen = select_top(self.totals, self.ranks, options, s.beam)
        if not self.steering.terms:
            return chosen
        lasts = {a: pieces_of(task.terms) for a, task in enumerate(self.tasks) if task.terms}
        progress = {a: [self.progress[a * self.width + k] for k in range(self.width)] for a in lasts}
        return select_constrained(self.totals, self.ranks, options, chosen, progress, lasts)

    def _options(self, best: StepCandidates) -> Candidates:
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
        if self.settings.sample:
            keys = np.array([task.key for task in self.tasks], np.uint64)
            chance = uniform(self.settings.seed, keys, self.lengths, K).reshape(-1)
            columns = draw(choice, chance, self.settings)[:, None]
            likely, choice, pieces = (np.take_along_axis(some, columns, 1) for some in (likely, choice, pieces))
        return Candidates(*(some.reshape(A, K, -1) for some in (likely, choice, pieces)))

    def _unbanned(self, best: StepCandidates) -> Array:
        """The likeliest pieces with −∞ where a rule bans one."""
        if self._bans is None:
            return best.likely
        assert best.pieces is not None, "whole distributions go another way"
        rows, pieces = self._bans
        size = 1 + max(int(best.pieces.max()), int(pieces.max(initial=0)))
        keys = best.pieces + size * np.arange(len(best.pieces))[:, None]
        return np.where(np.isin(keys, rows * size + pieces), -np.inf, best.likely)

    def _chosen_by_rules(self, likely: Array) -> tuple[Array, Array, Array, Array]:
        """Of whole distributions (N, V), the pieces that the rules like best: log-probabilities, what they are chosen
        by, the pieces; and the end.
        """
        choice, rows = likely.copy(), np.arange(len(likely))[:, None]
        choice[:, list(self.suppressed)] = -np.inf
        if self._bans is not None:
            choice[self._bans] = -np.inf
        for rule in self.steering.active:
            if rule.needs_all_logits:
                choice = rule.adjust(choice, self)
        choice = np.where(np.isnan(choice), -np.inf, choice)
        if self.settings.sample:
            return likely, choice, np.broadcast_to(np.arange(likely.shape[1]), likely.shape), likely[:, EOS]
        pieces = stable_top_k(choice, self.settings.beam + 1)
        if not self.steering.terms:
            return likely[rows, pieces], choice[rows, pieces], pieces, likely[:, EOS]
        further = self._further()
        again = (further[:, :, None] == pieces[:, None, :]).any(2) | (further == EOS)
        pieces = np.concatenate([pieces, further], 1)
        taken = choice[rows, pieces]
        taken[:, -further.shape[1] :][again] = -np.inf
        return likely[rows, pieces], taken, pieces, likely[:, EOS]

    def _further(self) -> Array:
        """The pieces (N, m) that bring each row nearer to its terms; end of sentence where there are fewer."""
        found = {row: sorted(progress.pieces()) for row, progress in self.progress.items()}
        pieces = np.full((len(self.tokens), max([1, *map(len, found.values())])), EOS)
        for row, some in found.items():
            pieces[row, : len(some)] = some
        return pieces

    def _with(self, picked: Selection, ended: Array) -> tuple[tuple[Hypothesis, ...], ...]:
        """What was found, and what ended now."""
        penalty, found = LengthPenalty(self.settings.length_penalty), list(self.found)
        for a, column in np.argwhere(ended).tolist():
            length = int(self.lengths[a])
            ids = self.prefix_of(a * self.width + int(picked.beams[a, column]))
            total, terms = float(picked.totals[a, column]), self.tasks[a].terms
            whole = not terms or is_complete(ids, terms)
            found[a] = (*found[a], Hypothesis(ids, total, total / penalty(length + 1), whole))
        return tuple(found)

    def _moved(
        self, going: Selection, counts: Array, found: tuple[tuple[Hypothesis, ...], ...], stays: Array
    ) -> StepResult:
        """The front of the sentences that stay, each with the beams that go on."""
        K, tasks, lengths, longest, staying = self.width, self.tasks, self.lengths, self.longest, None
        finished: list[Finished] = []
        if not stays.all():
            staying = np.flatnonzero(stays)
            for a in np.flatnonzero(~stays).tolist():
                finished.append(Finished(tasks[a], self._sorted(found[a])))
            going = Selection(*(some[staying] for some in going))
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
        front = Beams(
            self.settings, self.steering, tasks, tokens, history, lengths + 1, longest, totals, ranks, counts, found
        )
        return StepResult(front, rows, staying, finished)

    def _sorted(self, found: tuple[Hypothesis, ...]) -> list[Hypothesis]:
        """Best first, `beam` at most; several groups may have found the same, which is given once."""
        some = list({h.ids: h for h in found}.values()) if self.settings.groups > 1 else list(found)
        return sorted(some, key=lambda h: (not h.complete, -h.score))[: self.settings.beam]

    # --- sentences come and go

    def select(self, sentences: Array) -> Beams:
        """The front of some of the sentences, in the order named."""
        rows = (sentences[:, None] * self.width + np.arange(self.width)).reshape(-1)
        tasks = tuple(self.tasks[a] for a in sentences.tolist())
        return replace(
            self,
            steering=_Steering.of(self.steering.rules, tasks),
            tasks=tasks,
            tokens=self.tokens[rows],
            history=self.history[rows],
            found=tuple(self.found[a] for a in sentences.tolist()),
            **{name: getattr(self, name)[sentences] for name in ("lengths", "longest", "totals", "ranks", "counts")},
        )

    def widened(self) -> tuple[Beams, Array]:
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

    def join(self, other: Beams) -> Beams:
        """The sentences of both: others enter in the middle. Both have the same settings, rules and beams."""
        assert self.settings == other.settings, "sentences that are searched together have the same settings"
        assert self.width == other.width, "sentences that join have as many beams: widen them first"
        assert self.steering.rules == other.steering.rules, "sentences that are searched together have the same rules"
        most = max(self.history.shape[1], other.history.shape[1])
        histories = [np.pad(one.history, ((0, 0), (0, most - one.history.shape[1]))) for one in (self, other)]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("tokens", "lengths", "longest", "totals", "ranks", "counts")
        }
        return replace(
            self,
            steering=_Steering.of(self.steering.rules, self.tasks + other.tasks),
            tasks=self.tasks + other.tasks,
            history=np.concatenate(histories),
            found=self.found + other.found,
            **joined,
        )


def _asked(settings: SearchSettings) -> Iterator[Rule]:
    """The rules that follow from what settings and tasks can ask for; a prefix has the last word."""
    yield from (BannedPhrases(), RequiredTerms())
    if settings.min_length:
        yield MinLength(settings.min_length)
    if settings.no_repeat_ngram:
        yield NoRepeat(settings.no_repeat_ngram)
    yield Prefix()
