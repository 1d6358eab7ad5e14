"""Beam search state: the open hypotheses of any number of sentences, as NumPy arrays on the host.

This module does not depend on the model: `loop.Decoding` feeds `tokens` to a model, asks it for the
`k_needed` likeliest next tokens, and passes these to `advance`, which returns the next beams and
the rows that the model's state has to follow. Greedy search is a beam of one, in the same code.
All steps are vectorised over sentences, except where a sentence ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from regard.common.shapes import Array
from regard.data.vocabulary import BOS, EOS
from regard.search.candidate_selection import (
    Candidates,
    Selection,
    StepSelection,
    select_constrained,
    select_diverse,
    select_top,
    stable_top_k,
)
from regard.search.constraints import ConstraintState, required_tokens
from regard.search.logits_processors import (
    BannedPhrases,
    Bans,
    LengthPenalty,
    MinLength,
    NoRepeat,
    Prefix,
    RequiredTerms,
    Rule,
    SuppressTokens,
    WholeCharacters,
    begins_character,
    next_bytes,
)
from regard.search.sampling import sample_columns, uniform
from regard.search.settings import SearchSettings
from regard.search.task import Hypothesis, Task

LAST_RESORT = -1e30
"""Score of end of sentence if the rules exclude all else; beams that can continue rank higher."""


class StepCandidates(NamedTuple):
    """Next-token candidates from a model, with log-probabilities over the full vocabulary.

    They are the k likeliest tokens of each row, likeliest first and lower ids first among equals,
    and end of sentence, wherever it ranks. If whole distributions are needed, `log_probs` is (N, V)
    and the other fields are None.
    """

    log_probs: Array  # (N, k)
    tokens: Array | None = None  # (N, k)
    eos_log_probs: Array | None = None  # (N,)


class Finished(NamedTuple):
    """A sentence whose search has ended, and its hypotheses, best first."""

    task: Task
    hypotheses: list[Hypothesis]


class StepResult(NamedTuple):
    """Result of one step, which the model's state must follow."""

    beams: Beams
    # (N',) the old row that each new row extends; None: row n extends row n.
    parent_rows: Array | None
    # (B',) the old sentences that are still open; None: all of them.
    kept_sentences: Array | None
    finished: list[Finished]


@dataclass(frozen=True)
class _RuleSet:
    """Rules of a search, and what those that apply to its sentences need."""

    rules: tuple[Rule, ...]
    active: tuple[Rule, ...]
    suppressed: tuple[int, ...]
    needs_all_logits: bool
    has_terms: bool

    @classmethod
    def of(cls, rules: tuple[Rule, ...], tasks: Sequence[Task]) -> _RuleSet:
        active = tuple(rule for rule in rules if any(map(rule.applies_to, tasks)))
        suppressed = [token for rule in active for token in rule.suppressed]
        byte_tokens = next((task.byte_tokens for task in tasks), {})
        for token, byte in byte_tokens.items():
            if not begins_character(byte):
                suppressed.append(token)
        for task in tasks:
            suppressed += task.copy_tokens
        distinct = tuple(dict.fromkeys(suppressed))

        has_copies = any(task.copies for task in tasks)
        needs_all = has_copies or any(rule.needs_all_logits for rule in active)
        has_terms = any(task.terms for task in tasks)
        return cls(rules, active, distinct, needs_all, has_terms)


@dataclass(frozen=True)
class Beams:
    """Open hypotheses of B sentences with K beams each; row b·K + k is beam k of sentence b.

    A hypothesis is finished when end of sentence is among the `beam` best continuations of its
    sentence. A sentence leaves the beams when it has `beam` finished hypotheses, has reached
    `max_steps`, or cannot continue. In diverse beam search all of this holds for each of G groups;
    otherwise G is 1.
    """

    settings: SearchSettings
    rule_set: _RuleSet
    tasks: tuple[Task, ...]  # (B)
    tokens: Array  # (N,) the newest token of each row, which is the model's next input
    # (N, t) all tokens so far, from the left; undefined beyond a sentence's length.
    history: Array
    lengths: Array  # (B,) number of tokens so far
    max_steps: Array  # (B,)
    log_probs: Array  # (B, K) of the whole hypothesis
    # (B, K) scores of the whole hypothesis after the rules; −∞: an empty beam.
    scores: Array
    finished_counts: Array  # (B, G)
    hypotheses: tuple[tuple[Hypothesis, ...], ...]  # (B) finished hypotheses
    # State of the required terms, for each row whose task has terms.
    constraint_states: dict[int, ConstraintState]

    @classmethod
    def initial(
        cls,
        tasks: Sequence[Task],
        settings: SearchSettings,
        rules: Sequence[Rule] = (SuppressTokens(),),
    ) -> Beams:
        """Create the beams before the first token.

        Beam search starts with one beam for each sentence, which the first step turns into `beam`
        of them. Samples and groups differ from the start, so all their beams exist at once. The
        model's state for them is `begin(source)` with the rows of `initial_rows`.
        """
        B = len(tasks)
        G = settings.groups
        K = settings.beam if settings.sample or G > 1 else 1
        scores = np.zeros((B, K))
        # A group begins with one beam; its first step makes the others.
        if not settings.sample:
            scores[:, np.arange(K) % max(1, K // G) > 0] = -np.inf
        constraint_states: dict[int, ConstraintState] = {}
        for b, task in enumerate(tasks):
            if task.terms:
                state = ConstraintState.initial(task.terms)
                constraint_states.update((b * K + k, state) for k in range(K))
        return cls(
            settings,
            _RuleSet.of((*rules, *_default_rules(settings)), tasks),
            tuple(tasks),
            tokens=np.full(B * K, BOS),
            history=np.zeros((B * K, 16), np.int64),
            lengths=np.zeros(B, np.int64),
            max_steps=np.array([task.max_steps for task in tasks], np.int64),
            log_probs=np.zeros((B, K)),
            scores=scores,
            finished_counts=np.zeros((B, G), np.int64),
            hypotheses=((),) * B,
            constraint_states=constraint_states,
        )

    def __len__(self) -> int:
        """Number of open sentences."""
        return len(self.tasks)

    @property
    def width(self) -> int:
        """Number of beams K of each sentence."""
        return int(self.log_probs.shape[1])

    @property
    def initial_rows(self) -> Array | None:
        """Initial state index of each row; None: row i uses state i."""
        return None if self.width == 1 else np.arange(len(self)).repeat(self.width)

    def prefix_of(self, row: int) -> tuple[int, ...]:
        """Return the token ids of a row's hypothesis."""
        return tuple(self.history[row, : self.lengths[row // self.width]].tolist())

    # --- the request to the model

    @property
    def suppressed(self) -> tuple[int, ...]:
        """Tokens that no row may select; the model leaves them out of its top k."""
        return self.rule_set.suppressed

    @cached_property
    def byte_choices(self) -> dict[int, list[int]]:
        """Tokens that may come next, for each row that ends within a character of several bytes."""
        byte_tokens = next((task.byte_tokens for task in self.tasks), {})
        choices = {}
        for row, token in enumerate(self.tokens.tolist()):
            if token in byte_tokens:
                tokens = next_bytes(self.prefix_of(row), byte_tokens)
                if tokens:
                    choices[row] = tokens
        return choices

    @cached_property
    def missing_copies(self) -> dict[int, list[int]]:
        """Copy tokens that a row has not produced yet, for each row whose task has copies."""
        missing = {}
        for row in range(len(self.tokens)):
            copies = self.tasks[row // self.width].copies
            if copies:
                missing[row] = sorted({*copies} - {*self.prefix_of(row)})
        return missing

    @cached_property
    def k_needed(self) -> int | None:
        """Number of tokens of each row to ask the model for; None: whole distributions.

        At most K tokens of a row are selected, and end of sentence may be among them. Tokens that
        are banned, or penalised because another group took them, may rank before them.
        """
        s = self.settings
        if self.rule_set.needs_all_logits or self.byte_choices:
            return None
        if s.sample and s.top_k is None:
            return None
        bans = self._bans
        most_bans = 0  # of any row
        if bans is not None and len(bans[0]):
            most_bans = int(np.bincount(bans[0]).max())
        if s.sample:
            return (s.top_k or 0) + most_bans
        return s.beam + (s.beam > 1) + most_bans

    @cached_property
    def _bans(self) -> Bans | None:
        bans = [rule.bans(self) for rule in self.rule_set.active]
        parts = [part for part in bans if part is not None]
        if not parts:
            return None
        rows = np.concatenate([rows for rows, _ in parts])
        tokens = np.concatenate([tokens for _, tokens in parts])
        return rows, tokens

    # --- one step

    def advance(self, step: StepCandidates) -> StepResult:
        """Select the continuations of every sentence from the model's candidates for each row."""
        best, finished, continuing = self._select(self._candidates(step))
        counts = self.finished_counts
        hypotheses = self.hypotheses
        is_open = self.lengths + 1 < self.max_steps
        if finished is not None:
            B, G = counts.shape
            width = self.settings.beam // G
            counts = counts + finished.reshape(B, G, -1).sum(2)
            hypotheses = self._with_finished(best, finished)
            is_full = (counts >= width).repeat(width, 1)
            continuing = continuing._replace(
                scores=np.where(is_full, -np.inf, continuing.scores)
            )
        is_open &= continuing.scores.max(1) > -np.inf
        return self._advanced(continuing, counts, hypotheses, is_open)

    def _select(self, candidates: Candidates) -> StepSelection:
        """Select by plain, diverse or constrained beam search, as settings and tasks require."""
        s = self.settings
        if s.groups > 1:
            return select_diverse(
                self.log_probs, self.scores, candidates, s.beam, s.groups, s.diversity
            )
        plain = select_top(self.log_probs, self.scores, candidates, s.beam)
        if not self.rule_set.has_terms:
            return plain
        last_banks = {
            b: required_tokens(task.terms)
            for b, task in enumerate(self.tasks)
            if task.terms
        }
        states = {
            b: [self.constraint_states[b * self.width + k] for k in range(self.width)]
            for b in last_banks
        }
        return select_constrained(
            self.log_probs, self.scores, candidates, plain, states, last_banks
        )

    def _candidates(self, step: StepCandidates) -> Candidates:
        """Apply rules and sampling to the model's candidates.

        A row that has reached its longest length, or whose candidates are all excluded, gets end of
        sentence as its only candidate.
        """
        B, K = self.log_probs.shape
        if step.tokens is None or step.eos_log_probs is None:
            log_probs, scores, tokens, eos_log_probs = self._apply_rules(step.log_probs)
        else:
            log_probs, scores = self._apply_bans(step)
            tokens = step.tokens
            eos_log_probs = step.eos_log_probs

        is_due = self.lengths + 1 >= self.max_steps
        highest = scores[:, 0] if scores.shape[1] == 1 else scores.max(1)
        is_stuck = ~(highest > -np.inf)  # also true if all scores are NaN
        if is_due.any() or is_stuck.any():
            rows = np.flatnonzero(is_due.repeat(K) | is_stuck)
            log_probs = log_probs.copy()
            scores = scores.copy()
            tokens = tokens.copy()
            scores[rows] = -np.inf
            scores[rows, 0] = np.where(is_stuck[rows], LAST_RESORT, 0.0)
            log_probs[rows, 0] = eos_log_probs[rows]
            tokens[rows, 0] = EOS

        if self.settings.sample:
            keys = np.array([task.sampling_key for task in self.tasks], np.uint64)
            numbers = uniform(self.settings.seed, keys, self.lengths, K).reshape(-1)
            columns = sample_columns(scores, numbers, self.settings)[:, None]
            log_probs = np.take_along_axis(log_probs, columns, 1)
            scores = np.take_along_axis(scores, columns, 1)
            tokens = np.take_along_axis(tokens, columns, 1)
        return Candidates(
            log_probs.reshape(B, K, -1),
            scores.reshape(B, K, -1),
            tokens.reshape(B, K, -1),
        )

    def _apply_bans(self, step: StepCandidates) -> tuple[Array, Array]:
        """Return the log-probabilities, and as scores the same with −∞ for banned tokens."""
        if self._bans is None:
            return step.log_probs, step.log_probs
        assert step.tokens is not None, "whole distributions go through _apply_rules"
        rows, tokens = self._bans
        # One number stands for a row and a token, so that a single `isin` finds the bans.
        size = 1 + max(int(step.tokens.max()), int(tokens.max(initial=0)))
        keys = step.tokens + size * np.arange(len(step.tokens))[:, None]
        is_banned = np.isin(keys, rows * size + tokens)
        return step.log_probs, np.where(is_banned, -np.inf, step.log_probs)

    def _apply_rules(self, log_probs: Array) -> tuple[Array, Array, Array, Array]:
        """Apply all rules to whole distributions (N, V), and take the tokens of the highest scores.

        Returns log-probabilities, scores, tokens, and the log-probability of end of sentence.
        """
        eos_log_probs = log_probs[:, EOS]
        scores = log_probs.copy()
        rows = np.arange(len(log_probs))[:, None]
        scores[:, list(self.suppressed)] = -np.inf
        self._open_copies(scores, log_probs)
        for row, choices in self.byte_choices.items():
            scores[row] = -np.inf
            scores[row, choices] = log_probs[row, choices]
        if self._bans is not None:
            scores[self._bans] = -np.inf
        for rule in self.rule_set.active:
            if rule.needs_all_logits:
                scores = rule.adjust(scores, self)
        scores = np.where(np.isnan(scores), -np.inf, scores)

        if self.settings.sample:
            tokens = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
            return log_probs, scores, tokens, eos_log_probs
        tokens = stable_top_k(scores, self.settings.beam + 1)
        if not self.rule_set.has_terms:
            return log_probs[rows, tokens], scores[rows, tokens], tokens, eos_log_probs

        term_tokens = self._term_tokens()
        is_listed = (term_tokens[:, :, None] == tokens[:, None, :]).any(2)
        is_padding = term_tokens == EOS
        tokens = np.concatenate([tokens, term_tokens], 1)
        scores = scores[rows, tokens]
        scores[:, -term_tokens.shape[1] :][is_listed | is_padding] = -np.inf
        return log_probs[rows, tokens], scores, tokens, eos_log_probs

    def _open_copies(self, scores: Array, log_probs: Array) -> None:
        """Allow rows to produce their missing copy tokens, and forbid them to end before.

        If the missing tokens need all positions that are left, only they are allowed. The likeliest
        of them takes the score of end of sentence if that is higher, because a row that would end
        here should produce it instead.
        """
        for row, missing in self.missing_copies.items():
            if not missing:
                continue
            b = row // self.width
            eos_score = scores[row, EOS]
            has_room = self.max_steps[b] - 1 - self.lengths[b] > len(missing)
            scores[row, EOS if has_room else slice(None)] = -np.inf
            scores[row, missing] = log_probs[row, missing]
            if has_room:
                likeliest = missing[int(log_probs[row, missing].argmax())]
                scores[row, likeliest] = max(scores[row, likeliest], eos_score)

    def _term_tokens(self) -> Array:
        """Return the tokens (N, m) that advance each row's terms, padded with end of sentence."""
        by_row = {
            row: sorted(state.next_tokens())
            for row, state in self.constraint_states.items()
        }
        padded = np.full((len(self.tokens), max([1, *map(len, by_row.values())])), EOS)
        for row, tokens in by_row.items():
            padded[row, : len(tokens)] = tokens
        return padded

    def _with_finished(
        self, best: Selection, finished: Array
    ) -> tuple[tuple[Hypothesis, ...], ...]:
        """Return the finished hypotheses of each sentence, with those that end in this step."""
        penalty = LengthPenalty(self.settings.length_penalty)
        hypotheses = list(self.hypotheses)
        for b, column in np.argwhere(finished).tolist():
            k = int(best.beam_indices[b, column])
            row = b * self.width + k
            log_prob = float(best.log_probs[b, column])
            score = log_prob / penalty(int(self.lengths[b]) + 1)

            state = self.constraint_states.get(row)
            complete = state is None or state.is_complete
            if self.tasks[b].copies:
                # Equal scores show that no rule forced a copy token: the model placed them itself.
                is_unforced = self.scores[b, k] == self.log_probs[b, k]
                complete &= is_unforced and not self.missing_copies[row]

            hypothesis = Hypothesis(self.prefix_of(row), log_prob, score, complete)
            hypotheses[b] = (*hypotheses[b], hypothesis)
        return tuple(hypotheses)

    def _advanced(
        self,
        continuing: Selection,
        counts: Array,
        hypotheses: tuple[tuple[Hypothesis, ...], ...],
        is_open: Array,
    ) -> StepResult:
        """Build the beams of the sentences that stay open, and the results of those that end."""
        K = self.width
        tasks = self.tasks
        lengths = self.lengths
        max_steps = self.max_steps
        kept = None
        finished: list[Finished] = []
        if not is_open.all():
            kept = np.flatnonzero(is_open)
            for b in np.flatnonzero(~is_open).tolist():
                finished.append(Finished(tasks[b], self._ranked(hypotheses[b])))
            continuing = Selection(*(array[kept] for array in continuing))
            counts = counts[kept]
            lengths = lengths[kept]
            max_steps = max_steps[kept]
            tasks = tuple(tasks[b] for b in kept.tolist())
            hypotheses = tuple(hypotheses[b] for b in kept.tolist())

        tokens = continuing.tokens.reshape(-1)
        rows = None
        history = self.history
        sentences = np.arange(len(tasks)) if kept is None else kept
        next_width = continuing.beam_indices.shape[1]
        if kept is not None or K > 1 or next_width > 1:
            rows = (sentences[:, None] * K + continuing.beam_indices).reshape(-1)
            history = history.take(rows, 0)
        else:
            history = history.copy()
        if len(tasks) and lengths.max() == history.shape[1]:  # full: double its size
            history = np.pad(history, ((0, 0), (0, history.shape[1])))
        history[np.arange(len(tokens)), lengths.repeat(next_width)] = tokens

        beams = Beams(
            self.settings,
            self.rule_set,
            tasks,
            tokens,
            history,
            lengths + 1,
            max_steps,
            continuing.log_probs,
            continuing.scores,
            counts,
            hypotheses,
            self._advanced_states(rows, tokens),
        )
        return StepResult(beams, rows, kept, finished)

    def _advanced_states(
        self, rows: Array | None, tokens: Array
    ) -> dict[int, ConstraintState]:
        """Return the constraint states of new rows; row n extends row `rows[n]` (None: row n)."""
        if not self.constraint_states:
            return {}
        parents = range(len(tokens)) if rows is None else rows.tolist()
        states = {}
        for row, (parent, token) in enumerate(
            zip(parents, tokens.tolist(), strict=True)
        ):
            state = self.constraint_states.get(parent)
            if state is not None:
                states[row] = state.advance(token)
        return states

    def _ranked(self, hypotheses: tuple[Hypothesis, ...]) -> list[Hypothesis]:
        """Sort hypotheses best first, keep `beam` of them, and drop duplicates of other groups."""
        distinct = list(hypotheses)
        if self.settings.groups > 1:
            distinct = list({h.ids: h for h in hypotheses}.values())
        distinct.sort(key=lambda h: (not h.complete, -h.score))
        return distinct[: self.settings.beam]

    def rows_of(self, sentences: Array) -> Array:
        """Return the rows of the sentences with these indices."""
        return (sentences[:, None] * self.width + np.arange(self.width)).reshape(-1)

    def select(self, sentences: Array) -> Beams:
        """Keep the sentences with these indices, and drop the others."""
        rows = self.rows_of(sentences)
        tasks = tuple(self.tasks[b] for b in sentences.tolist())
        by_row = {name: getattr(self, name)[rows] for name in ("tokens", "history")}
        names = ("lengths", "max_steps", "log_probs", "scores", "finished_counts")
        states = self.constraint_states
        return replace(
            self,
            rule_set=_RuleSet.of(self.rule_set.rules, tasks),
            tasks=tasks,
            hypotheses=tuple(self.hypotheses[b] for b in sentences.tolist()),
            constraint_states={
                new: states[old]
                for new, old in enumerate(rows.tolist())
                if old in states
            },
            **by_row,
            **{name: getattr(self, name)[sentences] for name in names},
        )

    def join(self, other: Beams) -> Beams:
        """Add the sentences of another search in progress.

        Both must have the same settings, rules and number of beams.
        """
        assert self.settings == other.settings, (
            "sentences that are searched together have the same settings"
        )
        assert self.width == other.width, (
            "sentences join after their first step: they have as many beams then"
        )
        assert self.rule_set.rules == other.rule_set.rules, (
            "sentences that are searched together have the same rules"
        )
        longest = max(self.history.shape[1], other.history.shape[1])
        histories = [
            np.pad(beams.history, ((0, 0), (0, longest - beams.history.shape[1])))
            for beams in (self, other)
        ]
        names = (
            "tokens",
            "lengths",
            "max_steps",
            "log_probs",
            "scores",
            "finished_counts",
        )
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in names
        }
        constraint_states = dict(self.constraint_states)
        for row, state in other.constraint_states.items():
            constraint_states[len(self.tokens) + row] = state
        return replace(
            self,
            rule_set=_RuleSet.of(self.rule_set.rules, self.tasks + other.tasks),
            tasks=self.tasks + other.tasks,
            history=np.concatenate(histories),
            hypotheses=self.hypotheses + other.hypotheses,
            constraint_states=constraint_states,
            **arrays,
        )


def _default_rules(settings: SearchSettings) -> Iterator[Rule]:
    """Yield the rules that settings and tasks can require; the last one, the prefix, overrules."""
    yield from (WholeCharacters(), BannedPhrases(), RequiredTerms())
    if settings.min_length:
        yield MinLength(settings.min_length)
    if settings.no_repeat_ngram:
        yield NoRepeat(settings.no_repeat_ngram)
    yield Prefix()
