"""Break scores down by sentence length, word frequency, and words seen in training, with bootstrap
intervals.

The runs of a system are scored together. Each resample draws sentences with replacement and, if a
system has several runs, runs too, so that an interval holds for other sentences and other seeds
(Koehn 2004; the nested bootstrap). All systems are scored on the same resamples of sentences, which
gives an interval for their difference from the baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from regard.comparison.result import Breakdown, Bucket, TestSet
from regard.comparison.test_data import TrainingWords
from regard.evaluation.caption_metrics import words
from regard.evaluation.length_buckets import DRAWS, SEED, length_ranges

FREQUENCIES = (0, 1, 2, 3, 4, 5, 10, 100, 1000)
"""Smallest number of occurrences in each bucket of word frequency, as in compare-mt."""
SEEN = (("seen in training", 1, None), ("never seen", 0, 0))
Array = npt.NDArray[np.float64]
Statistics = Mapping[str, Sequence[Array]]
"""Statistics of each system: an array (sentences, …) for each run. A score is computed from their
sum.
"""
Scorer = Callable[[Array], float]


class Group(NamedTuple):
    """Sentences of one bucket, as indices into the test set; `first` and `last` are its ends."""

    label: str
    first: int
    last: int | None
    rows: npt.NDArray[np.int64]


class Part(NamedTuple):
    """One bucket to be scored: its label, its ends, its number of items, and the statistics (runs,
    sentences, …) of each system on it.
    """

    label: str
    first: int
    last: int | None
    items: int
    tables: Mapping[str, Array]


def breakdowns(
    test: TestSet,
    outputs: Mapping[str, Sequence[Sequence[str]]],
    scores: Mapping[str, Sequence[Sequence[float]]],
    training: TrainingWords,
    baseline: str = "",
) -> tuple[Breakdown, ...]:
    """Break the scores of all systems down, and compare each system with the baseline.

    `outputs` holds the output lines of each run of each system. `scores` holds their sentence
    scores (CIDEr-D of captions), which are averaged; if it is empty, chrF is computed for each
    bucket. Breakdowns that need the words of the training data are left out if these are unknown.
    """
    is_captions = bool(scores)
    statistics, scorer = _of_means(scores) if is_captions else _of_chrf(test, outputs)

    def by_sentence(key: str, unit: str, groups: Iterable[Group]) -> Breakdown:
        name = "CIDEr-D" if is_captions else "chrF"
        parts = [_part(group, statistics) for group in groups]
        return Breakdown(key, name, unit, _buckets(parts, scorer, baseline))

    unit = "reference words" if is_captions else "source words"
    results = [by_sentence("length", unit, _by_length(test, is_captions))]
    if training.source is not None:
        groups = _by_seen_words(test, training.source)
        results.append(by_sentence("seen_sources", "source sentences", groups))
    if training.target is not None:
        counts = {
            name: [_word_counts(test, run, training.target) for run in runs]
            for name, runs in outputs.items()
        }
        results += _by_words(counts, baseline)
    return tuple(result for result in results if any(result.systems.values()))


def _part(group: Group, statistics: Statistics) -> Part:
    """Select the statistics of a group of sentences."""
    tables = {
        name: np.stack([table[group.rows] for table in runs])
        for name, runs in statistics.items()
    }
    return Part(group.label, group.first, group.last, len(group.rows), tables)


def _of_means(
    scores: Mapping[str, Sequence[Sequence[float]]],
) -> tuple[Statistics, Scorer]:
    """Return statistics (score, 1) of each sentence, and the function that computes their mean."""

    def score(sums: Array) -> float:
        return float(sums[0] / max(1.0, sums[1]))

    statistics = {
        name: [np.stack([np.asarray(run), np.ones(len(run))], 1) for run in runs]
        for name, runs in scores.items()
    }
    return statistics, score


def _of_chrf(
    test: TestSet, outputs: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[Statistics, Scorer]:
    """Return sacreBLEU's n-gram statistics of each sentence, and the function that computes corpus
    chrF from their sum.
    """
    metric = CHRF()
    references = [list(lines) for lines in zip(*test.references, strict=True)]

    def count_ngrams(run: Sequence[str]) -> Array:
        rows = metric._extract_corpus_statistics(list(run), references)
        return np.array(rows, np.float64)

    def score(sums: Array) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    statistics = {
        name: [count_ngrams(run) for run in runs] for name, runs in outputs.items()
    }
    return statistics, score


def _buckets(
    parts: Iterable[Part], scorer: Scorer, baseline: str
) -> dict[str, tuple[Bucket, ...]]:
    """Score each system on each part that has items, with intervals of the score and of its
    difference from the baseline.
    """
    buckets = dict[str, tuple[Bucket, ...]]()
    for label, first, last, items, tables in parts:
        if not items:
            continue
        scores = {name: _resampled(table, scorer) for name, table in tables.items()}
        for name, resamples in scores.items():
            lead = None
            if baseline in scores and name != baseline:
                lead = _bounds(resamples - scores[baseline])
            bucket = Bucket(label, first, last, items, *_bounds(resamples), lead)
            buckets[name] = (*buckets.get(name, ()), bucket)
    return buckets


def interval(tables: Array, scorer: Scorer) -> tuple[float, float, float]:
    """Return the score of statistics (runs, sentences, …), and the 2.5th and 97.5th percentile of
    its bootstrap resamples.
    """
    return _bounds(_resampled(tables, scorer))


def _resampled(tables: Array, scorer: Scorer) -> Array:
    """Return the score of all runs and sentences, followed by the scores of DRAWS resamples, which
    draw the same sentences for every system.
    """
    runs, sentences = tables.shape[:2]
    sentence_draws = np.random.default_rng(SEED)
    run_draws = np.random.default_rng((SEED, 1))
    scores = np.full(DRAWS + 1, scorer(tables.sum((0, 1))))
    for number in range(1, DRAWS + 1):
        drawn = sentence_draws.integers(0, sentences, sentences)
        sentence_counts = np.bincount(drawn, minlength=sentences).astype(np.float64)
        run_counts: npt.NDArray[np.float64 | np.intp] = np.ones(1)
        if runs > 1:
            run_counts = np.bincount(run_draws.integers(0, runs, runs), minlength=runs)
        weights = np.outer(run_counts, sentence_counts)
        scores[number] = scorer(np.tensordot(weights, tables, 2))
    return scores


def _bounds(scores: Array) -> tuple[float, float, float]:
    """Return the first score, and an interval of the others that contains it."""
    value = float(scores[0])
    low, high = np.quantile(scores[1:], [0.025, 0.975])
    return value, min(value, float(low)), max(value, float(high))


def _by_length(test: TestSet, is_captions: bool) -> Iterator[Group]:
    """Group sentences by their source words, or images by the mean length of their references."""
    if is_captions:
        lengths = [
            round(sum(len(text.split()) for text in texts) / len(texts))
            for texts in test.references
        ]
    else:
        lengths = [len(source.split()) for source in test.sources]
    for first, last in length_ranges(max(lengths, default=0)):
        rows = [row for row, length in enumerate(lengths) if first <= length <= last]
        if len(rows) > 1:
            label = f"{first}–{last}" if first < last else f"{first}"
            yield Group(label, first, last, np.array(rows, np.int64))


def _by_seen_words(test: TestSet, training: Mapping[str, int]) -> tuple[Group, Group]:
    """Group source sentences by whether all of their words occur in the training data."""
    is_seen = np.array(
        [all(word in training for word in words(source)) for source in test.sources]
    )
    return (
        Group("every word seen in training", 0, 0, np.flatnonzero(is_seen)),
        Group("some word never seen", 1, None, np.flatnonzero(~is_seen)),
    )


# --- words of the references and outputs


def _word_counts(
    test: TestSet, outputs: Sequence[str], training: Mapping[str, int]
) -> Array:
    """Count words (sentences, frequency buckets, 3): in both output and reference, in the output,
    in the first reference.

    In both, a word counts as often as in the text in which it is rarer.
    """
    counts = np.zeros((len(outputs), len(FREQUENCIES), 3))
    pairs = zip(outputs, test.references, strict=True)
    for row, (output, references) in enumerate(pairs):
        output_words = Counter(words(output))
        reference_words = Counter(words(references[0]))
        matches = output_words & reference_words
        for column, counter in enumerate((matches, output_words, reference_words)):
            for word, count in counter.items():
                bucket = frequency_bucket(training.get(word, 0))
                counts[row, bucket, column] += count
    return counts


def frequency_bucket(occurrences: int) -> int:
    """Return the index of the bucket of words with this number of occurrences in training."""
    return int(np.searchsorted(FREQUENCIES, occurrences, side="right")) - 1


def _by_words(counts: Mapping[str, Sequence[Array]], baseline: str) -> list[Breakdown]:
    """Return the F1 of words by their frequency in training, and the recall of words seen and never
    seen there.
    """
    tables = {name: np.stack(list(runs)) for name, runs in counts.items()}
    frequency_parts = list[Part]()
    for bucket, first in enumerate(FREQUENCIES):
        is_highest = bucket + 1 == len(FREQUENCIES)
        last = None if is_highest else FREQUENCIES[bucket + 1] - 1
        of_bucket = {name: table[:, :, bucket] for name, table in tables.items()}
        label = _frequency_label(first, last)
        frequency_parts.append(_word_part(label, first, last, of_bucket))

    seen = {name: table[:, :, 1:].sum(2) for name, table in tables.items()}
    unseen = {name: table[:, :, 0] for name, table in tables.items()}
    seen_parts = [
        _word_part(*ends, table)
        for ends, table in zip(SEEN, (seen, unseen), strict=True)
    ]

    unit = "occurrences in the training data"
    by_frequency = _buckets(frequency_parts, _f1, baseline)
    by_seen = _buckets(seen_parts, _recall, baseline)
    return [
        Breakdown("frequency", "word F1", unit, by_frequency),
        Breakdown("seen_words", "word recall", unit, by_seen),
    ]


def _word_part(
    label: str, first: int, last: int | None, tables: Mapping[str, Array]
) -> Part:
    """Make the part of a range of frequencies from its counts (runs, sentences, 3) by system; its
    items are the words of the references.
    """
    counts = next(iter(tables.values()))
    return Part(label, first, last, int(counts[0, :, 2].sum()), tables)


def _frequency_label(first: int, last: int | None) -> str:
    if last is None:
        return f"{first:,} and more"
    if last == 0:
        return "never"
    return f"{first}" if first == last else f"{first}–{last}"


def _f1(sums: Array) -> float:
    """Return the F1 in percent of counts (in both, in the output, in the reference)."""
    both, output, reference = sums
    return float(200 * both / (output + reference)) if output + reference else 0.0


def _recall(sums: Array) -> float:
    """Return the recall in percent of counts (in both, in the output, in the reference)."""
    both, _, reference = sums
    return float(100 * both / reference) if reference else 0.0
