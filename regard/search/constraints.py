"""Lexically constrained decoding: terms that must appear, by dynamic beam allocation (Post & Vilar 2018).

The beam of a sentence is shared out among *banks*: hypotheses that have written 0, 1, … of the required tokens. A
hypothesis that has just begun a term then need not compete with those that put it off, and the beam stays as wide as
it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from regard.search.task import Term
from regard.shapes import Array


class ConstraintState:
    """Progress of one prefix through its terms."""

    def __init__(self, ids: tuple[int, ...], terms: Sequence[Term]) -> None:
        self.tokens_done = sum(_size(term) for term in terms if contains(ids, term))
        self._open = [(_size(term), list(_partial_matches(ids, term))) for term in terms if not contains(ids, term)]
        self.may_follow = _may_follow(ids, terms)

    @property
    def is_complete(self) -> bool:
        return not self._open

    def next_tokens(self) -> set[int]:
        """Return the tokens that begin a missing term, or continue one that was begun."""
        return {form[n] for _, forms in self._open for form, n in forms}

    def bank(self, token: int) -> int:
        """Count the required tokens that are there once `token` is appended.

        A term that is only begun counts in part, as long as it stands at the very end.
        """
        total = self.tokens_done
        for size, forms in self._open:
            reached = [(n + 1, n + 1 == len(form)) for form, n in forms if form[n] == token]
            if any(is_whole for _, is_whole in reached):
                total += size
            elif reached:
                total += min(max(n for n, _ in reached), size - 1)
        return total


def required_tokens(terms: Sequence[Term]) -> int:
    """Count the tokens that terms require: the number of the last bank."""
    return sum(map(_size, terms))


def is_complete(ids: Sequence[int], terms: Sequence[Term]) -> bool:
    """Return whether a target holds every term."""
    return all(contains(tuple(ids), term) for term in terms)


def contains(ids: tuple[int, ...], term: Term) -> bool:
    """Return whether a form of the term was written, followed by something that lets its last word end there."""
    if any(ids[: len(form)] == form and _ends_at_boundary(ids, len(form), term) for form in term.initial_forms):
        return True
    return any(
        ids[start : start + len(form)] == form and _ends_at_boundary(ids, start + len(form), term)
        for form in term.forms
        if form[0] in ids
        for start in range(len(ids) - len(form) + 1)
    )


def allocate_banks(scores: Array, banks: Array, width: int, last: int) -> Array:
    """Choose which of one sentence's continuations (C,) are kept, best first: at most `width`, shared among the banks.

    Each bank gets the same share, the last one the remainder; what a bank cannot fill goes to the others, those with
    more of the required tokens first.
    """
    order = [i for i in np.argsort(-scores, kind="stable").tolist() if scores[i] > -np.inf]
    queues: list[list[int]] = [[] for _ in range(last + 1)]
    for i in order:
        queues[min(int(banks[i]), last)].append(i)
    shares = [width // (last + 1)] * (last + 1)
    shares[last] += width - sum(shares)
    kept = [i for queue, share in zip(queues, shares, strict=True) for i in queue[:share]]
    spare = [i for queue, share in zip(reversed(queues), reversed(shares), strict=True) for i in queue[share:]]
    selected = {*kept, *spare[: width - len(kept)]}
    return np.array([i for i in order if i in selected], np.int64)


def _size(term: Term) -> int:
    return len(term.forms[0])


def _partial_matches(ids: tuple[int, ...], term: Term) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield each form that could continue, and how many of its tokens stand at the end: none is always possible."""
    for form in term.forms:
        yield from ((form, n) for n in range(len(form)) if n <= len(ids) and ids[len(ids) - n :] == form[:n])
    n = len(ids)
    yield from ((form, n) for form in term.initial_forms if n < len(form) and ids == form[:n])


def _may_follow(ids: tuple[int, ...], terms: Sequence[Term]) -> Array | None:
    """Return the tokens (V,) that may come next if a term has just been completed for the first time; None: any."""
    allowed = None
    for term in terms:
        if term.may_follow is not None and contains(ids, term) and not contains(ids[:-1], term):
            allowed = term.may_follow if allowed is None else allowed & term.may_follow
    return allowed


def _ends_at_boundary(ids: tuple[int, ...], end: int, term: Term) -> bool:
    return end >= len(ids) or term.may_follow is None or bool(term.may_follow[ids[end]])
