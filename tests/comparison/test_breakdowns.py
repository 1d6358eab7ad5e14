"""Breakdowns: buckets equal to direct counts, intervals that hold, seeds that are resampled too."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import sacrebleu

from regard.comparison import result
from regard.comparison.breakdowns import breakdowns, interval
from regard.comparison.result import Breakdown, Bucket
from regard.comparison.test_data import TrainingWords

VOCABULARY = [f"w{n}" for n in range(40)]


def _texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(VOCABULARY, k=rng.randint(1, 24))) for _ in range(60)]


SOURCES = _texts(1)
REFERENCES = _texts(2)
TEST = result.TestSet("test", tuple(SOURCES), tuple((text,) for text in REFERENCES), "")


def _outputs(seed: int) -> list[str]:
    """Return the references with three of ten words replaced."""
    rng = random.Random(seed)
    outputs = []
    for reference in REFERENCES:
        words = reference.split()
        drawn = [
            word if rng.random() < 0.7 else rng.choice(VOCABULARY) for word in words
        ]
        outputs.append(" ".join(drawn))

    return outputs


ONE = _outputs(3)
TWO = [_outputs(4), _outputs(5)]
# w0 was never seen, w1 once, w4 four times … w39 often; on the source side w3 is the first
TARGET_COUNTS = {word: n**2 for n, word in enumerate(VOCABULARY) if n}
SOURCE_COUNTS = {word: n for n, word in enumerate(VOCABULARY) if n > 2}
TRAINING = TrainingWords(Counter(SOURCE_COUNTS), Counter(TARGET_COUNTS))


@pytest.fixture(scope="module")
def parts() -> dict[str, Breakdown]:
    """Return the breakdowns of two systems by their keys."""
    both = breakdowns(TEST, {"one": [ONE], "two": TWO}, {}, TRAINING)
    return {part.key: part for part in both}


def _rows(bucket: Bucket, texts: list[str]) -> list[int]:
    """Return the indices of the texts whose length is in a bucket."""
    lengths = range(bucket.first, (bucket.last or 0) + 1)
    return [row for row, text in enumerate(texts) if len(text.split()) in lengths]


def test_length_buckets_are_those_of_sacrebleu_on_their_sentences(
    parts: dict[str, Breakdown],
) -> None:
    """Several runs are scored as one corpus."""
    systems = parts["length"].systems
    for runs, buckets in (([ONE], systems["one"]), (TWO, systems["two"])):
        assert sum(bucket.items for bucket in buckets) == len(SOURCES)

        for bucket in buckets:
            rows = _rows(bucket, SOURCES)
            assert bucket.items == len(rows)

            outputs = [run[row] for run in runs for row in rows]
            references = [REFERENCES[row] for row in rows] * len(runs)
            expected = sacrebleu.corpus_chrf(outputs, [references]).score

            assert bucket.value == pytest.approx(expected)
            assert 0 <= bucket.low <= bucket.value <= bucket.high <= 100


@pytest.mark.parametrize(("values", "width"), [((5.0, 5.0), 0.0), ((1.0, 9.0), 8.0)])
def test_runs_that_differ_widen_the_interval(
    values: tuple[float, ...], width: float
) -> None:
    tables = np.stack([np.full((50, 1), value) for value in values])
    mean, low, high = interval(tables, lambda sums: float(sums[0]) / 100)
    assert mean == pytest.approx(5.0)
    assert high - low == pytest.approx(width)


def test_an_interval_covers_the_true_mean() -> None:
    hits = 0
    for seed in range(60):
        sample = np.random.default_rng(seed).normal(10.0, 3.0, (1, 80, 1))
        _, low, high = interval(sample, lambda sums: float(sums[0]) / 80)
        hits += low <= 10.0 <= high

    assert 52 <= hits <= 60  # 95 % of 60 are 57


def _buckets(
    one: list[list[str]], other: list[list[str]], baseline: str = "a"
) -> dict[tuple[str, str], list[Bucket]]:
    """Return the buckets of two systems by breakdown and label, those of the baseline first."""
    buckets: dict[tuple[str, str], list[Bucket]] = {}
    for part in breakdowns(TEST, {"a": one, "b": other}, {}, TRAINING, baseline):
        for name in sorted(part.systems, key=lambda name: name != baseline):
            for bucket in part.systems[name]:
                buckets.setdefault((part.key, bucket.label), []).append(bucket)

    return buckets


def test_the_lead_over_the_baseline_is_the_difference_on_the_same_resamples() -> None:
    swapped = _buckets([ONE], TWO[:1], "b")
    for key, (theirs, ours) in _buckets([ONE], TWO[:1]).items():
        assert theirs.lead is None
        assert ours.lead is not None

        lead, low, high = ours.lead
        assert lead == pytest.approx(ours.value - theirs.value)
        assert low <= lead <= high
        assert high - low <= ours.high - ours.low + theirs.high - theirs.low
        assert swapped[key][1].lead == pytest.approx((-lead, -high, -low))

    for _, equal in _buckets([ONE], [ONE, ONE]).values():
        assert equal.lead == (0.0, 0.0, 0.0)


def test_word_f1_by_frequency_is_a_direct_count(parts: dict[str, Breakdown]) -> None:
    part = parts["frequency"]
    assert part.score == "word F1"

    labels = [bucket.label for bucket in part.systems["one"]]
    assert labels[:6] == ["never", "1", "4", "5–9", "10–99", "100–999"]
    assert labels[-1] == "1,000 and more"

    for bucket in part.systems["one"]:
        last = 10**9 if bucket.last is None else bucket.last
        wanted = set()
        for word in VOCABULARY:
            if bucket.first <= TARGET_COUNTS.get(word, 0) <= last:
                wanted.add(word)

        both = of_outputs = of_references = 0
        for output, reference in zip(ONE, REFERENCES, strict=True):
            made = Counter(word for word in output.split() if word in wanted)
            right = Counter(word for word in reference.split() if word in wanted)
            both += (made & right).total()
            of_outputs += made.total()
            of_references += right.total()

        assert bucket.items == of_references
        assert bucket.value == pytest.approx(200 * both / (of_outputs + of_references))


def test_seen_and_unseen_words_and_sentences(parts: dict[str, Breakdown]) -> None:
    words = " ".join(REFERENCES).split()
    seen, unseen = parts["seen_words"].systems["one"]
    assert unseen.items == words.count("w0")
    assert seen.items + unseen.items == len(words)

    whole, with_unknown = parts["seen_sources"].systems["one"]
    unknown = {"w0", "w1", "w2"}
    assert whole.items == sum(unknown.isdisjoint(text.split()) for text in SOURCES)
    assert whole.items + with_unknown.items == len(SOURCES)

    without_training = breakdowns(TEST, {"one": [ONE]}, {}, TrainingWords())
    assert [part.key for part in without_training] == ["length"]


def test_sentence_scores_of_captions_are_averaged_by_reference_length() -> None:
    scores = {"one": [np.arange(60.0)]}
    length, *_ = breakdowns(TEST, {"one": [ONE]}, scores, TRAINING)
    assert length.unit == "reference words"

    for bucket in length.systems["one"]:
        assert bucket.value == pytest.approx(np.mean(_rows(bucket, REFERENCES)))
