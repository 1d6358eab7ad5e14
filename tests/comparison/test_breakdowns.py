"""Breakdowns: buckets equal to direct counts, intervals that hold, seeds that are resampled too."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import sacrebleu

from regard.comparison import result
from regard.comparison.breakdowns import Metric, breakdowns, interval, resample
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
    """The score of several runs is their mean."""
    systems = parts["length"].systems
    for runs, buckets in (([ONE], systems["one"]), (TWO, systems["two"])):
        assert sum(bucket.items for bucket in buckets) == len(SOURCES)

        for bucket in buckets:
            rows = _rows(bucket, SOURCES)
            assert bucket.items == len(rows)

            references = [REFERENCES[row] for row in rows]
            scores = []
            for run in runs:
                outputs = [run[row] for row in rows]
                scores.append(sacrebleu.corpus_chrf(outputs, [references]).score)

            assert bucket.value == pytest.approx(np.mean(scores))
            assert 0 <= bucket.low <= bucket.value <= bucket.high <= 100


def _mean(sums: Any) -> Any:
    return sums[..., 0] / 80


MEAN = Metric("mean", _mean, np.inf)
EQUAL_RUNS_T = {2: 4.302653, 3: 2.776445, 5: 2.306004}
"""97.5 % quantile of t with 2 n − 2 degrees of freedom, from a table."""


def _scores(table: Any) -> Any:
    """Return the scores of a table (runs, 80 sentences) and of its resamples."""
    return resample(table[..., None], MEAN)


@pytest.mark.parametrize("runs", EQUAL_RUNS_T)
def test_without_a_part_of_sentences_the_interval_is_welchs(runs: int) -> None:
    """Each run has one score for all sentences; the variances are equal, so Welch's degrees of
    freedom are 2 n − 2.
    """
    of_runs = np.arange(runs, dtype=float)
    one, other = (np.outer(of_runs + shift, np.ones(80)) for shift in (0, 3))
    value, low, high = interval(_scores(other), _scores(one))
    half = EQUAL_RUNS_T[runs] * np.sqrt(2 * np.var(of_runs, ddof=1) / runs)
    assert (value, low, high) == pytest.approx((3, 3 - half, 3 + half), rel=1e-5)


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_the_variance_has_a_part_of_runs_and_one_of_sentences(runs: int) -> None:
    """The mean squares of a table with two factors give it too, without resampling."""
    rng = np.random.default_rng(runs)
    variances = []
    weighted = 0.0
    scores = []
    for _ in range(2):
        table = rng.normal(size=(runs, 1)) + rng.normal(size=(runs, 80)) * 3
        table += rng.normal(size=(1, 80)) * 8
        scores.append(_scores(table))
        residuals = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
        of_runs = table.mean(1).var(ddof=1) / runs
        of_sentences = table.mean(0).var() / 80
        of_both = (residuals**2).sum() / (runs - 1) / 80 / (runs * 80)
        variances.append(of_runs + of_sentences - of_both)
        weighted += of_runs**2 / (runs - 1)

    _, low, high = interval(*scores)
    degrees = sum(variances) ** 2 / weighted
    expected = 2 * student_t(degrees) * np.sqrt(sum(variances))
    assert high - low == pytest.approx(expected, rel=0.1)


def student_t(degrees: float) -> float:
    """Return the 97.5 % quantile of t as that of many draws."""
    draws = np.random.default_rng(0).standard_t(degrees, 400_000)
    return float(np.quantile(draws, 0.975))


def test_the_order_of_runs_changes_nothing_and_equal_numbers_are_no_pairs() -> None:
    rng = np.random.default_rng(3)
    one = rng.normal(0, 4, (3, 80)) + [[0], [5], [10]]
    other = one + rng.normal(3, 1, (3, 80))  # would be close pairs
    expected = interval(_scores(other), _scores(one))
    assert expected[1] < 0 < expected[2]
    for order in itertools.permutations(range(3)):
        shuffled = interval(_scores(other[list(order)]), _scores(one))
        assert shuffled == pytest.approx(expected)


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_an_interval_covers_the_true_mean(runs: int) -> None:
    hits = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = rng.normal(10.0, 3.0, (1, 80)) + rng.normal(0.0, 1.0, (runs, 80))
        if runs > 1:
            table += rng.normal(0.0, 1.0, (runs, 1))
        _, low, high = interval(_scores(table))
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
        assert swapped[key][1].lead == pytest.approx((-lead, -high, -low))

    for _, equal in _buckets([ONE], [ONE]).values():
        assert equal.lead == (0.0, 0.0, 0.0)
    for _, several in _buckets([ONE], TWO).values():
        assert several.lead is None, "one run against several"


def test_ranges_beyond_training_are_marked_and_the_whole_test_set_is_no_range() -> None:
    words = Counter(" ".join(SOURCES).split())
    parts = breakdowns(TEST, {"a": [ONE]}, {}, TrainingWords(words, words, longest=10))
    by_key = {part.key: part for part in parts}
    marks = [
        (bucket.first, bucket.is_beyond) for bucket in by_key["length"].systems["a"]
    ]
    assert marks == [(1, False), (6, False), (11, True), (16, True), (21, True)]
    assert "seen_sources" not in by_key
    assert "seen_words" not in by_key


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
