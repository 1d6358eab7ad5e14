"""Scores over seeds, sentence scores, and tests against the baseline's run of the same seed."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
import sacrebleu

from regard.common.errors import UsageError
from regard.comparison import result
from regard.comparison.result import Lead, RunScore
from regard.comparison.scoring import over_seeds, score_groups, sentence_scores
from regard.evaluation.bootstrap import student_quantile, welch_interval
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


def test_the_difference_over_seeds_is_welchs() -> None:
    """The data are Student's own (1908); t.test of R prints these numbers for them."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    difference, low, high, p = welch_interval(first, second)

    assert difference == pytest.approx(1.58)
    assert (low, high) == pytest.approx((-0.2054832, 3.3654832), abs=1e-6)
    assert p == pytest.approx(0.07939, abs=1e-5)


@pytest.mark.parametrize("spread", [0.25, 2.0, 3.5])
def test_the_difference_of_two_seeds_each_has_students_closed_form(
    spread: float,
) -> None:
    """With equal variances of two values each there are two degrees of freedom."""
    first, second = [10 - spread, 10 + spread], [13 - spread, 13 + spread]
    lead = over_seeds(_scores(*second), first).lead
    assert lead is not None
    t = 3 / statistics.stdev(first)

    assert lead.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    half = 4.302653 * statistics.stdev(first)
    assert (lead.value, lead.low) == (3, pytest.approx(3 - half, rel=1e-5))
    assert lead.low < 0 or spread < 0.5, "the difference is not cut"


def test_without_a_spread_or_several_seeds_there_is_no_guess() -> None:
    assert welch_interval([5, 5], [5, 5, 5]) == (0, 0, 0, 1)
    assert welch_interval([5, 5], [7, 7]) == (2, 2, 2, 0)
    assert over_seeds(_scores(1.0, 2.0), [1.0]).lead is None
    assert over_seeds(_scores(1.0), [1.0, 2.0]).lead is None
    assert over_seeds(_scores(1.0, 2.0)).lead is None
    lead = Lead(1.0, 0.5, 1.5, 0.01, "paired bootstrap")
    one = replace(_scores(1.0)[0], lead=lead)
    assert over_seeds([one], [0.0]).lead == lead
    assert over_seeds([one], [0.0, 1.0]).lead is None


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
    assert good.lead is not None
    assert good.lead.value == pytest.approx(good.value - tested["base 1"].value)
    assert good.lead.is_significant

    same = tested["same 2"]
    assert same.against == "base 2"
    assert same.p is not None
    assert same.p > 0.9
    assert same.lead is not None
    assert not same.lead.is_significant
