"""Soft dictionary: attention as a look-up by similarity, over a dict or over vectors."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.attention import SCORES, Attention, Score
from regard.attention.attention import attention_mask
from regard.attention.normalisers import masked_softmax
from regard.common.errors import UnknownKey, UsageError
from regard.common.shapes import Float, Tensor
from regard.learn.lessons.bars import Bars, draw

Similarity = Callable[[Any, Any], Any]
UNTRAINED = ("scaled_dot", "dot", "cosine", "cosine_fixed", "cosine_plain")
"""Scores that need no training."""
MAX_KEYS = 24
"""Largest number of keys in a table or figure; the other weights are summed up in one line."""


class SoftDictionary(Mapping[object, Any]):
    """Dictionary with exact and soft look-up.

    A soft look-up returns the mean of all values, weighted by the similarity of key and query.

    >>> animals = SoftDictionary({"computer": 9, "dog": 2, "cat": 3})
    >>> animals["dog"]
    2
    >>> similarity = {"computer": 0.1, "dog": 0.9, "cat": 0.7}
    >>> print(animals.look_up("puppy", lambda key, query: similarity[key]))
    puppy reads  2.824
    key       similarity  weight  value
    computer       0.100   0.059  9.000
    dog            0.900   0.529  2.000
    cat            0.700   0.412  3.000

    It is made from a dict, or from two tensors with a row for each entry: keys (S, Dk) and values
    (S, Dv). If the keys are vectors, a query is one vector (Dk) or several (T, Dk), and `look_up`
    computes attention as the models do.
    """

    def __init__(
        self,
        keys: Mapping[Any, Any] | Sequence[object] | Tensor | np.ndarray,
        values: Sequence[object] | Tensor | np.ndarray | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        keys = _plain(keys)
        values = _plain(values)
        if isinstance(keys, Mapping):
            _require(
                values is None,
                "a dict has its own values: give the dict alone, or keys and values separately",
            )
            values = [keys[key] for key in keys]
            keys = list(keys)
        _require(
            values is not None,
            "keys without values: give a dict, or as many values as keys",
        )
        self._keys = list(keys)
        self._values = list(values if values is not None else ())
        _check_counts(len(self._keys), len(self._values), names)
        self.value_rows: Tensor = _rows(values, "values")
        self.key_rows: Tensor | None = (
            _rows(keys, "keys") if _is_vector(self._keys[0]) else None
        )
        self.names = (
            tuple(names)
            if names is not None
            else tuple(_name(key) for key in self._keys)
        )

    def __getitem__(self, query: object) -> Any:
        """Return the value of the key that equals `query`.

        Raises UnknownKey, a KeyError, if there is none.
        """
        return self._values[self._find(query)[0]]

    def __iter__(self) -> Iterator[object]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def look_up(
        self,
        query: object,
        similarity: Similarity | Score | str | None = None,
        softmax: bool = False,
        keep: Sequence[bool] | Tensor | None = None,
    ) -> Answer:
        """Return the mean of all values, weighted by similarity.

        `similarity` is a function of a key and the query, or a score: "scaled_dot", "dot",
        "cosine", or a trained `Score`. The results of a function are divided by their sum, or with
        `softmax` normalised by it; scores are always normalised by softmax. By default, vectors are
        compared by scaled dot product, and all other keys by equality. `keep` is True for visible
        entries.
        """
        mask = _mask(keep, len(self))
        query = _plain(query)
        if callable(similarity) and not isinstance(similarity, Score):
            return self._by_function(query, similarity, softmax, mask)
        if self.key_rows is not None:
            return self._by_score(query, similarity or "scaled_dot", mask)
        _require(
            similarity is None,
            f"the score {similarity!r} compares vectors, which these keys are not: {_HINT}",
        )
        _require(not softmax, f"equality has no softmax: {_HINT}")
        return self._by_equality(query, mask)

    def __repr__(self) -> str:
        entries = ", ".join(
            f"{name}: {_format(value)}"
            for name, value in zip(self.names, self.value_rows, strict=True)
        )
        return f"SoftDictionary({{{entries if len(entries) < 200 else f'{len(self)} entries'}}})"

    def _by_equality(self, query: object, keep: Tensor) -> Answer:
        equal = torch.zeros(len(self))
        equal[self._find(query)] = 1
        return self._mean(query, equal, _shares(equal, keep, self.names), keep, "equal")

    def _by_function(
        self, query: object, similarity: Similarity, softmax: bool, keep: Tensor
    ) -> Answer:
        scores = torch.stack([_number(similarity(key, query)) for key in self._keys])
        if softmax:
            score_rows = scores.view(1, 1, 1, -1)
            weights = masked_softmax(score_rows, keep.view(1, 1, 1, -1)).flatten()
        else:
            weights = _shares(scores, keep, self.names)
        return self._mean(query, scores, weights, keep)

    def _by_score(self, query: object, score: Score | str, keep: Tensor) -> Answer:
        """Compute attention with the score, without projections."""
        assert self.key_rows is not None, "only vectors are compared by a score"
        queries = _rows(query, "queries").to(self.key_rows.dtype)
        shape = tuple(queries.shape)
        _require(
            queries.ndim in (1, 2),
            f"a query is one vector or a table of them, got the shape {shape}",
        )
        is_single = queries.ndim == 1
        queries = queries.view(1, -1, queries.shape[-1])  # (1, T, Dk)

        attention = _attention(score, self.key_rows.shape[1], queries.shape[2])
        memory = attention.prepare(
            self.key_rows[None], self.value_rows.view(len(self), -1)[None], keep[None]
        )
        value = attention(queries, memory)[0]  # (T, Dv)
        with torch.no_grad():
            scores = attention.score(queries[None], memory.keys)
            weights = masked_softmax(
                scores, attention_mask(memory, queries.shape[1], causal=False)
            )
            scores = scores.masked_fill(~keep, -torch.inf)
        value = value.view(len(value), *self.value_rows.shape[1:])
        if is_single:
            return Answer(
                _name(query),
                self.names,
                scores[0, 0, 0],
                weights[0, 0, 0],
                self.value_rows,
                value[0],
            )
        return Answer(
            "queries", self.names, scores[0, 0], weights[0, 0], self.value_rows, value
        )

    def _mean(
        self,
        query: object,
        scores: Tensor,
        weights: Tensor,
        keep: Tensor,
        measure: str = "similarity",
    ) -> Answer:
        # Clear hidden values, since a weight of 0 times NaN would be NaN.
        values = self.value_rows.masked_fill(
            ~keep.view(-1, *[1] * (self.value_rows.ndim - 1)), 0
        )
        value = torch.tensordot(weights.to(values.dtype), values, 1)
        scores = scores.detach().masked_fill(~keep, -torch.inf)
        return Answer(
            _name(query),
            self.names,
            scores,
            weights.detach(),
            self.value_rows,
            value,
            measure,
        )

    def _find(self, query: object) -> list[int]:
        indices = [index for index, key in enumerate(self._keys) if _same(key, query)]
        if not indices:
            name = repr(query) if isinstance(query, str) else _name(query)
            raise UnknownKey(
                f"no key equals {name}: {self._nearest(query)}; look_up(query, similarity) reads "
                "softly"
            )
        return indices

    def _nearest(self, query: Any) -> str:
        if isinstance(query, str):
            near = difflib.get_close_matches(
                query, [key for key in self._keys if isinstance(key, str)], 3
            )
        elif (
            self.key_rows is not None
            and _is_vector(query)
            and len(query) == self.key_rows.shape[1]
        ):
            distances = (self.key_rows.detach() - _rows(query, "queries")).norm(dim=1)
            near = [self.names[index] for index in distances.argsort()[:3]]
        else:
            near = []
        if near:
            return f"near it are {', '.join(near)}"
        return f"there are {', '.join(self.names[:12])}{' …' if len(self) > 12 else ''}"


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a look-up: its `value`, and the `scores` and `weights` of all keys.

    Gradients flow through `value`. For one query, scores and weights are (S,), and the value has
    the shape of an entry's value; T queries add a first axis. The score of a hidden key is −∞.
    """

    query: str
    names: tuple[str, ...]
    scores: Tensor
    weights: Tensor
    values: Tensor
    value: Tensor
    measure: str = "similarity"

    def __str__(self) -> str:
        return "\n\n".join(self._table(*query) for query in self._queries())

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

    def _table(self, query: str, scores: Tensor, weights: Tensor, value: Tensor) -> str:
        indices = _largest(weights)
        rows = [("key", self.measure, "weight", "value")]
        rows += [
            (
                self.names[i],
                "hidden" if scores[i] == -torch.inf else f"{scores[i]:.3f}",
                f"{weights[i]:.3f}",
                _format(self.values[i], 3),
            )
            for i in indices.tolist()
        ]
        remainder = _remainder(weights, indices)
        if remainder:
            label, weight = remainder
            rows.append((label, "", f"{weight:.3f}", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
            ).rstrip()
            for row in rows
        ]
        return "\n".join([f"{query} reads  {_format(value, 3)}", *lines])

    def _bars(self) -> list[Bars]:
        panels = []
        for query, _, weights, value in self._queries()[:MAX_KEYS]:
            indices = _largest(weights)
            rows = [(self.names[i], float(weights[i])) for i in indices.tolist()]
            remainder = _remainder(weights, indices)
            if remainder:
                rows.append(remainder)
            panels.append(Bars(query, _format(value, 3), rows))
        return panels


_HINT = "give similarity=a function of (key, query)"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


def _check_counts(keys: int, values: int, names: Sequence[str] | None) -> None:
    causes = []
    if keys != values:
        causes.append(
            f"each key needs one value: there are {keys} keys and {values} values (their sizes may "
            "differ)"
        )
    if names is not None and len(names) != keys:
        causes.append(
            f"each key needs one name: there are {keys} keys and {len(names)} names"
        )
    if not keys:
        causes.append(
            "a soft dictionary needs at least one entry, or there is nothing to average"
        )
    UsageError.raise_all(causes)


def _plain(value: object) -> Any:
    """Convert numpy arrays and scalars to tensors."""
    return (
        torch.as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value
    )


def _rows(rows: Any, name: str) -> Float[Tensor, "S *shape"]:
    """Stack rows of numbers into a floating-point tensor; gradients of tensors are kept."""
    try:
        if not isinstance(rows, Tensor):
            rows = [
                row
                if isinstance(row, Tensor)
                else torch.tensor(row, dtype=torch.float32)
                for row in rows
            ]
            rows = torch.stack(
                [row if row.is_floating_point() else row.float() for row in rows]
            )
    except (TypeError, ValueError, RuntimeError) as problem:
        raise UsageError(
            f"{name} must be numbers, or vectors of one size; {problem}"
        ) from None
    stacked: Tensor = rows if rows.is_floating_point() else rows.float()
    return stacked


def _number(similarity: object) -> Tensor:
    try:
        return torch.as_tensor(similarity, dtype=torch.float32).reshape(())
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(
            f"a similarity must be one number for a key and a query, got {similarity!r}"
        ) from None


def _mask(keep: Sequence[bool] | Tensor | None, entries: int) -> Tensor:
    mask = (
        torch.ones(entries, dtype=torch.bool)
        if keep is None
        else torch.as_tensor(keep, dtype=torch.bool)
    )
    _require(
        mask.shape == (entries,),
        f"keep needs a truth value for each of {entries} entries, got {keep}",
    )
    return mask


def _shares(scores: Tensor, keep: Tensor, names: tuple[str, ...]) -> Tensor:
    """Divide similarities by their sum.

    The shares are zero if no entry is visible, or if all similarities are zero.
    """
    visible = scores.masked_fill(~keep, 0)
    wrong = [
        f"{name} {float(score):g}"
        for name, score in zip(names, visible, strict=True)
        if not score >= 0
    ]
    _require(
        not wrong,
        f"shares of a sum need similarities of 0 or more, got {', '.join(wrong[:6])}: use "
        "softmax=True",
    )
    return visible / visible.sum() if visible.sum() > 0 else torch.zeros_like(visible)


def _attention(score: Score | str, size: int, query_size: int) -> Attention:
    """Create an attention without projections."""
    causes = []
    if isinstance(score, str) and score not in UNTRAINED:
        problem = (
            f"{score!r} has weights: give a trained Score"
            if score in SCORES
            else f"there is no score {score!r}"
        )
        causes.append(f"{problem}; by name there are {', '.join(UNTRAINED)}")
    if query_size != size and (isinstance(score, str) or not score.linear):
        causes.append(
            f"a query has {query_size} numbers and the keys have {size}: they must have the same "
            "size"
        )
    UsageError.raise_all(causes)
    attention = Attention(
        "dictionary", size, size, size, project_keys=False, project_values=False
    )
    attention.score = SCORES[score](1, size) if isinstance(score, str) else score
    return attention


def _is_vector(key: object) -> bool:
    """Return whether a key is a vector: a 1-D tensor, a list or a tuple of numbers."""
    if isinstance(key, Tensor):
        return key.ndim == 1
    return (
        isinstance(key, Sequence)
        and not isinstance(key, str)
        and all(isinstance(x, int | float) for x in key)
    )


def _same(key: Any, query: Any) -> bool:
    if isinstance(key, Tensor) or isinstance(query, Tensor):
        if all(
            isinstance(x, int | float) or (isinstance(x, Tensor) and x.ndim == 0)
            for x in (key, query)
        ):
            return bool(key == query)
        comparable = _is_vector(key) and _is_vector(query) and len(key) == len(query)
        return comparable and torch.equal(
            torch.as_tensor(key).float(), torch.as_tensor(query).float()
        )
    return bool(key == query)


def _largest(weights: Tensor) -> Tensor:
    """Return the indices of the largest weights, in the order of the keys."""
    return weights.topk(min(MAX_KEYS, len(weights))).indices.sort().values


def _remainder(weights: Tensor, indices: Tensor) -> tuple[str, float] | None:
    """Return a label for the keys that are not in `indices`, and the sum of their weights."""
    count = len(weights) - len(indices)
    if not count:
        return None
    return f"… and {count} more", float(weights.sum() - weights[indices].sum())


def _name(key: object) -> str:
    if _is_vector(key):
        return _format(torch.as_tensor(key))
    return key if isinstance(key, str) else repr(key)


def _format(value: Tensor, digits: int = 2) -> str:
    """Format a number, or the first six of a vector."""
    value = value.detach()
    if value.ndim == 0:
        return f"{float(value):.{digits}f}"
    # Adding 0.0 turns −0.0 into 0.0.
    numbers = [f"{round(float(x), 2) + 0.0:.2f}" for x in value.flatten()[:6]]
    return f"[{', '.join(numbers)}{', …' if value.numel() > 6 else ''}]"
