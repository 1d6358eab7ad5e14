"""The probability that a translation is good: its fit, and its checks."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from regard.evaluation.quality_fit import LEAST, calibrate
from regard.pipeline.bulk.chunk_translator import LineQuality
from regard.pipeline.bulk.quality_report import QualityReport
from regard.text.doubtful_sentences import DoubtfulSentences
from regard.text.quality import DOUBTFUL, Quality, Trust, features
from regard.text.translation import TranslatedPart, Translation

QUALITY = Quality((0.5, 1.5, 0.25, -0.75), 300, 0.5)


def translation(text: str, score: float, source: str = "나는 집에 간다") -> Translation:
    part = TranslatedPart(source, text, score)
    return Translation(text, (), score, parts=(part,))


def drawn(count: int, seed: int) -> tuple[list[Translation], list[str], list[float]]:
    """Draw translations that are right with a probability known from their score and length."""
    draws = np.random.default_rng(seed)
    translations = []
    references = []
    truth = []
    for _ in range(count):
        score = -3 * draws.random()
        text = "word " * int(draws.integers(1, 12)) + "end"
        logit = 2.5 + 2 * score + 0.3 * math.log(1 + len(text))
        truth.append(1 / (1 + math.exp(-logit)))
        translations.append(translation(text, score))
        is_right = draws.random() < truth[-1]
        references.append(text if is_right else "###")
    return translations, references, truth


def test_the_fit_finds_the_probabilities_that_pairs_were_drawn_with() -> None:
    translations, references, _ = drawn(6000, seed=1)
    quality = calibrate(translations, references)
    assert quality is not None
    others, _, truth = drawn(500, seed=2)
    predicted = [quality.probability(*result.parts[0][:3]) for result in others]
    assert np.abs(np.subtract(predicted, truth)).max() < 0.05
    assert quality.share == pytest.approx(
        np.mean([a.text == b for a, b in zip(translations, references, strict=True)])
    )
    for told, share in quality.curve:
        assert told == pytest.approx(share, abs=0.05)


def test_the_slope_of_the_likelihood_is_zero_at_the_fit() -> None:
    """The oracle is the derivative of the logarithm of the likelihood, written out."""
    translations, references, _ = drawn(800, seed=3)
    quality = calibrate(translations, references)
    assert quality is not None
    slopes = np.zeros(4)
    for result, reference in zip(translations, references, strict=True):
        source, text, score = result.parts[0][:3]
        error = (text == reference) - quality.probability(source, text, score)
        slopes += error * np.array(features(source, text, score))
    assert np.abs(slopes / 800).max() < 0.02  # the ridge leaves a little


def test_too_few_pairs_or_all_alike_are_no_calibration() -> None:
    translations, references, _ = drawn(LEAST - 1, seed=4)
    assert calibrate(translations, references) is None
    many, _, _ = drawn(LEAST, seed=4)
    assert calibrate(many, [result.text for result in many]) is None


def test_a_copy_is_good_and_what_stands_as_it_was_is_not() -> None:
    assert QUALITY.probability("12:30", "12:30", 0.0) == 1.0
    parts = (
        TranslatedPart("a", "b", -1.0, quality=0.8),
        TranslatedPart("c", "c", -1.0, quality=0.0),
    )
    assert Translation("b c", (), -2.0, parts=parts).quality == 0.0
    assert (
        Translation("b", (), -1.0, parts=(parts[0]._replace(quality=None),)).quality
        is None
    )


class Fixed:
    """A calibration that tells one probability."""

    def __init__(self, probability: float) -> None:
        self.probability = lambda *_: probability


@pytest.mark.parametrize(
    ("quality", "score", "doubtful"),
    [
        (DOUBTFUL, -9.0, False),
        (DOUBTFUL - 0.01, -0.1, True),
        (None, -9.0, True),
        (None, -0.1, False),
    ],
)
def test_the_score_judges_only_where_the_quality_is_unknown(
    quality: float | None, score: float, doubtful: bool
) -> None:
    model = Fixed(quality) if quality is not None else None
    doubts = DoubtfulSentences(lambda _: [0], lambda _: ["a"], None)
    trust = Trust(-5.0, model)  # type: ignore[arg-type]
    assert doubts.judge("a", "b", score, trust) == (doubtful, quality)
    assert doubts.judge("a", "b", score, Trust()) == (False, None)


@pytest.mark.parametrize(
    "values",
    [{"good": (1.0,)}, {"good": (0.0, 0.0, 0.0, math.inf)}, {"pairs": 0}, {"share": 2}],
)
def test_values_that_are_no_calibration_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        Quality(**{**asdict(QUALITY), **values})  # type: ignore[arg-type]


def test_the_worst_lines_are_named_first() -> None:
    report = QualityReport()
    report.add([LineQuality(0.9, 1), LineQuality(0.2, 2), LineQuality(0.1, 3)])
    report.add(LineQuality(0.4, number) for number in range(4, 104))
    first, second = report.lines()
    assert "of 103 lines about 40% can be used" in first
    assert second.startswith(
        "look at these first, the least sure ahead: 3 (0.10), 2 (0.20), 4 ("
    )
    assert second.count("(") == 36
