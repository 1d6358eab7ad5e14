"""Animated explanations as GIF and SVG, and the heads of a layer side by side."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from regard.common.errors import UsageError
from regard.visualisation import Alignment, ExplanationData, Heads, save
from regard.visualisation.colours import colour
from regard.visualisation.explanation_data import ShownHead
from regard.visualisation.figure import MARGIN, Box, Polyline, Text
from regard.visualisation.fonts import measure
from regard.visualisation.head_grid import layout_heads
from regard.visualisation.language import LANGUAGE
from regard.visualisation.mechanism import HIGH, LEAST, WIDTH, Diagram
from regard.visualisation.player import HEADING_SIZE, layout_frames
from regard.visualisation.states import States
from regard.visualisation.text import is_korean

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("words", [1, 5, 40])
def test_frames_have_one_size_and_contain_all_marks(
    explanation: Callable[..., ExplanationData], words: int
) -> None:
    frames = layout_frames(explanation(words, 2, 1))
    assert len(frames) == 1 + 3 + words, (
        "a layer of the encoder, the stages of the first token, the others and the end"
    )
    assert len({(figure.width, figure.height) for figure in frames}) == 1
    for figure in frames:
        for mark in figure.marks():
            if isinstance(mark, Text):
                assert all(
                    -1 <= x <= figure.width and 0 <= y <= figure.height for x, y in mark.corners()
                ), mark
            elif isinstance(mark, Box):
                assert mark.x >= 0
                assert mark.x + mark.width <= figure.width
                assert mark.y + mark.height <= figure.height


def test_a_frame_shows_attention_candidates_output_and_tree(
    explanation: Callable[..., ExplanationData],
) -> None:
    explained = explanation(5, 2, 1)
    second = layout_frames(explained)[1 + 3]
    groups = {group.name: group.marks for group in second.groups}
    texts = {
        name: [mark.text for mark in marks if isinstance(mark, Text)][1:]
        for name, marks in groups.items()
    }
    assert texts["output"] == list(explained.target[:2])
    assert not set(explained.source) - set(texts["mechanism"]), "all five words have room"
    assert texts["mechanism"][-3:] == ["75.0 %", "lost", "12.5 %"]
    assert explained.target[1] in texts["mechanism"], "the next word"
    assert texts["tree"] == [explained.target[0], "lost", explained.target[1], "lost"]
    weights = explained.shown_weights()[1].tolist()
    weights.append(1 - sum(weights))  # on the start and the end
    assert "(end)" in texts["mechanism"]
    assert [text for text in texts["mechanism"] if text.startswith("0.")] == [
        f"{w:.2f}" for w in weights
    ]
    bars = [
        mark.height
        for mark in groups["mechanism"]
        if isinstance(mark, Box) and mark.paint[0] == "w"
    ]
    assert bars[:-2] == [pytest.approx(max(1.0, HIGH * w)) for w in weights], (
        "the last two are candidates"
    )


def test_the_frame_of_a_token_stays_off_the_one_before(
    explanation: Callable[..., ExplanationData],
) -> None:
    pieces = {"tokens": ("▁bu", "ild", "▁", "b", "</s>"), "target_words": (0, 0, 1, 1, -1)}
    for t, figure in enumerate(layout_frames(replace(explanation(4, 2, 1), **pieces))[1 + 2 : -1]):
        _, *marks = next(group.marks for group in figure.groups if group.name == "output")
        *before, own = (mark for mark in marks if isinstance(mark, Text))
        (frame,) = (mark for mark in marks if isinstance(mark, Box))
        assert [text.text for text in (*before, own)] == ["bu", "ild", "", "b"][: t + 1], (
            "a space is not a word"
        )
        assert all(text.x + measure(text.text, text.size) / 2.2 < frame.x for text in before)
        assert frame.x < own.x - measure(own.text, own.size) / 2.2


def test_what_a_caption_is_read_from_is_called_cells(
    caption_explanation: Callable[..., ExplanationData],
) -> None:
    marks = next(
        group.marks
        for group in layout_frames(caption_explanation())[0].groups
        if group.name == "mechanism"
    )
    (name,) = (
        mark.text
        for mark in marks
        if isinstance(mark, Text) and mark.text.startswith(("words", "cells"))
    )
    assert name.startswith("cells")


def test_the_cells_that_a_word_attends_to_are_drawn(
    caption_explanation: Callable[..., ExplanationData],
) -> None:
    explained = caption_explanation()
    layer = explained.layers[0]
    cells = [11, 4, 8, 0]
    weights = np.full_like(layer.weights, 0.01)
    weights[:, range(4), cells] = 0.89
    diagram = Diagram(
        replace(explained, layers=(replace(layer, weights=weights), *explained.layers[1:]))
    )
    for t, cell in enumerate(cells):
        texts = [mark.text for mark in diagram.marks(0, t) if isinstance(mark, Text)]
        assert explained.source[cell] in texts
        assert len({*texts} & {*explained.source}) == 6


def test_columns_stay_the_same_while_words_are_written(
    explanation: Callable[..., ExplanationData],
) -> None:
    explained = replace(explanation(12, 1, 1), source=tuple("abcdefghijkl"))
    weights = explained.layers[0].weights[0]
    rows = []
    for frame in layout_frames(explained)[1:]:
        texts = [
            m
            for group in frame.groups
            if group.name == "mechanism"
            for m in group.marks
            if isinstance(m, Text)
        ]
        (y,) = (mark.y for mark in texts if mark.text == "words (+6)")
        rows.append([mark.text for mark in texts if mark.y == y and mark.anchor == "middle"][:-1])
    assert len(rows) == 3 + 12
    assert all(row == rows[0] for row in rows)
    strongest = {*np.argsort(-np.append(weights.max(0), (1 - weights.sum(1)).max()))[:6].tolist()}
    assert rows[0] == [[*"abcdefghijkl", "(end)"][s] for s in sorted(strongest)]


@pytest.mark.parametrize("directions", [1, 2])
def test_the_states_that_are_handed_over_stay_in_view(
    without_attention: ExplanationData, directions: int
) -> None:
    words = tuple("abcdefgh")
    states = without_attention.states
    assert states is not None
    encoder = np.linspace(-1, 1, 9 * directions * 4, dtype=np.float32).reshape(9, directions, 4)
    long = replace(
        without_attention,
        source=words,
        states=States((*words, "</s>"), encoder, states.decoder, True),
    )
    for frame in layout_frames(long):
        marks = next(
            group.marks for group in frame.groups if group.name in ("mechanism", "encoder")
        )
        texts = [mark for mark in marks if isinstance(mark, Text)]
        y = next(mark.y for mark in texts if mark.text.startswith("words"))
        row = [mark.text for mark in texts if mark.y == y and mark.text in (*words, "(end)")]
        assert (len(row), row[0], row[-1]) == (6, "a", "(end)")


def test_with_the_order_of_bahdanau_the_context_enters_the_next_state(
    explanation: Callable[..., ExplanationData], without_attention: ExplanationData
) -> None:
    def texts(order: str) -> list[str]:
        states = replace(without_attention.states, is_all=False, order=order)  # type: ignore[type-var]
        data = replace(explanation(2, 1, 1), source=without_attention.source, states=states)
        marks = next(
            group.marks for group in layout_frames(data)[3].groups if group.name == "mechanism"
        )
        return [mark.text for mark in marks if isinstance(mark, Text)]

    assert "state before" in texts("bahdanau")
    states = replace(
        without_attention.states,
        is_all=False,
        order="bahdanau",
        initial=np.full(5, 0.25, np.float32),
    )  # type: ignore[type-var]
    data = replace(explanation(2, 1, 1), source=without_attention.source, states=states)
    marks = next(
        group.marks for group in layout_frames(data)[3].groups if group.name == "mechanism"
    )
    assert [mark.hint for mark in marks if isinstance(mark, Box)].count("0.25") == 5, (
        "the first state asks first"
    )
    assert "state" in texts("luong")
    assert "scores e" in texts("luong"), "one head has scores"


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("order", ["bahdanau", "luong", ""])
def test_the_first_word_comes_in_stages_each_of_which_adds_marks(
    explanation: Callable[..., ExplanationData],
    without_attention: ExplanationData,
    order: str,
    language: Literal["en", "ko"],
) -> None:
    states = replace(without_attention.states, is_all=False, order=order) if order else None  # type: ignore[type-var]
    source = without_attention.source
    data = replace(explanation(2, 1, 1), source=source, states=states)
    reset = LANGUAGE.set(language)
    try:
        frames = layout_frames(data)[data.encoding_steps :]
    finally:
        LANGUAGE.reset(reset)
    assert len(frames) == 3 + 2
    stages = [{group.name: group.marks for group in frame.groups} for frame in frames[:3]]
    status = [
        next(mark.text for mark in groups["mechanism"] if isinstance(mark, Text))
        for groups in stages
    ]
    assert all(
        frame.description.endswith(text) for frame, text in zip(frames, status, strict=False)
    )
    assert len({*status}) == 3
    assert all(is_korean(text) == (language == "ko") for text in status)
    assert all(measure(text, HEADING_SIZE) < WIDTH - 2 * MARGIN for text in status), (
        "it stays on its line"
    )
    drawn = [
        {mark for mark in groups["mechanism"][1:] if mark.paint != "grid"} for groups in stages
    ]  # type: ignore[union-attr]
    assert drawn[0] < drawn[1] < drawn[2], "what one stage shows stays"
    bars = [
        [mark.paint for mark in marks if isinstance(mark, Box) and not mark.outline]
        for marks in drawn
    ]
    assert ["s3" in paints for paints in bars] == [True] * 3, "scores come first"
    assert [any(paint[0] == "w" for paint in paints) for paints in bars] == [False, True, True], (
        "then weights"
    )
    texts = [[mark.text for mark in marks if isinstance(mark, Text)] for marks in drawn]
    assert [data.target[0] in shown for shown in texts] == [False, False, True], (
        "and at last the word"
    )
    assert [len(groups["output"]) + len(groups["tree"]) > 2 for groups in stages] == [
        False,
        False,
        True,
    ]


def test_without_attention_a_word_has_one_frame_and_states_are_outlined(
    explanation: Callable[..., ExplanationData], without_attention: ExplanationData
) -> None:
    frames = layout_frames(without_attention)
    assert "outlined" in frames[2].description
    states = replace(without_attention.states, is_all=False, order="luong")  # type: ignore[type-var]
    attended = layout_frames(
        replace(explanation(2, 1, 1), source=without_attention.source, states=states)
    )
    assert attended[2].description.endswith("the decoder can attend to each of these states")
    outlined = [
        [m for m in frame.marks() if isinstance(m, Box) and m.outline == 2.0]
        for frame in (frames[2], attended[2])
    ]
    assert [len(boxes) for boxes in outlined] == [2 + 1, 1], (
        "a state of each direction; and the next word"
    )


def test_the_word_before_is_joined_from_its_tokens(
    explanation: Callable[..., ExplanationData],
) -> None:
    pieces = {"tokens": ("▁bu", "ild", "▁", "b", "</s>"), "target_words": (0, 0, 1, 1, -1)}
    before = []
    for frame in layout_frames(replace(explanation(4, 2, 1), **pieces))[1 + 2 :]:
        texts = [
            mark for group in frame.groups if group.name == "mechanism" for mark in group.marks
        ]
        (label,) = (mark for mark in texts if isinstance(mark, Text) and mark.text == "word before")
        before += [
            mark.text
            for mark in texts
            if isinstance(mark, Text) and mark.y == label.y and mark.x > label.x
        ]
    assert before == ["(start)", "bu", "build", "(space)", "b"]


def test_scores_are_those_of_one_head_and_softmax_of_them_gives_its_weights(
    explanation: Callable[..., ExplanationData],
) -> None:
    explained = explanation(5, 2, 1)
    for head, heading in ((1, "softmax"), (None, "2 heads: scores and softmax, their mean")):
        data = replace(explained, shown_head=ShownHead(0, head))
        marks = next(
            group.marks for group in layout_frames(data)[1 + 3].groups if group.name == "mechanism"
        )
        texts = [mark.text for mark in marks if isinstance(mark, Text)]
        assert heading in texts
        assert ("scores e" in texts) == (head is not None)
    marks = next(
        group.marks
        for group in layout_frames(replace(explained, shown_head=ShownHead(0, 1)))[1 + 3].groups
        if group.name == "mechanism"
    )
    scores = [
        mark.height / HIGH
        for mark in marks
        if isinstance(mark, Box) and mark.paint == "s3" and not mark.outline
    ]
    powers = np.exp([(1 - score) * LEAST for score in scores])
    weights = np.append(
        explained.layers[0].weights[1, 1], explained.layers[0].special_weights[1, 1]
    )
    np.testing.assert_allclose(powers / powers.sum(), weights / weights.sum(), atol=2e-3)


def test_recorded_scores_are_written_as_they_are(
    explanation: Callable[..., ExplanationData],
) -> None:
    """A score is the logarithm of its weight, plus the sum that softmax divides by; unrecorded, the
    highest is 0.
    """
    explained = explanation(5, 2, 1)
    sums = np.arange(12.0).reshape(2, 6) - 5
    for log_sums, added in ((sums, sums[1, 2]), (None, None)):
        layer = replace(explained.layers[0], log_sums=log_sums)
        data = replace(explained, layers=(layer, *explained.layers[1:]), shown_head=ShownHead(0, 1))
        marks = next(
            group.marks
            for group in layout_frames(data)[1 + 2 + 2].groups
            if group.name == "mechanism"
        )
        bars = [
            mark
            for mark in marks
            if isinstance(mark, Box) and mark.paint == "s3" and not mark.outline
        ]
        diagram = Diagram(data)
        (soft,) = (mark.y for mark in marks if isinstance(mark, Text) and mark.text == "softmax")
        y = soft - diagram.softmax + diagram.score + HIGH
        texts = [mark.text for mark in marks if isinstance(mark, Text) and abs(mark.y - y) < 0.01]
        weights = np.append(layer.weights[1, 2], layer.special_weights[1, 2])
        scores = np.log(weights) + (-np.log(weights.max()) if added is None else added)
        np.testing.assert_allclose(
            np.array([text.replace("−", "-") for text in texts], float), scores, atol=0.051
        )
        if (
            added is not None
        ):  # bars from a zero line, negative ones downwards, on one scale in all steps
            heights = [
                bar.height * (-1 if score < 0 else 1)
                for bar, score in zip(bars, scores, strict=True)
            ]
            assert heights == pytest.approx(
                scores * HIGH / (diagram.highest - diagram.lowest), abs=1.0
            )


def test_a_gif_has_a_frame_for_each_token_in_true_colours(
    explanation: Callable[..., ExplanationData], tmp_path: Path
) -> None:
    explained = explanation(2, 1, 1)
    with Image.open(save(explained, tmp_path / "a.gif")) as image:
        assert image.n_frames == 1 + 3 + 2  # type: ignore[attr-defined]
        assert image.info["loop"] == 0
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        colours = {pixel for _, pixel in image.convert("RGB").getcolors(1 << 20) or []}
    top = max(
        range(101),
        key=lambda n: (
            tuple(int(colour(f"w{n}", "light")[i : i + 2], 16) for i in (1, 3, 5)) in colours and n
        ),
    )
    assert top >= 50, "the strongest weight keeps its colour"
    assert (tmp_path / "a.gif").read_bytes() == save(explained, tmp_path / "b.gif").read_bytes()


def test_svg_is_animated_without_a_script(
    explanation: Callable[..., ExplanationData], tmp_path: Path
) -> None:
    text = save(explanation(4, 1, 1), tmp_path / "a.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    frames = [g for g in root.iter(f"{SVG}g") if "animation-delay" in (g.get("style") or "")]
    assert [g.get("style") for g in frames] == [
        f"animation-delay:{900 * n}ms" for n in range(1 + 3 + 4)
    ]
    assert [g.get("class") for g in frames] == ["f"] * 7 + ["f l"]
    assert "prefers-reduced-motion:reduce" in text
    assert "<script" not in text


def test_explanation_without_a_search_trace_cannot_be_animated(
    explanation: Callable[..., ExplanationData], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="nothing to play"):
        save(replace(explanation(2, 1, 1), steps=()), tmp_path / "a.gif")
    with pytest.raises(UsageError, match=r"\.html, \.gif or \.svg; got 'a.png'"):
        save(explanation(2, 1, 1), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_encoder_is_played_before_the_decoder(
    explanation: Callable[..., ExplanationData], without_attention: ExplanationData, tmp_path: Path
) -> None:
    frames = layout_frames(explanation(5, 2, 3))
    assert len(frames) == 3 + 3 + 5
    assert [frame.description for frame in frames[:2]] == [
        f"Step {n} of 11: Encoder, layer {n} of 3: which words each word (left) attends to"
        for n in (1, 2)
    ]
    lines = [mark for mark in frames[0].marks() if isinstance(mark, Polyline) and mark.hint]
    layer = explanation(5, 2, 3).encoder_layers[0].weights.mean(0)
    assert len(lines) == (layer >= 0.02).sum()
    frames = layout_frames(without_attention)
    assert len(frames) == 3 + 3
    assert len({(frame.width, frame.height) for frame in frames}) == 1
    states = without_attention.states
    assert states is not None
    for step, frame in enumerate(frames[:3]):
        hints = [mark.hint for mark in frame.marks() if isinstance(mark, Box) and mark.hint]
        read = [
            states.encoder[place, k]
            for place in range(3)
            for k in (0, 1)
            if (place, 2 - place)[k] <= step
        ]
        expected = sorted(
            f"{value:.2f}".replace("-", "−") for vector in read for value in vector.tolist()
        )
        assert sorted(hints) == expected, "each direction has the states of what it has read"
    texts = [mark.text for mark in frames[3].marks() if isinstance(mark, Text)]
    assert any("all that the decoder gets of the source" in text for text in texts)
    assert not any(text.startswith("Attention") for text in texts)
    for suffix in (".gif", ".svg", ".html"):
        save(without_attention, tmp_path / f"rnn{suffix}")


def test_states_of_other_sizes_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"states of 2 tokens: wanted encoder \(2, K, N\).*got \(3, 1, 4\)"
    ):
        States(("a", "b"), *(np.zeros(shape, np.float32) for shape in ((3, 1, 4), (2, 4))), True)


@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(1, 1, 1), (5, 4, 4), (12, 20, 8), (30, 30, 16)]
)
def test_heads_are_drawn_side_by_side(
    rows: int, columns: int, count: int, random_alignment: Callable[..., Alignment], tmp_path: Path
) -> None:
    heads = [random_alignment(rows, columns, seed=n, caption=f"head {n + 1}") for n in range(count)]
    figure = layout_heads(Heads(tuple(heads), "layer 1, all heads"))
    names = [mark.text for mark in figure.marks() if isinstance(mark, Text)]
    assert [f"head {n + 1}" for n in range(count)] == [
        name for name in names if name.startswith("head ")
    ]
    assert (heads[0].source[0] in names) == (max(rows, columns) <= 19)
    for mark in figure.marks():
        if isinstance(mark, Text):
            assert all(
                0 <= x <= figure.width and 0 <= y <= figure.height for x, y in mark.corners()
            ), mark
    save(Heads(tuple(heads)), tmp_path / "heads.png")


def test_heads_of_other_words_are_refused(random_alignment: Callable[..., Alignment]) -> None:
    with pytest.raises(UsageError, match="the same words"):
        Heads((random_alignment(2, 3), random_alignment(3, 3)))
    with pytest.raises(UsageError, match="no head"):
        Heads(())
