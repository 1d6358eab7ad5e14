"""Lexically constrained decoding by dynamic beam allocation (Post and Vilar 2018).

Required terms must appear in a target. The beam of a sentence is divided among *banks*: bank i
contains the hypotheses that have i of the required tokens. A hypothesis that has just begun a term
thus need not compete with those that have not, and the beam need not be wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.common.shapes import Array
from regard.search.task import Term

PartialMatch = tuple[int, tuple[int, ...], int]
"""Index of a term, one of its forms, and the number of its tokens that end the prefix."""


class TermIndex:
    """The terms of a task, with their forms indexed by first token."""

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
    """State of the terms of one prefix; each token advances it without rereading the prefix.

    Terms are given by index. A term is `settled` if it is complete whatever token comes next, and
    `ending` if the next token could still continue its last word. `partial` holds the forms whose
    first tokens end the prefix. `parent_done` holds the terms that were complete before the last
    token.
    """

    index: TermIndex
    settled: frozenset[int] = frozenset()
    ending: frozenset[int] = frozenset()
    partial: tuple[PartialMatch, ...] = ()
    parent_done: frozenset[int] = frozenset()

    @classmethod
    def initial(cls, terms: tuple[Term, ...]) -> ConstraintState:
        """Return the state of the empty prefix."""
        forms = (
            (t, form, 0) for t, term in enumerate(terms) for form in term.initial_forms
        )
        return cls(TermIndex(terms), partial=tuple(forms))

    def advance(self, token: int) -> ConstraintState:
        """Return the state of the prefix with one more token."""
        settled = self.settled
        for t in self.ending:
            may_follow = self.index.terms[t].may_follow
            if may_follow is None or may_follow[token]:
                settled |= {t}

        candidates = (*self.partial, *self.index.by_first_token.get(token, ()))
        matches = [(t, form, n + 1) for t, form, n in candidates if form[n] == token]
        ending = frozenset(t for t, form, n in matches if n == len(form))
        partial = tuple((t, form, n) for t, form, n in matches if n < len(form))
        return ConstraintState(self.index, settled, ending, partial, self.done)

    @cached_property
    def done(self) -> frozenset[int]:
        """Terms that are complete if the prefix ends here."""
        return self.settled | self.ending if self.ending else self.settled

    @cached_property
    def tokens_done(self) -> int:
        """Number of tokens of the complete terms."""
        return sum(self.index.sizes[t] for t in self.done)

    @property
    def is_complete(self) -> bool:
        return len(self.done) == len(self.index.terms)

    @property
    def may_follow(self) -> Array | None:
        """Mask (V,) of the tokens that may follow terms that have just been completed.

        None if any token may follow.
        """
        allowed = None
        for t in self.done - self.parent_done:
            mask = self.index.terms[t].may_follow
            if mask is not None:
                allowed = mask if allowed is None else allowed & mask
        return allowed

    def next_tokens(self) -> set[int]:
        """Return the tokens that begin a missing term, or continue one that was begun."""
        return {*self._gains}

    def bank(self, token: int) -> int:
        """Count the required tokens of the prefix followed by `token`.

        The tokens of an incomplete term count only if they are the last ones of the prefix.
        """
        return self.tokens_done + self._gains.get(token, 0)

    @cached_property
    def _gains(self) -> dict[int, int]:
        """Number of required tokens that each next token adds."""
        by_term: dict[tuple[int, int], int] = {}
        for t, form, n in (*self.index.forms, *self.partial):
            if t not in self.done:
                size = self.index.sizes[t]
                gain = size if n + 1 == len(form) else min(n + 1, size - 1)
                key = (form[n], t)
                by_term[key] = max(by_term.get(key, 0), gain)
        gains: dict[int, int] = {}
        for (token, _), gain in by_term.items():
            gains[token] = gains.get(token, 0) + gain
        return gains


def required_tokens(terms: Sequence[Term]) -> int:
    """Count the tokens that terms require, which is the index of the last bank."""
    return sum(map(_size, terms))


def is_complete(ids: Sequence[int], terms: Sequence[Term]) -> bool:
    """Return whether a target contains every term."""
    return all(contains(tuple(ids), term) for term in terms)


def contains(ids: tuple[int, ...], term: Term) -> bool:
    """Return whether the ids contain a form of the term whose last word ends there."""
    for form in term.initial_forms:
        if ids[: len(form)] == form and _ends_at_boundary(ids, len(form), term):
            return True
    for form in term.forms:
        if form[0] not in ids:
            continue
        for start in range(len(ids) - len(form) + 1):
            end = start + len(form)
            if ids[start:end] == form and _ends_at_boundary(ids, end, term):
                return True
    return False


def allocate_banks(scores: Array, banks: Array, width: int, last: int) -> Array:
    """Select at most `width` of one sentence's continuations (C,), shared among the banks.

    Each bank gets the same share, and the `last` one also the remainder. Places that a bank cannot
    fill go to the others, to banks with more required tokens first. Returns the indices of the
    selected continuations, best first.
    """
    order = [
        i for i in np.argsort(-scores, kind="stable").tolist() if scores[i] > -np.inf
    ]
    queues: list[list[int]] = [[] for _ in range(last + 1)]
    for i in order:
        queues[min(int(banks[i]), last)].append(i)
    shares = [width // (last + 1)] * (last + 1)
    shares[last] += width - sum(shares)

    selected = set[int]()
    unselected: list[int] = []
    for queue, share in zip(reversed(queues), reversed(shares), strict=True):
        selected.update(queue[:share])
        unselected += queue[share:]
    selected.update(unselected[: width - len(selected)])
    return np.array([i for i in order if i in selected], np.int64)


def _size(term: Term) -> int:
    return len(term.forms[0])


def _ends_at_boundary(ids: tuple[int, ...], end: int, term: Term) -> bool:
    return end >= len(ids) or term.may_follow is None or bool(term.may_follow[ids[end]])
