"""chrF by length: each sentence is in one bucket, and each bucket is scored as if alone."""

from __future__ import annotations

from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.evaluation.length_buckets import by_length


def test_buckets_hold_every_sentence_and_their_own_score() -> None:
    sources = ["w " * count for count in (1, 3, 5, 6, 9, 13, 14)]
    references = [f"reference number {n} of some" for n in range(7)]
    outputs = list(references)
    outputs[::2] = [text.replace("number", "bread") for text in references[::2]]
    first, *others = by_length(sources, outputs, [references])

    sizes = [(bucket.first, bucket.last, bucket.sentences) for bucket in others]
    assert (first.first, first.last, first.sentences) == (1, 5, 3)
    assert sizes == [(6, 10, 2), (11, 14, 2)]

    alone = CHRF().corpus_score(outputs[:3], [references[:3]]).score
    assert first.chrf == pytest.approx(alone)
    assert by_length([], [], [[]]) == []


def test_intervals_equal_sacrebleus_even_if_a_side_is_empty() -> None:
    sources = ["a b", "c d e", "f"]
    references = ["one two three", "four five", "six seven eight nine"]
    outputs = ["one two", "four fire", "six seven nine"]
    (bucket,) = by_length(sources, outputs, [references])
    reference = CHRF().corpus_score(outputs, [references], n_bootstrap=500)

    assert bucket.chrf == pytest.approx(reference.score, abs=1e-4)
    assert bucket.low == pytest.approx(reference._mean - reference._ci, abs=1e-4)

    texts = ["Ein Mann.", ""]
    (bucket,) = by_length(["A man.", "A man."], texts, [texts])
    assert bucket.sentences == 2
    assert bucket.low <= bucket.chrf


def test_intervals_equal_sacrebleus_and_stay_on_the_scale() -> None:
    sources = ["a b", "c d e", "f"]
    references = ["one two three", "four five", "six seven eight nine"]
    outputs = ["one two", "four fire", "six seven nine"]
    (bucket,) = by_length(sources, outputs, [references])
    expected: Any = CHRF().corpus_score(outputs, [references], n_bootstrap=500)

    assert bucket.chrf == pytest.approx(expected.score, abs=1e-4)
    assert bucket.low == pytest.approx(expected._mean - expected._ci, abs=1e-4)

    nearly = [*references[:2], "wrong"]
    (bucket,) = by_length(sources, nearly, [references])
    assert 0 <= bucket.low <= bucket.high
    assert bucket.high == 100, "half an interval more leaves the scale"

    (empty,) = by_length(sources, [""] * 3, [references])
    assert empty.low == empty.chrf == 0
