"""Breakdowns: buckets equal to direct counts, intervals that hold, seeds that are resampled too."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import sacrebleu

from regard.comparison import result
from regard.comparison.breakdowns import FREQUENCIES, breakdowns, frequency_bucket, interval
from regard.comparison.result import Breakdown
from regard.comparison.test_data import TrainingWords, count_words
from regard.evaluation.caption_metrics import words
from regard.evaluation.length_buckets import length_ranges

VOCABULARY = [f"w{n}" for n in range(40)]


def _texts(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(VOCABULARY, k=rng.randint(1, 24))) for _ in range(count)]


def _noisy(texts: list[str], seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(word if rng.random() < 0.7 else rng.choice(VOCABULARY) for word in text.split())
        for text in texts
    ]


SOURCES = _texts(1)
REFERENCES = _texts(2)
TEST = result.TestSet("test", tuple(SOURCES), tuple((text,) for text in REFERENCES), "")
OUTPUTS = {"one": [_noisy(REFERENCES, 3)], "two": [_noisy(REFERENCES, 4), _noisy(REFERENCES, 5)]}
# w0 was never seen, w1 once, w2 twice … w39 often
TRAINING = TrainingWords(
    Counter({word: n for n, word in enumerate(VOCABULARY) if n > 2}),
    Counter({word: n**2 for n, word in enumerate(VOCABULARY) if n}),
)


def _parts(training: TrainingWords = TRAINING) -> dict[str, Breakdown]:
    return {part.key: part for part in breakdowns(TEST, OUTPUTS, {}, training)}


def test_length_buckets_are_those_of_sacrebleu_on_their_sentences() -> None:
    buckets = _parts()["length"].systems["one"]
    assert sum(bucket.items for bucket in buckets) == len(SOURCES)
    for bucket in buckets:
        rows = [
            i
            for i, text in enumerate(SOURCES)
            if bucket.first <= len(text.split()) <= (bucket.last or 0)
        ]
        assert bucket.items == len(rows)
        outputs, references = (
            [texts[i] for i in rows] for texts in (OUTPUTS["one"][0], REFERENCES)
        )
        assert bucket.value == pytest.approx(sacrebleu.corpus_chrf(outputs, [references]).score)
        assert 0 <= bucket.low <= bucket.value <= bucket.high <= 100


def test_several_runs_are_scored_as_one_corpus_and_widen_the_interval() -> None:
    bucket = _parts()["length"].systems["two"][0]
    rows = [
        i
        for i, text in enumerate(SOURCES)
        if bucket.first <= len(text.split()) <= (bucket.last or 0)
    ]
    outputs = [run[i] for run in OUTPUTS["two"] for i in rows]
    expected = sacrebleu.corpus_chrf(outputs, [[REFERENCES[i] for i in rows] * 2]).score
    assert bucket.value == pytest.approx(expected)
    same = np.full((2, 50, 1), 5.0)
    apart = np.concatenate([np.full((1, 50, 1), 1.0), np.full((1, 50, 1), 9.0)])
    for tables, width in ((same, 0.0), (apart, 8.0)):
        mean, low, high = interval(tables, lambda sums, count=2 * 50: float(sums[0]) / count)
        assert (mean, high - low) == pytest.approx((5.0, width))


def test_an_interval_covers_the_true_mean() -> None:
    hits = 0
    for seed in range(60):
        sample = np.random.default_rng(seed).normal(10.0, 3.0, (1, 80, 1))
        _, low, high = interval(sample, lambda sums: float(sums[0]) / 80)
        hits += low <= 10.0 <= high
    assert 52 <= hits <= 60  # 95 % of 60 are 57


def _leads(
    outputs: dict[str, list[list[str]]], baseline: str
) -> dict[tuple[str, str], tuple[float, float, float]]:
    (other,) = outputs.keys() - {baseline}
    parts = breakdowns(TEST, outputs, {}, TRAINING, baseline)
    assert not any(bucket.lead for part in parts for bucket in part.systems[baseline])
    buckets = ((part.key, bucket) for part in parts for bucket in part.systems[other])
    return {(key, bucket.label): bucket.lead for key, bucket in buckets if bucket.lead is not None}


def test_the_lead_over_the_baseline_is_the_difference_on_the_same_resamples() -> None:
    first = OUTPUTS["one"][0]
    second = OUTPUTS["two"][0]
    leads = _leads({"a": [first], "b": [second]}, "a")
    parts = {
        part.key: part.systems
        for part in breakdowns(TEST, {"a": [first], "b": [second]}, {}, TRAINING)
    }
    for (key, label), (value, low, high) in leads.items():
        ours, theirs = (next(b for b in parts[key][name] if b.label == label) for name in "ba")
        assert value == pytest.approx(ours.value - theirs.value)
        assert low <= value <= high
        assert high - low <= ours.high - ours.low + theirs.high - theirs.low
    swapped = _leads({"a": [first], "b": [second]}, "b")
    assert swapped.keys() == leads.keys()
    for key, (value, low, high) in leads.items():
        assert swapped[key] == pytest.approx((-value, -high, -low))
    assert {key for key, _ in leads} == {"length", "seen_sources", "frequency", "seen_words"}


def test_equal_outputs_have_no_lead_whatever_the_number_of_runs() -> None:
    one = OUTPUTS["one"][0]
    assert set(_leads({"a": [one], "b": [one, one]}, "a").values()) == {(0.0, 0.0, 0.0)}


def test_word_f1_by_frequency_is_a_direct_count() -> None:
    part = _parts()["frequency"]
    assert part.score == "word F1"
    known = TRAINING.target or {}
    for bucket in part.systems["one"]:
        last = 10**9 if bucket.last is None else bucket.last
        both = made = right = 0
        for output, reference in zip(OUTPUTS["one"][0], REFERENCES, strict=True):
            inside = [
                [w for w in text.split() if bucket.first <= known.get(w, 0) <= last]
                for text in (output, reference)
            ]
            made = made + len(inside[0])
            right = right + len(inside[1])
            for word in inside[0]:
                if word in inside[1]:
                    both += 1
                    inside[1].remove(word)
        assert bucket.items == right
        assert bucket.value == pytest.approx(200 * both / (made + right))


def test_every_number_of_occurrences_has_one_bucket() -> None:
    edges = [*FREQUENCIES, 10**9]
    for occurrences in (0, 1, 2, 4, 5, 9, 10, 99, 100, 999, 1000, 10**6):
        number = frequency_bucket(occurrences)
        assert edges[number] <= occurrences < edges[number + 1]
    labels = [bucket.label for bucket in _parts()["frequency"].systems["one"]]
    assert labels[:6] == ["never", "1", "4", "5–9", "10–99", "100–999"]
    assert labels[-1] == "1,000 and more"


def test_seen_and_unseen_words_and_sentences() -> None:
    parts = _parts()
    seen, unseen = parts["seen_words"].systems["one"]
    assert unseen.items == sum(text.split().count("w0") for text in REFERENCES)
    assert seen.items + unseen.items == sum(len(text.split()) for text in REFERENCES)
    whole, with_unknown = parts["seen_sources"].systems["one"]
    assert whole.items == sum(not {"w0", "w1", "w2"} & {*text.split()} for text in SOURCES)
    assert whole.items + with_unknown.items == len(SOURCES)


def test_without_training_data_only_length_is_looked_at() -> None:
    assert list(_parts(TrainingWords())) == ["length"]


def test_sentence_scores_of_captions_are_averaged_by_reference_length() -> None:
    scores = {"one": [np.arange(60.0)]}
    parts = {part.key: part for part in breakdowns(TEST, {"one": OUTPUTS["one"]}, scores, TRAINING)}
    assert parts["length"].unit == "reference words"
    for bucket in parts["length"].systems["one"]:
        rows = [
            i
            for i, text in enumerate(REFERENCES)
            if bucket.first <= len(text.split()) <= (bucket.last or 0)
        ]
        assert bucket.value == pytest.approx(np.mean(rows))


def test_ranges_of_lengths_have_no_gap() -> None:
    ranges = length_ranges(47)
    assert ranges[0][0] == 1
    assert ranges[-1][1] == 47
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(ranges))
    assert length_ranges(0) == [(1, 1)]


def test_words_are_counted_without_case_and_punctuation() -> None:
    assert count_words(["A dog, a Dog.", "빵을 먹었다."]) == {
        "a": 2,
        "dog": 2,
        "빵을": 1,
        "먹었다": 1,
    }
    assert words("A dog.") == ["a", "dog"]
