"""Fixtures: a small alignment, alignments of any size, and explanations of a translation and of a
caption.
"""

from collections.abc import Callable

import numpy as np
import pytest

from regard.visualisation import Alignment, ExplanationData, SourceImage
from regard.visualisation.explanation_data import (
    Attributions,
    LayerWeights,
    SearchNode,
    ShownHead,
    TreeStep,
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


def _random_alignment(
    rows: int, columns: int, seed: int = 0, has_end: bool = True, **options: object
) -> Alignment:
    scores = np.random.default_rng(seed).normal(size=(rows, columns + 1), scale=3)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    source = tuple(ENGLISH[s % len(ENGLISH)] for s in range(columns))
    target = tuple(KOREAN[t % len(KOREAN)] for t in range(rows))
    special_weights = weights[:, -1] if has_end else None
    return Alignment(source, target, weights[:, :-1], special_weights=special_weights, **options)  # type: ignore[arg-type]


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

    def weights(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        scores = np.exp(rng.normal(size=(heads, rows, columns + 1), scale=3))
        scores /= scores.sum(-1, keepdims=True)
        return scores[..., :-1], scores[..., -1]

    source = tuple(ENGLISH[s % len(ENGLISH)] for s in range(words))
    target = tuple(KOREAN[t % len(KOREAN)] for t in range(words))
    sizes = {"cross": (words + 1, words), "encoder": (words, words), "decoder": (words, words)}
    layers_ = [
        LayerWeights(str(n + 1), role, *weights(*size))
        for role, size in sizes.items()
        for n in range(layers)
    ]  # type: ignore[arg-type]
    steps = []
    for t, token in enumerate((*target, "</s>")):
        kept = SearchNode(
            -1 if t == 0 else 0,
            f"▁{token}",
            0.75,
            -0.3 * t,
            "ended" if t == words else "kept",
            True,
        )
        pruned = SearchNode(-1 if t == 0 else 0, "▁lost", 0.125, -3.0 - t, "pruned", False)
        steps.append(TreeStep((kept, pruned), ((f"▁{token}", 0.75, True), ("▁lost", 0.125, False))))
    attributions = Attributions(
        ("gradient × input", "word erasure"),
        (np.eye(words), np.ones((words, words))),
        (0.5, float("nan")),
    )
    tokens = (*(f"▁{word}" for word in target), "</s>")
    return ExplanationData(
        source,
        target,
        tokens,
        (*range(words), -1),
        tuple(layers_),
        ShownHead(layers - 1, 0),
        tuple(steps),
        attributions,
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
    states = States(
        ("▁나는", "▁간다", "</s>"),
        *(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, 2, 5), (3, 7))),
        is_all=True,
    )
    steps = []
    for t, token in enumerate(("▁I", "▁go", "</s>")):
        kept = SearchNode(
            -1 if t == 0 else 0, token, 0.75, -0.3 * t, "ended" if t == 2 else "kept", True
        )
        pruned = SearchNode(-1 if t == 0 else 0, "▁lost", 0.125, -3.0 - t, "pruned", False)
        steps.append(TreeStep((kept, pruned), ((token, 0.75, True), ("▁lost", 0.125, False))))
    tokens = ("▁I", "▁go", "</s>")
    return ExplanationData(
        ("나는", "간다"), ("I", "go"), tokens, (0, 1, -1), (), steps=tuple(steps), states=states
    )


def _caption_explanation(language: str = "en", layers: int = 2) -> ExplanationData:
    """Build an explanation of a caption: a red square at the left of an image of 3 rows and 4
    columns of cells.
    """
    rng, (rows, columns) = np.random.default_rng(2), (3, 4)
    pixels = np.full((60, 80, 3), 235, np.uint8)
    pixels[20:40, 0:20] = (216, 36, 40)
    target = {"en": ("a", "red", "square"), "ko": ("빨간", "네모가", "있다")}[language]
    T = len(target)
    S = rows * columns
    layers_ = []
    for layer in range(layers):
        weights = rng.random((2, T + 1, S)) + 0.1
        weights[layer % 2, :, columns] += 6  # row 2, column 1 of the grid
        layers_.append(
            LayerWeights(
                str(layer + 1),
                "cross",
                weights / weights.sum(-1, keepdims=True),
                np.zeros((2, T + 1)),
            )
        )
    weights = rng.random((2, T, T))
    layers_.append(
        LayerWeights("1", "decoder", weights / weights.sum(-1, keepdims=True), np.zeros((2, T)))
    )
    steps = []
    for t, token in enumerate((*(f"▁{word}" for word in target), "</s>")):
        node = SearchNode(
            -1 if t == 0 else 0, token, 0.75, -0.3 * t, "ended" if t == T else "kept", True
        )
        steps.append(TreeStep((node,), ((token, 0.75, True), ("▁lost", 0.125, False))))
    image = SourceImage(pixels, (rows, columns))
    tokens = (*(f"▁{word}" for word in target), "</s>")
    return ExplanationData(
        image.cells(),
        target,
        tokens,
        (*range(T), -1),
        tuple(layers_),
        ShownHead(0, 0),
        tuple(steps),
        image=image,
    )


@pytest.fixture
def caption_explanation() -> Callable[..., ExplanationData]:
    return _caption_explanation
