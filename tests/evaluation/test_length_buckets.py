"""chrF by length: each sentence is in one bucket, and each bucket is scored as if alone."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.evaluation.length_buckets import by_length


def test_buckets_hold_every_sentence_and_their_own_score() -> None:
    sources = ["w " * count for count in (1, 3, 5, 6, 9, 13, 14)]
    references = [f"reference number {n} of some" for n in range(7)]
    outputs = list(references)
    outputs[::2] = [text.replace("number", "bread") for text in references[::2]]
    buckets = by_length(sources, outputs, [references])
    sizes = [(bucket.first, bucket.last, bucket.sentences) for bucket in buckets]
    assert sizes == [(1, 5, 3), (6, 10, 2), (11, 14, 2)]
    alone = CHRF().corpus_score(outputs[:3], [references[:3]]).score
    assert buckets[0].chrf == pytest.approx(alone)
    for bucket in buckets:
        assert bucket.low - 1 <= bucket.chrf <= bucket.high + 1
    assert buckets == by_length(sources, outputs, [references]), (
        "the draws are the same each time"
    )
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


def test_intervals_stay_on_the_scale() -> None:
    references = [f"the sentence with number {n} is right" for n in range(4)]
    nearly = [*references[:3], "wrong"]
    hardly = ["zzz", "yyy", "xxx", references[3]]
    for outputs in (nearly, hardly, [""] * 4):
        (bucket,) = by_length(["a b c"] * 4, outputs, [references])
        assert 0 <= bucket.low <= bucket.high <= 100, outputs
        assert outputs is not nearly or bucket.high == 100, (
            "half an interval more leaves the scale"
        )
