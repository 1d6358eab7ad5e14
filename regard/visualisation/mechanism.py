"""The mechanism of a model in one diagram: words, states, scores, softmax, sum, the decoder's
state, the next word.

It stays whole in all frames of the player, and parts that a step does not reach are pale.
explanation_page.js draws the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.visualisation.colours import level, signed_paint
from regard.visualisation.explanation_data import ExplanationData, token_label
from regard.visualisation.figure import MARGIN, Box, Mark, Polyline, Text, arrow, curve
from regard.visualisation.fonts import elide
from regard.visualisation.language import words

WIDTH = 760.0
# Of the source's columns, and left of the decoder.
LEFT, ROOM, RIGHT = (
    MARGIN + 80,
    400.0,
    WIDTH - MARGIN - 170.0,
)
# Columns at most, of more words the strongest of all steps; pixels of one.
COLUMNS, WIDEST = (
    6,
    92.0,
)
SIZE, SMALL, NUMBERS = 13.0, 11.5, 32  # sizes of text; numbers drawn of a state
# Heights of a state and of its row; width and greatest height of a bar.
STATE, STEP, BAR, HIGH = (
    14.0,
    18.0,
    28.0,
    34.0,
)
SCORES, WEIGHTS, WORD = range(3)
"""Stages of a decoding step with attention: query and scores; softmax and weights; weighted sum,
state and word.
"""
# Unrecorded scores are drawn from this value below the highest one: exp(−6.9) is a thousandth.
LEAST = -6.9


class Column(NamedTuple):
    """A source word with its weight, and the places of its tokens among those that a recurrent
    encoder reads.
    """

    text: str
    weight: float
    tokens: tuple[int, ...]


class Diagram:
    """The places of a diagram, the same in every frame.

    Scores are shown of one head, not of the mean of heads; if they were not recorded, the
    logarithms of its weights. `before`: the decoder attends by the state before, and the context
    enters its next state.
    """

    def __init__(self, data: ExplanationData) -> None:
        self.data = data
        self.cross = data.has_cross_attention
        states = data.states
        # The weight of the end comes last.
        layer = data.layers[data.shown_head.layer] if self.cross else None
        rows = (
            np.dstack([layer.weights, layer.special_weights])
            if layer
            else np.full((1, 1, 1), bool(states))
        )
        self.weights = (
            rows.mean(0) if data.shown_head.head is None else rows[data.shown_head.head]
        )
        self.heads = len(rows) if self.cross else 0
        sums = layer.log_sums if layer else None
        self.sums = (
            -np.log(np.maximum(self.weights.max(1), 1e-30))
            if sums is None
            else sums[data.shown_head.head or 0]
        )
        e = (
            np.log(np.maximum(self.weights, 1e-30))
            + self.sums[: len(self.weights), None]
        )[self.weights > 0]
        self.lowest, self.highest = (
            (LEAST, 0.0)
            if sums is None
            else map(float, (e.min(initial=0), e.max(initial=0.1)))
        )
        self.scored = self.heads == 1 or (
            self.cross and data.shown_head.head is not None
        )
        self.before = self.cross and states is not None and states.order == "bahdanau"
        self.state = 32.0 if states else 66.0
        bottom = self.state + STEP * (states.directions if states else 1)
        self.score = bottom + 40
        self.softmax = self.score + 58 if self.scored else bottom + 36
        self.weight = self.softmax + 30
        self.sum = self.weight + 78 if self.cross else bottom + 40
        self.own = (
            (self.score if self.scored else self.softmax + 20) - 22
            if self.cross
            else self.sum - 12
        )
        self.output = self.sum + (70 if self.before else 34)
        self.next = (
            self.output + 30 + 20 * max(len(step.candidates) for step in data.steps)
        )
        self.height = self.next + 28

    def marks(self, read: int, t: int | None, stage: int = WORD) -> Iterator[Mark]:
        """Draw the model in step `read` of the encoder, or in a stage of step t of the decoder if
        that is not None.
        """
        states = self.data.states
        weights = self.weights[t] if self.cross and t is not None else None
        columns = self._columns(weights, read)
        width = min(WIDEST, ROOM / len(columns))
        end = LEFT + min(ROOM, WIDEST * len(columns))
        placed = [
            (LEFT + (i + 0.5) * width, column) for i, column in enumerate(columns)
        ]
        yield Text(MARGIN, self.state + 11, words("states h"), SMALL, "muted")
        more = len(self.data.source) - len(placed)
        name = words("cells" if self.data.image else "words")
        yield Text(
            MARGIN, 16, name + (f" (+{more})" if more > 0 else ""), SMALL, "muted"
        )
        yield from (
            Text(x, 16, elide(each.text, SIZE, width - 4), SIZE, "ink", "middle")
            for x, each in placed
        )
        yield from (
            self._encoder(placed, end)
            if states is None
            else self._states(placed, width, read, t is not None)
        )
        if self.cross:
            yield from self._attention(placed, end, t, stage)
        yield from self._decoder(t, stage)

    def _columns(
        self, weights: npt.NDArray[np.float32] | None, read: int
    ) -> list[Column]:
        """Return the words that are shown: the strongest in any step (cells: in this), or those
        around what is read.
        """
        own = states.token_words if (states := self.data.states) else ()
        shown = [
            *enumerate(self.data.source),
            *([(-1, words("(end)"))] if self.weights[:, -1].max() >= 0.005 else []),
        ]
        columns = [
            Column(
                text,
                0.0 if weights is None else float(weights[s]),
                tuple(i for i, w in enumerate(own) if w == s),
            )
            for s, text in shown
        ]
        now = next((i for i, column in enumerate(columns) if read in column.tokens), 0)
        # Whose states are handed over.
        ends = (0, len(columns) - 1) if states and states.is_all else ()
        largest = (
            np.zeros(len(shown))
            if weights is None
            else weights
            if self.data.image
            else self.weights.max(0)
        )
        ranks = [
            (i not in ends, -largest[s], abs(i - now), i)
            for i, (s, _) in enumerate(shown)
        ]
        return [columns[i] for i in sorted(i for *_, i in sorted(ranks)[:COLUMNS])]

    def _encoder(
        self, placed: Sequence[tuple[float, Column]], end: float
    ) -> Iterator[Mark]:
        layers = len(self.data.encoder_layers)
        yield Box(LEFT, 30, end - LEFT, 22, "s0", outline=1.0)
        name = (
            words("encoder: {count} layers of self-attention", count=layers)
            if layers
            else words("encoder")
        )
        yield Text(
            (LEFT + end) / 2, 45, elide(name, SIZE, end - LEFT), SIZE, "ink", "middle"
        )
        for x, _ in placed:
            yield from arrow((x, 52), (x, self.state), "muted")
            yield Box(x - 16, self.state, 32, STATE + 2, "s0", outline=1.0)

    def _states(
        self, placed: Sequence[tuple[float, Column]], width: float, read: int, lit: bool
    ) -> Iterator[Mark]:
        """Draw the states of a recurrent encoder, and, without attention, those that it hands
        over.
        """
        states = self.data.states
        assert states is not None, "a recurrent encoder has states"
        S = len(states.tokens)
        largest = float(np.abs(states.encoder[..., :NUMBERS]).max(initial=1e-9))
        for k in range(states.directions):
            y = self.state + STEP * k
            hue = "s2" if lit else "grid"
            for n, (x, column) in enumerate(placed):
                token = column.tokens[0 if k else -1] if column.tokens else 0
                is_read = lit or (S - 1 - token if k else token) <= read
                left = x - width / 2 + 5
                right = x + width / 2 - 5
                if is_read:
                    yield from _strip(
                        states.encoder[token, k, :NUMBERS],
                        left,
                        y,
                        right - left,
                        STATE,
                        largest,
                    )
                yield Box(
                    left,
                    y,
                    right - left,
                    STATE,
                    "rule" if is_read else "grid",
                    outline=1.0,
                )
                if n + 1 < len(placed):
                    ends = (right, y + STATE / 2), (right + 10, y + STATE / 2)
                    yield from arrow(
                        ends[k], ends[1 - k], "muted" if is_read else "grid"
                    )
            if not self.cross:
                x = placed[0 if k else -1][0]
                yield Box(
                    x - width / 2 + 3,
                    y - 2,
                    width - 6,
                    STATE + 4,
                    "link" if lit else "grid",
                    outline=2.0,
                )
                yield Polyline(((x, y + STATE + 2), (x, self.sum)), hue, 1.2)
                yield from arrow((x, self.sum), (RIGHT, self.sum), hue)
        if not self.cross:
            what = (
                "one vector, the last state"
                if states.directions == 1
                else "the last state of each direction"
            )
            text = words(f"{what}: all that the decoder gets of the source")
            yield Text(LEFT, self.sum + 24, text, SMALL, _pale("muted", lit))

    def _attention(
        self,
        placed: Sequence[tuple[float, Column]],
        end: float,
        t: int | None,
        stage: int,
    ) -> Iterator[Mark]:
        lit, weighed, summed = (
            t is not None and stage >= least for least in (SCORES, WEIGHTS, WORD)
        )
        unit = HIGH / (self.highest - self.lowest)
        zero = 0.0 if self.highest else self.lowest
        rows = [("scores e", self.score + 20, lit)] if self.scored else []
        ink = _pale("ink", weighed)
        rows += [
            ("weights α", self.weight + 24, weighed),
            ("context c", self.sum + 4, summed),
        ]
        yield from (
            Text(MARGIN, y, words(name), SMALL, _pale("muted", is_lit))
            for name, y, is_lit in rows
        )
        yield from arrow(
            (RIGHT, self.own + 12),
            (LEFT if self.scored else end, self.own + 12),
            _pale("s1", lit),
        )
        yield Text(end + 10, self.own + 7, words("query"), SMALL, _pale("ink", lit))
        for x, (_, w, _) in placed:
            target = self.score - 2 if self.scored else self.softmax
            yield from arrow((x, self.score - 36), (x, target), _pale("muted", lit))
            foot = self.weight + HIGH * (1 - w * weighed)
            yield Polyline(
                ((x, self.softmax + 20), (x, foot)), _pale("muted", weighed), 1.0
            )
            if self.scored and lit:
                score = float(self.sums[t or 0]) + (math.log(w) if w > 0 else -math.inf)
                text = (
                    "0"
                    if abs(score) < 0.05
                    else f"{score:.1f}".replace("-", "−").replace("inf", "∞")
                )
                top, low = sorted(
                    unit * (self.highest - max(self.lowest, value))
                    for value in (score, zero)
                )
                yield Box(x - BAR / 2, self.score + top, BAR, max(1.0, low - top), "s3")
                yield Text(x, self.score + HIGH + 14, text, SMALL, "muted", "middle")
            if weighed:
                shade = f"w{max(12, level(w))}"
                yield Box(x - BAR / 2, foot, BAR, max(1.0, HIGH * w), shade)
                yield Text(
                    x, self.weight + HIGH + 14, f"{w:.2f}", SMALL, "muted", "middle"
                )
                if w >= 0.005 and summed:
                    yield Polyline(
                        curve((x, self.weight + HIGH + 18), (end + 14, self.sum), 10),
                        shade,
                        0.6 + 5 * w,
                    )
        yield Box(LEFT, self.softmax, end - LEFT, 20, _pale("s3", weighed), outline=1.0)
        name = (
            "softmax"
            if self.scored
            else words(
                "{count} heads: scores and softmax, their mean", count=self.heads
            )
        )
        yield Text(
            (LEFT + end) / 2,
            self.softmax + 14,
            elide(name, SIZE, end - LEFT),
            SIZE,
            ink,
            "middle",
        )
        yield Text(end + 22, self.sum + 5, "Σ", 16.0, _pale("ink", summed), "middle")
        yield Text(end + 42, self.sum - 5, "c", SIZE, _pale("ink", summed))
        yield from arrow(
            (end + 32, self.sum), (RIGHT + 85, self.sum), _pale("s2", summed)
        )

    def _decoder(self, t: int | None, stage: int) -> Iterator[Mark]:
        lit = t is not None
        width = WIDTH - MARGIN - RIGHT
        middle = RIGHT + 85
        is_last = t is not None and stage == WORD
        step = self.data.steps[t].candidates if t is not None and is_last else ()
        chosen = (
            token_label(self.data.tokens[t])
            if t is not None and is_last
            else words("next word")
        )
        layers = sum(layer.role == "decoder" for layer in self.data.layers)
        name = words(
            "decoder: {count} layers"
            if layers
            else ""
            if self.data.states
            else "decoder",
            count=layers,
        )
        boxes = {0.0: self._word_before(t), self.own: name}
        late = {self.output: words("output layer, softmax"), self.next: chosen}
        late |= {self.output - 36: ""} if self.before else {}
        muted = _pale("muted", lit)
        last = _pale("muted", is_last)
        if not self.before:
            yield from arrow((middle, 24.0), (middle, self.own), muted)
        yield from arrow(
            (middle, self.own + 24), (middle, self.output - 36 * self.before), last
        )
        yield from self._own_state(None if t is None else t - self.before, self.own)
        if self.data.states is not None and not self.before:  # the recurrence
            yield Text(
                RIGHT - 8, self.own - 22, words("state before"), SMALL, muted, "end"
            )
            yield from self._own_state(
                None if t is None else t - 1, self.own - 33, STATE, width / 2 - 10
            )
            yield Box(
                RIGHT,
                self.own - 33,
                width / 2 - 10,
                STATE,
                _pale("s1", lit),
                outline=1.0,
            )
            yield from arrow(
                (RIGHT + 35, self.own - 33 + STATE), (RIGHT + 35, self.own), muted
            )
        # The word before enters the new state, not the one that attends.
        if self.before:
            yield Polyline(
                (
                    (WIDTH - MARGIN, 12.0),
                    (WIDTH - 10, 12.0),
                    (WIDTH - 10, self.output - 24),
                ),
                last,
                1.0,
            )
            yield from arrow(
                (WIDTH - 10, self.output - 24), (WIDTH - MARGIN, self.output - 24), last
            )
            yield from arrow((middle, self.output - 12), (middle, self.output), last)
            yield from self._own_state(t if is_last else None, self.output - 36)
        for y, text in (boxes | late).items():
            shown = is_last if y in late else lit
            yield Box(
                RIGHT,
                y,
                width,
                24,
                _pale("s1", shown),
                outline=2.0 if y == self.next else 1.0,
            )
            yield Text(
                middle,
                y + 16,
                elide(text, SIZE, width - 10),
                SIZE,
                _pale("ink", shown),
                "middle",
            )
        yield Text(RIGHT - 8, 16, words("word before"), SMALL, muted, "end")
        yield Text(
            RIGHT - 8,
            self.own + 26,
            words("state before" if self.before else "state"),
            SMALL,
            muted,
            "end",
        )
        for i, (token, probability, is_chosen) in enumerate(step):
            y = self.output + 30 + 20 * i
            text = elide(token_label(token), SIZE, 58.0)
            yield Text(
                RIGHT + 60, y + 12, text, SIZE, "ink" if is_chosen else "muted", "end"
            )
            yield Box(
                RIGHT + 66,
                y,
                max(1.0, probability * (width - 116)),
                14.0,
                "w70" if is_chosen else "w30",
            )
            yield Text(
                RIGHT + width,
                y + 12,
                f"{100 * probability:.1f} %",
                SMALL,
                "muted",
                "end",
            )

    def _word_before(self, t: int | None) -> str:
        """Join the tokens, as far as they are written, of the word that the token before step t
        belongs to.
        """
        owners = self.data.target_words[: t or 0]
        tokens = [
            token
            for token, owner in zip(self.data.tokens, owners, strict=False)
            if owner == owners[-1]
        ]
        return token_label("".join(tokens)) if tokens else words("(start)")

    def _own_state(
        self, t: int | None, y: float, height: float = 24.0, width: float = 170.0
    ) -> Iterator[Mark]:
        """Draw the numbers of a recurrent decoder's state: that of step t, or, of −1, the first
        one.
        """
        states = self.data.states
        if (
            states is not None
            and t is not None
            and (t >= 0 or states.initial is not None)
        ):
            vector = (
                states.initial
                if t < 0 and states.initial is not None
                else states.decoder[t]
            )[: 2 * NUMBERS]
            yield from _strip(
                vector, RIGHT, y, width, height, float(np.abs(vector).max(initial=1e-9))
            )


def _pale(paint: str, lit: bool) -> str:
    return paint if lit else "grid"


def _strip(
    vector: npt.NDArray[np.float32],
    x: float,
    y: float,
    width: float,
    height: float,
    largest: float,
) -> Iterator[Box]:
    """Draw a vector, in colours that diverge from 0."""
    cell = width / len(vector)
    for number, value in enumerate(vector.tolist()):
        paint = signed_paint(value / max(largest, 1e-9))
        yield Box(
            x + number * cell, y, cell, height, paint, f"{value:.2f}".replace("-", "−")
        )
