"""Which continuations a sentence goes on with: arrays of numbers in, arrays of numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regard.data.vocabulary import EOS
from regard.search.constraints import ConstraintState, allocate_banks
from regard.search.rules import Array

__all__ = ["Candidates", "Chosen", "Selection", "select_constrained", "select_diverse", "select_top", "stable_top_k"]


class Candidates(NamedTuple):
    """The next pieces among which is chosen, k for each beam."""

    likely: Array  # (A, K, k) what the model says
    choice: Array  # (A, K, k) what is chosen by; −∞: not at all
    pieces: Array  # (A, K, k)


class Selection(NamedTuple):
    """Continuations of each sentence, best first."""

    beams: Array  # (A, C) which beam each goes on from
    pieces: Array  # (A, C)
    totals: Array  # (A, C)
    ranks: Array  # (A, C) −∞: there is none


class Chosen(NamedTuple):
    """What one step chose."""

    picked: Selection
    ended: Array | None  # (A, K) which of the first K picked are finished now; None: none
    going: Selection  # the K that go on


def select_top(totals: Array, ranks: Array, options: Candidates, width: int) -> Chosen:
    """The best of all continuations, whichever beam they come from.

    What ends among the `width` best is finished; the `width` best that do not end go on.
    """
    picked = _likeliest(totals, ranks, options, 2 * width)
    is_end = picked.pieces[:, :width] == EOS
    if not is_end.any():
        return Chosen(picked, None, _first(picked, width))
    ended = is_end & (picked.ranks[:, :width] > -np.inf)
    return Chosen(picked, np.pad(ended, ((0, 0), (0, width - ended.shape[1]))), _first_open(picked, width))


def select_diverse(
    totals: Array, ranks: Array, options: Candidates, width: int, groups: int, diversity: float
) -> Chosen:
    """Each group chooses in its turn, and likes less what those before it have chosen (Vijayakumar et al. 2018)."""
    each, parts = width // groups, list[Chosen]()
    for first in range(0, width, each):
        own = slice(first, first + each)
        likely, choice, pieces = (some[:, own] for some in options)
        if parts:
            before = (part.going for part in parts)
            taken = np.concatenate([np.where(one.ranks > -np.inf, one.pieces, -1) for one in before], 1)  # (A, P)
            choice = choice - diversity * (pieces[..., None] == taken[:, None, None, :]).sum(3)
        picked, ended, going = select_top(totals[:, own], ranks[:, own], Candidates(likely, choice, pieces), each)
        ended = np.zeros((len(totals), each), bool) if ended is None else ended
        picked, going = (some._replace(beams=some.beams + first) for some in (_first(picked, each), going))
        parts.append(Chosen(picked, ended, going))
    ends = np.concatenate([part.ended for part in parts if part.ended is not None], 1)
    return Chosen(_beside([part.picked for part in parts]), ends, _beside([part.going for part in parts]))


def select_constrained(
    totals: Array,
    ranks: Array,
    options: Candidates,
    chosen: Chosen,
    progress: Mapping[int, Sequence[ConstraintState]],
    lasts: Mapping[int, int],
) -> Chosen:
    """The same as `chosen`, but for sentences with terms, whose beams are shared out among the banks.

    `progress` says how far each beam of such a sentence has come, `lasts` the number of its last bank.
    """
    width, k = chosen.going.pieces.shape[1], options.pieces.shape[2]
    picked, going = (
        Selection(*(some.copy() for some in each)) for each in (_first(chosen.picked, width), chosen.going)
    )
    ended = np.zeros(picked.pieces.shape, bool) if chosen.ended is None else chosen.ended.copy()
    for a, beams_of in progress.items():
        pieces, likely = options.pieces[a].reshape(-1), options.likely[a].reshape(-1)
        own = (ranks[a][:, None] + options.choice[a]).reshape(-1)
        beams, banks = np.arange(len(own)) // k, np.zeros(len(own), np.int64)
        for i in np.flatnonzero(own > -np.inf).tolist():
            banks[i] = beams_of[i // k].bank(int(pieces[i]))
        for target, some in ((picked, own), (going, np.where(pieces == EOS, -np.inf, own))):
            kept = allocate_banks(some, banks, width, lasts[a])
            values = (beams[kept], pieces[kept], totals[a][beams[kept]] + likely[kept], some[kept])
            for old, new, empty in zip(target, values, (0, 0, -np.inf, -np.inf), strict=True):
                old[a, : len(kept)], old[a, len(kept) :] = new, empty
        ended[a] = (picked.pieces[a] == EOS) & (picked.ranks[a] > -np.inf)
    return Chosen(picked, ended, going)


def stable_top_k(choice: Array, count: int) -> Array:
    """The columns of the largest numbers in each row, largest first, lower columns first among equals."""
    V = choice.shape[1]
    if count >= V:
        return np.argsort(-choice, axis=1, kind="stable")
    columns = np.sort(np.argpartition(choice, V - count, axis=1)[:, V - count :], axis=1)
    numbers = np.take_along_axis(choice, columns, 1)
    least = numbers.min(1, keepdims=True)
    for row in np.flatnonzero((choice >= least).sum(1) > count).tolist():  # which of the equals were left out is chance
        columns[row] = np.sort(np.argsort(-choice[row], kind="stable")[:count])
        numbers[row] = choice[row, columns[row]]
    return np.take_along_axis(columns, np.argsort(-numbers, axis=1, kind="stable"), 1)


def _likeliest(totals: Array, ranks: Array, options: Candidates, count: int) -> Selection:
    """The best continuations of each sentence; of equals, that of the lower beam, then of the lower piece."""
    A, K, k = options.pieces.shape
    all_ranks = (ranks[:, :, None] + options.choice).reshape(A, K * k)
    if K * k == 1:
        return Selection(np.zeros((A, 1), np.int64), options.pieces[:, 0], totals + options.likely[:, 0], all_ranks)
    order = np.argsort(-all_ranks, axis=1, kind="stable")[:, :count]
    beams = order // k
    firsts = np.arange(A)[:, None]
    flat = order + firsts * (K * k)
    return Selection(
        beams,
        options.pieces.reshape(-1).take(flat),
        totals.reshape(-1).take(beams + firsts * K) + options.likely.reshape(-1).take(flat),
        all_ranks.reshape(-1).take(flat),
    )


def _first(picked: Selection, width: int) -> Selection:
    """The first `width` continuations; where there are fewer, the rest are empty."""
    C = picked.pieces.shape[1]
    if width <= C:
        return Selection(*(some[:, :width] for some in picked))
    beams, pieces = (np.pad(some, ((0, 0), (0, width - C))) for some in picked[:2])
    totals, ranks = (np.pad(some, ((0, 0), (0, width - C)), constant_values=-np.inf) for some in picked[2:])
    return Selection(beams, pieces, totals, ranks)


def _first_open(picked: Selection, width: int) -> Selection:
    """The first `width` continuations that do not end."""
    is_end = picked.pieces == EOS
    order = np.argsort(is_end, axis=1, kind="stable")
    parts = picked._replace(ranks=np.where(is_end, -np.inf, picked.ranks))
    return _first(Selection(*(np.take_along_axis(some, order, 1) for some in parts)), width)


def _beside(parts: Sequence[Selection]) -> Selection:
    return Selection(*(np.concatenate(some, 1) for some in zip(*parts, strict=True)))
