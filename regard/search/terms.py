"""Words that must appear: lexically constrained beam search with dynamic beam allocation (Post & Vilar 2018).

The beam of a sentence is shared out among *banks*: hypotheses that have written 0, 1, … of the pieces asked for. So one
that has just begun a term need not compete with those that put it off, and the beam stays as wide as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.data.tokenizer import EOS
from regard.search.hypothesis import Task, Term
from regard.search.rules import Array, Rule

if TYPE_CHECKING:
    from regard.search.front import Front

__all__ = ["Terms", "allot", "bank", "is_complete", "may_follow", "next_pieces", "pieces_of"]


@dataclass(frozen=True)
class Terms(Rule):
    """No end before every term is there, and none whose last word runs on."""

    whole = True

    def concerns(self, task: Task) -> bool:
        return bool(task.terms)

    def reweigh(self, choice: Array, front: Front) -> Array:
        for row, ids, terms in _rows(front):
            if not is_complete(ids, terms):
                choice[row, EOS] = -np.inf
            allowed = may_follow(ids, terms)
            if allowed is not None:
                choice[row, ~allowed] = -np.inf
        return choice


def suggested(front: Front) -> Array:
    """The pieces (N, m) that bring each row nearer to its terms; end of sentence where there are fewer."""
    found = {row: sorted(next_pieces(ids, terms)) for row, ids, terms in _rows(front)}
    pieces = np.full((len(front.tokens), max(map(len, found.values()), default=0)), EOS)
    for row, some in found.items():
        pieces[row, : len(some)] = some
    return pieces


def _rows(front: Front) -> Iterator[tuple[int, tuple[int, ...], tuple[Term, ...]]]:
    """Each row that has terms, what it has written, and the terms."""
    for a, task in enumerate(front.tasks):
        if task.terms:
            for row in range(a * front.beams, (a + 1) * front.beams):
                yield row, front.written(row), task.terms


def pieces_of(terms: Sequence[Term]) -> int:
    """How many pieces are asked for: the number of the last bank."""
    return sum(map(_size, terms))


def bank(ids: Sequence[int], terms: Sequence[Term]) -> int:
    """How many of the pieces asked for a target holds; a term that is only begun at its very end counts in part."""
    return sum(_size(term) if _has(ids, term) else min(_begun(ids, term), _size(term) - 1) for term in terms)


def is_complete(ids: Sequence[int], terms: Sequence[Term]) -> bool:
    """Whether a target holds every term."""
    return all(_has(ids, term) for term in terms)


def next_pieces(ids: Sequence[int], terms: Sequence[Term]) -> set[int]:
    """The pieces that begin a term that is still missing, or go on with one that was begun."""
    found = set[int]()
    for term in terms:
        if not _has(ids, term):
            found |= {form[n] for form in term.forms for n in range(len(form)) if _ends_with(ids, form[:n])}
            found |= {form[len(ids)] for form in _openings(ids, term) if len(ids) < len(form)}
    return found


def may_follow(ids: Sequence[int], terms: Sequence[Term]) -> Array | None:
    """Which pieces (V,) may come next where a term has just been written whole for the first time; None: any."""
    allowed = None
    for term in terms:
        if term.after is not None and not _has(ids[:-1], term) and _has(ids, term):
            allowed = term.after if allowed is None else allowed & term.after
    return allowed


def allot(ranks: Array, banks: Array, width: int, last: int) -> Array:
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


def _openings(ids: Sequence[int], term: Term) -> Iterator[tuple[int, ...]]:
    """The opening forms of which these pieces, the whole target so far, are the beginning."""
    return (form for form in term.opening if tuple(ids) == form[: len(ids)])


def _ends_with(ids: Sequence[int], run: Sequence[int]) -> bool:
    return len(run) <= len(ids) and tuple(ids[len(ids) - len(run) :]) == tuple(run)


def _begun(ids: Sequence[int], term: Term) -> int:
    """How many pieces of a form stand at the end."""
    forms = (*term.forms, *_openings(ids, term))
    return max((n for form in forms for n in range(1, len(form)) if _ends_with(ids, form[:n])), default=0)


def _has(ids: Sequence[int], term: Term) -> bool:
    """Whether a form was written, with something after it that lets its last word end there."""
    if any(tuple(ids[: len(form)]) == form and _ends_well(ids, len(form), term) for form in term.opening):
        return True
    return any(
        tuple(ids[end - len(form) : end]) == form and _ends_well(ids, end, term)
        for form in term.forms
        for end in range(len(form), len(ids) + 1)
    )


def _ends_well(ids: Sequence[int], end: int, term: Term) -> bool:
    return end >= len(ids) or term.after is None or ids[end] == EOS or bool(term.after[ids[end]])
