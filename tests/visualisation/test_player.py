"""Animated explanations as GIF and SVG, and the heads of a layer side by side."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import assert_inside, boxes_of, lines_of, marks_of, texts_of, words_of

from regard.common.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Heads, save
from regard.visualisation.explanation_data import ShownHead
from regard.visualisation.figure import MARGIN, Box, Figure
from regard.visualisation.fonts import measure
from regard.visualisation.head_grid import layout_heads
from regard.visualisation.language import LANGUAGE
from regard.visualisation.mechanism import HIGH, LEAST, WIDTH, Diagram
from regard.visualisation.player import HEADING_SIZE, layout_frames
from regard.visualisation.screen import figures_within
from regard.visualisation.states import States
from regard.visualisation.text import is_korean

SVG = "{http://www.w3.org/2000/svg}"
STAGES = 3


"""Frames of the first token."""
PIECES: Any = {
    "tokens": ("▁bu", "ild", "▁", "b", "</s>"),
    "target_words": (0, 0, 1, 1, -1),
}
Explain = Callable[..., ExplanationData]


def filled_boxes(figure: Figure, paint: str) -> list[Box]:
    """Return the bars of the mechanism whose paint begins so."""
    boxes = boxes_of(figure, "mechanism")
    return [box for box in boxes if box.paint.startswith(paint) and not box.outline]


def with_states(
    explained: ExplanationData, other: ExplanationData, **changes: Any
) -> Any:
    """Return an explanation with attention and with the states of another one."""
    assert other.states is not None

    states = replace(other.states, is_all=False, **changes)
    return replace(explained, source=other.source, states=states)


@pytest.mark.parametrize("words", [1, 40])
def test_frames_have_one_size_and_contain_all_marks(
    explanation: Explain, words: int
) -> None:
    frames = layout_frames(explanation(words, 2, 1))
    layers = 1
    assert len(frames) == layers + STAGES + words
    assert len({(figure.width, figure.height) for figure in frames}) == 1

    for figure in frames:
        assert_inside(figure)


def test_a_frame_shows_attention_candidates_output_and_tree(
    explanation: Explain,
) -> None:
    explained = explanation(5, 2, 1)
    second = layout_frames(explained)[1 + STAGES]
    assert words_of(second, "output")[1:] == list(explained.target[:2])

    mechanism = words_of(second, "mechanism")
    assert {"softmax", "scores e", *explained.source} <= {*mechanism}
    assert mechanism[-3:] == ["75.0 %", "lost", "12.5 %"]
    assert explained.target[1] in mechanism, "the next word"

    tree = [explained.target[0], "lost", explained.target[1], "lost"]
    assert words_of(second, "tree")[1:] == tree

    weights = explained.shown_weights()[1].tolist()
    weights.append(1 - sum(weights))  # on the start and the end
    assert "(end)" in mechanism

    shown = [text for text in mechanism if text.startswith("0.")]
    assert shown == [f"{weight:.2f}" for weight in weights]

    heights = [box.height for box in filled_boxes(second, "w")]
    expected = [max(1.0, HIGH * weight) for weight in weights]
    without_candidates = heights[:-2]

    assert without_candidates == pytest.approx(expected)

    mean = replace(explained, shown_head=ShownHead(0, None))
    words = words_of(layout_frames(mean)[1 + STAGES], "mechanism")
    assert "2 heads: scores and softmax, their mean" in words
    assert "scores e" not in words


def test_tokens_are_joined_to_words_and_stay_off_each_other(
    explanation: Explain,
) -> None:
    frames = layout_frames(replace(explanation(4, 2, 1), **PIECES))[STAGES:]
    before = []
    for figure in frames:
        texts = texts_of(figure, "mechanism")
        (label,) = (text for text in texts if text.text == "word before")
        before += [
            text.text for text in texts if text.y == label.y and text.x > label.x
        ]

    assert before == ["(start)", "bu", "build", "(space)", "b"]

    for t, figure in enumerate(frames[:-1]):
        _, *earlier, own = texts_of(figure, "output")
        (frame,) = boxes_of(figure, "output")
        written = [text.text for text in (*earlier, own)]

        assert written == ["bu", "ild", "", "b"][: t + 1], "a space is not a word"

        for text in earlier:
            assert text.x + measure(text.text, text.size) / 2.2 < frame.x
        assert frame.x < own.x - measure(own.text, own.size) / 2.2


def test_the_cells_that_a_word_attends_to_are_drawn(
    caption_explanation: Explain,
) -> None:
    explained = caption_explanation()
    names = words_of(layout_frames(explained)[0], "mechanism")
    assert any(name.startswith("cells") for name in names)
    assert not any(name.startswith("words") for name in names)

    cross, *others = explained.attention
    cells = [11, 4, 8, 0]
    weights = np.full_like(cross.weights, 0.01)
    weights[:, range(4), cells] = 0.89
    attention = (replace(cross, weights=weights), *others)
    diagram = Diagram(replace(explained, attention=attention))
    for t, cell in enumerate(cells):
        texts = {getattr(mark, "text", "") for mark in diagram.marks(0, t)}
        assert explained.source[cell] in texts
        assert len(texts & {*explained.source}) == 6


@pytest.mark.parametrize("has_attention", [True, False])
def test_frames_fit_a_phone(explanation: Explain, has_attention: bool) -> None:
    explained = explanation(5, 2, 1)
    if not has_attention:
        explained = replace(explained, attention=())
    with figures_within(366.0):
        for figure in layout_frames(explained):
            assert figure.width == 366
            assert_inside(figure)


def test_columns_stay_the_same_while_words_are_written(explanation: Explain) -> None:
    explained = replace(explanation(12, 1, 1), source=tuple("abcdefghijkl"))
    rows = []
    for frame in layout_frames(explained)[1:]:
        texts = texts_of(frame, "mechanism")
        (y,) = (text.y for text in texts if text.text == "words (+7)")
        row = [text.text for text in texts if text.y == y and text.anchor == "middle"]
        rows.append(row[:-1])

    assert len(rows) == STAGES + 12
    assert all(row == rows[0] for row in rows)

    weights = explained.layers[0].weights[0]
    on_end = (1 - weights.sum(1)).max()
    strongest = np.argsort(-np.append(weights.max(0), on_end))[:6]

    assert rows[0] == [[*"abcdefghijkl", "(end)"][s] for s in sorted(strongest)]


@pytest.mark.parametrize("directions", [1, 2])
def test_the_states_that_are_handed_over_stay_in_view(
    without_attention: ExplanationData, directions: int
) -> None:
    words = tuple("abcdefgh")
    assert without_attention.states is not None

    numbers = np.linspace(-1, 1, 9 * directions * 4, dtype=np.float32)
    encoder = numbers.reshape(9, directions, 4)
    states = States((*words, "</s>"), encoder, without_attention.states.decoder, True)
    for frame in layout_frames(replace(without_attention, source=words, states=states)):
        texts = texts_of(frame, "mechanism") or texts_of(frame, "encoder")
        y = next(text.y for text in texts if text.text.startswith("words"))
        row = [
            text.text
            for text in texts
            if text.y == y and text.text in (*words, "(end)")
        ]

        assert (len(row), row[0], row[-1]) == (6, "a", "(end)")


def test_with_the_order_of_bahdanau_the_context_enters_the_next_state(
    explanation: Explain, without_attention: ExplanationData
) -> None:
    initial = np.full(5, 0.25, np.float32)
    bahdanau, luong = (
        layout_frames(with_states(explanation(2, 1, 1), without_attention, **changes))[
            3
        ]
        for changes in ({"order": "bahdanau", "initial": initial}, {"order": "luong"})
    )

    assert "state before" in words_of(bahdanau, "mechanism")
    assert {"state", "scores e"} <= {*words_of(luong, "mechanism")}

    hints = [box.hint for box in boxes_of(bahdanau, "mechanism")]
    assert hints.count("0.25") == 5, "the first state asks first"


@pytest.mark.parametrize(
    ("order", "language"), [("bahdanau", "ko"), ("luong", "en"), ("", "en")]
)
def test_the_first_word_comes_in_stages_each_of_which_adds_marks(
    explanation: Explain,
    without_attention: ExplanationData,
    order: str,
    language: Literal["en", "ko"],
) -> None:
    data = explanation(2, 1, 1)
    if order:
        data = with_states(data, without_attention, order=order)
    reset = LANGUAGE.set(language)
    try:
        frames = layout_frames(data)[data.encoding_steps :]
    finally:
        LANGUAGE.reset(reset)

    assert len(frames) == STAGES + 2

    stages = frames[:STAGES]
    statuses = [words_of(frame, "mechanism")[0] for frame in stages]
    assert len({*statuses}) == STAGES

    for frame, text in zip(stages, statuses, strict=True):
        assert frame.description.endswith(text)
        assert is_korean(text) == (language == "ko")
        assert measure(text, HEADING_SIZE) < WIDTH - 2 * MARGIN, "it stays on its line"

    # Scores come first, then weights, and at last the word with its tree.
    drawn: set[object] = set()
    for stage, frame in enumerate(stages):
        _, *marks = marks_of(frame, "mechanism")
        shown = {mark for mark in marks if getattr(mark, "paint", "") != "grid"}
        assert drawn < shown, "what one stage shows stays"

        drawn = shown

        assert filled_boxes(frame, "s3")
        assert bool(filled_boxes(frame, "w")) == (stage > 0)

        is_last = stage == STAGES - 1
        assert (data.target[0] in words_of(frame, "mechanism")) == is_last

        results = marks_of(frame, "output") + marks_of(frame, "tree")
        assert (len(results) > 2) == is_last


def test_states_that_the_decoder_reads_are_outlined(
    explanation: Explain, without_attention: ExplanationData
) -> None:
    plain = layout_frames(without_attention)[2]
    assert "outlined" in plain.description

    of_each_direction_and_the_next_word = [
        box for box in boxes_of(plain) if box.outline == 2.0
    ]

    assert len(of_each_direction_and_the_next_word) == 2 + 1

    data = with_states(explanation(2, 1, 1), without_attention, order="luong")
    attended = layout_frames(data)[2]
    assert attended.description.endswith(
        "the decoder can attend to each of these states"
    )


def test_recorded_scores_are_written_as_they_are(explanation: Explain) -> None:
    """A score is the logarithm of its weight, plus the sum that softmax divides by; unrecorded, the
    highest is 0.
    """
    explained = explanation(5, 2, 1)
    sums = np.arange(12.0).reshape(2, 6) - 5
    cross, *others = explained.attention
    for log_sums in (sums, None):
        scores = None
        if log_sums is not None:
            scores = np.log(cross.weights) + log_sums[..., None]
        attention = (replace(cross, scores=scores), *others)
        data = replace(explained, attention=attention, shown_head=ShownHead(0, 1))
        layer = data.layers[0]
        frame = layout_frames(data)[1 + STAGES + 1]
        diagram = Diagram(data)
        texts = texts_of(frame, "mechanism")
        (soft,) = (text.y for text in texts if text.text == "softmax")
        y = soft - diagram.softmax + diagram.score + HIGH
        written = []
        for text in texts:
            if abs(text.y - y) < 0.01:
                written.append(float(text.text.replace("−", "-")))

        weights = np.append(layer.weights[1, 2], layer.special_weights[1, 2])
        highest = np.log(weights.max())
        scores = np.log(weights) + (-highest if log_sums is None else log_sums[1, 2])

        np.testing.assert_allclose(written, scores, atol=0.051)

        heights = np.array([bar.height for bar in filled_boxes(frame, "s3")])
        if log_sums is None:  # bars begin at the lowest score that is shown
            np.testing.assert_allclose(heights, HIGH * (1 - scores / LEAST), atol=1.0)
        else:  # negative bars go down; all steps have one scale
            scale = HIGH / (diagram.highest - diagram.lowest)
            np.testing.assert_allclose(heights, np.abs(scores) * scale, atol=1.0)


def test_svg_is_animated_without_a_script(explanation: Explain, tmp_path: Path) -> None:
    text = save(explanation(4, 1, 1), tmp_path / "a.svg").read_text(encoding="utf-8")
    groups = ElementTree.fromstring(text).iter(f"{SVG}g")
    styles = [group.get("style") or "" for group in groups]
    delays = [style for style in styles if "animation-delay" in style]
    expected = [f"animation-delay:{900 * number}ms" for number in range(1 + STAGES + 4)]

    assert delays == expected
    assert text.count('class="f l"') == 1, "the last frame stays"
    assert "prefers-reduced-motion:reduce" in text
    assert "<script" not in text


def test_explanation_without_a_search_trace_cannot_be_animated(
    explanation: Explain, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="nothing to play"):
        save(replace(explanation(2, 1, 1), search=()), tmp_path / "a.gif")
    with pytest.raises(UsageError, match=r"\.html, \.gif or \.svg; got 'a.png'"):
        save(explanation(2, 1, 1), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_encoder_is_played_before_the_decoder(
    explanation: Explain, without_attention: ExplanationData
) -> None:
    explained = explanation(5, 2, 3)
    frames = layout_frames(explained)
    assert len(frames) == 3 + STAGES + 5

    for number in (1, 2):
        what = "which words each word (left) attends to"
        expected = f"Step {number} of 11: Encoder, layer {number} of 3: {what}"
        assert frames[number - 1].description == expected

    lines = [line for line in lines_of(frames[0]) if line.hint]
    layer = explained.encoder_layers[0].weights.mean(0)
    assert len(lines) == (layer >= 0.02).sum()

    frames = layout_frames(without_attention)
    assert len(frames) == 3 + 3

    states = without_attention.states
    assert states is not None

    for step, frame in enumerate(frames[:3]):
        assert_inside(frame)

        hints = [box.hint for box in boxes_of(frame) if box.hint]
        forward = states.encoder[: step + 1, 0].ravel()
        backward = states.encoder[2 - step :, 1].ravel()
        read = [f"{value:.2f}".replace("-", "−") for value in (*forward, *backward)]

        assert sorted(hints) == sorted(read), "each direction has what it has read"

    words = " ".join(words_of(frames[3]))
    assert "all that the decoder gets of the source" in words
    assert "Attention" not in words


def test_states_of_other_sizes_are_refused() -> None:
    encoder = np.zeros((3, 1, 4), np.float32)
    message = r"states of 2 tokens: wanted encoder \(2, K, N\).*got \(3, 1, 4\)"
    with pytest.raises(UsageError, match=message):
        States(("a", "b"), encoder, encoder[0, :2], True)


@pytest.mark.parametrize(("size", "count"), [(1, 1), (12, 8), (30, 16)])
def test_heads_are_drawn_side_by_side(
    size: int, count: int, random_alignment: Callable[..., Alignment]
) -> None:
    captions = [f"head {number + 1}" for number in range(count)]
    heads = [
        random_alignment(size, size, seed=seed, caption=caption)
        for seed, caption in enumerate(captions)
    ]
    figure = layout_heads(Heads(tuple(heads), "layer 1, all heads"))
    names = words_of(figure)

    assert [name for name in names if name.startswith("head ")] == captions
    assert (heads[0].source[0] in names) == (size <= 19)

    assert_inside(figure)


def test_heads_of_other_words_are_refused(
    random_alignment: Callable[..., Alignment],
) -> None:
    with pytest.raises(UsageError, match="the same words"):
        Heads((random_alignment(2, 3), random_alignment(3, 3)))
    with pytest.raises(UsageError, match="no head"):
        Heads(())
