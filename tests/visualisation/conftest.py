"""Fixtures: a small alignment, alignments of any size, and explanations of a translation and of a
caption.
"""

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from helpers.traced_searches import ids_of, search_of

from regard.visualisation import Alignment, ExplanationData, SourceImage
from regard.visualisation.explanation_data import (
    Attributions,
    ShownHead,
    TokenAttention,
)
from regard.visualisation.states import States

ENGLISH = [
    "I",
    "was",
    "told",
    "that",
    "the",
    "grandmother's",
    "photographs",
    "of",
    "an",
    "old",
    "library",
    "moved",
    ".",
]
KOREAN = [
    "저는",
    "도서관에서",
    "할머니의",
    "사진을",
    "옮길",
    "것이라는",
    "말을",
    "들었다",
    "나는",
    "빵을",
    "먹고",
    "있었다",
]


def english(count: int) -> tuple[str, ...]:
    return tuple(islice(cycle(ENGLISH), count))


def korean(count: int) -> tuple[str, ...]:
    return tuple(islice(cycle(KOREAN), count))


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def tokens_of(words: Sequence[str]) -> tuple[str, ...]:
    return (*(f"▁{word}" for word in words), "</s>")


def _random_alignment(
    rows: int, columns: int, seed: int = 0, has_end: bool = True, **options: Any
) -> Alignment:
    rng = np.random.default_rng(seed)
    weights = softmax(rng.normal(size=(rows, columns + 1), scale=3))
    on_end = weights[:, -1] if has_end else None
    return Alignment(
        english(columns),
        korean(rows),
        weights[:, :-1],
        special_weights=on_end,
        **options,
    )


@pytest.fixture
def random_alignment() -> Callable[..., Alignment]:
    return _random_alignment


@pytest.fixture
def bread() -> Alignment:
    weights = np.array(
        [
            [0.9, 0.05, 0.03, 0.01],
            [0.02, 0.01, 0.07, 0.88],
            [0.0, 0.2, 0.71, 0.05],
            [0.1, 0.6, 0.1, 0.0],
        ]
    )

    return Alignment(
        ("I", "was", "eating", "bread"),
        ("나는", "빵을", "먹고", "있었다"),
        weights,
        title="I was eating bread",
        caption="mean of layers · transformer-tiny",
        special_weights=1 - weights.sum(axis=1),
        links=frozenset({(0, 0), (3, 1)}),
    )


def _explanation(words: int, heads: int, layers: int) -> ExplanationData:
    """Build an explanation of sentences of `words` words with random weights; each target word is
    one token.
    """
    rng = np.random.default_rng(1)
    roles: tuple[Any, ...] = ("cross", "encoder", "decoder")
    attention = []
    for role in roles:
        for number in range(layers):
            weights = softmax(rng.normal(size=(heads, words + 1, words + 1), scale=3))
            name = f"{role} {number + 1}"
            attention.append(TokenAttention(name, role, weights))

    attributions = Attributions(
        ("gradient × input", "word erasure"),
        (np.eye(words), np.ones((words, words))),
        (0.5, float("nan")),
    )
    target = korean(words)
    tokens = tokens_of(target)

    return ExplanationData(
        source=english(words),
        target=target,
        source_words=(*range(words), -1),
        target_words=(*range(words), -1),
        tokens=tokens,
        attention=tuple(attention),
        shown_head=ShownHead(layers - 1, 0),
        ids=ids_of(tokens),
        search=search_of(tokens),
        attributions=attributions,
    )


@pytest.fixture
def explanation() -> Callable[..., ExplanationData]:
    return _explanation


@pytest.fixture
def without_attention() -> ExplanationData:
    """Build the explanation of a recurrent model without attention, with two directions of five
    numbers.
    """
    rng = np.random.default_rng(3)
    encoder = rng.uniform(-1, 1, (3, 2, 5)).astype(np.float32)
    decoder = rng.uniform(-1, 1, (3, 7)).astype(np.float32)
    states = States(("▁나는", "▁간다", "</s>"), encoder, decoder, is_all=True)
    tokens = tokens_of(("I", "go"))

    return ExplanationData(
        source=("나는", "간다"),
        target=("I", "go"),
        source_words=(0, 1, -1),
        target_words=(0, 1, -1),
        tokens=tokens,
        attention=(),
        ids=ids_of(tokens),
        search=search_of(tokens),
        states=states,
    )


def _caption_explanation(language: str = "en") -> ExplanationData:
    """Build an explanation of a caption: a red square at the left of an image of 3 rows and 4
    columns of cells.
    """
    rng = np.random.default_rng(2)
    rows, columns = (3, 4)
    pixels = np.full((60, 80, 3), 235, np.uint8)
    pixels[20:40, 0:20] = (216, 36, 40)
    image = SourceImage(pixels, (rows, columns))
    target = {"en": ("a", "red", "square"), "ko": ("빨간", "네모가", "있다")}[language]
    T = len(target)
    layers = []
    for layer in range(2):
        weights = rng.random((2, T + 1, rows * columns)) + 0.1
        weights[layer, :, columns] += 6  # row 2, column 1 of the grid
        weights /= weights.sum(-1, keepdims=True)
        layers.append(TokenAttention(f"cross {layer + 1}", "cross", weights))

    weights = softmax(rng.random((2, T + 1, T + 1)))
    layers.append(TokenAttention("decoder", "decoder", weights))
    tokens = tokens_of(target)
    search = search_of(tokens)
    for step in search:
        del step["candidates"][1]

    return ExplanationData(
        source=image.cells(),
        target=target,
        source_words=tuple(range(rows * columns)),
        target_words=(*range(T), -1),
        tokens=tokens,
        attention=tuple(layers),
        shown_head=ShownHead(0, 0),
        ids=ids_of(tokens),
        search=search,
        image=image,
    )


@pytest.fixture
def caption_explanation() -> Callable[..., ExplanationData]:
    return _caption_explanation
