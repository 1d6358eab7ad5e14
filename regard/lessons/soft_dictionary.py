"""A dictionary that is read softly, small enough to hold: what attention is, before it is a layer of anything."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.attention.attention import Attention, attention_mask, masked_softmax
from regard.attention.scores import SCORES, Score
from regard.errors import UnknownKey, UsageError
from regard.lessons.bars import Bars, draw
from regard.shapes import Float, Tensor

__all__ = ["Answer", "SoftDictionary"]

Similarity = Callable[[Any, Any], Any]
READY = ("scaled_dot", "dot", "cosine", "cosine_fixed")
"""Scores that say something before they have learnt."""
SHOWN = 24
"""Keys that a table or picture names; the others are summed up in one line."""


class SoftDictionary(Mapping[Any, Any]):
    """Keys and values that can be looked up exactly, or softly: the answer is then a mean of values, by similarity.

    >>> animals = SoftDictionary({"computer": 9, "dog": 2, "cat": 3})
    >>> animals["dog"]
    2
    >>> alike = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
    >>> print(animals.look_up("puppy", lambda key, query: alike[key]))
    puppy reads  2.824
    key       similarity  weight  value
    computer       0.100   0.059  9.000
    dog            0.900   0.529  2.000
    cat            0.700   0.412  3.000

    Made of a dict, or of two tensors with a row for each entry: keys (S, Dk) and values (S, Dv). Where the keys are
    vectors, a query is a vector (Dk) or several (T, Dk), and `look_up` is the read that every model makes.
    """

    def __init__(
        self,
        keys: Mapping[Any, Any] | Sequence[Any] | Tensor | np.ndarray,
        values: Sequence[Any] | Tensor | np.ndarray | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        keys, values = _plain(keys), _plain(values)
        if isinstance(keys, Mapping):
            _refuse(values is not None, "a dict brings its own values: give the dict alone, or keys and values apart")
            values = [keys[key] for key in keys]
            keys = list(keys)
        _refuse(values is None, "keys without values: give a dict, or keys and values of equal number")
        self._keys, self._stored = list(keys), list(values if values is not None else ())
        _check_numbers(len(self._keys), len(self._stored), names)
        self.answers: Tensor = _table(values, "values")
        self.vectors: Tensor | None = _table(keys, "keys") if _is_vector(self._keys[0]) else None
        self.names = tuple(names) if names is not None else tuple(_name(key) for key in self._keys)

    def __getitem__(self, query: Any) -> Any:
        """The value of the key that equals `query`, as it was given. Raises UnknownKey (a KeyError) without one."""
        return self._stored[self._places(query)[0]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def look_up(
        self,
        query: Any,
        similarity: Similarity | Score | str | None = None,
        softmax: bool = False,
        keep: Sequence[bool] | Tensor | None = None,
    ) -> Answer:
        """The mean of all values, each with the weight of its key; `keep`: which entries may be read (True).

        `similarity` is a function of a key and the query, whose results are divided by their sum, or with `softmax`
        go through it; or a score, always with softmax: "scaled_dot", "dot", "cosine", or a `Score` that has learnt.
        Without it vectors are compared by scaled dot product, and all else by equality.
        """
        kept, query = _kept(keep, len(self)), _plain(query)
        if callable(similarity) and not isinstance(similarity, Score):
            return self._by_function(query, similarity, softmax, kept)
        if self.vectors is not None:
            return self._by_score(query, similarity or "scaled_dot", kept)
        _refuse(similarity is not None, f"the score {similarity!r} compares vectors, and these keys are not: {_HINT}")
        _refuse(softmax, f"equality has no softmax: {_HINT}")
        return self._by_equality(query, kept)

    def __repr__(self) -> str:
        entries = ", ".join(f"{name}: {_told(value)}" for name, value in zip(self.names, self.answers, strict=True))
        return f"SoftDictionary({{{entries if len(entries) < 200 else f'{len(self)} entries'}}})"

    def _by_equality(self, query: Any, keep: Tensor) -> Answer:
        same = torch.zeros(len(self))
        same[self._places(query)] = 1
        return self._mean(query, same, _shares(same, keep, self.names), keep, "equal")

    def _by_function(self, query: Any, similarity: Similarity, softmax: bool, keep: Tensor) -> Answer:
        scores = torch.stack([_number(similarity(key, query)) for key in self._keys])
        weights = masked_softmax(scores.view(1, 1, 1, -1), keep.view(1, 1, 1, -1)).flatten() if softmax else None
        return self._mean(query, scores, _shares(scores, keep, self.names) if weights is None else weights, keep)

    def _by_score(self, query: Any, score: Score | str, keep: Tensor) -> Answer:
        """The read of every model, without projections."""
        assert self.vectors is not None, "only vectors are compared by a score"
        asked = _table(query, "queries").to(self.vectors.dtype)
        _refuse(
            asked.ndim not in (1, 2), f"a query is one vector or a table of them, got the shape {tuple(asked.shape)}"
        )
        one, asked = asked.ndim == 1, asked.view(1, -1, asked.shape[-1])  # (1, T, Dk)
        read = _reader(score, self.vectors.shape[1], asked.shape[2])
        memory = read.prepare(self.vectors[None], self.answers.view(len(self), -1)[None], keep[None])
        value = read(asked, memory)[0]  # (T, Dv)
        with torch.no_grad():
            scores = read.score(asked[None], memory.keys).masked_fill(~keep, -torch.inf)
            weights = masked_softmax(
                read.score(asked[None], memory.keys), attention_mask(memory, asked.shape[1], causal=False)
            )
        value = value.view(len(value), *self.answers.shape[1:])
        if one:
            return Answer(_name(query), self.names, scores[0, 0, 0], weights[0, 0, 0], self.answers, value[0])
        return Answer("queries", self.names, scores[0, 0], weights[0, 0], self.answers, value)

    def _mean(self, query: Any, scores: Tensor, weights: Tensor, keep: Tensor, word: str = "similarity") -> Answer:
        values = self.answers.masked_fill(~keep.view(-1, *[1] * (self.answers.ndim - 1)), 0)  # 0 · NaN would leak
        value = torch.tensordot(weights.to(values.dtype), values, 1)
        scores = scores.detach().masked_fill(~keep, -torch.inf)
        return Answer(_name(query), self.names, scores, weights.detach(), self.answers, value, word)

    def _places(self, query: Any) -> list[int]:
        found = [place for place, key in enumerate(self._keys) if _same(key, query)]
        if not found:
            asked = repr(query) if isinstance(query, str) else _name(query)
            raise UnknownKey(f"no key equals {asked}: {self._near(query)}; look_up(query, similarity) reads softly")
        return found

    def _near(self, query: Any) -> str:
        if isinstance(query, str):
            near = difflib.get_close_matches(query, [key for key in self._keys if isinstance(key, str)], 3)
        elif self.vectors is not None and _is_vector(query) and len(query) == self.vectors.shape[1]:
            away = (self.vectors.detach() - _table(query, "queries")).norm(dim=1)
            near = [self.names[place] for place in away.argsort()[:3]]
        else:
            near = []
        some = ", ".join(self.names[:12]) + (" …" if len(self) > 12 else "")
        return f"near it are {', '.join(near)}" if near else f"there are {some}"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a look-up found: `value`, through which gradients flow, and how: `scores` and `weights` of each key.

    One query has scores and weights (S,) and a value of the values' own shape; T queries have a row for each. The
    score of a hidden key is −∞.
    """

    query: str
    names: tuple[str, ...]
    scores: Tensor
    weights: Tensor
    values: Tensor
    value: Tensor
    measure: str = "similarity"

    def __str__(self) -> str:
        return "\n\n".join(self._printed(*one) for one in self._queries())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return draw(self._bars(), inline=True)

    def _repr_svg_(self) -> str:
        return draw(self._bars())

    def _queries(self) -> list[tuple[str, Tensor, Tensor, Tensor]]:
        if self.weights.ndim == 1:
            return [(self.query, self.scores, self.weights, self.value)]
        parts = zip(self.scores, self.weights, self.value, strict=True)
        return [(f"query {t + 1}", *part) for t, part in enumerate(parts)]

    def _printed(self, query: str, scores: Tensor, weights: Tensor, value: Tensor) -> str:
        places = _strongest(weights)
        rows = [("key", self.measure, "weight", "value")]
        rows += [
            (
                self.names[i],
                "hidden" if scores[i] == -torch.inf else f"{scores[i]:.3f}",
                f"{weights[i]:.3f}",
                _told(self.values[i], 3),
            )
            for i in places.tolist()
        ]
        if rest := _rest(weights, places):
            rows.append((rest[0], "", f"{rest[1]:.3f}", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join([f"{query} reads  {_told(value, 3)}", *lines])

    def _bars(self) -> list[Bars]:
        panels = []
        for query, _, weights, value in self._queries()[:SHOWN]:
            places = _strongest(weights)
            rows = [(self.names[i], float(weights[i])) for i in places.tolist()]
            rest = _rest(weights, places)
            panels.append(Bars(query, _told(value, 3), [*rows, rest] if rest else rows))
        return panels


_HINT = "give similarity=a function of (key, query)"


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise UsageError(why)


def _check_numbers(keys: int, values: int, names: Sequence[str] | None) -> None:
    causes = []
    if keys != values:
        causes.append(f"each key needs one value: there are {keys} keys and {values} values (their sizes may differ)")
    if names is not None and len(names) != keys:
        causes.append(f"each key needs one name: there are {keys} keys and {len(names)} names")
    if not keys:
        causes.append("a soft dictionary needs at least one entry, or there is nothing to take the mean of")
    if causes:
        raise UsageError(*causes)


def _plain(given: Any) -> Any:
    """What numpy made, as a tensor; all else as it is."""
    return torch.as_tensor(given) if isinstance(given, np.ndarray | np.generic) else given


def _table(rows: Any, what: str) -> Float[Tensor, "S *shape"]:
    """Rows of numbers as one tensor, in floating point; tensors keep their gradients."""
    try:
        if not isinstance(rows, Tensor):
            rows = [row if isinstance(row, Tensor) else torch.tensor(row, dtype=torch.float32) for row in rows]
            rows = torch.stack([row if row.is_floating_point() else row.float() for row in rows])
    except (TypeError, ValueError, RuntimeError) as problem:
        raise UsageError(f"{what} must be numbers, or vectors of one size; {problem}") from None
    table: Tensor = rows if rows.is_floating_point() else rows.float()
    return table


def _number(given: Any) -> Tensor:
    try:
        return torch.as_tensor(given, dtype=torch.float32).reshape(())
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"a similarity must be one number for a key and a query, got {given!r}") from None


def _kept(keep: Sequence[bool] | Tensor | None, entries: int) -> Tensor:
    kept = torch.ones(entries, dtype=torch.bool) if keep is None else torch.as_tensor(keep, dtype=torch.bool)
    _refuse(kept.shape != (entries,), f"keep says for each of {entries} entries whether it may be read, got {keep}")
    return kept


def _shares(scores: Tensor, keep: Tensor, names: tuple[str, ...]) -> Tensor:
    """Similarities divided by their sum; nothing where nothing may be read, or all that may is unlike."""
    kept = scores.masked_fill(~keep, 0)
    wrong = [f"{name} {float(one):g}" for name, one in zip(names, kept, strict=True) if not one >= 0]
    _refuse(
        bool(wrong), f"shares of a sum need similarities of 0 or more, got {', '.join(wrong[:6])}: use softmax=True"
    )
    return kept / kept.sum() if kept.sum() > 0 else torch.zeros_like(kept)


def _reader(score: Score | str, size: int, asked: int) -> Attention:
    """A read that compares queries with keys as they are, and answers with the values as they are."""
    causes = []
    if isinstance(score, str) and score not in READY:
        learns = f"{score!r} has weights to learn: give a Score that has" if score in SCORES else f"no score {score!r}"
        causes.append(f"{learns}; by name there are {', '.join(READY)}")
    if asked != size and (isinstance(score, str) or not score.linear):
        causes.append(f"a query has {asked} numbers and the keys have {size}: they are compared number by number")
    if causes:
        raise UsageError(*causes)
    read = Attention("dictionary", size, size, size, raw_keys=True, raw_values=True)
    read.score = SCORES[score](1, size) if isinstance(score, str) else score
    return read


def _is_vector(key: Any) -> bool:
    """Whether a key can be compared by products: a tensor, a list, or a tuple of numbers."""
    if isinstance(key, Tensor):
        return key.ndim == 1
    return isinstance(key, Sequence) and not isinstance(key, str) and all(isinstance(x, int | float) for x in key)


def _same(key: Any, query: Any) -> bool:
    if isinstance(key, Tensor) or isinstance(query, Tensor):
        if all(isinstance(one, int | float) or (isinstance(one, Tensor) and one.ndim == 0) for one in (key, query)):
            return bool(key == query)
        both = _is_vector(key) and _is_vector(query) and len(key) == len(query)
        return both and torch.equal(torch.as_tensor(key).float(), torch.as_tensor(query).float())
    return bool(key == query)


def _strongest(weights: Tensor) -> Tensor:
    """The keys to name, in their own order."""
    return weights.topk(min(SHOWN, len(weights))).indices.sort().values


def _rest(weights: Tensor, places: Tensor) -> tuple[str, float] | None:
    more = len(weights) - len(places)
    return (f"… and {more} more", float(weights.sum() - weights[places].sum())) if more else None


def _name(key: Any) -> str:
    return _told(torch.as_tensor(key)) if _is_vector(key) else repr(key) if not isinstance(key, str) else key


def _told(value: Tensor, digits: int = 2) -> str:
    """A number, or a vector of at most six."""
    value = value.detach()
    if value.ndim == 0:
        return f"{float(value):.{digits}f}"
    numbers = [f"{round(float(x), 2) + 0.0:.2f}" for x in value.flatten()[:6]]  # no −0.00
    return f"[{', '.join(numbers)}{', …' if value.numel() > 6 else ''}]"
