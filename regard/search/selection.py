"""Candidate selection: top-k over beams and tokens, diverse beam search, and banks of constrained
beam search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regard.common.shapes import Array
from regard.data.vocabulary import EOS
from regard.search.constraints import ConstraintState, allocate_banks

_MANY = 4096
"""Candidates of a sentence from which on a partial sort is faster."""


class Candidates(NamedTuple):
    """Next tokens to select among, k for each beam."""

    log_probs: Array  # (B, K, k) as the model gives them
    scores: Array  # (B, K, k) after the rules: selected by these; −∞: excluded
    tokens: Array  # (B, K, k)


class Selection(NamedTuple):
    """Continuations of each sentence, best first."""

    beam_indices: Array  # (B, C) the beam that each extends
    tokens: Array  # (B, C)
    log_probs: Array  # (B, C) of the whole hypothesis
    scores: Array  # (B, C) of the whole hypothesis, after the rules; −∞: an empty place


class StepSelection(NamedTuple):
    """Outcome of one step's selection."""

    best: Selection
    finished: Array | None  # (B, K) which of the first K of `best` end here; None: none
    continuing: Selection  # the K that continue


def select_top(
    log_probs: Array, scores: Array, candidates: Candidates, width: int
) -> StepSelection:
    """Select the best of all continuations, whichever beam (B, K) they extend.

    Those of the `width` best that end are finished; the `width` best that do not end continue.
    """
    best = _top(log_probs, scores, candidates, 2 * width)
    is_end = best.tokens[:, :width] == EOS
    if not is_end.any():
        return StepSelection(best, None, _first(best, width))
    finished = is_end & (best.scores[:, :width] > -np.inf)
    return StepSelection(
        best,
        np.pad(finished, ((0, 0), (0, width - finished.shape[1]))),
        _first_open(best, width),
    )


def select_diverse(
    log_probs: Array,
    scores: Array,
    candidates: Candidates,
    width: int,
    groups: int,
    diversity: float,
) -> StepSelection:
    """Select group by group, each penalised for tokens that earlier groups took (Vijayakumar et al.
    2018).
    """
    size = width // groups
    parts = list[StepSelection]()
    for first in range(0, width, size):
        group = slice(first, first + size)
        token_log_probs, token_scores, tokens = (
            array[:, group] for array in candidates
        )
        if parts:
            earlier = (part.continuing for part in parts)
            # (B, P)
            taken = np.concatenate(
                [np.where(s.scores > -np.inf, s.tokens, -1) for s in earlier], 1
            )
            token_scores = token_scores - diversity * _counts(tokens, taken)
        own = Candidates(token_log_probs, token_scores, tokens)
        best, finished, continuing = select_top(
            log_probs[:, group], scores[:, group], own, size
        )
        finished = (
            np.zeros((len(log_probs), size), bool) if finished is None else finished
        )
        best, continuing = (
            s._replace(beam_indices=s.beam_indices + first)
            for s in (_first(best, size), continuing)
        )
        parts.append(StepSelection(best, finished, continuing))
    finished = np.concatenate(
        [part.finished for part in parts if part.finished is not None], 1
    )
    return StepSelection(
        _side_by_side([part.best for part in parts]),
        finished,
        _side_by_side([part.continuing for part in parts]),
    )


def select_constrained(
    log_probs: Array,
    scores: Array,
    candidates: Candidates,
    plain: StepSelection,
    states: Mapping[int, Sequence[ConstraintState]],
    last_banks: Mapping[int, int],
) -> StepSelection:
    """Select as `plain` did, but share out the beams of sentences with terms among their banks.

    `states` holds the progress of each beam of such a sentence, `last_banks` the number of its last
    bank.
    """
    width = plain.continuing.tokens.shape[1]
    k = candidates.tokens.shape[2]
    best, continuing = (
        Selection(*(array.copy() for array in selection))
        for selection in (_first(plain.best, width), plain.continuing)
    )
    finished = (
        np.zeros(best.tokens.shape, bool)
        if plain.finished is None
        else plain.finished.copy()
    )
    for b, beam_states in states.items():
        tokens = candidates.tokens[b].reshape(-1)
        token_log_probs = candidates.log_probs[b].reshape(-1)
        totals = (scores[b][:, None] + candidates.scores[b]).reshape(-1)
        beams = np.arange(len(totals)) // k
        banks = np.zeros(len(totals), np.int64)
        for i in np.flatnonzero(totals > -np.inf).tolist():
            banks[i] = beam_states[i // k].bank(int(tokens[i]))
        for selection, ranked in (
            (best, totals),
            (continuing, np.where(tokens == EOS, -np.inf, totals)),
        ):
            kept = allocate_banks(ranked, banks, width, last_banks[b])
            values = (
                beams[kept],
                tokens[kept],
                log_probs[b][beams[kept]] + token_log_probs[kept],
                ranked[kept],
            )
            for array, value, empty in zip(
                selection, values, (0, 0, -np.inf, -np.inf), strict=True
            ):
                array[b, : len(kept)], array[b, len(kept) :] = value, empty
        finished[b] = (best.tokens[b] == EOS) & (best.scores[b] > -np.inf)
    return StepSelection(best, finished, continuing)


def stable_top_k(scores: Array, count: int) -> Array:
    """Return the columns of the largest numbers in each row (N, V), largest first, lower columns
    first among equals.
    """
    V = scores.shape[1]
    if count >= V:
        return np.argsort(-scores, axis=1, kind="stable")
    columns = np.sort(
        np.argpartition(scores, V - count, axis=1)[:, V - count :], axis=1
    )
    top = np.take_along_axis(scores, columns, 1)
    least = top.min(1, keepdims=True)
    for row in np.flatnonzero(
        (scores >= least).sum(1) > count
    ).tolist():  # argpartition keeps any of the equals
        columns[row] = np.sort(np.argsort(-scores[row], kind="stable")[:count])
        top[row] = scores[row, columns[row]]
    return np.take_along_axis(columns, np.argsort(-top, axis=1, kind="stable"), 1)


def _counts(tokens: Array, taken: Array) -> Array:
    """Count how often each token (B, …) is among those `taken` (B, P) for its sentence; −1 is no
    token.
    """
    size = int(tokens.max(initial=0)) + 1
    counts = np.zeros((len(tokens), size), np.int64)
    sentences, places = np.nonzero((taken >= 0) & (taken < size))
    np.add.at(counts, (sentences, taken[sentences, places]), 1)
    return np.take_along_axis(counts, tokens.reshape(len(tokens), -1), 1).reshape(
        tokens.shape
    )


def _top(
    log_probs: Array, scores: Array, candidates: Candidates, count: int
) -> Selection:
    """Select the best continuations of each sentence; of equals, that of the lower beam, then of
    the lower token.
    """
    B, K, k = candidates.tokens.shape
    totals = (scores[:, :, None] + candidates.scores).reshape(B, K * k)
    if K * k == 1:
        summed = log_probs + candidates.log_probs[:, 0]
        return Selection(
            np.zeros((B, 1), np.int64), candidates.tokens[:, 0], summed, totals
        )
    order = (
        stable_top_k(totals, count)
        if K * k > _MANY
        else np.argsort(-totals, axis=1, kind="stable")[:, :count]
    )
    beams = order // k
    firsts = np.arange(B)[:, None]
    flat = order + firsts * (K * k)
    return Selection(
        beams,
        candidates.tokens.reshape(-1).take(flat),
        log_probs.reshape(-1).take(beams + firsts * K)
        + candidates.log_probs.reshape(-1).take(flat),
        totals.reshape(-1).take(flat),
    )


def _first(selection: Selection, width: int) -> Selection:
    """Return the first `width` continuations, padded with empty places if there are fewer."""
    C = selection.tokens.shape[1]
    if width <= C:
        return Selection(*(array[:, :width] for array in selection))
    beams, tokens = (np.pad(array, ((0, 0), (0, width - C))) for array in selection[:2])
    log_probs, scores = (
        np.pad(array, ((0, 0), (0, width - C)), constant_values=-np.inf)
        for array in selection[2:]
    )
    return Selection(beams, tokens, log_probs, scores)


def _first_open(selection: Selection, width: int) -> Selection:
    """Return the first `width` continuations that do not end."""
    is_end = selection.tokens == EOS
    order = np.argsort(is_end, axis=1, kind="stable")
    masked = selection._replace(scores=np.where(is_end, -np.inf, selection.scores))
    return _first(
        Selection(*(np.take_along_axis(array, order, 1) for array in masked)), width
    )


def _side_by_side(parts: Sequence[Selection]) -> Selection:
    return Selection(
        *(np.concatenate(arrays, 1) for arrays in zip(*parts, strict=True))
    )
