"""Find where the sides of a corpus no longer belong together: from some line on, each translation
stands a few lines away, or nowhere near.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

import numpy as np
import numpy.typing as npt

from regard.data.checking.lexicon import Floats
from regard.data.checking.pair_checker import OFFSETS, PairChecker, damage_of
from regard.data.checking.suspects import Suspect
from regard.data.pairs import CHUNK, Pair

SWITCH = 20.0
"""Evidence that it takes to say that translations stand elsewhere from here on."""
MOST_EVIDENCE = 2.0
"""Evidence of one pair, at most."""
TRIED = 400
"""Pairs of a stretch on which offsets are tried."""
STRETCHES = 5
"""Stretches of which offsets are tried, the longest."""
CLEAR = 0.25
"""Share of the difference between usual and random scores by which an offset is better than others.
"""
NOWHERE = 1_000
"""Stands for the offset of translations that are not near."""
_MARGIN = max(OFFSETS)


@dataclass(frozen=True)
class Shift:
    """Lines whose sides do not belong together; `offset`: lines by which the translations stand
    lower, or None if they are not near.
    """

    first: int
    last: int
    offset: int | None

    def describe(self) -> str:
        """Say which lines they are, and where their translations stand."""
        lines = (
            f"lines {self.first:,} to {self.last:,}: the sides do not belong together"
        )
        if self.offset is None:
            return f"{lines}, and translations are not within {_MARGIN} lines"
        count = abs(self.offset)
        side = "below" if self.offset > 0 else "above"
        return f"{lines}; translations stand {count} line{'s' * (count > 1)} {side}"


def find_offsets(
    pairs: Iterable[Pair], places: Sequence[int], checker: PairChecker
) -> list[int]:
    """Return the offsets at which the translations stand that are nowhere by their `places`.

    The pairs are read again only if there are such.
    """
    stretches = _stretches(np.array(places), NOWHERE)
    longest = sorted(stretches, key=len)[-STRETCHES:]
    return sorted({*_offsets(pairs, longest, checker)}) if longest else []


def where_translations_stand(
    scores: Mapping[int, Floats], checker: PairChecker
) -> Sequence[int]:
    """Return for each row the offset of its translation, or `NOWHERE`, from the scores of all rows
    with the targets at each offset.
    """
    evidence = [_evidence(own, checker) for own in scores.values()]
    states = _states([*evidence, 0 * evidence[0]])
    names = np.array([*scores, NOWHERE])
    offsets: list[int] = names[states].tolist()
    return offsets


def shifts_of(pairs: Iterable[Pair], offsets: Sequence[int]) -> list[Shift]:
    """Return the stretches of pairs whose translations do not stand beside their sources."""
    states = np.array(offsets)
    stretches = [
        (own, offset)
        for offset in sorted({*offsets} - {0})
        for own in _stretches(states, offset)
    ]
    wanted = {row for own, _ in stretches for row in (own[0], own[-1])}
    lines = {row: pair.line for row, pair in enumerate(pairs) if row in wanted}
    shifts = [
        Shift(lines[own[0]], lines[own[-1]], None if offset == NOWHERE else offset)
        for own, offset in stretches
    ]
    return sorted(shifts, key=lambda shift: shift.first)


def shifted_pairs(
    pairs: Iterable[Pair],
    places: Sequence[int],
    scores: Mapping[int, Floats],
    checker: PairChecker,
) -> Iterator[Suspect]:
    """Yield the pairs whose translations stand elsewhere; they are proposed if they are near and
    undamaged, and their words do not say that they are unrelated.
    """
    blank = [Pair("", "", 0)] * _MARGIN
    rows = chain(blank, pairs, blank)
    window = deque(islice(rows, 2 * _MARGIN), 2 * _MARGIN + 1)
    for row, (following, offset) in enumerate(zip(rows, places, strict=True)):
        window.append(following)
        if not offset:
            continue
        pair = window[_MARGIN]
        proposal = None
        if offset != NOWHERE and not scores[offset][row] < checker.unrelated:
            other = Pair(pair.source, window[_MARGIN + offset].target, pair.line)
            if not any(damage_of(other)):
                proposal = other.source, other.target
        yield Suspect(pair.line, "shifted", pair.source, pair.target, proposal=proposal)


def _evidence(scores: Floats, checker: PairChecker) -> Floats:
    """Return the evidence of each score that the sides belong together."""
    if checker.usual == -math.inf:  # nothing is known
        return np.zeros(len(scores))
    middle = (checker.unrelated + checker.usual) / 2
    scale = max(1e-9, (checker.usual - checker.unrelated) / 4)
    known = np.nan_to_num((scores - middle) / scale)
    return np.clip(known, -MOST_EVIDENCE, MOST_EVIDENCE)


def _states(evidence: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """Return the state of each row: of all ways that with the most evidence, less `SWITCH` for each
    change (Viterbi 1967).
    """
    best = [0.0] * len(evidence)
    origins = np.empty((len(evidence[0]), len(evidence)), np.int8)
    columns = (values.data for values in evidence)  # read as plain numbers
    rows = zip(*columns, strict=True)
    for row, row_evidence in enumerate(rows):
        top = max(range(len(best)), key=best.__getitem__)
        changed = best[top] - SWITCH
        origins[row] = [
            top if changed > own else number for number, own in enumerate(best)
        ]
        best = [
            max(own, changed) + gained
            for own, gained in zip(best, row_evidence, strict=True)
        ]
    current = max(range(len(best)), key=best.__getitem__)
    states = np.empty(len(origins), np.int64)
    for row in range(len(origins) - 1, -1, -1):
        states[row] = current
        current = origins[row][current]
    return states


def _stretches(states: npt.NDArray[np.int64], state: int) -> list[range]:
    """Return the rows that are in this state, in ranges."""
    changes = np.flatnonzero(np.diff(states)) + 1
    borders = [0, *changes.tolist(), len(states)]
    return [
        range(first, end) for first, end in pairwise(borders) if states[first] == state
    ]


def _offsets(
    pairs: Iterable[Pair], stretches: Sequence[range], checker: PairChecker
) -> Iterator[int]:
    """Yield the offsets at which the translations of stretches stand, if they are near."""
    tried = [range(own.start, min(own.stop, own.start + TRIED)) for own in stretches]
    wanted = {
        row for own in tried for row in range(own.start - _MARGIN, own.stop + _MARGIN)
    }
    kept = {row: pair for row, pair in enumerate(pairs) if row in wanted}
    for rows in tried:
        medians = dict[int, float]()
        for offset in OFFSETS:
            usable = [row for row in rows if row + offset in kept]
            sources = [kept[row] for row in usable]
            targets = [kept[row + offset] for row in usable]
            scores = checker.lexicon.scores(
                sources, targets, np.zeros(len(usable), np.bool_)
            )
            known = scores[~np.isnan(scores)]
            if len(known):
                medians[offset] = float(np.median(known))
        if not medians:
            continue
        best = max(medians, key=medians.__getitem__)
        elsewhere = float(np.median([*medians.values()]))
        is_clear = medians[best] - elsewhere > CLEAR * (checker.usual - elsewhere)
        if best and is_clear and medians[best] > checker.unrelated:
            yield best


def scores_at(
    pairs: Iterable[Pair],
    offset: int,
    checker: PairChecker,
    is_learnt: npt.NDArray[np.bool_],
) -> Floats:
    """Return the scores of all sources with the targets so many rows below them."""
    parts = [np.zeros(0)]
    blank = [Pair("", "", 0)] * _MARGIN
    rows = chain(blank, pairs, blank)
    window = list(islice(rows, 2 * _MARGIN))
    done = 0
    while following := list(islice(rows, CHUNK)):
        around = [*window, *following]
        own = around[_MARGIN:-_MARGIN]
        targets = around[_MARGIN + offset :][: len(own)]
        learnt = is_learnt[done : done + len(own)]
        parts.append(checker.lexicon.scores(own, targets, learnt))
        done += len(own)
        window = around[-2 * _MARGIN :]
    return np.concatenate(parts)
