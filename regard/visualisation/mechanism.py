"""Diagram of how a model computes the next word: words, encoder states, scores, softmax, weighted
sum, decoder state, and output.

The layout is the same in all frames of the player; whatever a step has not computed yet is pale.
assets/mechanism.js draws the same diagram.
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
from regard.visualisation.fonts import elide, measure, wrap
from regard.visualisation.language import words
from regard.visualisation.screen import screen_width

WIDTH = 760.0
LEFT = MARGIN + 80  # left edge of the source columns
ROOM = 400.0  # pixels for all source columns
OWN = 170.0  # pixels: width of the decoder
NARROW_LEFT = 6.0  # left edge of the source columns on a small screen
NARROW_OWN = 122.0  # pixels: width of the decoder on a small screen
NARROW_EDGE = 14.0  # pixels right of the decoder on a small screen
BESIDE = 42.0  # pixels between columns and decoder on a small screen, for the names of the rows
COLUMNS = 6  # largest number of source columns
WIDEST = 92.0  # pixels of the widest column
SIZE = 13.0  # text size
SMALL = 11.5  # text size
WORD_SIZE = 10.5  # text size of words and names on a small screen
NUMBERS = 32  # numbers of a state vector that are drawn
STATE = 14.0  # pixels: height of a state
STEP = 18.0  # pixels: height of the row of a state
BAR = 28.0  # pixels: width of a bar
HIGH = 34.0  # pixels: greatest height of a bar
RAISED, SLANTED = 30.0, 56.0  # pixels: height and length of slanted words
SCORES, WEIGHTS, WORD = range(3)
"""Stages of a decoding step with attention: query and scores; softmax and weights; weighted sum,
state and word.
"""
# Lower end of the axis if scores were not recorded and the highest one is drawn as 0: exp(−6.9) is
# a thousandth.
LEAST = -6.9


class Column(NamedTuple):
    """A source word with its attention weight and the indices of its tokens in the encoder's
    input.
    """

    text: str
    weight: float
    tokens: tuple[int, ...]


def diagram_width() -> float:
    """Return the width of the diagram: that of a small screen, if figures are drawn for one."""
    return screen_width() or WIDTH


class Diagram:
    """Layout of the diagram, the same in every frame: y-coordinates of its rows, in pixels.

    Scores are drawn for a single head, not for a mean of heads. If they were not recorded, the
    logarithms of the weights stand in for them. `numbers`: how many of a state are drawn, of the
    decoder twice as many. `is_still`: the diagram of a single step, with the words that have the
    largest weights in it, and the sum of the others. `attends_first`: the decoder attends with its
    previous state, and the context vector enters its next state (Bahdanau et al. 2015).
    """

    def __init__(
        self, data: ExplanationData, numbers: int = NUMBERS, is_still: bool = False
    ) -> None:
        self.is_narrow = bool(screen_width())
        self.own = NARROW_OWN if self.is_narrow else OWN
        self.edge = diagram_width() - (NARROW_EDGE if self.is_narrow else MARGIN)
        self.right = self.edge - self.own
        self.left = NARROW_LEFT if self.is_narrow else LEFT
        self.room = self.right - BESIDE - self.left if self.is_narrow else ROOM
        self.data = data
        self.numbers = numbers
        self.is_still = is_still
        self.has_attention = data.has_cross_attention
        self._read_weights()

        states = data.states
        has_one_head = self.heads == 1 or data.shown_head.head is not None
        self.shows_scores = self.has_attention and has_one_head
        self.attends_first = (
            self.has_attention and states is not None and states.order == "bahdanau"
        )

        self.raised = RAISED * self._is_slanted()
        self.state = (32.0 if states else 66.0) + self.raised
        bottom = self.state + STEP * (states.directions if states else 1)
        self.score = bottom + 40
        self.softmax = self.score + 58 if self.shows_scores else bottom + 36
        self.weight = self.softmax + 30
        self.sum = self.weight + 78 if self.has_attention else bottom + 40
        if not self.has_attention:
            self.decoder = self.sum - 12
        elif self.shows_scores:
            self.decoder = self.score - 22
        else:
            self.decoder = self.softmax + 20 - 22
        self.output = self.sum + (70 if self.attends_first else 34)
        most_candidates = max(len(step.candidates) for step in data.steps)
        self.next = self.output + 30 + 20 * most_candidates
        self.height = self.next + 28

    def _is_slanted(self) -> bool:
        """Return True on a small screen if a word is wider than its column."""
        count = min(COLUMNS, len(self.data.source) + 1)
        room = min(WIDEST, self.room / count) - 2
        widest = max(measure(word, WORD_SIZE) for word in self.data.source)
        return self.is_narrow and widest > room

    def _read_weights(self) -> None:
        """Set the weights (P, S + 1) of the shown head, the logarithms of its softmax sums, and the
        range of its scores. The last column is the weight on the end of the sentence.
        """
        head = self.data.shown_head.head
        if self.has_attention:
            layer = self.data.layers[self.data.shown_head.layer]
            weights = np.dstack([layer.weights, layer.special_weights])
            log_sums = layer.log_sums
            self.heads = len(weights)
        else:
            weights = np.full((1, 1, 1), self.data.states is not None)
            log_sums = None
            self.heads = 0
        self.weights = weights.mean(0) if head is None else weights[head]

        if log_sums is None:
            self.log_sums = -np.log(np.maximum(self.weights.max(1), 1e-30))
            self.lowest = LEAST
            self.highest = 0.0
            return
        self.log_sums = log_sums[head or 0]
        log_weights = np.log(np.maximum(self.weights, 1e-30))
        scores = log_weights + self.log_sums[: len(self.weights), None]
        scores = scores[self.weights > 0]
        self.lowest = float(scores.min(initial=0))
        self.highest = float(scores.max(initial=0.1))

    def marks(self, read: int, t: int | None, stage: int = WORD) -> Iterator[Mark]:
        """Draw the model at step `read` of the encoder, or at a stage of step `t` of the decoder if
        `t` is not None.
        """
        states = self.data.states
        weights = self.weights[t] if self.has_attention and t is not None else None
        columns = self._columns(weights, read)
        width = min(WIDEST, self.room / len(columns))
        end = self.left + min(self.room, WIDEST * len(columns))
        placed = [
            (self.left + (number + 0.5) * width, column)
            for number, column in enumerate(columns)
        ]

        beside = self._beside(end)
        yield Text(beside, self.state + 11, words("states h"), SMALL, "muted")
        name = "" if self.is_narrow else words("cells" if self.data.image else "words")
        hidden = len(self.data.source) - sum(
            c.text in self.data.source for c in columns
        )
        if hidden > 0:
            name += f" (+{hidden})"
        yield Text(beside, 16 + self.raised, name, SMALL, "muted")
        size = WORD_SIZE if self.is_narrow else SIZE
        for x, column in placed:
            if self.raised:
                text = elide(column.text, size, SLANTED)
                yield Text(x - 3, 16 + self.raised, text, size, turn=45.0)
            else:
                text = elide(column.text, size, width - (2 if self.is_narrow else 4))
                yield Text(x, 16, text, size, "ink", "middle")

        if states is None:
            yield from self._encoder(placed, end)
        else:
            yield from self._states(placed, width, read, t is not None)
        if self.has_attention:
            yield from self._attention(placed, end, t, stage)
        yield from self._decoder(t, stage)

    def _beside(self, end: float) -> float:
        """Return the left edge of the names of rows, whose columns reach to `end`."""
        return end + 7 if self.is_narrow else MARGIN

    def _columns(
        self, weights: npt.NDArray[np.float32] | None, read: int
    ) -> list[Column]:
        """Return the source words to draw, at most COLUMNS of them, in their order.

        Words whose states are handed over to the decoder come first, then those with the largest
        weight in any step (cells of an image, and words of a still: in this step), then those near
        the token `read`.
        """
        states = self.data.states
        token_words = states.token_words if states else ()
        texts = list(enumerate(self.data.source))
        if self.weights[:, -1].max() >= 0.005:
            texts.append((-1, words("(end)")))
        columns = []
        for source_word, text in texts:
            weight = 0.0 if weights is None else float(weights[source_word])
            tokens = [i for i, word in enumerate(token_words) if word == source_word]
            columns.append(Column(text, weight, tuple(tokens)))

        being_read = next((i for i, c in enumerate(columns) if read in c.tokens), 0)
        handed_over = (0, len(columns) - 1) if states and states.is_all else ()
        largest: npt.NDArray[np.float32]
        if weights is None:
            largest = np.zeros(len(columns), np.float32)
        elif self.data.image or self.is_still:
            largest = weights
        else:
            largest = self.weights.max(0)

        def rank(number: int) -> tuple[bool, float, int, int]:
            distance = abs(number - being_read)
            return number not in handed_over, -largest[number], distance, number

        chosen = sorted(range(len(columns)), key=rank)[:COLUMNS]
        return [columns[number] for number in sorted(chosen)]

    def _encoder(
        self, placed: Sequence[tuple[float, Column]], end: float
    ) -> Iterator[Mark]:
        """Draw an encoder without recurrence: one box over all columns, and a state below each."""
        layers = len(self.data.encoder_layers)
        if layers:
            name = words("encoder: {count} layers of self-attention", count=layers)
        else:
            name = words("encoder")
        middle = (self.left + end) / 2
        yield Box(self.left, 30 + self.raised, end - self.left, 22, "s0", outline=1.0)
        yield Text(
            middle,
            45 + self.raised,
            elide(name, SIZE, end - self.left),
            SIZE,
            "ink",
            "middle",
        )
        for x, _ in placed:
            yield from arrow((x, 52 + self.raised), (x, self.state), "muted")
            yield Box(x - 16, self.state, 32, STATE + 2, "s0", outline=1.0)

    def _states(
        self, placed: Sequence[tuple[float, Column]], width: float, read: int, lit: bool
    ) -> Iterator[Mark]:
        """Draw the states of a recurrent encoder; without attention, also mark the states that are
        handed over to the decoder.

        Only states up to step `read` are drawn, or all of them if `lit`.
        """
        states = self.data.states
        assert states is not None, "a recurrent encoder has states"
        S = len(states.tokens)
        largest = float(np.abs(states.encoder[..., : self.numbers]).max(initial=1e-9))
        for direction in range(states.directions):
            y = self.state + STEP * direction
            hue = "s2" if lit else "grid"
            for number, (x, column) in enumerate(placed):
                # The state of a word is that after its last token in reading order.
                token = 0
                if column.tokens:
                    token = column.tokens[0 if direction else -1]
                reading_step = S - 1 - token if direction else token
                is_read = lit or reading_step <= read
                left = x - width / 2 + 5
                right = x + width / 2 - 5
                size = right - left
                if is_read:
                    vector = states.encoder[token, direction, : self.numbers]
                    yield from _strip(vector, left, y, size, STATE, largest)
                frame = "rule" if is_read else "grid"
                yield Box(left, y, size, STATE, frame, outline=1.0)
                if number + 1 < len(placed):
                    ends = (right, y + STATE / 2), (right + 10, y + STATE / 2)
                    paint = "muted" if is_read else "grid"
                    yield from arrow(ends[direction], ends[1 - direction], paint)

            if not self.has_attention:
                x = placed[0 if direction else -1][0]
                left = x - width / 2 + 3
                frame = "link" if lit else "grid"
                yield Box(left, y - 2, width - 6, STATE + 4, frame, outline=2.0)
                yield Polyline(((x, y + STATE + 2), (x, self.sum)), hue, 1.2)
                yield from arrow((x, self.sum), (self.right, self.sum), hue)

        if not self.has_attention:
            if states.directions == 1:
                handed_over = "one vector, the last state"
            else:
                handed_over = "the last state of each direction"
            text = words(f"{handed_over}: all that the decoder gets of the source")
            room = self.right - self.left - 4
            lines = wrap(text, SMALL, room) if self.is_narrow else [text]
            for number, line in enumerate(lines):
                y = self.sum + 24 + 15 * number
                yield Text(self.left, y, line, SMALL, _pale("muted", lit))

    def _attention(
        self,
        placed: Sequence[tuple[float, Column]],
        end: float,
        t: int | None,
        stage: int,
    ) -> Iterator[Mark]:
        """Draw query, scores, softmax, weights and context vector, as far as the stage computes
        them.
        """
        has_scores = t is not None and stage >= SCORES
        has_weights = t is not None and stage >= WEIGHTS
        has_context = t is not None and stage >= WORD
        rows = []
        if self.shows_scores:
            rows.append(("scores e", self.score + 20, has_scores))
        rows.append(("weights α", self.weight + 24, has_weights))
        if not self.is_narrow:
            rows.append(("context c", self.sum + 4, has_context))
        for name, y, is_lit in rows:
            yield Text(self._beside(end), y, words(name), SMALL, _pale("muted", is_lit))

        query = self.decoder + 12
        query_end = self.left if self.shows_scores else end
        yield from arrow(
            (self.right, query), (query_end, query), _pale("s1", has_scores)
        )
        ink = _pale("ink", has_scores)
        yield Text(end + 10, self.decoder + 7, words("query"), SMALL, ink)

        target = self.score - 2 if self.shows_scores else self.softmax
        for x, column in placed:
            weight = column.weight
            paint = _pale("muted", has_scores)
            yield from arrow((x, self.score - 36), (x, target), paint)
            foot = self.weight + HIGH * (1 - weight * has_weights)
            stem = (x, self.softmax + 20), (x, foot)
            yield Polyline(stem, _pale("muted", has_weights), 1.0)
            if self.shows_scores and has_scores:
                yield from self._score(x, t or 0, weight)
            if has_weights:
                shade = f"w{max(12, level(weight))}"
                bar = max(1.0, HIGH * weight)
                below = self.weight + HIGH
                yield Box(x - BAR / 2, foot, BAR, bar, shade)
                yield Text(x, below + 14, f"{weight:.2f}", SMALL, "muted", "middle")
                if weight >= 0.005 and has_context:
                    points = curve((x, below + 18), (end + 14, self.sum), 10)
                    yield Polyline(points, shade, 0.6 + 5 * weight)

        if self.is_still and t is not None:
            yield from self._other_weights(placed, t, self._beside(end))
        yield from self._softmax(end, has_weights)
        ink = _pale("ink", has_context)
        yield Text(end + 22, self.sum + 5, "Σ", 16.0, ink, "middle")
        yield Text(end + 42, self.sum - 5, "c", SIZE, ink)
        context = (end + 32, self.sum), (self.right + self.own / 2, self.sum)
        yield from arrow(*context, _pale("s2", has_context))

    def _other_weights(
        self, placed: Sequence[tuple[float, Column]], t: int, x: float
    ) -> Iterator[Mark]:
        """Write the sum of the weights that have no column."""
        others = float(self.weights[t].sum()) - sum(c.weight for _, c in placed)
        if others >= 0.005:
            text = words("others {weight}", weight=f"{others:.2f}")
            yield Text(x, self.weight + HIGH + 14, text, SMALL, "muted")

    def _score(self, x: float, t: int, weight: float) -> Iterator[Mark]:
        """Draw the score of a column as a bar from zero, with its number."""
        score = float(self.log_sums[t]) + (
            math.log(weight) if weight > 0 else -math.inf
        )
        number = "0" if abs(score) < 0.05 else f"{score:.1f}"
        text = number.replace("-", "−").replace("inf", "∞")
        unit = HIGH / (self.highest - self.lowest)
        zero = 0.0 if self.highest else self.lowest
        top, low = sorted(
            unit * (self.highest - max(self.lowest, value)) for value in (score, zero)
        )
        yield Box(x - BAR / 2, self.score + top, BAR, max(1.0, low - top), "s3")
        yield Text(x, self.score + HIGH + 14, text, SMALL, "muted", "middle")

    def _softmax(self, end: float, lit: bool) -> Iterator[Mark]:
        """Draw the box of the softmax over all columns."""
        name = "softmax"
        if not self.shows_scores:
            text = "{count} heads: scores and softmax, their mean"
            name = words(text, count=self.heads)
        width = end - self.left
        x = (self.left + end) / 2
        text = elide(name, SIZE, width)
        yield Box(self.left, self.softmax, width, 20, _pale("s3", lit), outline=1.0)
        yield Text(x, self.softmax + 14, text, SIZE, _pale("ink", lit), "middle")

    def _decoder(self, t: int | None, stage: int) -> Iterator[Mark]:
        """Draw the decoder with its arrows and states, its output, and the candidates for the next
        token.
        """
        lit = t is not None
        has_word = t is not None and stage == WORD
        yield from self._decoder_arrows(t, has_word)

        middle = self.right + self.own / 2
        width = self.own
        layers = sum(layer.role == "decoder" for layer in self.data.layers)
        if layers:
            name = words("decoder: {count} layers", count=layers)
        else:
            name = "" if self.data.states else words("decoder")
        next_word = words("next word")
        if t is not None and has_word:
            next_word = token_label(self.data.tokens[t])
        boxes = [
            (0.0, self._previous_word(t), lit),
            (self.decoder, name, lit),
            (self.output, words("output layer, softmax"), has_word),
            (self.next, next_word, has_word),
        ]
        if self.attends_first:
            boxes.append((self.output - 36, "", has_word))
        for y, text, is_lit in boxes:
            outline = 2.0 if y == self.next else 1.0
            paint = _pale("s1", is_lit)
            label = elide(text, SIZE, width - 10)
            yield Box(self.right, y, width, 24, paint, outline=outline)
            yield Text(middle, y + 16, label, SIZE, _pale("ink", is_lit), "middle")

        muted = _pale("muted", lit)
        state = words("state before" if self.attends_first else "state")
        yield self._decoder_name(words("word before"), (16, 38), muted)
        yield self._decoder_name(state, (self.decoder + 26, self.decoder - 4), muted)
        if t is not None and has_word:
            yield from self._candidates(t, width)

    def _decoder_name(
        self, name: str, baselines: tuple[float, float], paint: str
    ) -> Text:
        """Write the name of a box of the decoder at its left; on a small screen, at the second of
        two baselines, beside its arrow.
        """
        if self.is_narrow:
            x = self.right + self.own / 2 + 5
            return Text(x, baselines[1], name, WORD_SIZE, paint)
        return Text(self.right - 8, baselines[0], name, SMALL, paint, "end")

    def _decoder_arrows(self, t: int | None, has_word: bool) -> Iterator[Mark]:
        """Draw the path from the previous word through the decoder's state to the output layer."""
        middle = self.right + self.own / 2
        muted = _pale("muted", t is not None)
        output_paint = _pale("muted", has_word)
        if not self.attends_first:
            yield from arrow((middle, 24.0), (middle, self.decoder), muted)
        state_end = self.output - 36 * self.attends_first
        yield from arrow((middle, self.decoder + 24), (middle, state_end), output_paint)
        state_step = None if t is None else t - self.attends_first
        yield from self._decoder_state(state_step, self.decoder)

        if self.data.states is not None and not self.attends_first:
            yield from self._previous_state(t)
        if self.attends_first:
            # The previous word enters the new state, not the state that attends.
            right = self.edge
            beside = right + 8
            y = self.output - 24
            path = ((right, 12.0), (beside, 12.0), (beside, y))
            yield Polyline(path, output_paint, 1.0)
            yield from arrow((beside, y), (right, y), output_paint)
            output = (middle, self.output - 12), (middle, self.output)
            yield from arrow(*output, output_paint)
            yield from self._decoder_state(t if has_word else None, self.output - 36)

    def _previous_state(self, t: int | None) -> Iterator[Mark]:
        """Draw the state of the step before, which a recurrent decoder starts from."""
        lit = t is not None
        muted = _pale("muted", lit)
        top = self.decoder - 33
        width = self.own / 2 - 10
        baseline = self.decoder - 22
        yield self._decoder_name(words("state before"), (baseline, baseline), muted)
        yield from self._decoder_state(None if t is None else t - 1, top, STATE, width)
        yield Box(self.right, top, width, STATE, _pale("s1", lit), outline=1.0)
        yield from arrow(
            (self.right + 35, top + STATE), (self.right + 35, self.decoder), muted
        )

    def _candidates(self, t: int, width: float) -> Iterator[Mark]:
        """Draw the candidates for the next token of step t, with their probabilities as bars."""
        room = 54.0 if self.is_narrow else 58.0
        size = SMALL if self.is_narrow else SIZE
        for number, candidate in enumerate(self.data.steps[t].candidates):
            token, probability, is_chosen = candidate
            y = self.output + 30 + 20 * number
            text = elide(token_label(token), size, room)
            ink = "ink" if is_chosen else "muted"
            bar = max(1.0, probability * (width - room - 58 + 8 * self.is_narrow))
            shade = "w70" if is_chosen else "w30"
            percent = f"{100 * probability:.1f} %"
            yield Text(self.right + room + 2, y + 12, text, size, ink, "end")
            yield Box(self.right + room + 8, y, bar, 14.0, shade)
            yield Text(self.right + width, y + 12, percent, SMALL, "muted", "end")

    def _previous_word(self, t: int | None) -> str:
        """Return the word that the token before step t belongs to, as far as it is written."""
        token_words = self.data.target_words[: t or 0]
        tokens = [
            token
            for token, word in zip(self.data.tokens, token_words, strict=False)
            if word == token_words[-1]
        ]
        return token_label("".join(tokens)) if tokens else words("(start)")

    def _decoder_state(
        self, t: int | None, y: float, height: float = 24.0, width: float = 0.0
    ) -> Iterator[Mark]:
        """Draw a recurrent decoder's state at step t; its initial state if t is −1 and that was
        recorded; nothing if t is None.
        """
        states = self.data.states
        if states is None or t is None:
            return
        if t >= 0:
            vector = states.decoder[t]
        elif states.initial is not None:
            vector = states.initial
        else:
            return
        vector = vector[: 2 * self.numbers]
        largest = float(np.abs(vector).max(initial=1e-9))
        yield from _strip(vector, self.right, y, width or self.own, height, largest)


def _pale(paint: str, lit: bool) -> str:
    """Return a paint, or the pale one for what has not been computed yet."""
    return paint if lit else "grid"


def _strip(
    vector: npt.NDArray[np.float32],
    x: float,
    y: float,
    width: float,
    height: float,
    largest: float,
) -> Iterator[Box]:
    """Draw a vector as a row of cells whose colours diverge from 0."""
    cell = width / len(vector)
    for number, value in enumerate(vector.tolist()):
        paint = signed_paint(value / max(largest, 1e-9))
        hint = f"{value:.2f}".replace("-", "−")
        yield Box(x + number * cell, y, cell, height, paint, hint)
