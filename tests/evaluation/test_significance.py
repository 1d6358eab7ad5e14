"""Paired bootstrap tests: the figures of sacreBLEU, whatever the environment says, and intervals on
the scale.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from regard.common.errors import DataError
from regard.evaluation.significance import paired_tests

REFERENCES = [
    f"number {n} of the sentences is {'even' if n % 2 == 0 else 'odd'}"
    for n in range(30)
]
GOOD = [
    text if n % 3 else text.replace("sentences", "words")
    for n, text in enumerate(REFERENCES)
]
BAD = [
    text.replace("number", "figure").replace("of the", "in a") for text in REFERENCES
]


def test_figures_are_those_of_sacrebleu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")  # another one than the documented
    first, second = paired_tests([("good", GOOD), ("bad", BAD)], [REFERENCES])
    assert os.environ["SACREBLEU_SEED"] == "7"

    monkeypatch.delenv("SACREBLEU_SEED")
    metrics = {"BLEU": BLEU(), "chrF2": CHRF(), "TER": TER()}
    signatures, results = PairedTest(
        [("good", GOOD), ("bad", BAD)], metrics, [REFERENCES], test_type="bs"
    )()

    assert [score.name for score in first] == ["BLEU", "chrF", "TER"]

    for name, *scores in zip(metrics, first, second, strict=True):
        for score, theirs in zip(scores, results[name], strict=True):
            assert not isinstance(theirs, str)
            assert (score.value, score.mean, score.ci) == pytest.approx(
                (theirs.score, theirs.mean, theirs.ci)
            )
            assert score.p == theirs.p_value
            assert score.signature == str(signatures[name])

    assert "SACREBLEU_SEED" not in os.environ


@pytest.mark.system
def test_differences_have_the_interval_of_the_paired_resamples() -> None:
    """Each resample is scored as a corpus of its own, by sacreBLEU's public interface."""
    lines = 10
    references = REFERENCES[:lines]
    systems = [("good", GOOD[:lines]), ("bad", BAD[:lines])]
    first, second = paired_tests(systems, [references], ter=False)
    assert [score.difference for score in first] == [None, None]

    draws = np.random.default_rng(12345).choice(lines, size=(1000, lines), replace=True)
    differences = []
    for rows in draws:
        resample = [[references[row] for row in rows]]
        good, bad = (
            CHRF().corpus_score([outputs[row] for row in rows], resample).score
            for _, outputs in systems
        )
        differences.append(bad - good)
    difference = second[1].difference
    assert difference is not None
    assert difference.value == pytest.approx(second[1].value - first[1].value)
    ends = np.quantile(differences, [0.025, 0.975])
    assert (difference.low, difference.high) == pytest.approx(tuple(ends), abs=1e-4)


@pytest.mark.system
def test_intervals_stay_on_the_scale_and_equal_scores_are_said_to_be() -> None:
    systems = {
        "good": GOOD,
        "same": GOOD,
        "nearly": [*REFERENCES[:-1], "wrong"],
        "hardly": ["zzz"] * 30,
        "empty": [""] * 30,
    }
    _, *others = paired_tests([*systems.items()], [REFERENCES])
    for scores, name in zip(others, [*systems][1:], strict=True):
        for score in scores:
            assert 0 <= score.low <= score.high
            assert score.high <= 100 or score.name == "TER"
            assert score.equal == (name == "same")


def test_long_lines_have_no_ter_and_other_lengths_are_refused() -> None:
    long = ["word " * 201]
    assert [score.name for score in paired_tests([("a", long)], [long])[0]] == [
        "BLEU",
        "chrF",
    ]
    with pytest.raises(
        DataError, match=r"b: wanted an output for each of 30 references, got 29"
    ):
        paired_tests([("a", GOOD), ("b", GOOD[1:])], [REFERENCES])
