"""Matrices of numbers as plain data: the steps of a computation, each an equation whose terms are
boxes of numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.common.bilingual import Text, Words
from regard.common.shapes import Array

Kind = Literal["numbers", "weights", "mask", "tokens", "loss"]
# Columns, or rows that are not tokens, up to which a matrix is shown whole, and of a longer one.
LONGEST = 16
ELIDED = 8
HEADS = 4, 16  # heads that are shown: in a terminal, on a page
DIGITS = 3  # decimal places; a matrix whose numbers are exact with fewer has fewer


@dataclass(frozen=True, eq=False)
class Term:
    """Tensor in the equation of a step, such as Q (B, H, T, E); its last two axes are rows and
    columns.

    `letters` names the axes. `rows` and `columns` label them, once or for each sentence of the
    batch. A term without `operator` begins a new equation. `repeated`: an operand that an earlier
    step has shown. The page computes results by their operators, and times `parameter`, one number
    or as many axes as `letters`; or by their `rule`: "as X" (the numbers of X with other axes),
    "moments", "normalise" (`parameter`: ε), "unit X", "columns X" (`parameter`: their numbers),
    "loss X" (of the correct token), "total X" (of so many tokens), "fixed" (it cannot). `marked`:
    the column that is marked in each row, with the axes of `values` but one column; −1 for none.
    """

    name: Words
    values: Array
    letters: str
    rows: Sequence[Sequence[Words]] = ((),)
    columns: Sequence[Sequence[Words]] = ((),)
    operator: str = ""
    kind: Kind = "numbers"
    repeated: bool = False
    rule: str = ""
    parameter: Array | float | None = None
    marked: Array | None = None

    def shape(self, is_batch: bool) -> str:
        """Return the shape: rows × columns, or in a batch all axes with their letters; of tokens
        only in a batch.
        """
        if self.kind == "tokens":
            return (
                f"(B, T) = ({self.values.shape[0]}, {self.values.shape[2]})"
                if is_batch
                else ""
            )
        sizes = ", ".join(map(str, self.values.shape))
        if is_batch:
            return f"({', '.join(self.letters.split())}) = ({sizes})"
        return " × ".join(map(str, self.values.shape[-2:]))


@dataclass(frozen=True, eq=False)
class Step:
    """Step of a computation: an equation in symbols and in numbers; `product` has the shapes of a
    batched product.
    """

    key: str
    part: Text
    title: Text
    formula: str
    text: Text
    terms: tuple[Term, ...]
    product: str = ""

    def __getitem__(self, name: str) -> Array:
        """Return the numbers of the last term of this name, in English. Raises KeyError, with all
        names, for others.
        """
        terms = {
            getattr(term.name, "en", term.name): term.values for term in self.terms
        }
        if name not in terms:
            raise KeyError(
                f"{self.key} has no term {name!r}; it has {', '.join(map(repr, terms))}"
            )
        return terms[name]


@dataclass(frozen=True)
class NumberMatrix:
    """Matrix of cells as text, with labels; beyond `cells` there are `more_rows` and
    `more_columns`.
    """

    label: Text
    rows: tuple[Words, ...]
    columns: tuple[Words, ...]
    cells: tuple[tuple[str, ...], ...]
    values: Sequence[Sequence[float | str]]
    more_rows: int = 0
    more_columns: int = 0
    index: int = 0  # among the matrices of its term
    marked: frozenset[tuple[int, int]] = frozenset()  # row and column of cells

    @property
    def more(self) -> Text | None:
        """A phrase that says how much of the matrix is shown; None if all of it is."""
        (R, C), (rows, columns) = (
            (len(self.cells), len(self.cells[0])),
            (self.more_rows, self.more_columns),
        )
        if rows and columns:
            rows = R + rows
            columns = C + columns
            en = f"the first {R} of {rows} rows and {C} of {columns} columns"
            return Text(en, f"{rows}행 중 {R}행, {columns}열 중 {C}열")
        shown, count, name, unit = (
            (R, R + rows, "rows", "행") if rows else (C, C + columns, "numbers", "개")
        )
        text = Text(
            f"the first {shown} of {count} {name}",
            f"{count}{unit} 가운데 처음 {shown}{unit}",
        )
        return text if rows or columns else None


@dataclass(frozen=True, eq=False)
class Equation:
    """Equation of one sentence and head, as terms with their matrices; terms without a head are
    those of all heads.
    """

    label: Text
    sides: tuple[tuple[Term, NumberMatrix], ...]


def matrices(term: Term) -> list[NumberMatrix]:
    """Divide a term into matrices, one for each sentence and head; long vectors and many heads are
    elided.
    """
    return [_matrix(term, at) for at in _places([term], HEADS[0])]


def equations(terms: Sequence[Term]) -> list[Equation]:
    """Divide the terms of a step into equations, and these into one for each sentence and head."""
    groups = list[list[Term]]()
    for term in terms:
        if term.operator and groups:
            groups[-1].append(term)
        else:
            groups.append([term])
    return [
        Equation(_label(group, at), tuple((term, _matrix(term, at)) for term in group))
        for group in groups
        for at in _places(group, HEADS[1])
    ]


def _places(terms: Sequence[Term], heads: int) -> list[dict[str, int]]:
    """Return the sentence and the head of each matrix of terms that are multiplied with each
    other.
    """
    sizes = _sizes(terms)
    ranges = [
        range(min(sizes[axis], heads) if axis == "H" else sizes[axis]) for axis in sizes
    ]
    return [
        dict(zip(sizes, index, strict=True)) for index in itertools.product(*ranges)
    ]


def _sizes(terms: Sequence[Term]) -> dict[str, int]:
    """Return how many sentences and heads terms have."""
    sizes = {
        axis: size
        for term in terms
        for axis, size in zip(
            term.letters.split()[:-2], term.values.shape, strict=False
        )
    }
    return {axis: sizes[axis] for axis in "BH" if axis in sizes}


def _matrix(term: Term, at: dict[str, int]) -> NumberMatrix:
    *axes, row_axis, column_axis = term.letters.split()
    index = tuple(at[axis] for axis in axes)
    values = term.values[index]
    position = int(np.ravel_multi_index(index, term.values.shape[:-2])) if index else 0
    sentence = at.get("B", 0)
    rows, columns = (
        labels[sentence % len(labels)] for labels in (term.rows, term.columns)
    )
    R = _shown(row_axis, len(values))
    C = len(columns) if column_axis == "V" else _shown(column_axis, values.shape[1])
    digits = _digits(term.values) if term.kind in ("numbers", "weights") else 0
    shown: list[list[float | str]] = values[:R, :C].tolist()
    cells = tuple(
        tuple(format_cell(value, term.kind, digits) for value in row) for row in shown
    )
    more = (len(values) - R, values.shape[1] - C)
    marked = (
        frozenset[tuple[int, int]]()
        if term.marked is None
        else frozenset(enumerate(term.marked[index][:R, 0]))
    )
    return NumberMatrix(
        _label([term], at),
        tuple(rows)[:R],
        tuple(columns)[:C],
        cells,
        shown,
        *more,
        position,
        marked,
    )


def _shown(axis: str, size: int) -> int:
    return size if axis in "TS" or size <= LONGEST else ELIDED


def _label(terms: Sequence[Term], at: dict[str, int]) -> Text:
    """Name the sentence and the head of matrices, if there are several."""
    sizes = _sizes(terms)
    en = list[str]()
    ko = list[str]()
    if sizes.get("B", 1) > 1:
        en = [f"sentence {at['B'] + 1}"]
        ko = [f"문장 {at['B'] + 1}"]
    if sizes.get("H", 1) > 1:
        count = sizes["H"]
        head = at["H"] + 1
        en.append(f"head {head} of {count}" if count > HEADS[0] else f"head {head}")
        ko.append(
            f"헤드 {count}개 가운데 {head}" if count > HEADS[0] else f"헤드 {head}"
        )
    return Text(", ".join(en), ", ".join(ko))


def _digits(values: Array) -> int:
    """Return the decimal places that show the numbers exactly, at most three."""
    finite = values[np.isfinite(values)].astype(np.float64)
    exact = (
        n
        for n in range(1, DIGITS)
        if np.abs(finite - finite.round(n)).max(initial=0) < 1e-6
    )
    return next(exact, DIGITS)


def format_cell(value: float | str, kind: Kind, digits: int = DIGITS) -> str:
    """Format a number; a mask has 0 and −∞, a loss three significant digits, as it may be tiny."""
    if isinstance(value, str):
        return value
    if value == float("-inf"):
        return "−∞"
    digits = {"mask": 0}.get(kind, digits)
    # No −0.000.
    text = (
        f"{value:.3g}" if kind == "loss" else f"{round(value, digits) + 0.0:.{digits}f}"
    )
    return text.replace("-", "−")
