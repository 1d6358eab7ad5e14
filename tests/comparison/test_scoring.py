"""Scores over seeds, sentence scores, and tests against the baseline's run of the same seed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sacrebleu

from regard.common.errors import UsageError
from regard.comparison import result
from regard.comparison.result import RunScore
from regard.comparison.scoring import over_seeds, score_groups, sentence_scores
from regard.evaluation.bootstrap import student_quantile
from regard.evaluation.caption_metrics import words

REFERENCES = [
    f"the number {n} is {('even', 'odd')[n % 2]} and small" for n in range(40)
]
TEST = result.TestSet(
    "test", tuple(map(str, range(40))), tuple((text,) for text in REFERENCES), ""
)
GOOD = [
    text if n % 5 else text.replace("small", "large")
    for n, text in enumerate(REFERENCES)
]
BAD = [
    text.replace("number", "figure") if n % 2 else "nothing"
    for n, text in enumerate(REFERENCES)
]


def test_quantiles_are_those_of_student() -> None:
    p = 0.975
    of_cauchy = math.tan(math.pi * (p - 0.5))
    of_two = (2 * p - 1) / math.sqrt(2 * p * (1 - p))

    assert student_quantile(1) == pytest.approx(of_cauchy)
    assert student_quantile(2) == pytest.approx(of_two)
    assert student_quantile(1000) == pytest.approx(1.962, abs=1e-3)


def _scores(*values: float, name: str = "BLEU") -> list[RunScore]:
    return [
        RunScore(name, value, value - 1, value + 1, "signature") for value in values
    ]


def test_the_interval_over_seeds_is_students_and_stays_on_the_scale() -> None:
    three = over_seeds(_scores(30.0, 32.0, 34.0))
    half = student_quantile(2) * 2 / math.sqrt(3)
    assert (three.mean, three.seeds) == (pytest.approx(32), 3)
    assert (three.low, three.high) == pytest.approx((32 - half, 32 + half))

    two = over_seeds(_scores(1.0, 99.0))
    assert (two.low, two.high) == (0.0, 100.0)

    without_upper_end = over_seeds(_scores(90.0, 190.0, name="TER"))
    assert without_upper_end.high > 190

    one = over_seeds(_scores(30.0))
    assert (one.mean, one.low, one.high, one.seeds) == (30, 29, 31, 1)

    with pytest.raises(UsageError, match="at least one run"):
        over_seeds([])


def test_sentence_scores_are_those_of_sacrebleu() -> None:
    scores = sentence_scores(TEST, BAD, None)
    for score, output, reference in zip(scores, BAD, REFERENCES, strict=True):
        assert score == pytest.approx(
            sacrebleu.sentence_chrf(output, [reference]).score
        )


@pytest.mark.parametrize(("tokenize", "name"), [(None, "BLEU"), (words, "CIDEr-D")])
def test_runs_are_tested_against_the_first_of_their_group(
    tokenize: Any, name: str
) -> None:
    outputs = {"base 1": BAD, "good 1": GOOD, "base 2": GOOD, "same 2": GOOD}
    groups = [["base 1", "good 1"], ["base 2", "same 2"]]
    tested = {}
    for run, scores in score_groups(TEST, groups, outputs, tokenize).items():
        assert all(0 <= score.low <= score.value + 1e-9 for score in scores)

        (tested[run],) = [score for score in scores if score.name == name]

    assert tested["base 1"].p is None

    good = tested["good 1"]
    assert good.against == "base 1"
    assert good.p == pytest.approx(0, abs=2e-3)

    same = tested["same 2"]
    assert same.against == "base 2"
    assert same.p is not None
    assert same.p > 0.9
