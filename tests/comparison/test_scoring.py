"""Scores over seeds, sentence scores, and tests against the baseline's run of the same seed."""

from __future__ import annotations

import math

import pytest
import sacrebleu

from regard.common.errors import UsageError
from regard.comparison import result
from regard.comparison.result import RunScore
from regard.comparison.scoring import over_seeds, score_groups, sentence_scores
from regard.evaluation.bootstrap import student_quantile
from regard.evaluation.caption_metrics import words

REFERENCES = [f"the number {n} is {'even' if n % 2 == 0 else 'odd'} and small" for n in range(40)]
TEST = result.TestSet("test", tuple(map(str, range(40))), tuple((text,) for text in REFERENCES), "")
GOOD = [text if n % 5 else text.replace("small", "large") for n, text in enumerate(REFERENCES)]
BAD = [
    text.replace("number", "figure") if n % 2 else "nothing" for n, text in enumerate(REFERENCES)
]


def test_quantiles_are_those_of_student() -> None:
    assert student_quantile(1) == pytest.approx(math.tan(math.pi * 0.475))  # Cauchy
    p = 0.975
    assert student_quantile(2) == pytest.approx((2 * p - 1) / math.sqrt(2 * p * (1 - p)))
    assert student_quantile(1000) == pytest.approx(1.962, abs=1e-3)


def _score(value: float, name: str = "BLEU") -> RunScore:
    return RunScore(name, value, value - 1, value + 1, "signature")


def test_the_interval_over_seeds_is_students_and_stays_on_the_scale() -> None:
    three = over_seeds([_score(30.0), _score(32.0), _score(34.0)])
    half = student_quantile(2) * 2 / math.sqrt(3)
    assert (three.mean, three.low, three.high, three.seeds) == pytest.approx(
        (32, 32 - half, 32 + half, 3)
    )
    two = over_seeds([_score(1.0), _score(99.0)])
    assert (two.low, two.high) == (0.0, 100.0)
    # Above 100 on purpose.
    assert over_seeds([_score(90.0, "TER"), _score(190.0, "TER")]).high > 190
    one = over_seeds([_score(30.0)])
    assert (one.mean, one.low, one.high, one.seeds) == (30, 29, 31, 1)
    with pytest.raises(UsageError, match="at least one run"):
        over_seeds([])


def test_sentence_scores_are_those_of_sacrebleu() -> None:
    for value, output, reference in zip(
        sentence_scores(TEST, BAD, None), BAD, REFERENCES, strict=True
    ):
        assert value == pytest.approx(sacrebleu.sentence_chrf(output, [reference]).score)


@pytest.mark.parametrize("tokenize", [None, words], ids=["translation", "captions"])
def test_runs_are_tested_against_the_first_of_their_group(tokenize: object) -> None:
    outputs = {"base 1": BAD, "good 1": GOOD, "base 2": GOOD, "same 2": GOOD}
    groups = [["base 1", "good 1"], ["base 2", "same 2"]]
    scores = score_groups(TEST, groups, outputs, tokenize)  # type: ignore[arg-type]
    tested = {name: {score.name: score for score in rows} for name, rows in scores.items()}
    name = "CIDEr-D" if tokenize else "BLEU"
    assert tested["base 1"][name].p is None
    assert tested["good 1"][name].against == "base 1"
    assert tested["good 1"][name].p == pytest.approx(0, abs=2e-3)
    same = tested["same 2"][name]
    assert same.against == "base 2"
    assert same.p is not None
    assert same.p > 0.9
    for rows in scores.values():
        assert all(score.low <= score.value + 1e-9 for score in rows)
        assert all(score.low >= 0 for score in rows)
