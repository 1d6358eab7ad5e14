"""Draw the still figures of the notes' pages: docs/images/notes/NAME.svg, and docs/images/ko/notes
with Korean labels; NAME-narrow.svg for narrow screens, if they are drawn otherwise there.

`python docs/make_note_figures.py [NAME…]`. The sample and the small models that figures show are
made in build/notes first, unless they are there; that takes half an hour on two cores.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from regard.cli import app
from regard.cli.model_views import recipe_architecture
from regard.cli.plain_views import draw_sinusoids
from regard.common.bilingual import Language, Text, words_by
from regard.explain.explanation import explain
from regard.learn import SoftDictionary, walkthrough_block
from regard.models import select_device
from regard.pipeline import load
from regard.visualisation.architecture_diagram import layout_architecture
from regard.visualisation.charts import Chart, Series, layout_chart
from regard.visualisation.colours import level
from regard.visualisation.encoding import encoding_heading
from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    Box,
    Group,
    Mark,
    Polyline,
    Raster,
    arrow,
    make_figure,
)
from regard.visualisation.figure import Text as Line
from regard.visualisation.fonts import measure
from regard.visualisation.language import figures_in
from regard.visualisation.mechanism import STEP, Diagram
from regard.visualisation.number_boxes import (
    NumberMatrix,
    Step,
    Term,
    equations,
    format_cell,
)
from regard.visualisation.player import layout_frames, moved_down
from regard.visualisation.rendering import draw_svg, without_hints
from regard.visualisation.screen import figures_within, screen_width

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WORK = ROOT / "build" / "notes"
ENGLISH = "I go home"

NUMBERED = Text("Step {number}: ", "{number}단계: ")
"""Not a number alone, which would look like that of a section. It is that of `regard walkthrough`
with ENGLISH; steps of other walkthroughs have other numbers, and get none.
"""


@dataclass(frozen=True)
class Sizes:
    """Sizes in pixels; an equation that is wider than the room goes on below."""

    room: float = 750.0
    margin: float = MARGIN
    text: float = 13.0
    number: float = 12.0
    cell: float = 46.0  # width of a number
    word: float = 58.0  # width of a token
    row: float = 22.0
    gap: float = 16.0
    state: float = 52.0  # width of a state of a recurrent model
    pitch: float = 88.0  # from one state to the next


WIDE = Sizes()
NARROW = Sizes(366.0, 6.0, 13.0, 12.0, 40.0, 50.0, 22.0, 7.0, 34.0, 43.5)
"""Sizes on a phone: numbers are still twelve pixels high."""


Sides = Sequence[tuple[Term, NumberMatrix]]


def _sizes() -> Sizes:
    return NARROW if screen_width() else WIDE


@dataclass(frozen=True)
class Steps:
    """Steps of a walkthrough of texts, by their keys; `heads`: how many heads are drawn; `lit`: the
    row that is framed from query to output; a `note` below says what names mean.
    """

    keys: tuple[str, ...]
    texts: tuple[str, ...] = (ENGLISH,)
    settings: tuple[tuple[str, Any], ...] = ()
    heads: int = 1
    lit: int | None = None
    note: Text | None = None

    def draw(self, language: Language) -> str:
        """Return the steps as SVG, one below the other."""
        sizes = _sizes()
        block = walkthrough_block(*self.texts, **dict(self.settings))
        steps = {step.key: step for step in block.steps}
        numbers = {key: number for number, key in enumerate(steps, 1)}
        is_numbered = self.texts == (ENGLISH,) and not self.settings
        marks = list[Mark]()
        width = 0.0
        note = self.note.by(language) if self.note else ""
        y = sizes.margin
        for key in self.keys:
            words = re.sub(": W[O12]$", "", steps[key].title.by(language))
            number = NUMBERED.fill(number=numbers[key]).by(language)
            title = number * is_numbered + words
            y += sizes.gap * (y > sizes.margin)
            marks.append(Line(sizes.margin, y + sizes.text, title, sizes.text + 2))
            y += 30.0
            for sides in _equations(steps[key], self.heads):
                part, right, y = _draw_equation(_lit(sides, self.lit), y, language)
                marks += part
                width = max(width, right)
                note = _about_lit(sides, self.lit, language) or note
        if note:
            marks.append(Line(sizes.margin, y + 10, note, sizes.number, "muted"))
            y += 24.0
        title = ", ".join(steps[key].title.by(language) for key in self.keys)
        lines = (sizes.margin + measure(m.text, m.size) for m in _lines(marks))
        width = max(width, *lines)
        texts = " → ".join(self.texts)
        figure = make_figure(
            width + sizes.margin, y, [Group("steps", tuple(marks))], title, texts
        )
        return draw_svg(figure)


@dataclass(frozen=True)
class Results:
    """Results of steps of a walkthrough, side by side: of each the key of its step, a title and the
    cells that are marked; `joint` stands between them.
    """

    parts: tuple[tuple[str, Text, tuple[tuple[int, int], ...]], ...]
    joint: str = ""

    def draw(self, language: Language) -> str:
        """Return the matrices as SVG, below one another if the width is too small."""
        sizes = _sizes()
        steps = {step.key: step for step in walkthrough_block(ENGLISH).steps}
        marks = list[Mark]()
        x = right = sizes.margin
        bottom = top = 0.0
        for key, title, cells in self.parts:
            *_, equation = equations(steps[key].terms)
            term, matrix = equation.sides[-1]
            matrix = replace(matrix, marked=frozenset(cells))
            width, height = _extent(term, matrix, language)
            width = max(width, measure(title.by(language), sizes.text + 2))
            joint = INDENT
            if marks and x + joint + width > sizes.room:
                x = sizes.margin
                top = bottom
            if marks:
                axis = top + sizes.margin + 30 + _axis(matrix)
                marks += _operator(x, axis, self.joint)
                x += joint
            marks.append(
                Line(
                    x,
                    top + sizes.margin + sizes.text,
                    title.by(language),
                    sizes.text + 2,
                )
            )
            marks += _draw_matrix(term, matrix, (x, top + sizes.margin + 30), language)
            x += width + sizes.gap
            right = max(right, x)
            bottom = max(bottom, top + sizes.margin + 30 + height)
        title = ", ".join(part[1].by(language) for part in self.parts)
        figure = make_figure(
            right + sizes.margin, bottom, [Group("results", tuple(marks))], title, title
        )
        return draw_svg(figure)


@dataclass(frozen=True)
class Equations:
    """Equations of matrices, whose names have their shapes beside them if they are `shaped`."""

    title: Text
    terms: tuple[Term, ...]
    shaped: bool = False
    lit: int | None = None

    def draw(self, language: Language) -> str:
        """Return the equations as SVG, one below the other."""
        sizes = _sizes()
        terms = [_with_shape(term) if self.shaped else term for term in self.terms]
        marks = list[Mark]()
        width = 0.0
        y = sizes.margin
        for equation in equations(terms):
            sides = _lit(equation.sides, self.lit)
            part, right, y = _draw_equation(sides, y, language)
            marks += part
            width = max(width, right)
        title = self.title.by(language)
        group = Group("equations", tuple(marks))
        return draw_svg(make_figure(width + sizes.margin, y, [group], title, title))


def _lit(sides: Sides, row: int | None) -> Sides:
    """Frame a row of the matrices that have one for each query."""
    return [
        (term, _with_frame(matrix, row) if _is_of_queries(term) else matrix)
        for term, matrix in sides
    ]


def _with_frame(matrix: NumberMatrix, row: int | None) -> NumberMatrix:
    if row is None:
        return matrix
    cells = [(row, column) for column in range(len(matrix.cells[row]))]
    return replace(matrix, marked=frozenset(cells))


def _is_of_queries(term: Term) -> bool:
    return term.letters.split()[-2] == "T"


def _about_lit(sides: Sides, row: int | None, language: Language) -> str:
    """Name the row that is framed."""
    if row is None:
        return ""
    rows = (matrix.rows for term, matrix in sides if _is_of_queries(term))
    names = next(rows, ())
    if not names:
        return ""
    text = Text("framed: the row of {word}", "테두리: {word}의 행")
    return text.fill(word=words_by(names[row], language)).by(language)


def _with_shape(term: Term) -> Term:
    shape = " × ".join(map(str, term.values.shape))
    names = (words_by(term.name, language) for language in ("en", "ko"))
    return replace(term, name=Text(*(f"{name} ({shape})" for name in names)))


def _value_width() -> Equations:
    """Return the attention of five queries and three keys of 2 dimensions to values of 4."""
    Q = np.array([[1, 0], [0, 1], [2, 0], [1, 1], [0, 2]])
    K = np.array([[1, 0], [0, 2], [-1, 1]])
    V = np.array([[1, 0, 0, 2], [0, 1, 0, -1], [0, 0, 1, 3]])
    scores = Q @ K.T / np.sqrt(2)
    weights = torch.tensor(scores).softmax(1).numpy()
    queries, keys, values = (
        (tuple(f"{name}{number + 1}" for number in range(len(rows))),)
        for name, rows in (("q", Q), ("k", K), ("v", V))
    )
    names = Text("scores", "점수"), Text("weights", "가중치"), Text("output", "출력")
    terms = (
        Term("Q", Q, "T E", queries),
        Term("Kᵀ", K.T, "E S", columns=keys, operator="·"),
        Term(names[0], scores, "T S", queries, keys, "÷ √2 ="),
        Term(names[1], weights, "T S", queries, keys, kind="weights"),
        Term("V", V, "S E", values, operator="·"),
        Term(names[2], weights @ V, "T E", queries, operator="="),
    )
    return Equations(
        Text("Values of another dimension", "차원이 다른 값"), terms, shaped=True, lit=1
    )


def _row_softmax() -> Equations:
    """Return three rows of scores, their softmax, and the sums of its rows and columns; the first
    row of weights is that of the note.
    """
    scores = np.array(
        [np.log([2.0, 1.0, 4.0, 3.0]), [2.0, 0.0, 1.0, 0.0], [-1.0, 0.0, 2.0, 1.0]]
    )
    weights = torch.tensor(scores).softmax(1).numpy()
    rows = (("q1", "q2", "q3"),)
    columns = (("k1", "k2", "k3", "k4"),)
    name = Text("weights: softmax of each row", "가중치: 행마다 softmax")
    row_sums, column_sums = weights.sum(1, keepdims=True), weights.sum(0, keepdims=True)
    terms = (
        Term(Text("scores", "점수"), scores, "T S", rows, columns),
        Term(name, weights, "T S", rows, columns, kind="weights"),
        Term(Text("sum of each row", "행의 합"), row_sums, "T E", operator="→"),
        Term(Text("sum of each column", "열의 합"), column_sums, "T S", (("Σq",),)),
    )
    return Equations(Text("Softmax of each row", "행마다 softmax"), terms)


def _normalised() -> Equations:
    """Return the note's output (3, 5, −2), normalised, and then 2x + 3 of it."""
    x = np.array([[3.0, 5.0, -2.0]])
    unit = (x - x.mean()) / x.std()
    rows = np.concatenate([x, unit, 2 * unit + 3])
    table = np.concatenate([rows, rows.mean(1)[:, None], rows.var(1)[:, None]], 1)
    names = (("x", "(x − μ) ÷ σ", "y = 2x + 3"),)
    columns = (("1", "2", "3", Text("mean", "평균"), Text("variance", "분산")),)
    terms = [Term("", table, "T E", names, columns)]
    title = Text("The note's (3, 5, −2), normalised", "정규화한 (3, 5, −2)")
    return Equations(title, tuple(terms))


ANIMALS = ("computer", "dog", "cat")


def _vector_values() -> Equations:
    """Return a look-up whose values have 4 dimensions; the first numbers are those of the note."""
    weights = np.array([TABLE]) / sum(TABLE)
    values = np.array([[9, 0, 1, -1], [2, 1, 0, 4], [3, 1, 0, 2]])
    names = Text("weights", "가중치"), Text("values", "값"), Text("answer", "답")
    terms = (
        Term(names[0], weights, "T S", columns=(ANIMALS,), kind="weights"),
        Term(names[1], values, "S E", (ANIMALS,), operator="·"),
        Term(names[2], weights @ values, "T E", operator="="),
    )
    return Equations(Text("Vectors as values", "벡터인 값"), terms, shaped=True)


def _word_vectors() -> Equations:
    """Return a look-up by the vector of a word, in vectors of words that are keys and values."""
    query = np.array([[0.9, 0.6, 0.0]])
    vectors = np.array([[0.0, 0.2, 1.0], [1.0, 0.9, 0.0], [1.0, -0.4, 0.1]])
    weights = torch.tensor(_cosines(query, vectors)).softmax(1).numpy()
    answer = weights @ vectors
    terms = (
        Term("puppy", query, "T E"),
        Term(Text("keys", "키"), vectors, "S E", (ANIMALS,), operator="cos"),
        Term(
            Text("cosines", "코사인"),
            _cosines(query, vectors),
            "T S",
            columns=(ANIMALS,),
            operator="=",
        ),
        Term(
            Text("weights: softmax", "가중치: softmax"),
            weights,
            "T S",
            columns=(ANIMALS,),
            kind="weights",
        ),
        Term(Text("values", "값"), vectors, "S E", (ANIMALS,), operator="·"),
        Term(Text("answer", "답"), answer, "T E", operator="="),
        Term(
            Text("cosines of the answer", "답과의 코사인"),
            _cosines(answer, vectors),
            "T S",
            columns=(ANIMALS,),
        ),
    )
    return Equations(
        Text("Vectors of words as keys and values", "키이자 값인 단어의 벡터"), terms
    )


def _cosines(query: np.ndarray, keys: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(query) * np.linalg.norm(keys, axis=1)
    return np.asarray(query @ keys.T / lengths)


def _joined_states() -> Equations:
    """Return the states of an RNN in both directions, and both side by side."""
    inputs = np.array([[0.5, -1.0], [1.0, 0.3], [-0.4, 0.8]])
    forwards = _states(inputs)
    backwards = _states(inputs[::-1])[::-1]
    joined = np.concatenate([forwards, backwards], axis=1)
    rows = (tuple(ENGLISH.split()),)
    terms = (
        Term(Text("forwards", "앞에서 읽은 상태"), forwards, "T E", rows),
        Term(
            Text("backwards", "뒤에서 읽은 상태"), backwards, "T E", rows, operator=";"
        ),
        Term(Text("side by side", "이어 붙인 상태"), joined, "T E", rows, operator="="),
    )
    return Equations(Text("States side by side", "나란히 이어 붙인 상태"), terms)


def _states(inputs: np.ndarray) -> np.ndarray:
    """Return the states tanh(x + h / 2) of an RNN."""
    states = [np.zeros(inputs.shape[1])]
    for x in inputs:
        states.append(np.tanh(x + states[-1] / 2))
    return np.array(states[1:])


def _lstm_step() -> Equations:
    """Return a step of an LSTM whose three numbers are kept, replaced and mixed."""
    before = np.array([[2.0, -1.0, 0.4]])
    content = np.array([[0.9, 0.6, -0.8]])
    keep, add, show = (
        np.array([row]) for row in ([1, 0, 0.5], [0, 1, 0.5], [0.5, 1, 0])
    )
    cell = keep * before + add * content
    terms = (
        Term(Text("f: how much stays", "f: 얼마나 남길까"), keep, "T E"),
        Term(
            Text("c(t − 1): cell state", "c(t − 1): 셀 상태"),
            before,
            "T E",
            operator="⊙",
        ),
        Term(
            Text("i: how much is added", "i: 얼마나 더할까"), add, "T E", operator="+"
        ),
        Term(Text("g: new content", "g: 새 내용"), content, "T E", operator="⊙"),
        Term(Text("c(t): cell state", "c(t): 셀 상태"), cell, "T E", operator="="),
        Term(Text("o: how much is shown", "o: 얼마나 보일까"), show, "T E"),
        Term("tanh c(t)", np.tanh(cell), "T E", operator="⊙"),
        Term(
            Text("h(t): hidden state", "h(t): 은닉 상태"),
            show * np.tanh(cell),
            "T E",
            operator="=",
        ),
    )
    return Equations(Text("A step of an LSTM", "LSTM의 한 단계"), terms)


@dataclass(frozen=True)
class Unrolled:
    """RNN encoder and decoder, a state for each word; `has_context`: with c at all steps."""

    has_context: bool = False

    def draw(self, language: Language) -> str:
        """Return states, words and arrows as SVG."""
        sizes = _sizes()
        source, target = (text.split() for text in PAIR)
        first = len(source)
        columns = [sizes.margin + sizes.pitch * n for n in range(2 * first + 2)]
        marks = [*_states_in_a_row(columns, first)]
        for number, x in enumerate(columns[:first]):
            marks += _words_at(x, READ, source[number], f"x{SUB[number + 1]}")
            marks += _upwards(x, READ, sizes.state / 2)
        shift = 6.0 * self.has_context
        written = [*target, "</s>"]
        for number, x in enumerate(columns[first + 1 :]):
            token = ("<s>", *target)[number]
            before = f"y{SUB[number]}" if number else ""
            marks += _words_at(x + shift, READ, token, before)
            marks += _upwards(x, READ, sizes.state / 2 + shift)
            marks += _words_at(x, WRITTEN, written[number], f"y{SUB[number + 1]}")
            marks += _upwards(x, STATES, sizes.state / 2)
        if self.has_context:
            marks += _context_rail(columns, first)
        names = ENCODER.by(language), DECODER.by(language)
        for name, x in zip(names, (columns[0], columns[first + 1]), strict=True):
            marks.append(Line(x, MARGIN, name, sizes.text, "muted"))
        title = " → ".join(names)
        height = (RAIL if self.has_context else READ) + 40
        figure = make_figure(
            columns[-1] + sizes.state + sizes.margin,
            height,
            [Group("unrolled", tuple(marks))],
            title,
            " → ".join(PAIR),
        )
        return draw_svg(figure)


WRITTEN, STATES, READ, RAIL = 34.0, 86.0, 136.0, 190.0
"""Tops of the rows of an unrolled model: words that are written, states, words that are read, c."""
STATE = 28.0  # pixels: height of a state
SUB = "₀₁₂₃₄"
ENCODER, DECODER = Text("Encoder", "인코더"), Text("Decoder", "디코더")


def _states_in_a_row(columns: Sequence[float], first: int) -> Iterator[Mark]:
    """Draw h, s₀ and s, each with an arrow to the next."""
    names = [f"h{SUB[number + 1]}" for number in range(first)]
    names += [f"s{SUB[number]}" for number in range(len(columns) - first)]
    for number, (x, name) in enumerate(zip(columns, names, strict=True)):
        yield from _state(x, STATES, name, "w16" if number < first else "w30")
        if number:
            middle = STATES + STATE / 2
            before = columns[number - 1] + _sizes().state
            yield from arrow((before, middle), (x, middle), "muted", 1.4)


def _state(x: float, y: float, name: str, paint: str) -> Iterator[Mark]:
    sizes = _sizes()
    yield Box(x, y, sizes.state, STATE, paint)
    baseline = y + STATE / 2 + MIDLINE * sizes.text
    yield Line(x + sizes.state / 2, baseline, name, sizes.text + 1, "ink", "middle")


def _words_at(x: float, y: float, word: str, symbol: str) -> Iterator[Mark]:
    """Write a word in the middle of its column, and its symbol below."""
    sizes = _sizes()
    middle = x + sizes.state / 2
    yield Line(middle, y + 14, word, sizes.number, "ink", "middle")
    yield Line(middle, y + 29, symbol, sizes.number, "muted", "middle")


def _upwards(x: float, top: float, shift: float) -> Iterator[Mark]:
    """Draw an arrow from the row at `top` to the row above."""
    foot = STATES + STATE if top == READ else WRITTEN + 33
    yield from arrow((x + shift, top), (x + shift, foot), "muted", 1.4)


def _context_rail(columns: Sequence[float], first: int) -> Iterator[Mark]:
    """Draw c below s₀, the line from the last h to it, and from it to each s."""
    sizes = _sizes()
    x = columns[first]
    turn = (columns[first - 1] + sizes.state + x) / 2
    middle = RAIL + STATE / 2
    yield from _state(x, RAIL, "c", "w30")
    yield Polyline(((turn, STATES + STATE / 2), (turn, middle)), "s1", 2.0)
    yield from arrow((turn, middle), (x, middle), "s1", 2.0)
    last = columns[-1] + 4
    yield Polyline(((x + sizes.state, middle), (last, middle)), "s1", 2.0)
    for column in columns[first + 1 :]:
        end = column + 4, STATES + STATE
        yield from arrow((column + 4, middle), end, "s1", 2.0)


@dataclass(frozen=True)
class Way:
    """States of an RNN that reads ENGLISH, and the way of its first word to the last state."""

    def draw(self, language: Language) -> str:
        """Return states, words and the marked way as SVG."""
        sizes = _sizes()
        columns = [sizes.margin + sizes.pitch * n for n in range(len(ENGLISH.split()))]
        marks = [*_states_in_a_row(columns, len(columns))]
        marks += _reading(columns, ENGLISH.split())
        middle = columns[0] + sizes.state / 2
        marks += arrow((middle, READ), (middle, STATES + STATE), "s1", 2.5)
        for x in columns[1:]:
            before = x - sizes.pitch + sizes.state
            y = STATES + STATE / 2
            marks += arrow((before, y), (x, y), "s1", 2.5)
        lift = WRITTEN - STATES
        group = Group("way", tuple(moved_down(mark, lift) for mark in marks))
        title = Text("The way of I to h₃", "I가 h₃까지 가는 길").by(language)
        width = columns[-1] + sizes.state + sizes.margin
        return draw_svg(make_figure(width, READ + lift + 40, [group], title, ENGLISH))


@dataclass(frozen=True)
class AttentionStep:
    """Second step of the decoder of Luong et al. (2015): its state asks the encoder's states."""

    def draw(self, language: Language) -> str:
        """Return the states, what is asked, and what comes back as SVG."""
        sizes = _sizes()
        source, target = (text.split() for text in PAIR)
        first = len(source)
        columns = [sizes.margin + sizes.pitch * n for n in range(first + 3)]
        marks = [*_states_in_a_row(columns, first)]
        marks += _reading(columns[:first], source)
        marks += _reading(columns[first + 1 :], ("<s>", target[0]))
        names = ENCODER.by(language), DECODER.by(language)
        for name, x in zip(names, (columns[0], columns[first]), strict=True):
            marks.append(Line(x, READ + 46, name, sizes.text, "muted"))
        marks = [moved_down(mark, LIFT) for mark in marks]
        marks += _asking(columns[:first], columns[-1], target[1], language)
        title = Text("The second word asks", "둘째 단어가 묻는다").by(language)
        width = columns[-1] + sizes.state + sizes.margin
        group = Group("step", tuple(marks))
        height = READ + LIFT + 60
        return draw_svg(make_figure(width, height, [group], title, " → ".join(PAIR)))


LIFT = 56.0  # pixels: room of the row of attention above the states
ASKED = WRITTEN + 20  # top of the row of attention


def _reading(columns: Sequence[float], words: Sequence[str]) -> Iterator[Mark]:
    """Draw the words that states read, without symbols."""
    for x, word in zip(columns, words, strict=True):
        yield from _words_at(x, READ, word, "")
        yield from _upwards(x, READ, _sizes().state / 2)


def _asking(
    keys: Sequence[float], own: float, word: str, language: Language
) -> Iterator[Mark]:
    """Draw the box of attention above the keys, the query to it, and c to the word."""
    sizes = _sizes()
    states = STATES + LIFT
    right = keys[-1] + sizes.state
    middle = own + sizes.state / 2
    foot = ASKED + STATE
    yield Box(keys[0], ASKED, right - keys[0], STATE, "w30")
    centre = (keys[0] + right) / 2
    words = Text("scores → softmax → Σ", "점수 → softmax → Σ").by(language)
    yield Line(centre, ASKED + 18, words, sizes.number, "ink", "middle")
    for x in keys:
        centre = x + sizes.state / 2
        yield from arrow((centre, states), (centre, foot), "s1", 2.0)
    label = Text("K, V", "키, 값").by(language)
    yield Line(keys[0] + sizes.state / 2 + 6, foot + 22, label, sizes.number, "s1")
    yield from arrow((own + 4, states), (right, foot), "ink", 1.5)
    label = Text("Q", "쿼리").by(language)
    yield Line((right + own) / 2 + 12, foot + 20, label, sizes.number)
    y = ASKED + STATE / 2
    yield from arrow((right, y), (own, y), "s1", 2.0)
    yield Line((right + own) / 2, y - 6, "c₂", sizes.number, "s1", "middle")
    yield from arrow((middle, states), (middle, foot), "muted", 1.4)
    yield from _state(own, ASKED, "tanh", "w30")
    yield from arrow((middle, ASKED), (middle, WRITTEN - 2), "muted", 1.4)
    yield from _words_at(own, WRITTEN - 22, word, "")


def _typeset(line: Line) -> Iterator[Line]:
    """Yield a line with subscripts of weights: WQ, b1."""
    x = line.x
    for number, part in enumerate(re.split(r"(?<=\b[Wb])([QKVO12])\b", line.text)):
        lower = 3.0 if number % 2 else 0.0
        size = max(10.0, line.size - lower)
        yield replace(line, x=x, y=line.y + lower, text=part, size=size)
        x += measure(part, size) / 1.1


def _lines(marks: Sequence[Mark]) -> Iterator[Line]:
    return (m for m in marks if isinstance(m, Line) and m.x == _sizes().margin)


def _equations(step: Step, heads: int) -> Iterator[Sides]:
    """Yield the equations of a step, of each sentence those of the first heads."""
    for equation in equations(step.terms):
        label = equation.label.en
        number = label.partition("head ")[2].partition(" ")[0]
        if not number or int(number) <= heads:
            yield equation.sides


def _draw_equation(
    sides: Sides, y: float, language: Language
) -> tuple[list[Mark], float, float]:
    """Draw matrices beside one another, from a top on and within the room; return also the right
    edge and the top of what follows.
    """
    marks = list[Mark]()
    right = 0.0
    rows = _rows_of([(term, _fitted(term, matrix)) for term, matrix in sides], language)
    for row in rows:
        x = _sizes().margin
        axis = y + max(_axis(matrix) for _, matrix in row)
        for term, matrix in row:
            marks += _operator(x, axis, term.operator)
            x += _room_before(term)
            marks += _draw_matrix(term, matrix, (x, axis - _axis(matrix)), language)
            width, height = _extent(term, matrix, language)
            right = max(right, x + width)
            x += width + _sizes().gap
            y = max(y, axis - _axis(matrix) + height)
    return marks, right, y


def _rows_of(sides: Sides, language: Language) -> Sequence[Sides]:
    """Divide an equation that is wider than the room: a term for which there is none begins a row,
    with its operator; so does each result on a small screen.
    """
    rows = list[list[tuple[Term, NumberMatrix]]]()
    sizes = _sizes()
    widths = [
        _room_before(term) + _extent(term, matrix, language)[0] + sizes.gap
        for term, matrix in sides
    ]
    room = sizes.room - 2 * sizes.margin + sizes.gap
    if sum(widths) <= room:
        return [sides]
    used = room
    for side, width in zip(sides, widths, strict=True):
        is_result = side[0].operator.endswith(("=", "→"))
        if used + width > room or (screen_width() and is_result):
            rows.append([])
            used = 0.0
        rows[-1].append(side)
        used += width
    return rows


OPERATOR = 22.0  # text size of a sign
INDENT = 20.0  # pixels for a sign before a matrix


def _operator(x: float, axis: float, text: str) -> Iterator[Line]:
    """Draw an operator in the middle of the height of its matrices."""
    size = _operator_size(text)
    yield Line(x, axis + MIDLINE * size, text, size)


def _operator_size(text: str) -> float:
    if text == "·":
        return 2 * OPERATOR
    return OPERATOR if len(text) < 2 else _sizes().text + 2


def _room_before(term: Term) -> float:
    """Return the room of the operator of a term."""
    width = measure(term.operator, _operator_size(term.operator))
    return max(INDENT, width + 6) if width else 0.0


def _fitted(term: Term, matrix: NumberMatrix) -> NumberMatrix:
    """Leave out the third decimals of a wide matrix on a small screen."""
    if not screen_width() or len(matrix.cells[0]) <= MANY:
        return matrix
    cells = [[format_cell(v, term.kind, 2) for v in row] for row in matrix.values]
    cells = [
        [min(pair, key=len) for pair in zip(*rows, strict=True)]
        for rows in zip(matrix.cells, cells, strict=True)
    ]
    return replace(matrix, cells=tuple(map(tuple, cells)))


MANY = 6
"""Columns whose numbers have room for three decimals on a small screen."""


def _head(matrix: NumberMatrix) -> float:
    """Return the height above the numbers, of the name and of the labels of columns."""
    return _sizes().row * (1.8 if matrix.columns else 1.0)


def _axis(matrix: NumberMatrix) -> float:
    """Return how far below the top of a matrix the middle of its numbers is."""
    return _head(matrix) + _sizes().row * len(matrix.cells) / 2


def _extent(
    term: Term, matrix: NumberMatrix, language: Language
) -> tuple[float, float]:
    sizes = _sizes()
    left = _label_width(matrix, language)
    height = _head(matrix) + sizes.row * len(matrix.cells) + sizes.gap
    width = _cell_width(term, matrix, language) * len(matrix.cells[0])
    return left + max(width, measure(_name(term, matrix, language), sizes.text)), height


def _cell_width(term: Term, matrix: NumberMatrix, language: Language) -> float:
    """Return the width of a number: on a small screen, of the widest number or label."""
    sizes = _sizes()
    if term.kind == "tokens":
        return sizes.word
    if not screen_width():
        return sizes.cell
    texts = [words_by(name, language) for name in matrix.columns]
    texts += [cell for row in matrix.cells for cell in row]
    return max(26.0, *(measure(text, sizes.number) * 0.95 for text in texts))


def _name(term: Term, matrix: NumberMatrix, language: Language) -> str:
    label = matrix.label.by(language)
    name = words_by(term.name, language)
    return f"{name} ({label})" if label else name


def _label_width(matrix: NumberMatrix, language: Language) -> float:
    names = [words_by(name, language) for name in matrix.rows]
    return max((measure(name, _sizes().text) + 6 for name in names), default=0.0)


def _draw_matrix(
    term: Term, matrix: NumberMatrix, corner: tuple[float, float], language: Language
) -> Iterator[Mark]:
    """Draw the name of a matrix, the labels of its columns and rows, and its numbers."""
    sizes = _sizes()
    x, y = corner
    cell = _cell_width(term, matrix, language)
    left = x + _label_width(matrix, language)
    yield from _typeset(Line(left, y + 14, _name(term, matrix, language), sizes.text))
    for column, words in enumerate(matrix.columns):
        text = words_by(words, language)
        yield Line(
            left + cell * (column + 0.5), y + 34, text, sizes.number, "muted", "middle"
        )
    for row, cells in enumerate(matrix.cells):
        top = y + _head(matrix) + sizes.row * row
        baseline = top + sizes.row / 2 + MIDLINE * sizes.number
        if row < len(matrix.rows):
            text = words_by(matrix.rows[row], language)
            yield Line(left - 5, baseline, text, sizes.text, "muted", "end")
        for column, number in enumerate(cells):
            shade = "grid"
            ink = "ink"
            if term.kind == "weights":
                depth = level(float(matrix.values[row][column]))
                shade = f"w{depth}"
                ink = f"v{depth}"
            edge = left + cell * column
            yield Box(edge + 1, top + 1, cell - 2, sizes.row - 2, shade)
            yield Line(edge + cell / 2, baseline, number, sizes.number, ink, "middle")
        yield from _row_frames(matrix, row, (left, top, cell))


def _row_frames(
    matrix: NumberMatrix, row: int, place: tuple[float, float, float]
) -> Iterator[Box]:
    """Draw a frame around a row that is marked as a whole, or around each of its marked cells."""
    left, top, cell = place
    columns = [column for at, column in sorted(matrix.marked) if at == row]
    width = 1
    if len(columns) == len(matrix.cells[row]):
        width = len(columns)
        columns = [0]
    for column in columns:
        x = left + cell * column
        yield Box(x, top, cell * width, _sizes().row, "link", outline=2.0)


@dataclass(frozen=True)
class Command:
    """A figure that a command of `regard` draws; the runs that it names are trained first."""

    line: str

    def draw(self, language: Language) -> str:
        """Return the SVG that the command writes."""
        words = [NAMES.get(word, word) for word in shlex.split(self.line)]
        _prepare(*words)
        korean = ["--korean"] if language == "ko" else []
        path = WORK / "drawn.svg"
        app([*words, *korean, "--out", str(path)], standalone_mode=False)
        return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Model:
    """Architecture of a preset with settings, under a title that says what is special in it."""

    preset: str
    settings: tuple[str, ...]
    title: Text

    def draw(self, language: Language) -> str:
        """Return the boxes as SVG."""
        with figures_in(language):
            architecture = recipe_architecture(self.preset, None, self.settings)
            title = self.title.by(language)
            return draw_svg(layout_architecture(replace(architecture, title=title)))


@dataclass(frozen=True)
class Sinusoids:
    """Positional encoding, its waves above its matrix."""

    size: int
    position: int | None = None

    def draw(self, language: Language) -> str:
        """Return the waves and the matrix as SVG."""
        with figures_in(language):
            return draw_svg(draw_sinusoids(self.size, self.position, _sizes().room))


@dataclass(frozen=True)
class Frame:
    """Scene of the player: the state of a model of `run` at one step of its translation."""

    run: str
    number: int  # of the scenes after the last word is read; negative: from the end
    text: str = "TEXT"
    has_search: bool = True  # with the output so far and the search tree

    def draw(self, language: Language) -> str:
        """Return the scene as SVG."""
        _prepare(self.run)
        translator = load(Path(self.run), select_device("cpu"))
        text = NAMES.get(self.text, self.text)
        with figures_in(language):
            data = explain(translator, text, attributions=False).data
            scene = layout_frames(data)[data.encoding_steps :][self.number]
            if not self.has_search:
                groups = [group for group in scene.groups if group.name == "mechanism"]
                boxes = [mark for mark in groups[0].marks if isinstance(mark, Box)]
                height = max(box.y + box.height for box in boxes) + MARGIN
                scene = make_figure(
                    float(scene.width), height, groups, scene.title, scene.description
                )
            return without_hints(draw_svg(scene))


@dataclass(frozen=True)
class Reading:
    """Encoder of `run` at a step of its reading."""

    run: str
    step: int

    def draw(self, language: Language) -> str:
        """Return the words and the states so far as SVG."""
        _prepare(self.run)
        translator = load(Path(self.run), select_device("cpu"))
        with figures_in(language):
            data = explain(translator, NAMES["TEXT"], attributions=False).data
            diagram = Diagram(data)
            title = encoding_heading(data, self.step)
            foot = diagram.state + 2 * STEP + 4
            marks = [
                moved_down(mark, HEADING)
                for mark in diagram.marks(self.step, None)
                if _bottom(mark) <= foot and _left(mark) < diagram.right - 10
            ]
            marks.append(Line(MARGIN, MARGIN + 6, title, 14.0))
            group = Group("encoder", tuple(marks))
            width = max(diagram.right, 2 * MARGIN + measure(title, 14.0))
            height = HEADING + foot + MARGIN
            figure = make_figure(width, height, [group], title, title)
            return without_hints(draw_svg(figure))


def _bottom(mark: Mark) -> float:
    if isinstance(mark, Polyline):
        return max(y for _, y in mark.points)
    return mark.y


@dataclass(frozen=True)
class Means:
    """First plot of an experiment's graph: the mean of the seeds of each of these systems."""

    experiment: str
    systems: tuple[Text, ...]
    title: Text
    caption: Text

    def draw(self, language: Language) -> str:
        """Return the lines as SVG."""
        from make_experiments import replayed  # beside this script

        graph = replayed(self.experiment).graph.chart("", language)
        (panel, *_) = graph.panels
        names = [system.by(language) for system in self.systems]
        lines = tuple(_mean_of(panel.series, name) for name in names)
        chart = Chart(
            self.title.by(language),
            (replace(panel, title="", series=lines),),
            self.caption.by(language),
            graph.scale,
        )
        return draw_svg(layout_chart(chart, screen_width()))


def _mean_of(series: Sequence[Series], name: str) -> Series:
    """Return the mean of the lines of a name, with their colour."""
    lines = [one for one in series if one.name == name]
    points = np.mean([one.points for one in lines], axis=0)
    return Series(name, tuple(map(tuple, points.tolist())), paint=lines[0].paint)


def _left(mark: Mark) -> float:
    if isinstance(mark, Polyline):
        return min(x for x, _ in mark.points)
    return mark.x


HEADING = 40.0
"""Pixels above a diagram, for a line."""


def _prepare(*words: str) -> None:
    """Go to the folder of the runs, and train those that are named and not there."""
    WORK.mkdir(parents=True, exist_ok=True)
    os.chdir(WORK)
    for word in words:
        if word.startswith("runs/") and not Path(word, "config.json").is_file():
            _train(word)


def _train(run: str) -> None:
    """Run the commands of the page that make the sample and a run."""
    page = (ROOT / "docs" / "notes.md").read_text(encoding="utf-8")
    recipes = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, recipe in zip(("small.toml", "words.toml"), recipes, strict=True):
        Path(name).write_text(recipe, encoding="utf-8")
    text = re.sub(r" \\\n *", " ", page)
    for line in re.findall(r"^    regard (.*)$", text, re.MULTILINE):
        if line.endswith(f"--out {run}") or (
            line.startswith("sample") and not Path("shapes").exists()
        ):
            app(shlex.split(line), standalone_mode=False)


@dataclass(frozen=True)
class Bars:
    """Weights of a look-up in a dictionary of words; without similarities it is by equality."""

    query: str
    similarity: tuple[float, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    values: tuple[tuple[str, int], ...] = (("computer", 9), ("dog", 2), ("cat", 3))

    def draw(self, _: Language) -> str:
        """Return the bars, whose labels are the same in both languages."""
        dictionary = SoftDictionary(dict(self.values))
        if not self.similarity:
            return dictionary.look_up(self.query)._repr_svg_()
        alike = dict(zip(dictionary, self.similarity, strict=True))
        answer = dictionary.look_up(
            self.query, lambda key, _: alike[key], **dict(self.options)
        )
        return answer._repr_svg_()


SHORT, LONG = "I go home", "I go home with my two friends"


@dataclass(frozen=True)
class TwoLengths:
    """RNNs that read a short sentence and a long one: states, and c, their last state."""

    def draw(self, language: Language) -> str:
        """Return both rows of states, each with the numbers of its c, as SVG."""
        sizes = _sizes()
        marks = list[Mark]()
        pitch = (sizes.room - 2 * sizes.margin) / len(LONG.split())
        top = sizes.margin
        for words in (SHORT.split(), LONG.split()):
            marks += _read_words(words, pitch, top, language)
            top += 180.0
        title = Text(
            "Sentences of two lengths, one c", "길이가 다른 두 문장, 같은 차원의 c"
        )
        group = Group("lengths", tuple(marks))
        named = title.by(language)
        return draw_svg(make_figure(sizes.room, top - 20, [group], named, named))


def _read_words(
    words: Sequence[str], pitch: float, top: float, language: Language
) -> Iterator[Mark]:
    """Draw words, a state for each, and below the last state its numbers."""
    sizes = _sizes()
    state = pitch * 0.62
    inputs = np.random.default_rng(0).normal(size=(len(LONG.split()), 4))
    numbers = _states(inputs[: len(words)])[-1]
    texts = Text("{count} words, {count} states", "단어 {count}개, 상태 {count}개")
    heading = texts.fill(count=len(words)).by(language)
    yield Line(sizes.margin, top + sizes.text, heading, sizes.text, "muted")
    y = top + 56
    for number, word in enumerate(words):
        x = sizes.margin + pitch * number
        middle = x + state / 2
        yield Line(middle, top + 36, word, sizes.number, "ink", "middle")
        yield from arrow((middle, top + 41), (middle, y), "muted", 1.4)
        is_last = number + 1 == len(words)
        yield Box(x, y, state, STATE, "w30" if is_last else "w16")
        name = f"h{number + 1}".translate(str.maketrans("1234567", "₁₂₃₄₅₆₇"))
        baseline = y + STATE / 2 + MIDLINE * sizes.text
        yield Line(middle, baseline, name, sizes.text, "ink", "middle")
        if number:
            yield from arrow(
                (x - pitch + state, y + STATE / 2), (x, y + STATE / 2), "muted", 1.4
            )
    cell = sizes.cell
    left = sizes.margin
    last = sizes.margin + pitch * (len(words) - 1) + state / 2
    row = y + STATE + 22
    end = left + 4 * cell + 18
    if last > end + 20:
        yield Polyline(((last, y + STATE), (last, row + STATE / 2)), "s1", 2.0)
        yield from arrow((last, row + STATE / 2), (end, row + STATE / 2), "s1", 2.0)
    else:  # the state is above the numbers
        yield from arrow((last, y + STATE), (last, row), "s1", 2.0)
    yield Line(left, row + STATE / 2 + 5, "c", sizes.text + 1)
    for number, value in enumerate(numbers):
        x = left + 14 + cell * number
        yield Box(x, row + 2, cell - 2, STATE - 4, "grid")
        text = f"{value:.2f}".replace("-", "−")
        yield Line(
            x + cell / 2 - 1, row + STATE / 2 + 5, text, sizes.number, "ink", "middle"
        )


PIXELS = (
    (1, 1, 1, 1, 1, 1),
    (1, 1, 0, 0, 1, 1),
    (1, 0, 0, 0, 0, 1),
    (1, 0, 1, 1, 0, 1),
    (1, 0, 1, 1, 0, 1),
    (0, 0, 0, 0, 0, 0),
)
"""Image of a house, of which patches are 2 × 2 pixels; 1 is light."""
SIDE = 3  # patches across and down
ASKING = 4  # the patch that attends, counted from 0


@dataclass(frozen=True)
class Patches:
    """Encoder of images, opened: patches, their vectors with places, and what one attends to."""

    def draw(self, language: Language) -> str:
        """Return the image, its patches in a row, and the parts of a layer as SVG."""
        sizes = _sizes()
        pitch = (sizes.room - 2 * sizes.margin) / SIDE**2
        rows = PatchRows(pitch, language)
        marks = [*_image(sizes.margin, sizes.margin + 22, 20.0, True)]
        title = Text("An image of 6 × 6 pixels, cut", "6 × 6픽셀의 이미지를 자른다")
        heading = Line(sizes.margin, sizes.margin + 12, title.by(language), sizes.text)
        marks += [heading, *rows.marks()]
        text = Text("An image as nine words", "이미지를 단어 아홉 개처럼").by(language)
        group = Group("patches", tuple(marks))
        return draw_svg(make_figure(sizes.room, rows.bottom, [group], text, text))


def _image(x: float, y: float, size: float, is_cut: bool) -> Iterator[Mark]:
    """Draw the pixels of the image, and its cuts."""
    for row, pixels in enumerate(PIXELS):
        for column, pixel in enumerate(pixels):
            paint = "w5" if pixel else "w70"
            yield Box(x + size * column, y + size * row, size, size, paint)
    for n in range(SIDE + 1) if is_cut else ():
        at, end = 2 * size * n, 2 * size * SIDE
        yield Polyline(((x + at, y), (x + at, y + end)), "link", 2.0)
        yield Polyline(((x, y + at), (x + end, y + at)), "link", 2.0)


@dataclass(frozen=True)
class PatchRows:
    """Rows below an image: a column for each patch, `pitch` pixels wide."""

    pitch: float
    language: Language

    @property
    def top(self) -> float:
        """Top of the first row."""
        return _sizes().margin + 22 + 120 + 14

    @property
    def bottom(self) -> float:
        """Height of the drawing."""
        return self.top + 390

    def x(self, number: int) -> float:
        """Return the middle of a column."""
        return _sizes().margin + self.pitch * (number + 0.5)

    def marks(self) -> Iterator[Mark]:
        """Draw the rows from the patches to what leaves the layer."""
        top = self.top
        yield self._heading(top, Text("patches, in a row", "패치를 한 줄로"))
        pixel = min(14.0, self.pitch / 2 - 4)
        for number in range(SIDE**2):
            row, column = divmod(number, SIDE)
            for place in range(4):
                down, across = divmod(place, 2)
                light = PIXELS[2 * row + down][2 * column + across]
                x = self.x(number) + (across - 1) * pixel
                yield Box(
                    x, top + 22 + down * pixel, pixel, pixel, "w5" if light else "w70"
                )
            yield self._arrow(number, top + 24 + 2 * pixel, top + 74)
        vectors = Text(
            "× one matrix, + position across and down",
            "× 행렬 하나, + 가로와 세로의 위치",
        )
        yield self._heading(top + 74, vectors)
        yield from self._boxes(top + 96, "x", "w16")
        yield from self._attention(top + 130)
        rest = Text(
            "add, norm, feed-forward: each position alone; then the next layer",
            "더하기, 정규화, 피드포워드: 자리마다 따로. 그다음 층으로",
        )
        yield from self._bar(top + 290, rest)
        yield from self._boxes(top + 345, "h", "w30")
        for number in range(SIDE**2):
            yield self._arrow(number, top + 318, top + 345)

    def _attention(self, top: float) -> Iterator[Mark]:
        """Draw how one patch attends to all: lines as wide as its weights, and the weights."""
        title = Text(
            "self-attention: Q, K, V of each; what the middle patch attends to",
            "셀프 어텐션: 저마다 Q, K, V. 가운데 패치가 주목하는 곳",
        )
        yield self._heading(top + 58, title)
        sizes = _sizes()
        for number, weight in enumerate(_patch_weights()):
            start, end = (self.x(number), top - 8), (self.x(ASKING), top + 58)
            yield Polyline((start, end), "s1", 1 + 14 * weight)
            shade = level(weight)
            x = self.x(number)
            width = self.pitch - 4
            yield Box(x - width / 2, top + 86, width, 24, f"w{shade}")
            text = f"{weight:.2f}".removeprefix("0")
            yield Line(x, top + 103, text, sizes.number, f"v{shade}", "middle")
        yield from arrow(
            (self.x(ASKING), top + 110), (self.x(ASKING), top + 132), "muted", 1.4
        )
        total = Text("weighted sum of the values", "값의 가중합").by(self.language)
        yield Line(self.x(ASKING) + 8, top + 126, total, sizes.number, "muted")
        yield from self._bar(
            top + 132, Text("one such sum for each patch", "패치마다 이런 합 하나씩")
        )

    def _bar(self, y: float, text: Text) -> Iterator[Mark]:
        sizes = _sizes()
        width = sizes.room - 2 * sizes.margin
        yield Box(sizes.margin, y, width, STATE, "rule", outline=1.0)
        middle = sizes.room / 2
        words = text.by(self.language)
        size = min(
            sizes.number, sizes.number * (width - 8) / measure(words, sizes.number)
        )
        yield Line(middle, y + 19, words, size, "ink", "middle")

    def _boxes(self, y: float, name: str, paint: str) -> Iterator[Mark]:
        for number in range(SIDE**2):
            width = self.pitch - 8
            x = self.x(number)
            yield Box(x - width / 2, y, width, 24, paint)
            label = f"{name}{number + 1}".translate(SUBSCRIPTS)
            yield Line(x, y + 17, label, _sizes().text, "ink", "middle")
            if number == ASKING and name == "x":
                yield Box(x - width / 2, y, width, 24, "s1", outline=2.5)

    def _heading(self, y: float, text: Text) -> Line:
        return Line(
            _sizes().margin, y + 14, text.by(self.language), _sizes().number, "muted"
        )

    def _arrow(self, number: int, start: float, end: float) -> Polyline:
        x = self.x(number)
        return Polyline(((x, start), (x, end)), "muted", 1.2)


SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _patch_weights() -> list[float]:
    """Return the weights of one patch in attention with random matrices."""
    image = np.array(PIXELS, dtype=float)
    patches = image.reshape(SIDE, 2, SIDE, 2).swapaxes(1, 2).reshape(SIDE**2, 4)
    generator = np.random.default_rng(0)
    across, down = (generator.normal(size=(SIDE, 4)) for _ in range(2))
    x = patches @ generator.normal(size=(4, 4))
    x += (down[:, None] + across[None]).reshape(SIDE**2, 4)
    query, key = (x @ generator.normal(size=(4, 4)) / 2 for _ in range(2))
    scores = query[ASKING] @ key.T / 2
    return [float(w) for w in torch.tensor(scores).softmax(0)]


@dataclass(frozen=True)
class LanguageModels:
    """BERT, GPT and BART: which parts of a Transformer they have, and what each position reads."""

    def draw(self, language: Language) -> str:
        """Return the three models, beside each other or on a small screen one below the other."""
        sizes = _sizes()
        widths = [len(read) for _, parts in LANGUAGE_MODELS for read, _, _ in parts]
        pitch = 50.0 if screen_width() else (sizes.room - 5 * sizes.gap) / sum(widths)
        marks = list[Mark]()
        x, y = sizes.margin, sizes.margin
        for name, parts in LANGUAGE_MODELS:
            marks.append(Line(x, y + 16, name, sizes.text + 2))
            for read, written, is_decoder in parts:
                corner = x, y + 30
                marks += _transformer_part(
                    corner, pitch, (read, written), is_decoder, language
                )
                if is_decoder and len(parts) > 1:
                    level_of = y + 30 + 62
                    marks += arrow((x - sizes.gap, level_of), (x, level_of), "s1", 2.0)
                x += pitch * len(read) + sizes.gap
            if screen_width():
                x = sizes.margin
                y += 180.0
        height = y + (10.0 if screen_width() else 170.0)
        title = Text("Language models and their parts", "언어 모델과 그 부품").by(
            language
        )
        group = Group("models", tuple(marks))
        return draw_svg(make_figure(sizes.room, height, [group], title, title))


LANGUAGE_MODELS = (
    ("BERT", ((("I", "[?]", "home"), ("", "go", ""), False),)),
    ("GPT", ((("<s>", "I", "go"), ("I", "go", "home"), True),)),
    (
        "BART",
        (
            (("I", "[?]", "home"), ("", "", ""), False),
            (("<s>", "I", "go"), ("I", "go", "home"), True),
        ),
    ),
)
"""Names of models, and of their parts the words read, those written, and if it is a decoder."""


def _transformer_part(
    corner: tuple[float, float],
    pitch: float,
    words: tuple[Sequence[str], Sequence[str]],
    is_decoder: bool,
    language: Language,
) -> Iterator[Mark]:
    """Draw a part with the words below that it reads, those above that it writes, and a line from
    each position to those that it attends to.
    """
    sizes = _sizes()
    x, y = corner
    read, written = words
    middles = [x + pitch * (number + 0.5) for number in range(len(read))]
    yield Box(x, y + 28, pitch * len(read), 68, "rule", outline=1.5)
    name = (DECODER if is_decoder else ENCODER).by(language)
    for number, middle in enumerate(middles):
        for other in middles[: number + 1] if is_decoder else middles:
            yield Polyline(((other, y + 92), (middle, y + 34)), "s1", 1.4)
        yield Line(middle, y + 116, read[number], sizes.number, "ink", "middle")
        if written[number]:
            yield from arrow((middle, y + 28), (middle, y + 18), "muted", 1.4)
            yield Line(middle, y + 12, written[number], sizes.number, "ink", "middle")
    yield Line(x, y + 134, name, sizes.number, "muted")


@dataclass(frozen=True)
class Norms:
    """Numbers of a batch of two sentences, twice: what batch norm averages, and layer norm."""

    def draw(self, language: Language) -> str:
        """Return both, beside each other or on a small screen one below the other, as SVG."""
        sizes = _sizes()
        marks = list[Mark]()
        x, y = sizes.margin, sizes.margin
        for title, is_batch in NORMS:
            marks.append(Line(x, y + sizes.text, title.by(language), sizes.text + 2))
            for number, sentence in enumerate(SENTENCES):
                top = y + 26 + number * (5 * sizes.row + 8)
                matrix = _sentence_numbers(number, sentence, is_batch)
                marks += _draw_matrix(*matrix, (x, top), language)
            if screen_width():
                y += 2 * (5 * sizes.row + 8) + 40
            else:
                x += sizes.room / 2
        height = y if screen_width() else y + 2 * (5 * sizes.row + 8) + 36
        title = Text("Batch norm and layer norm", "배치 정규화와 층 정규화").by(
            language
        )
        group = Group("norms", tuple(marks))
        return draw_svg(make_figure(sizes.room, height, [group], title, title))


NORMS = (
    (
        Text("batch norm: a column, all sentences", "배치 정규화: 한 열, 모든 문장"),
        True,
    ),
    (Text("layer norm: a row, one word", "층 정규화: 한 행, 단어 하나"), False),
)
SENTENCES = ("I go home", "You sleep well")
"""The batch."""


def _sentence_numbers(
    number: int, sentence: str, is_batch: bool
) -> tuple[Term, NumberMatrix]:
    """Return the numbers of a sentence of the batch, those that are averaged together marked."""
    values = np.random.default_rng(number).normal(size=(3, 4)).round(1)
    name = Text("sentence {number}", "문장 {number}").fill(number=number + 1)
    columns = (tuple(str(place) for place in range(1, 5)),)
    term = Term(name, values, "T E", (tuple(sentence.split()),), columns)
    (equation,) = equations((term,))
    ((_, matrix),) = equation.sides
    cells = [(row, 1) for row in range(3)] if is_batch else [(1, n) for n in range(4)]
    marked = frozenset(cells if is_batch or not number else [])
    return term, replace(matrix, marked=marked)


WORDS_READ = 7
WINDOW = 5
"""Positions that a convolution reads together."""
LAYER = STATE + 30.0  # pixels from one layer to the next


@dataclass(frozen=True)
class Exchanges:
    """Recurrent layer, convolutions and self-attention over seven words: the way of the first word
    to the last place, or if they are `timed` the turn in which each state is computed.
    """

    is_timed: bool = False

    def draw(self, language: Language) -> str:
        """Return the three, beside each other or on a small screen one below the other, as SVG."""
        sizes = _sizes()
        is_narrow = bool(screen_width())
        width = sizes.room - 2 * sizes.margin
        width = width if is_narrow else (width - 2 * sizes.gap) / 3
        most = max(exchange.layers for exchange in EXCHANGES)
        marks = list[Mark]()
        x, y = sizes.margin, sizes.margin
        for exchange in EXCHANGES:
            lift = 0 if is_narrow else (most - exchange.layers) * LAYER
            panel = ExchangePanel(exchange, (x, y + lift), width, self.is_timed)
            marks += panel.marks(language)
            if is_narrow:
                y = panel.bottom + 10
            else:
                x += width + sizes.gap
        foot = panel.bottom + 16
        text = (TURNS if self.is_timed else WAYS).by(language)
        marks.append(Line(sizes.margin, foot, text, sizes.text, "muted"))
        group = Group("exchanges", tuple(marks))
        return draw_svg(make_figure(sizes.room, foot + 10, [group], text, text))


TURNS = Text(
    "Number: turn in which it is computed; equal numbers at once",
    "숫자: 계산되는 차례. 같은 숫자는 동시에",
)
WAYS = Text(
    "Strong line: the way of the first word to the last place",
    "굵은 선: 첫 단어가 마지막 자리까지 가는 길",
)


@dataclass(frozen=True)
class Exchange:
    """A layer type: its name, its layers here, how far a layer reads, and what is counted."""

    name: Text
    layers: int
    reach: int  # positions on each side; 0: the state before
    way: Text
    turns: Text

    def read_by(self, place: int) -> range:
        """Return the positions of the layer below that a position reads."""
        start = max(0, place - self.reach)
        return range(start, min(WORDS_READ, place + self.reach + 1))


EXCHANGES = (
    Exchange(
        Text("RNN: neighbour to neighbour", "RNN: 이웃에서 이웃으로"),
        1,
        0,
        Text("way: 6 steps from h₁ to h₇", "가는 길: h₁에서 h₇까지 6단계"),
        Text("7 turns for 7 words", "단어 7개에 차례 7번"),
    ),
    Exchange(
        Text(f"Convolution: a window of {WINDOW}", f"합성곱: 이웃 {WINDOW}개씩"),
        3,
        WINDOW // 2,
        Text("way: 3 layers", "가는 길: 3층"),
        Text("3 layers, 3 turns", "3층에 차례 3번"),
    ),
    Exchange(
        Text("Self-attention: all to all", "셀프 어텐션: 모두에서 모두로"),
        1,
        WORDS_READ - 1,
        Text("way: 1 layer", "가는 길: 1층"),
        Text("1 layer, 1 turn", "1층에 차례 1번"),
    ),
)


@dataclass(frozen=True)
class ExchangePanel:
    """Drawing of an exchange, its inputs below its layers of states."""

    exchange: Exchange
    corner: tuple[float, float]
    width: float
    is_timed: bool

    @property
    def bottom(self) -> float:
        """Bottom of the line of text below the inputs."""
        return self.y(0) + STATE + 26

    @property
    def state(self) -> float:
        """Width of a state."""
        return self.width / WORDS_READ - 11

    def x(self, place: int) -> float:
        """Return the middle of a column."""
        return self.corner[0] + self.width * (place + 0.5) / WORDS_READ

    def y(self, layer: int) -> float:
        """Return the top of a layer, counted from the inputs."""
        return self.corner[1] + 30 + (self.exchange.layers - layer) * LAYER

    def marks(self, language: Language) -> Iterator[Mark]:
        """Draw the name, what flows, the states, and what is counted."""
        sizes = _sizes()
        x, y = self.corner
        name = self.exchange.name.by(language)
        yield Line(x, y + sizes.text, name, sizes.text + 1)
        for layer in range(1, self.exchange.layers + 1):
            yield from self._flow(layer)
        yield from () if self.is_timed else self._way()
        for layer in range(self.exchange.layers + 1):
            for place in range(WORDS_READ):
                yield from self._box(layer, place)
        counted = self.exchange.turns if self.is_timed else self.exchange.way
        text = counted.by(language)
        yield Line(x, self.bottom - 8, text, sizes.text, "s1")

    def _flow(self, layer: int) -> Iterator[Mark]:
        foot, head = self.y(layer - 1), self.y(layer) + STATE
        for place in range(WORDS_READ):
            for read in self.exchange.read_by(place):
                ends = (self.x(read), foot), (self.x(place), head)
                yield Polyline(ends, "muted", 0.7)
            if place and not self.exchange.reach:
                yield from self._step(place, "muted", 1.4)

    def _step(self, place: int, paint: str, width: float) -> Iterator[Mark]:
        y = self.y(1) + STATE / 2
        half = self.state / 2
        ends = (self.x(place - 1) + half, y), (self.x(place) - half, y)
        yield from arrow(*ends, paint, width)

    def _way(self) -> Iterator[Mark]:
        reach = self.exchange.reach
        place = 0
        for layer in range(1, self.exchange.layers + 1):
            end = min(WORDS_READ - 1, place + reach)
            foot, head = self.y(layer - 1), self.y(layer) + STATE
            yield from arrow((self.x(place), foot), (self.x(end), head), "s1", 2.5)
            place = end
        for step in range(place + 1, WORDS_READ):
            yield from self._step(step, "s1", 2.5)

    def _box(self, layer: int, place: int) -> Iterator[Mark]:
        sizes = _sizes()
        y = self.y(layer)
        turn = layer if self.exchange.reach else layer * (place + 1)
        paint = "w16"
        ink = "ink"
        text = f"{'h' if layer else 'x'}{place + 1}".translate(SUBSCRIPTS)
        if not layer:
            paint = "grid"
        elif self.is_timed:
            shade = level(turn / WORDS_READ)
            paint = f"w{shade}"
            ink = f"v{shade}"
            text = str(turn)
        x = self.x(place)
        yield Box(x - self.state / 2, y, self.state, STATE, paint)
        baseline = y + STATE / 2 + MIDLINE * sizes.text
        yield Line(x, baseline, text, sizes.text, ink, "middle")


@dataclass(frozen=True)
class Attentions:
    """Three attentions of a Transformer: which words ask (Q), and which are asked (K, V)."""

    def draw(self, language: Language) -> str:
        """Return the three, beside each other or on a small screen one below the other, as SVG."""
        sizes = _sizes()
        width = sizes.room - 2 * sizes.margin
        width = width if screen_width() else (width - 4 * sizes.gap) / 3
        marks = list[Mark]()
        x, y = sizes.margin, sizes.margin
        height = 180.0
        for attention in ATTENTIONS:
            marks += _attention_words(attention, (x, y), width, language)
            if screen_width():
                y += height
            else:
                x += width + 2 * sizes.gap
        bottom = y if screen_width() else y + height
        title = Text("Where Q, K and V come from", "Q, K, V가 오는 곳").by(language)
        group = Group("attentions", tuple(marks))
        return draw_svg(make_figure(sizes.room, bottom, [group], title, title))


SOURCE, TARGET = Text("source", "원문"), Text("translation", "번역문")
ATTENTIONS = (
    (Text("Encoder self-attention", "인코더의 셀프 어텐션"), False, False),
    (Text("Decoder self-attention, masked", "디코더의 마스크 셀프 어텐션"), True, True),
    (Text("Cross-attention", "크로스 어텐션"), True, False),
)
"""Names of the attentions, and if the decoder's words ask and are asked."""


def _attention_words(
    attention: tuple[Text, bool, bool],
    corner: tuple[float, float],
    width: float,
    language: Language,
) -> Iterator[Mark]:
    """Draw the words that ask above those that are asked, with lines from those that the second
    one asks; a later word is hidden from it if there is a mask.
    """
    sizes = _sizes()
    name, asks, is_asked = attention
    x, y = corner
    rows = (y + 50, "Q", asks), (y + 122, "K, V", is_asked)
    yield Line(x, y + sizes.text, name.by(language), sizes.text + 1)
    pitch = (width - 40) / 3
    middles = [x + 40 + pitch * (number + 0.5) for number in range(3)]
    for number, middle in enumerate(middles):
        if not (is_asked and number == 2):
            head = middles[1], rows[0][0] + STATE
            yield from arrow((middle, rows[1][0]), head, "s1", 2.0)
    for top, symbol, is_target in rows:
        baseline = top + STATE / 2 + MIDLINE * sizes.text
        yield Line(x, baseline, symbol, sizes.text, "s1")
        words = ("<s>", "I", "go") if is_target else PAIR[0].split()
        for number, (middle, word) in enumerate(zip(middles, words, strict=True)):
            edge = middle - pitch / 2 + 3
            is_hidden = is_asked and symbol != "Q" and number == 2
            paint = "w30" if is_target else "w16"
            if is_hidden:
                yield Box(edge, top, pitch - 6, STATE, "rule", outline=1.0)
            else:
                yield Box(edge, top, pitch - 6, STATE, paint)
            if symbol == "Q" and number == 1:
                yield Box(edge, top, pitch - 6, STATE, "s1", outline=2.5)
            ink = "muted" if is_hidden else "ink"
            yield Line(middle, baseline, word, sizes.text, ink, "middle")
        side = (TARGET if is_target else SOURCE).by(language)
        place = top - 8 if symbol == "Q" else top + STATE + 16
        yield Line(x + 43, place, side, sizes.text, "muted")


@dataclass(frozen=True)
class Cells:
    """Picture of 224 × 224 pixels, and the grids of cells that ResNet-18 makes of it."""

    def draw(self, language: Language) -> str:
        """Return the picture with each grid over it, the last one larger, as SVG."""
        sizes = _sizes()
        picture = _picture()
        is_narrow = bool(screen_width())
        gap = 24.0
        side = (sizes.room - 2 * sizes.margin - gap) / 2
        last = sizes.room - 2 * sizes.margin
        if not is_narrow:
            last = 224.0
            side = (sizes.room - 2 * sizes.margin - last - 4 * gap) / 4
        marks = list[Mark]()
        x, y = sizes.margin, sizes.margin
        y += 0 if is_narrow else (last - side) / 2
        for number, (cells, channels) in enumerate(GRIDS[:-1]):
            marks += _grid((x, y), side, cells, picture)
            counted = CHANNELS if number else PIXELS_OF
            label = f"{cells} × {cells}", counted.fill(count=channels).by(language)
            for line, text in enumerate(label):
                at = y + side + 16 + 16 * line
                marks.append(Line(x, at, text, sizes.text))
            tail = x + side + 4, y + side / 2
            if is_narrow and number % 2:
                x = sizes.margin
                y += side + 50
            else:
                x += side + gap
                marks += arrow(tail, (x - 4, tail[1]), "s1", 2.0)
        y = y if is_narrow else sizes.margin
        marks += _last_grid((x, y), last, picture, language)
        title = Text(
            "From 224 × 224 pixels to 7 × 7 cells", "픽셀 224 × 224에서 7 × 7칸"
        )
        named = title.by(language)
        group = Group("cells", tuple(marks))
        height = y + last + 58
        return draw_svg(make_figure(sizes.room, height, [group], named, named))


GRIDS = ((224, 3), (56, 64), (28, 128), (14, 256), (7, 512))
"""Cells across, and numbers in each: the picture, after the stem, and after later stages."""
CHANNELS = Text("{count} channels", "채널 {count}개")
PIXELS_OF = Text("pixels, {count} colours", "픽셀, 색 {count}개")
CELL = 4, 3  # the marked cell: row and column


def _last_grid(
    corner: tuple[float, float], side: float, picture: bytes, language: Language
) -> Iterator[Mark]:
    """Draw the last grid with a cell marked, and below it what a cell is."""
    sizes = _sizes()
    x, y = corner
    cells, channels = GRIDS[-1]
    yield from _grid(corner, side, cells, picture)
    step = side / cells
    row, column = CELL
    yield Box(x + step * column, y + step * row, step, step, "s1", outline=3.0)
    counted = CHANNELS.fill(count=channels).by(language)
    lines = (
        f"{cells} × {cells}, {counted}",
        Text("A cell: 32 × 32 pixels,", "칸 하나: 32 × 32 픽셀,").by(language),
        Text("512 numbers, for key and value", "수 512개, 키와 값의 재료").by(language),
    )
    for number, text in enumerate(lines):
        paint = "s1" if number else "ink"
        yield Line(x, y + side + 16 + 16 * number, text, sizes.text, paint)


def _grid(
    corner: tuple[float, float], side: float, cells: int, picture: bytes
) -> Iterator[Mark]:
    """Draw the picture, and over it lines between the cells unless they are pixels."""
    x, y = corner
    yield Raster(x, y, side, side, picture)
    for number in range(cells + 1) if cells < GRIDS[0][0] else ():
        at = side * number / cells
        width = min(1.5, side / cells / 8)
        yield Polyline(((x + at, y), (x + at, y + side)), "paper", width)
        yield Polyline(((x, y + at), (x + side, y + at)), "paper", width)


def _picture() -> bytes:
    """Return a picture of a dog on a meadow with a ball, a tree and the sun, as PNG."""
    image = Image.new("RGB", (224, 224))
    pen = ImageDraw.Draw(image)
    for row in range(224):
        pen.line((0, row, 223, row), (120 + row // 3, 170 + row // 4, 225))
    pen.ellipse((160, 18, 204, 62), "#f6d35b")
    pen.ellipse((-60, 100, 150, 300), "#7fae6b")
    pen.ellipse((60, 120, 320, 320), "#5f9a55")
    pen.rectangle((30, 90, 42, 150), "#7a5636")
    pen.ellipse((4, 40, 70, 106), "#3d7a43")
    fur, ear = "#a8672f", "#6b3f1c"
    pen.ellipse((80, 128, 160, 172), fur)
    for left in (88, 102, 136, 148):
        pen.rectangle((left, 155, left + 9, 196), fur)
    pen.line((84, 140, 66, 118), fur, 8)
    pen.ellipse((140, 98, 182, 140), fur)
    pen.ellipse((166, 116, 192, 136), fur)
    pen.ellipse((142, 100, 156, 132), ear)
    pen.ellipse((166, 110, 171, 115), "#1c1410")
    pen.ellipse((184, 118, 193, 127), "#1c1410")
    pen.ellipse((186, 172, 210, 196), "#c8433c")
    file = io.BytesIO()
    image.quantize(64).save(file, "PNG")
    return file.getvalue()


W = np.array([[1.0, -1.0], [2.0, 1.0]])
POINTS = {"나는": (0.8, 0.4), "빵을": (0.4, -0.8), "먹고": (-0.8, -0.4)}
ASKS = "bread", (1.0, 0.0)
"""A small example: a matrix, states of the encoder, and one of the decoder."""


@dataclass(frozen=True)
class Turned:
    """Two planes in one scale: states of the encoder, and these mapped by W, each with a state of
    the decoder and its scores.
    """

    def draw(self, language: Language) -> str:
        """Return both, beside each other or on a small screen one below the other, as SVG."""
        sizes = _sizes()
        side = sizes.room - 2 * sizes.margin
        side = side if screen_width() else (side - 60) / 2
        top = sizes.margin + 2 * sizes.row + 34
        second = sizes.margin + side + 60, top
        if screen_width():
            second = sizes.margin, top + side + 50
        angle = np.degrees(np.arctan2(W[1, 0] - W[0, 1], W[0, 0] + W[1, 1]))
        stretches = np.linalg.svd(W)[1]
        text = TURNING.fill(
            angle=f"{angle:.0f}",
            most=f"{stretches[0]:.1f}",
            least=f"{stretches[1]:.1f}",
        ).by(language)
        marks: list[Mark] = [*_matrix_of_map(text)]
        plane = MapPlane((sizes.margin, top), side, np.eye(2))
        marks += plane.marks(Text("h: scores s · h", "h: 점수 s · h").by(language))
        plane = MapPlane(second, side, W)
        name = Text("W · h: scores s · W · h", "W · h: 점수 s · W · h")
        marks += plane.marks(name.by(language))
        x, y = second
        if screen_width():
            marks += arrow((side / 2, y - 44), (side / 2, y - 24), "s1", 2.0)
            marks.append(Line(side / 2 + 10, y - 28, "W", sizes.text + 2, "s1"))
        else:
            y += side / 2
            marks += arrow((x - 52, y), (x - 8, y), "s1", 2.0)
            marks.append(Line(x - 30, y - 10, "W", sizes.text + 4, "s1", "middle"))
        group = Group("planes", tuple(marks))
        height = second[1] + side + sizes.margin
        return draw_svg(make_figure(sizes.room, height, [group], text, text))


TURNING = Text(
    "turns by {angle}°, stretches {most} and {least} times",
    "{angle}° 돌리고, 두 방향으로 {most}배와 {least}배 늘인다",
)
REACH = 3.3  # from the middle of a plane to its edge


def _matrix_of_map(text: str) -> Iterator[Mark]:
    sizes = _sizes()
    x = sizes.margin + 30
    middle = sizes.margin + sizes.row + 4
    yield Line(sizes.margin, middle, "W =", sizes.text)
    for row, numbers in enumerate(W):
        for column, number in enumerate(numbers):
            left = x + 34 * column
            top = sizes.margin + sizes.row * row
            yield Box(left, top, 32, sizes.row - 2, "grid")
            written = f"{number:.0f}".replace("-", "−")
            at = left + 16, top + sizes.row * 15 / 22
            yield Line(*at, written, sizes.text, "ink", "middle")
    yield Line(x + 80, middle, text, sizes.text)


@dataclass(frozen=True)
class MapPlane:
    """Plane that a matrix maps: a square and what the matrix makes of grid and points."""

    corner: tuple[float, float]
    side: float
    matrix: np.ndarray

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a place of the plane."""
        unit = self.side / 2 / REACH
        left, top = self.corner
        return left + self.side / 2 + unit * x, top + self.side / 2 - unit * y

    def mapped(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a place that the matrix has mapped."""
        return self.at(*(self.matrix @ [x, y]))

    def marks(self, name: str) -> Iterator[Mark]:
        """Draw the grid, the points with their scores, and the state that asks."""
        sizes = _sizes()
        x, y = self.corner
        yield Line(x, y - 8, name, sizes.text)
        yield Box(x, y, self.side, self.side, "rule", outline=1.0)
        for step in range(-2, 3):
            n = step / 2
            paint = "muted" if step else "ink"
            yield Polyline((self.mapped(n, -1), self.mapped(n, 1)), paint, 0.8)
            yield Polyline((self.mapped(-1, n), self.mapped(1, n)), paint, 0.8)
        word, asks = ASKS
        yield from arrow(self.at(0, 0), self.at(*(3 * np.array(asks))), "s1", 2.0)
        left, top = self.at(*(3 * np.array(asks)))
        yield Line(left, top - 10, f"s ({word})", sizes.text, "s1", "end")
        scores = {key: np.array(asks) @ self.matrix @ h for key, h in POINTS.items()}
        for key, place in POINTS.items():
            left, top = self.mapped(*place)
            yield Box(left - 4, top - 4, 8, 8, "s0")
            text = f"{key} {scores[key]:.1f}".replace("-", "−")
            is_best = scores[key] == max(scores.values())
            size = sizes.text + 2 * is_best
            middle = top + MIDLINE * size + (18 if place[1] < 0 else -18)
            width = measure(text, size)
            yield Box(left - width / 2 - 2, middle - size, width + 4, size + 4, "paper")
            yield Line(left, middle, text, size, "s0", "middle")


NAMES = {"TEXT": "나는 빵을 먹고 있었다"}
"""Short names of the pages in commands."""
PAIR = ("나는 집에 간다", "I go home")
TABLE = (0.1, 0.9, 0.7)
MODEL = "show --view model --preset"
GRID = (
    "model.encoder.depths=[2, 2, 2, 2]",
    "model.encoder.width=64",
    "model.encoder.stem=classic",
    "data.images.height=224",
    "data.images.width=224",
)
Drawing = (
    Command
    | Model
    | AttentionStep
    | Way
    | Frame
    | Means
    | Reading
    | Sinusoids
    | Steps
    | Results
    | Equations
    | Unrolled
    | Bars
    | LanguageModels
    | Norms
    | Patches
    | TwoLengths
    | Exchanges
    | Attentions
    | Cells
    | Turned
)
FIGURES: dict[str, Drawing] = {
    "unrolled": Unrolled(),
    "context-every": Unrolled(has_context=True),
    "unrolled-attention": AttentionStep(),
    "unrolled-encoder": Way(),
    "rnn": Command(f"{MODEL} rnn"),
    "context-first": Model(
        "rnn",
        ("model.decoder.context=first",),
        Text(
            "RNN without attention: c enters the first step alone",
            "어텐션 없는 RNN: c를 첫 단계에만",
        ),
    ),
    "rnn-luong": Command(f"{MODEL} rnn-luong"),
    "lstm": Model(
        "rnn-luong",
        ("model.encoder.cell=lstm", "model.decoder.cell=lstm"),
        Text("Luong's model with LSTM cells", "LSTM을 쓰는 Luong의 모델"),
    ),
    "luong-dot": Command(f"{MODEL} luong-dot"),
    "rnn-bahdanau": Command(f"{MODEL} rnn-bahdanau"),
    "conv": Command(f"{MODEL} conv"),
    "patches": Patches(),
    "language-models": LanguageModels(),
    "fixed-length": TwoLengths(),
    "exchanges": Exchanges(),
    "turns": Exchanges(is_timed=True),
    "attentions": Attentions(),
    "cells": Cells(),
    "turned": Turned(),
    "transformer": Command(f"{MODEL} transformer-published"),
    "grid": Model(
        "caption-rnn",
        GRID,
        Text(
            "A captioner: ResNet-18 makes 7 × 7 cells",
            "캡션 모델: ResNet-18이 만드는 7 × 7칸",
        ),
    ),
    "mixed": Model(
        "transformer-tiny",
        ("model.decoder.kind=recurrent",),
        Text("Transformer encoder, RNN decoder", "Transformer 인코더와 RNN 디코더"),
    ),
    "positions": Sinusoids(20, 20),
    "wave": Sinusoids(2),
    "warm-up": Command(
        "show --view schedule --size 512 --warmup 4000 --updates 100000"
    ),
    "constant": Command(
        "show --view schedule --schedule constant --warmup 0 --peak 0.0007 --updates 100000"
    ),
    "dog": Bars("dog"),
    "puppy": Bars("puppy", TABLE),
    "puppy-softmax": Bars("puppy", TABLE, (("softmax", True),)),
    "puppy-shuffled": Bars(
        "puppy",
        (0.7, 0.1, 0.9),
        (("softmax", True),),
        (("cat", 3), ("computer", 9), ("dog", 2)),
    ),
    "puppy-masked": Bars(
        "puppy", TABLE, (("softmax", True), ("keep", [True, False, True]))
    ),
    "row-softmax": _row_softmax(),
    "normalised": _normalised(),
    "projections": Steps(("self.Q", "self.K", "self.V"), heads=0, lit=1),
    "in-out": Results(
        (
            ("sum", Text("input: 3 words × 4", "입력: 단어 3개 × 4차원"), ()),
            ("self.output", Text("output: 3 words × 4", "출력: 단어 3개 × 4차원"), ()),
        ),
        "→",
    ),
    "norms": Norms(),
    "scores": Steps(("self.scores", "self.weights"), lit=1),
    "context": Steps(("self.context", "self.output"), lit=1),
    "unprojected": Steps(
        ("self.scores", "self.weights"), settings=(("unprojected", True),), lit=1
    ),
    "sum": Steps(("sum",)),
    "add-and-norm": Steps(("self.add", "self.norm")),
    "feed-forward": Steps(("feedforward.hidden", "feedforward.output")),
    "heads": Steps(("self.Q",), settings=(("size", 8), ("heads", 4)), heads=4),
    "two-heads": Steps(("self.weights", "self.output"), heads=2, lit=1),
    "causal": Steps(("self.mask", "self.weights"), settings=(("causal", True),), lit=1),
    "mask": Steps(("self.mask",), PAIR[:1], (("causal", True),)),
    "batch": Steps(
        ("self.mask", "self.weights"), settings=(("batch", ("I go",)),), lit=1
    ),
    "shifted": Steps(("tokens",), PAIR),
    "cross-projections": Steps(
        ("cross.Q", "cross.K", "cross.V"),
        PAIR,
        heads=0,
        note=Text(
            "x₁: the decoder's words; m: the encoder's output",
            "x₁: 디코더의 단어들, m: 인코더의 출력",
        ),
    ),
    "cross": Steps(("cross.scores", "cross.weights", "cross.context"), PAIR, lit=2),
    "lengths": Steps(("cross.weights",), (PAIR[0], "I go home now then"), lit=2),
    "value-width": _value_width(),
    "vector-values": _vector_values(),
    "word-vectors": _word_vectors(),
    "joined-states": _joined_states(),
    "add": Steps(("self.add",)),
    "lstm-step": _lstm_step(),
    "rnn-reading": Reading("runs/rnn", 1),
    "luong-steps": Frame("runs/luong", -1),
    "bahdanau-steps": Frame(
        "runs/bahdanau", 5, "그는 책을 읽고 있다", has_search=False
    ),
    "two-encoders": Means(
        "reach",
        (
            Text("simple RNN", "단순 RNN"),
            Text("GRU, two directions", "양방향 GRU"),
        ),
        Text(
            "How far back an encoder reaches", "인코더는 얼마나 먼 단어까지 기억하는가"
        ),
        Text(
            "Influence of a token on the last state (its gradient; the largest is 1), mean of "
            "the seeds",
            "토큰이 마지막 상태에 미치는 영향(기울기, 가장 큰 것이 1). 시드의 평균입니다.",
        ),
    ),
    "attention-and-recurrent": Means(
        "costs",
        (
            Text("self-attention (fused kernel)", "셀프 어텐션(융합 커널)"),
            Text("recurrent", "순환(GRU)"),
        ),
        Text("Time of attention and of a recurrent layer", "어텐션과 순환 층의 시간"),
        Text(
            "Milliseconds of a forward pass on one thread; both axes are logarithmic",
            "순전파(입력에서 출력까지의 계산) 한 번에 걸리는 밀리초. 스레드 하나에서 재었고, 두 축이 "
            "모두 로그 눈금입니다.",
        ),
    ),
    "luong-heat-map": Command("show runs/luong TEXT"),
    "bahdanau-heat-map": Command("show runs/bahdanau TEXT"),
    "first-heat-map": Command("show runs/first TEXT"),
    "score-map": Command("show runs/luong TEXT --view score"),
    "luong-curve": Command("show runs/luong --view curve"),
    "plain-curve": Command("show runs/first --with runs/plain --view curve"),
    "residual": Command("show runs/first TEXT --view residual"),
    "reading": Command(
        "show runs/first TEXT --view heads --attention encoder --word 먹고"
    ),
}


def main(names: Sequence[str]) -> None:
    """Draw the figures of these names, all if none is given; bars are the same in both languages."""
    if unknown := [name for name in names if name not in FIGURES]:
        sys.exit(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    for folder in (IMAGES / "notes", IMAGES / "ko" / "notes"):
        folder.mkdir(exist_ok=True)
    for name in names or FIGURES:
        for path, drawing in drawings(name).items():
            path.write_text(drawing, encoding="utf-8")


def drawings(name: str) -> dict[Path, str]:
    """Return the drawings of a figure by path: Korean ones, and narrow ones if they differ."""
    figure = FIGURES[name]
    folders: dict[Language, Path] = {"en": IMAGES, "ko": IMAGES / "ko"}
    if isinstance(figure, Bars):
        folders = {"en": IMAGES}
    result = {}
    for language, folder in folders.items():
        wide = figure.draw(language)
        result[folder / "notes" / f"{name}.svg"] = wide
        with figures_within(NARROW.room):
            narrow = figure.draw(language)
        if narrow != wide:
            result[folder / "notes" / f"{name}-narrow.svg"] = narrow
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
