"""Coverage, likeness and runaway repetition, each against its plain definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sacrebleu import sentence_chrf

from regard.search import Repetition, coverage, find_repetition, mbr_utility


def test_coverage_is_the_published_sum() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5), 3)  # (T, S)
    wanted = sum(math.log(min(sum(weights[t, s] for t in range(3)), 1.0)) for s in range(5))
    assert coverage(weights) == pytest.approx(wanted)
    assert coverage(np.eye(4)) == 0
    assert -20 < coverage(np.array([[1.0, 0.0]])) < -10, "what nobody read costs much, not everything"


def test_likeness_is_the_expected_chrf() -> None:
    texts, shares = ["I go home", "I went home", "I go home", "bread"], [0.5, 0.2, 0.2, 0.1]
    found = mbr_utility(texts, shares)
    for i, text in enumerate(texts):
        wanted = sum(
            share * sentence_chrf(text, [other]).score
            for j, (other, share) in enumerate(zip(texts, shares, strict=True))
            if i != j
        )
        assert found[i] == pytest.approx(wanted)
    assert mbr_utility(["alone"], [1.0]) == [0.0]


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ([], None),
        ([7] * 20, Repetition(0, (7,), 20)),
        ([1, 2, 3] + [7] * 20 + [4], Repetition(3, (7,), 20)),
        ([1, 2, 3] * 7 + [4], Repetition(0, (1, 2, 3), 7)),
        ([9, 9] + [1, 2, 3] * 8 + [1, 2], Repetition(2, (1, 2, 3), 8)),
        ([7] * 19, None),  # few pieces
        (list(range(10)) * 4, None),  # few times
        (list(range(60)), None),
    ],
)
def test_what_runs_away_is_found(target: list[int], wanted: Repetition | None) -> None:
    assert find_repetition(target) == wanted


def test_what_the_source_repeats_may_be_repeated() -> None:
    assert find_repetition([7] * 24, [5] * 20) is None
    assert find_repetition([7] * 24, [5] * 4 + [6]) == Repetition(0, (7,), 24)
