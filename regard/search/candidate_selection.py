"""Candidate selection of plain, diverse and constrained beam search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regard.common.shapes import Array
from regard.data.vocabulary import EOS
from regard.search.constraints import ConstraintState, allocate_banks

_PARTIAL_SORT = 4096
"""Number of candidates of a sentence above which a partial sort is faster."""


class Candidates(NamedTuple):
    """Candidates for the next token, k for each beam."""

    log_probs: Array  # (B, K, k) from the model
    scores: Array  # (B, K, k) after the rules, to select by; −∞: excluded
    tokens: Array  # (B, K, k)


class Selection(NamedTuple):
    """Continuations of each sentence, best first."""

    beam_indices: Array  # (B, C) the beam that each extends
    tokens: Array  # (B, C)
    log_probs: Array  # (B, C) of the whole hypothesis
    # (B, C) of the whole hypothesis, after the rules; −∞: no continuation.
    scores: Array


class StepSelection(NamedTuple):
    """Outcome of one step's selection."""

    best: Selection
    finished: Array | None  # (B, K) mask of the first K of `best` that end; None: none
    continuing: Selection  # the K hypotheses that continue


def select_top(
    log_probs: Array, scores: Array, candidates: Candidates, width: int
) -> StepSelection:
    """Select the best continuations of each sentence over all its beams (B, K).

    Those among the `width` best that end are finished; the `width` best that do not end continue.
    """
    best = _top(log_probs, scores, candidates, 2 * width)
    is_end = best.tokens[:, :width] == EOS
    if not is_end.any():
        return StepSelection(best, None, _first(best, width))
    finished = is_end & (best.scores[:, :width] > -np.inf)
    finished = np.pad(finished, ((0, 0), (0, width - finished.shape[1])))
    return StepSelection(best, finished, _first_open(best, width))


def select_diverse(
    log_probs: Array,
    scores: Array,
    candidates: Candidates,
    width: int,
    groups: int,
    diversity: float,
) -> StepSelection:
    """Select group by group (diverse beam search, Vijayakumar et al. 2018).

    A group is penalised for tokens that earlier groups have selected.
    """
    size = width // groups
    best_parts: list[Selection] = []
    finished_parts: list[Array] = []
    continuing_parts: list[Selection] = []
    for first in range(0, width, size):
        group = slice(first, first + size)
        tokens = candidates.tokens[:, group]
        token_scores = candidates.scores[:, group]
        if continuing_parts:
            # (B, P); −1 if there is no continuation
            taken = np.concatenate(
                [np.where(s.scores > -np.inf, s.tokens, -1) for s in continuing_parts],
                1,
            )
            token_scores = token_scores - diversity * _counts(tokens, taken)
        group_candidates = Candidates(
            candidates.log_probs[:, group], token_scores, tokens
        )
        best, finished, continuing = select_top(
            log_probs[:, group], scores[:, group], group_candidates, size
        )
        if finished is None:
            finished = np.zeros((len(log_probs), size), bool)
        finished_parts.append(finished)
        best_parts.append(_with_offset(_first(best, size), first))
        continuing_parts.append(_with_offset(continuing, first))
    return StepSelection(
        _concatenate(best_parts),
        np.concatenate(finished_parts, 1),
        _concatenate(continuing_parts),
    )


def _with_offset(selection: Selection, first: int) -> Selection:
    """Turn the beam indices of a group into those of the sentence."""
    return selection._replace(beam_indices=selection.beam_indices + first)


def select_constrained(
    log_probs: Array,
    scores: Array,
    candidates: Candidates,
    plain: StepSelection,
    states: Mapping[int, Sequence[ConstraintState]],
    last_banks: Mapping[int, int],
) -> StepSelection:
    """Replace the `plain` selection of sentences with terms by one that is shared among banks.

    `states` holds the constraint state of each beam of such a sentence, `last_banks` the index of
    its last bank.
    """
    width = plain.continuing.tokens.shape[1]
    k = candidates.tokens.shape[2]
    best = Selection(*(array.copy() for array in _first(plain.best, width)))
    continuing = Selection(*(array.copy() for array in plain.continuing))
    if plain.finished is None:
        finished = np.zeros(best.tokens.shape, bool)
    else:
        finished = plain.finished.copy()

    for b, beam_states in states.items():
        tokens = candidates.tokens[b].reshape(-1)
        token_log_probs = candidates.log_probs[b].reshape(-1)
        totals = (scores[b][:, None] + candidates.scores[b]).reshape(-1)
        beams = np.arange(len(totals)) // k
        banks = np.zeros(len(totals), np.int64)
        for i in np.flatnonzero(totals > -np.inf).tolist():
            banks[i] = beam_states[i // k].bank(int(tokens[i]))

        open_totals = np.where(tokens == EOS, -np.inf, totals)
        for selection, ranked in ((best, totals), (continuing, open_totals)):
            kept = allocate_banks(ranked, banks, width, last_banks[b])
            n = len(kept)
            selection.beam_indices[b] = 0
            selection.beam_indices[b, :n] = beams[kept]
            selection.tokens[b] = 0
            selection.tokens[b, :n] = tokens[kept]
            selection.log_probs[b] = -np.inf
            selection.log_probs[b, :n] = (
                log_probs[b][beams[kept]] + token_log_probs[kept]
            )
            selection.scores[b] = -np.inf
            selection.scores[b, :n] = ranked[kept]
        finished[b] = (best.tokens[b] == EOS) & (best.scores[b] > -np.inf)
    return StepSelection(best, finished, continuing)


def stable_top_k(scores: Array, count: int) -> Array:
    """Return the columns of the `count` largest scores of each row (N, V), largest first.

    Lower columns come first among equal scores.
    """
    V = scores.shape[1]
    if count >= V:
        return np.argsort(-scores, axis=1, kind="stable")
    largest = np.argpartition(scores, V - count, axis=1)[:, V - count :]
    columns = np.sort(largest, axis=1)
    top = np.take_along_axis(scores, columns, 1)
    least = top.min(1, keepdims=True)
    # `argpartition` keeps any of several equal scores, so rows with more of them are sorted.
    tied = np.flatnonzero((scores >= least).sum(1) > count)
    for row in tied.tolist():
        columns[row] = np.sort(np.argsort(-scores[row], kind="stable")[:count])
        top[row] = scores[row, columns[row]]
    return np.take_along_axis(columns, np.argsort(-top, axis=1, kind="stable"), 1)


def _counts(tokens: Array, taken: Array) -> Array:
    """Count how often each token (B, …) is in `taken` (B, P) for its sentence; −1 is no token."""
    size = int(tokens.max(initial=0)) + 1
    counts = np.zeros((len(tokens), size), np.int64)
    sentences, columns = np.nonzero((taken >= 0) & (taken < size))
    np.add.at(counts, (sentences, taken[sentences, columns]), 1)
    flat = np.take_along_axis(counts, tokens.reshape(len(tokens), -1), 1)
    return flat.reshape(tokens.shape)


def _top(
    log_probs: Array, scores: Array, candidates: Candidates, count: int
) -> Selection:
    """Select the `count` best continuations of each sentence.

    Among equal ones, the lower beam comes first, and then the lower token.
    """
    B, K, k = candidates.tokens.shape
    totals = (scores[:, :, None] + candidates.scores).reshape(B, K * k)
    if K * k == 1:
        beams = np.zeros((B, 1), np.int64)
        total_log_probs = log_probs + candidates.log_probs[:, 0]
        return Selection(beams, candidates.tokens[:, 0], total_log_probs, totals)
    if K * k > _PARTIAL_SORT:
        order = stable_top_k(totals, count)
    else:
        order = np.argsort(-totals, axis=1, kind="stable")[:, :count]

    beams = order // k
    sentences = np.arange(B)[:, None]
    flat = order + sentences * (K * k)
    beam_log_probs = log_probs.reshape(-1).take(beams + sentences * K)
    return Selection(
        beams,
        candidates.tokens.reshape(-1).take(flat),
        beam_log_probs + candidates.log_probs.reshape(-1).take(flat),
        totals.reshape(-1).take(flat),
    )


def _first(selection: Selection, width: int) -> Selection:
    """Return the first `width` continuations, padded with the score −∞ if there are fewer."""
    C = selection.tokens.shape[1]
    if width <= C:
        return Selection(*(array[:, :width] for array in selection))
    padding = ((0, 0), (0, width - C))
    return Selection(
        np.pad(selection.beam_indices, padding),
        np.pad(selection.tokens, padding),
        np.pad(selection.log_probs, padding, constant_values=-np.inf),
        np.pad(selection.scores, padding, constant_values=-np.inf),
    )


def _first_open(selection: Selection, width: int) -> Selection:
    """Return the first `width` continuations that do not end."""
    is_end = selection.tokens == EOS
    order = np.argsort(is_end, axis=1, kind="stable")
    masked = selection._replace(scores=np.where(is_end, -np.inf, selection.scores))
    ordered = (np.take_along_axis(array, order, 1) for array in masked)
    return _first(Selection(*ordered), width)


def _concatenate(parts: Sequence[Selection]) -> Selection:
    """Concatenate the continuations of each sentence."""
    fields = zip(*parts, strict=True)
    return Selection(*(np.concatenate(arrays, 1) for arrays in fields))
