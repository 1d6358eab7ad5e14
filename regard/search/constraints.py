"""Lexically constrained decoding: terms that must appear, by dynamic beam allocation (Post & Vilar
2018).

The beam of a sentence is shared out among *banks*: hypotheses that have written 0, 1, … of the
required tokens. A hypothesis that has just begun a term then need not compete with those that put
it off, and the beam stays as wide as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.common.shapes import Array
from regard.search.task import Term

PartialMatch = tuple[int, tuple[int, ...], int]
"""The number of a term, one of its forms, and how many tokens of it stand at the end of a
prefix.
"""


class TermIndex:
    """The terms of a task, and the forms that begin with each token."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self.sizes = [_size(term) for term in terms]
        self.forms: list[PartialMatch] = [
            (t, form, 0) for t, term in enumerate(terms) for form in term.forms
        ]
        self.by_first_token: dict[int, list[PartialMatch]] = {}
        for match in self.forms:
            self.by_first_token.setdefault(match[1][0], []).append(match)


@dataclass(frozen=True, eq=False)
class ConstraintState:
    """Progress of one prefix through its terms, which each token advances without a look back.

    Terms, by their number, are `settled` if they are there whatever comes next, and `ending` if
    their last word may still run on. `partial` are forms whose first tokens stand at the end.
    `parent_done` are the terms of the prefix without its last token.
    """

    index: TermIndex
    settled: frozenset[int] = frozenset()
    ending: frozenset[int] = frozenset()
    partial: tuple[PartialMatch, ...] = ()
    parent_done: frozenset[int] = frozenset()

    @classmethod
    def initial(cls, terms: tuple[Term, ...]) -> ConstraintState:
        """Return the progress of the empty prefix."""
        forms = (
            (t, form, 0) for t, term in enumerate(terms) for form in term.initial_forms
        )
        return cls(TermIndex(terms), partial=tuple(forms))

    def advance(self, token: int) -> ConstraintState:
        """Return the progress of the prefix with one more token."""
        terms = self.index.terms
        lasting = [
            t
            for t in self.ending
            if (allowed := terms[t].may_follow) is None or allowed[token]
        ]
        candidates = (*self.partial, *self.index.by_first_token.get(token, ()))
        matches = [(t, form, n + 1) for t, form, n in candidates if form[n] == token]
        return ConstraintState(
            self.index,
            self.settled.union(lasting) if lasting else self.settled,
            frozenset(t for t, form, n in matches if n == len(form)),
            tuple(match for match in matches if match[2] < len(match[1])),
            self.done,
        )

    @cached_property
    def done(self) -> frozenset[int]:
        """The terms that are there."""
        return self.settled | self.ending if self.ending else self.settled

    @cached_property
    def tokens_done(self) -> int:
        """The number of tokens of these terms."""
        return sum(self.index.sizes[t] for t in self.done)

    @property
    def is_complete(self) -> bool:
        return len(self.done) == len(self.index.terms)

    @property
    def may_follow(self) -> Array | None:
        """The tokens (V,) that may come next if a term has just been completed for the first time;
        None: any.
        """
        allowed = None
        for t in self.done - self.parent_done:
            if (mask := self.index.terms[t].may_follow) is not None:
                allowed = mask if allowed is None else allowed & mask
        return allowed

    def next_tokens(self) -> set[int]:
        """Return the tokens that begin a missing term, or continue one that was begun."""
        return {*self._gains}

    def bank(self, token: int) -> int:
        """Count the required tokens that are there once `token` is appended.

        A term that is only begun counts in part, as long as it stands at the very end.
        """
        return self.tokens_done + self._gains.get(token, 0)

    @cached_property
    def _gains(self) -> dict[int, int]:
        """The required tokens that each next token adds."""
        by_term: dict[tuple[int, int], int] = {}
        for t, form, n in (*self.index.forms, *self.partial):
            if t not in self.done:
                size = self.index.sizes[t]
                key = (form[n], t)
                by_term[key] = max(
                    by_term.get(key, 0),
                    size if n + 1 == len(form) else min(n + 1, size - 1),
                )
        gains: dict[int, int] = {}
        for (token, _), gain in by_term.items():
            gains[token] = gains.get(token, 0) + gain
        return gains


def required_tokens(terms: Sequence[Term]) -> int:
    """Count the tokens that terms require: the number of the last bank."""
    return sum(map(_size, terms))


def is_complete(ids: Sequence[int], terms: Sequence[Term]) -> bool:
    """Return whether a target holds every term."""
    return all(contains(tuple(ids), term) for term in terms)


def contains(ids: tuple[int, ...], term: Term) -> bool:
    """Return whether a form of the term was written, followed by something that lets its last word
    end there.
    """
    if any(
        ids[: len(form)] == form and _ends_at_boundary(ids, len(form), term)
        for form in term.initial_forms
    ):
        return True
    return any(
        ids[start : start + len(form)] == form
        and _ends_at_boundary(ids, start + len(form), term)
        for form in term.forms
        if form[0] in ids
        for start in range(len(ids) - len(form) + 1)
    )


def allocate_banks(scores: Array, banks: Array, width: int, last: int) -> Array:
    """Choose which of one sentence's continuations (C,) are kept, best first: at most `width`,
    shared among the banks.

    Each bank gets the same share, the last one the remainder; what a bank cannot fill goes to the
    others, those with more of the required tokens first.
    """
    order = [
        i for i in np.argsort(-scores, kind="stable").tolist() if scores[i] > -np.inf
    ]
    queues: list[list[int]] = [[] for _ in range(last + 1)]
    for i in order:
        queues[min(int(banks[i]), last)].append(i)
    shares = [width // (last + 1)] * (last + 1)
    shares[last] += width - sum(shares)
    kept = [
        i for queue, share in zip(queues, shares, strict=True) for i in queue[:share]
    ]
    spare = [
        i
        for queue, share in zip(reversed(queues), reversed(shares), strict=True)
        for i in queue[share:]
    ]
    selected = {*kept, *spare[: width - len(kept)]}
    return np.array([i for i in order if i in selected], np.int64)


def _size(term: Term) -> int:
    return len(term.forms[0])


def _ends_at_boundary(ids: tuple[int, ...], end: int, term: Term) -> bool:
    return end >= len(ids) or term.may_follow is None or bool(term.may_follow[ids[end]])
