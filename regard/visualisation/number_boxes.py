"""Steps of a computation as plain data: each step is an equation whose terms are matrices of
numbers, drawn as boxes.
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
LONGEST = 16  # an axis up to this size is shown whole; axes of tokens always are
ELIDED = 8  # numbers that are shown of a longer axis
HEADS = 4, 16  # heads that are shown: in a terminal, on a page
DIGITS = 3  # most decimal places of a number


@dataclass(frozen=True, eq=False)
class Term:
    """Tensor in the equation of a step, such as Q (B, H, T, E); its last two axes are rows and
    columns.

    - `letters` names the axes; `rows` and `columns` label the last two, either once or for each
      sentence of the batch.
    - `operator` joins the term to the one before; a term without one begins a new equation.
    - `repeated`: the term is an operand that an earlier step has shown.
    - `marked`: the column that is marked in each row, −1 for none; shaped as `values` with a single
      column.

    If the reader edits a number, the page computes results by their operators, multiplied by
    `parameter` (one number, or an array with the axes of `letters`). A `rule` replaces the
    operators: "as X" (the numbers of X with other axes), "moments", "normalise" (`parameter`: ε),
    "unit X", "columns X" (`parameter`: their numbers), "loss X" (of the correct token), "total X"
    (over that many tokens), or "fixed" (the page cannot compute it).
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
        """Return the shape as text: rows × columns, or all axes with their letters in a batch.

        Tokens have a shape only in a batch.
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
    """Step of a computation: an equation in symbols and in numbers.

    `product` gives the shapes of a batched matrix product.
    """

    key: str
    part: Text
    title: Text
    formula: str
    text: Text
    terms: tuple[Term, ...]
    product: str = ""

    def __getitem__(self, name: str) -> Array:
        """Return the numbers of the last term with this English name. Raises KeyError, with all
        names, if there is none.
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
    """Matrix of cells as text, with labels; `more_rows` and `more_columns` are not shown.

    `index`: number of the matrix within its term. `marked`: row and column of marked cells.
    """

    label: Text
    rows: tuple[Words, ...]
    columns: tuple[Words, ...]
    cells: tuple[tuple[str, ...], ...]
    values: Sequence[Sequence[float | str]]
    more_rows: int = 0
    more_columns: int = 0
    index: int = 0
    marked: frozenset[tuple[int, int]] = frozenset()

    @property
    def more(self) -> Text | None:
        """A phrase that says how much of the matrix is shown; None if all of it is."""
        if not (self.more_rows or self.more_columns):
            return None
        R = len(self.cells)
        C = len(self.cells[0])
        rows = R + self.more_rows
        columns = C + self.more_columns
        if self.more_rows and self.more_columns:
            return Text(
                f"the first {R} of {rows} rows and {C} of {columns} columns",
                f"{rows}행 중 {R}행, {columns}열 중 {C}열",
            )
        if self.more_rows:
            return Text(f"the first {R} of {rows} rows", f"{rows}행 가운데 처음 {R}행")
        return Text(
            f"the first {C} of {columns} numbers", f"{columns}개 가운데 처음 {C}개"
        )


@dataclass(frozen=True, eq=False)
class Equation:
    """Equation of one sentence and head: its terms, each with a matrix; a term without a head axis
    is the same for all heads.
    """

    label: Text
    sides: tuple[tuple[Term, NumberMatrix], ...]


def matrices(term: Term) -> list[NumberMatrix]:
    """Divide a term into matrices, one for each sentence and head; long axes are elided, and only
    the first heads are returned.
    """
    return [_matrix(term, index) for index in _indices([term], HEADS[0])]


def equations(terms: Sequence[Term]) -> list[Equation]:
    """Divide the terms of a step into equations, and each equation by sentence and head."""
    groups = list[list[Term]]()
    for term in terms:
        if term.operator and groups:
            groups[-1].append(term)
        else:
            groups.append([term])

    result = []
    for group in groups:
        for index in _indices(group, HEADS[1]):
            sides = tuple((term, _matrix(term, index)) for term in group)
            result.append(Equation(_label(group, index), sides))
    return result


def _indices(terms: Sequence[Term], heads: int) -> list[dict[str, int]]:
    """Return the sentence (B) and the head (H) of each matrix of terms in the same equation, up to
    so many heads.
    """
    sizes = _sizes(terms)
    if "H" in sizes:
        sizes["H"] = min(sizes["H"], heads)
    ranges = [range(size) for size in sizes.values()]
    return [
        dict(zip(sizes, index, strict=True)) for index in itertools.product(*ranges)
    ]


def _sizes(terms: Sequence[Term]) -> dict[str, int]:
    """Return the numbers of sentences (B) and heads (H) of terms that have these axes."""
    sizes = dict[str, int]()
    for term in terms:
        axes = term.letters.split()[:-2]
        sizes.update(zip(axes, term.values.shape, strict=False))
    return {axis: sizes[axis] for axis in "BH" if axis in sizes}


def _matrix(term: Term, sentence_and_head: dict[str, int]) -> NumberMatrix:
    """Return one matrix of a term, with at most the shown rows and columns."""
    *axes, row_axis, column_axis = term.letters.split()
    index = tuple(sentence_and_head[axis] for axis in axes)
    values = term.values[index]
    position = int(np.ravel_multi_index(index, term.values.shape[:-2])) if index else 0
    sentence = sentence_and_head.get("B", 0)
    rows = tuple(term.rows[sentence % len(term.rows)])
    columns = tuple(term.columns[sentence % len(term.columns)])
    R = _shown_size(row_axis, len(values))
    C = _shown_size(column_axis, values.shape[1])
    if column_axis == "V":
        C = len(columns)

    digits = _digits(term.values) if term.kind in ("numbers", "weights") else 0
    shown: list[list[float | str]] = values[:R, :C].tolist()
    cells = tuple(
        tuple(format_cell(value, term.kind, digits) for value in row) for row in shown
    )
    marked = frozenset[tuple[int, int]]()
    if term.marked is not None:
        marked = frozenset(enumerate(term.marked[index][:R, 0]))
    return NumberMatrix(
        _label([term], sentence_and_head),
        rows[:R],
        columns[:C],
        cells,
        shown,
        more_rows=len(values) - R,
        more_columns=values.shape[1] - C,
        index=position,
        marked=marked,
    )


def _shown_size(axis: str, size: int) -> int:
    """Return how much of an axis is shown: all of an axis of tokens, or of a short one."""
    return size if axis in "TS" or size <= LONGEST else ELIDED


def _label(terms: Sequence[Term], sentence_and_head: dict[str, int]) -> Text:
    """Name the sentence and the head of matrices, if there are several."""
    sizes = _sizes(terms)
    english = list[str]()
    korean = list[str]()
    if sizes.get("B", 1) > 1:
        sentence = sentence_and_head["B"] + 1
        english.append(f"sentence {sentence}")
        korean.append(f"문장 {sentence}")
    heads = sizes.get("H", 1)
    if heads > 1:
        head = sentence_and_head["H"] + 1
        if heads > HEADS[0]:
            english.append(f"head {head} of {heads}")
            korean.append(f"헤드 {heads}개 가운데 {head}")
        else:
            english.append(f"head {head}")
            korean.append(f"헤드 {head}")
    return Text(", ".join(english), ", ".join(korean))


def _digits(values: Array) -> int:
    """Return the number of decimal places that show the numbers exactly, 1 to DIGITS."""
    finite = values[np.isfinite(values)].astype(np.float64)
    for digits in range(1, DIGITS):
        if np.abs(finite - finite.round(digits)).max(initial=0) < 1e-6:
            return digits
    return DIGITS


def format_cell(value: float | str, kind: Kind, digits: int = DIGITS) -> str:
    """Format a number; a mask has 0 and −∞, a loss three significant digits, as it may be tiny."""
    if isinstance(value, str):
        return value
    if value == float("-inf"):
        return "−∞"
    if kind == "loss":
        text = f"{value:.3g}"
    else:
        places = 0 if kind == "mask" else digits
        # Adding zero turns −0.0 into 0.0.
        text = f"{round(value, places) + 0.0:.{places}f}"
    return text.replace("-", "−")
