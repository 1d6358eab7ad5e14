"""Convert constraints from token ids to the structures of the C library, without PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from weakref import WeakKeyDictionary

from regard.data.vocabulary import UNK, surfaces_of
from regard.runtime.model import Completion, Constraints, RuntimeModel, Term
from regard.search import task

_TABLES: WeakKeyDictionary[task.BannedPhrase, ctypes.Array[Completion]] = (
    WeakKeyDictionary()
)
"""Completions of forbidden phrases, converted once and shared by many sources."""


def library_constraints(
    prefix: Sequence[int],
    terms: Sequence[task.Term],
    banned: Sequence[task.BannedPhrase],
    max_steps: int = 0,
    sampling_key: int = 0,
) -> Constraints:
    """Return constraints as a structure of the library.

    `banned` has at most one element. The terms must outlive the structure.
    """
    constraints = Constraints.of_prefix(prefix)
    constraints.terms = (Term * len(terms))(*map(_term, terms))
    constraints.term_count = len(terms)
    if banned:
        table = _table(banned[0])
        constraints.banned = table
        constraints.banned_count = len(table)
    constraints.max_steps = max_steps
    constraints.sampling_key = sampling_key
    return constraints


class RuntimeVocabulary:
    """Target vocabulary of a runtime file, with the methods that `ConstraintEncoder` needs."""

    def __init__(self, model: RuntimeModel) -> None:
        self._model = model

    def encode(self, text: str) -> list[int]:
        """Encode a line, without BOS and EOS."""
        return self._model.encode_target(text)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the token of each id."""
        return self._model.tokens(ids, True)

    def id_of(self, token: str) -> int:
        """Return the id of a token; UNK if there is no such token."""
        return self._ids.get(token, UNK)

    @cached_property
    def surface_bytes(self) -> list[bytes]:
        """The bytes that each token adds to a text."""

        def is_byte(token: str) -> bool:
            return self._model.decode([self.id_of(token)], True) != token

        return surfaces_of(self._all_tokens, is_byte)

    @cached_property
    def _all_tokens(self) -> tuple[str, ...]:
        return self._model.vocabulary(True)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self._all_tokens)}


def _table(phrase: task.BannedPhrase) -> ctypes.Array[Completion]:
    """Return the completions of a phrase as an array of the library's structures."""
    if phrase not in _TABLES:
        completions = sorted(
            phrase.completions, key=lambda item: (len(item[0]), item[0])
        )
        records = (
            Completion(before, len(before), token, at_boundary)
            for before, token, at_boundary in completions
        )
        _TABLES.setdefault(phrase, (Completion * len(completions))(*records))
    return _TABLES[phrase]


def _term(term: task.Term) -> Term:
    forms = (*term.forms, *term.initial_forms)
    may_follow = None if term.may_follow is None else term.may_follow.ctypes.data
    ids = _integers(chain.from_iterable(forms))
    return Term(
        ids,
        _integers(map(len, forms)),
        len(term.forms),
        len(term.initial_forms),
        may_follow,
    )


def _integers(values: Iterable[int]) -> ctypes.Array[ctypes.c_int32]:
    ids = tuple(values)
    return (ctypes.c_int32 * len(ids))(*ids)
