"""Coverage, MBR utility and repetition detection, against their plain definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from regard.search import Repetition, coverage, find_repetition, mbr_utility


def test_coverage_is_the_published_sum() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5), 3)  # (T, S)
    expected = 0.0
    for received in weights.sum(0):
        expected += math.log(min(received, 1.0))

    assert coverage(weights) == pytest.approx(expected)
    assert coverage(np.eye(4)) == 0
    assert -20 < coverage(np.array([[1.0, 0.0]])) < -10, (
        "a source position without attention costs much, but not without limit"
    )


def test_mbr_utility_is_the_expected_chrf() -> None:
    texts = ["I go home", "I went home", "I go home", "bread"]
    shares = [0.5, 0.2, 0.2, 0.1]
    utilities = mbr_utility(texts, shares)

    for i, text in enumerate(texts):
        expected = 0.0
        for j, reference in enumerate(texts):
            if i != j:
                expected += shares[j] * sentence_chrf(text, [reference]).score
        assert utilities[i] == pytest.approx(expected)

    assert mbr_utility(["alone"], [1.0]) == [0.0]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([1, 2, 3] + [7] * 20 + [4], Repetition(3, (7,), 20)),
        ([1, 2, 3] * 7 + [4], Repetition(0, (1, 2, 3), 7)),
        ([9, 9] + [1, 2, 3] * 8 + [1, 2], Repetition(2, (1, 2, 3), 8)),
        ([7] * 19, None),  # few tokens
        (list(range(10)) * 4, None),  # few repetitions
    ],
)
def test_repetitions_are_detected(
    target: list[int],
    expected: Repetition | None,
) -> None:
    assert find_repetition(target) == expected


def test_repetitions_in_the_source_may_be_translated() -> None:
    assert find_repetition([7] * 24, [5] * 20) is None
    assert find_repetition([7] * 24, [5] * 4 + [6]) == Repetition(0, (7,), 24)
