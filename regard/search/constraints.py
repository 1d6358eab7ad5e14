"""Words that must appear: lexically constrained beam search with dynamic beam allocation (Post & Vilar 2018).

The beam of a sentence is shared out among *banks*: hypotheses that have written 0, 1, … of the pieces asked for. So one
that has just begun a term need not compete with those that put it off, and the beam stays as wide as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.data.vocabulary import EOS
from regard.search.hypothesis import Task, Term
from regard.search.rules import Array, Rule

if TYPE_CHECKING:
    from regard.search.beams import Beams

__all__ = ["ConstraintState", "RequiredTerms", "allocate_banks", "has", "is_complete", "pieces_of"]


@dataclass(frozen=True)
class RequiredTerms(Rule):
    """No end before every term is there, and none whose last word runs on."""

    whole = True

    def concerns(self, task: Task) -> bool:
        return bool(task.terms)

    def reweigh(self, choice: Array, front: Beams) -> Array:
        for row, progress in front.progress.items():
            if not progress.is_complete:
                choice[row, EOS] = -np.inf
            if progress.may_follow is not None:
                choice[row, ~progress.may_follow] = -np.inf
        return choice


class ConstraintState:
    """How far a beginning has come with its terms."""

    def __init__(self, ids: tuple[int, ...], terms: Sequence[Term]) -> None:
        self.done = sum(_size(term) for term in terms if has(ids, term))
        self._open = [(_size(term), list(_under_way(ids, term))) for term in terms if not has(ids, term)]
        self.may_follow = _may_follow(ids, terms)

    @property
    def is_complete(self) -> bool:
        return not self._open

    def pieces(self) -> set[int]:
        """Those that begin a term that is still missing, or go on with one that was begun."""
        return {form[n] for _, forms in self._open for form, n in forms}

    def bank(self, piece: int) -> int:
        """How many of the pieces asked for are there when `piece` has been written too.

        A term that is only begun counts in part, as long as it stands at the very end.
        """
        total = self.done
        for size, forms in self._open:
            reached = [(n + 1, n + 1 == len(form)) for form, n in forms if form[n] == piece]
            if any(whole for _, whole in reached):
                total += size
            elif reached:
                total += min(max(n for n, _ in reached), size - 1)
        return total


def pieces_of(terms: Sequence[Term]) -> int:
    """How many pieces are asked for: the number of the last bank."""
    return sum(map(_size, terms))


def is_complete(ids: Sequence[int], terms: Sequence[Term]) -> bool:
    """Whether a target holds every term."""
    return all(has(tuple(ids), term) for term in terms)


def has(ids: tuple[int, ...], term: Term) -> bool:
    """Whether a form was written, with something after it that lets its last word end there."""
    if any(ids[: len(form)] == form and _ends_well(ids, len(form), term) for form in term.opening):
        return True
    return any(
        ids[start : start + len(form)] == form and _ends_well(ids, start + len(form), term)
        for form in term.forms
        if form[0] in ids
        for start in range(len(ids) - len(form) + 1)
    )


def allocate_banks(ranks: Array, banks: Array, width: int, last: int) -> Array:
    """Which of one sentence's continuations (C,) are kept, likeliest first: `width` at most, shared among the banks.

    Each bank gets the same share, the last one what is left over; what a bank cannot fill goes to the others, those
    that have more of what is asked for first.
    """
    order = [i for i in np.argsort(-ranks, kind="stable").tolist() if ranks[i] > -np.inf]
    queues: list[list[int]] = [[] for _ in range(last + 1)]
    for i in order:
        queues[min(int(banks[i]), last)].append(i)
    shares = [width // (last + 1)] * (last + 1)
    shares[last] += width - sum(shares)
    kept = [i for queue, share in zip(queues, shares, strict=True) for i in queue[:share]]
    spare = [i for queue, share in zip(reversed(queues), reversed(shares), strict=True) for i in queue[share:]]
    chosen = {*kept, *spare[: width - len(kept)]}
    return np.array([i for i in order if i in chosen], np.int64)


def _size(term: Term) -> int:
    return len(term.forms[0])


def _under_way(ids: tuple[int, ...], term: Term) -> Iterator[tuple[tuple[int, ...], int]]:
    """Each form that could go on, and how many of its pieces stand at the end: none is always possible."""
    for form in term.forms:
        yield from ((form, n) for n in range(len(form)) if n <= len(ids) and ids[len(ids) - n :] == form[:n])
    n = len(ids)
    yield from ((form, n) for form in term.opening if n < len(form) and ids == form[:n])


def _may_follow(ids: tuple[int, ...], terms: Sequence[Term]) -> Array | None:
    """Which pieces (V,) may come next where a term has just been written whole for the first time; None: any."""
    allowed = None
    for term in terms:
        if term.after is not None and has(ids, term) and not has(ids[:-1], term):
            allowed = term.after if allowed is None else allowed & term.after
    return allowed


def _ends_well(ids: tuple[int, ...], end: int, term: Term) -> bool:
    return end >= len(ids) or term.after is None or bool(term.after[ids[end]])
