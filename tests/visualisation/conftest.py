"""Alignments to draw: the issue's example, and any size from words of both scripts."""

from collections.abc import Callable

import numpy as np
import pytest

from regard.visualisation import Alignment

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


def _random_alignment(rows: int, columns: int, seed: int = 0, has_end: bool = True, **more: object) -> Alignment:
    scores = np.random.default_rng(seed).normal(size=(rows, columns + 1), scale=3)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    source = tuple(ENGLISH[s % len(ENGLISH)] for s in range(columns))
    target = tuple(KOREAN[t % len(KOREAN)] for t in range(rows))
    elsewhere = weights[:, -1] if has_end else None
    return Alignment(source, target, weights[:, :-1], elsewhere=elsewhere, **more)  # type: ignore[arg-type]


@pytest.fixture
def random_alignment() -> Callable[..., Alignment]:
    return _random_alignment


@pytest.fixture
def bread() -> Alignment:
    weights = np.array(
        [[0.9, 0.05, 0.03, 0.01], [0.02, 0.01, 0.07, 0.88], [0.0, 0.2, 0.71, 0.05], [0.1, 0.6, 0.1, 0.0]]
    )
    return Alignment(
        ("I", "was", "eating", "bread"),
        ("나는", "빵을", "먹고", "있었다"),
        weights,
        title="I was eating bread",
        caption="mean of layers · transformer-tiny",
        elsewhere=1 - weights.sum(axis=1),
        links=frozenset({(0, 0), (3, 1)}),
    )
