"""Figures in Korean: nothing in them stays English, and nothing is filled in that the English does
not have.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from test_architecture import MODELS

from regard.explain.model_architecture import describe_architecture
from regard.models import ModelSettings
from regard.visualisation import (
    Alignment,
    ExplanationData,
    Heads,
    SourceImage,
    language,
)
from regard.visualisation.architecture_diagram import layout_architecture
from regard.visualisation.figure import Figure, Text
from regard.visualisation.head_arcs import HeadArcs, layout_head_arcs
from regard.visualisation.head_grid import layout_heads
from regard.visualisation.heatmap import layout_heatmap
from regard.visualisation.language import LANGUAGE, words
from regard.visualisation.linear_map import layout_linear_map
from regard.visualisation.overlay import Overlay, layout_overlay
from regard.visualisation.player import layout_frames
from regard.visualisation.position_figures import (
    layout_learned_positions,
    layout_sinusoids,
)

INTERNATIONAL = re.compile(
    r"softmax|tanh|relu|gelu|silu|swiglu|GLU|GRU|LSTM|RNN|WO|BLEU|chrF|nat|basic|bottleneck|dot|general|additive|cosine|noam|[QKVhcet]\b"
)


"""Names that Korean papers write in Latin letters."""


@pytest.fixture
def korean() -> Iterator[None]:
    token = LANGUAGE.set("ko")
    yield
    LANGUAGE.reset(token)


def english_in(figure: Figure) -> set[str]:
    """Return what is left in Latin letters in the texts and the description of a figure."""
    texts = {mark.text for mark in figure.marks() if isinstance(mark, Text)}
    left = set()
    for text in texts | {figure.description}:
        if re.search("[a-z]{2}", INTERNATIONAL.sub("", text)):
            left.add(text)

    return left


def test_placeholders_are_those_of_the_english() -> None:
    particles = re.compile(r"\((이|가|은|는|을|를|와|과|으로)\)")
    for english, text in language._korean().items():
        expected = sorted(re.findall(r"{\w+}", english))
        assert sorted(re.findall(r"{\w+}", text)) == expected, english
        assert english.endswith(" ") == text.endswith(" "), english
        assert not particles.search(text), "a particle depends on the word before"


def test_words_are_english_unless_korean_is_asked_for(korean: None) -> None:
    assert words("layer {layer}", layer=2) == "2층"
    assert words("나는") == "나는"

    LANGUAGE.set("en")
    assert words("layer {layer}", layer=2) == "layer 2"


@pytest.mark.parametrize("name", MODELS)
def test_diagrams_of_models_are_korean(korean: None, name: str) -> None:
    settings = ModelSettings.parse(MODELS[name], name)
    architecture = describe_architecture(settings, (500, 500), True, "모델")
    assert english_in(layout_architecture(architecture)) == set()


def test_attention_is_drawn_in_korean(korean: None) -> None:
    source = ("나는", "간다")
    target = ("가", "나")
    weights = np.full((2, 2), 0.4)
    on_end = np.array([0.1, 0.2])
    links = frozenset({(0, 0)})
    alignment = Alignment(source, target, weights, "", "머리", on_end, links)
    image = SourceImage(np.full((8, 8, 3), 200, np.uint8), (1, 2))
    identity = np.eye(3)
    names = (source, (*target, "다"))
    figures = [
        layout_heatmap(alignment),
        layout_heads(Heads((alignment,))),
        layout_head_arcs(HeadArcs(source, target, 0, weights, (1, 2))),
        layout_overlay(Overlay(image, target, weights[:, None])),
        layout_learned_positions([("encoder", np.ones((2, 3)))], "위치"),
        layout_sinusoids(np.ones((3, 8)), "위치"),
        layout_linear_map(identity, identity[:2], identity, names, "행렬"),
    ]
    for figure in figures:
        assert english_in(figure) == set()


def test_the_player_is_korean(
    korean: None,
    explanation: Callable[..., ExplanationData],
    without_attention: ExplanationData,
    caption_explanation: Callable[..., ExplanationData],
) -> None:
    for data in (explanation(5, 1, 2), without_attention, caption_explanation("ko")):
        tokens = {"lost", *(token.strip("▁") for token in data.tokens)}
        own = {*data.source, *data.target, *tokens}
        for frame in layout_frames(data):
            assert english_in(frame) - {frame.description} - own == set()
