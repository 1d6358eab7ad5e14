"""Break scores down by sentence length, word frequency, and words seen in training, with intervals.

The score of a system is the mean over its runs. Its interval holds for other runs and other
sentences: it is that of Welch's t test, whose variance has one more part, that of the choice of
sentences (bootstrap resampling, Koehn 2004), with the degrees of freedom of Satterthwaite (1946).
All systems are scored on the same resamples of sentences, and their runs are independent, which
gives an interval for their difference from the baseline.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from regard.comparison.result import Breakdown, Bucket, TestSet
from regard.comparison.test_data import TrainingWords
from regard.evaluation.bootstrap import interval_of_parts
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


class Metric(NamedTuple):
    """A score: its name, how it is computed from sums of statistics (…, statistics), and the end of
    its scale, which begins at 0.
    """

    name: str
    score: Callable[[Array], Array]
    highest: float = 100.0


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
    statistics, metric = _of_means(scores) if is_captions else _of_chrf(test, outputs)

    def by_sentence(key: str, unit: str, groups: Iterable[Group]) -> Breakdown:
        parts = [_part(group, statistics) for group in groups]
        return Breakdown(key, metric.name, unit, _buckets(parts, metric, baseline))

    unit = "reference words" if is_captions else "source words"
    lengths = by_sentence("length", unit, _by_length(test, is_captions))
    results = [_marked(lengths, training.longest or math.inf)]
    if training.source is not None:
        groups = _by_seen_words(test, training.source)
        results.append(by_sentence("seen_sources", "source sentences", groups))
    if training.target is not None:
        counts = {
            name: [_word_counts(test, run, training.target) for run in runs]
            for name, runs in outputs.items()
        }
        results += _by_words(counts, baseline)
    return tuple(result for result in results if _is_divided(result))


def _is_divided(breakdown: Breakdown) -> bool:
    """Return whether there is a range; of what was seen or not, both, since one of them alone is
    the whole test set.
    """
    least = 2 if breakdown.key.startswith("seen") else 1
    return max(map(len, breakdown.systems.values()), default=0) >= least


def _marked(lengths: Breakdown, longest: float) -> Breakdown:
    """Mark the ranges beyond the longest source in training."""
    systems = {
        name: tuple(
            replace(bucket, is_beyond=bucket.first > longest) for bucket in buckets
        )
        for name, buckets in lengths.systems.items()
    }
    return replace(lengths, systems=systems)


def _part(group: Group, statistics: Statistics) -> Part:
    """Select the statistics of a group of sentences."""
    tables = {
        name: np.stack([table[group.rows] for table in runs])
        for name, runs in statistics.items()
    }
    return Part(group.label, group.first, group.last, len(group.rows), tables)


def _of_means(
    scores: Mapping[str, Sequence[Sequence[float]]],
) -> tuple[Statistics, Metric]:
    """Return statistics (score, 1) of each sentence, and their mean as a metric."""

    def mean(sums: Array) -> Array:
        return sums[..., 0] / np.maximum(1.0, sums[..., 1])

    statistics = {
        name: [np.stack([np.asarray(run), np.ones(len(run))], 1) for run in runs]
        for name, runs in scores.items()
    }
    return statistics, Metric("CIDEr-D", mean, np.inf)


def _of_chrf(
    test: TestSet, outputs: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[Statistics, Metric]:
    """Return sacreBLEU's n-gram statistics of each sentence, and corpus chrF as a metric."""
    metric = CHRF()
    references = [list(lines) for lines in zip(*test.references, strict=True)]

    def count_ngrams(run: Sequence[str]) -> Array:
        rows = metric._extract_corpus_statistics(list(run), references)
        return np.array(rows, np.float64)

    def score(sums: Array) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    def scores(sums: Array) -> Array:
        return np.apply_along_axis(score, -1, sums)

    statistics = {
        name: [count_ngrams(run) for run in runs] for name, runs in outputs.items()
    }
    return statistics, Metric("chrF", scores)


def _buckets(
    parts: Iterable[Part], metric: Metric, baseline: str
) -> dict[str, tuple[Bucket, ...]]:
    """Score each system on each part that has items, with intervals of the score and of its
    difference from the baseline, unless one of the two has one run and the other several.
    """
    buckets = dict[str, tuple[Bucket, ...]]()
    for label, first, last, items, tables in parts:
        if not items:
            continue
        scores = {name: resample(table, metric) for name, table in tables.items()}
        for name, resamples in scores.items():
            value, low, high = interval(resamples)
            ends = max(0.0, low), min(metric.highest, high)
            lead = None
            if baseline in scores and name != baseline:
                counts = {len(resamples), len(scores[baseline])}
                if counts == {1} or 1 not in counts:
                    lead = interval(resamples, scores[baseline])
            bucket = Bucket(label, first, last, items, value, *ends, lead)
            buckets[name] = (*buckets.get(name, ()), bucket)
    return buckets


def resample(table: Array, metric: Metric) -> Array:
    """Return scores (runs, 1 + DRAWS) of statistics (runs, sentences, …): those of all sentences,
    then of resamples, which draw the same sentences for every run and every system.
    """
    sentences = table.shape[1]
    rng = np.random.default_rng(SEED)
    sums = [table.sum(1)]
    for _ in range(DRAWS):
        drawn = rng.integers(0, sentences, sentences)
        counts = np.bincount(drawn, minlength=sentences)
        sums.append(np.tensordot(counts, table, (0, 1)))
    return metric.score(np.stack(sums, 1))


def interval(
    scores: Array, baseline: Array | None = None
) -> tuple[float, float, float]:
    """Return the mean of resampled scores (runs, 1 + DRAWS) over the runs, minus that of the
    baseline, and the ends of its 95 % interval.

    The variance is that between runs and that between resamples, less the part that is in both:
    runs differ more on some sentences than on others.
    """
    groups = [scores] if baseline is None else [scores, baseline]
    means = [group.mean(0) for group in groups]
    difference = means[0] - sum(means[1:])
    in_both = sum(
        (group - mean)[:, 1:].var(1).sum() / len(group) / max(1, len(group) - 1)
        for group, mean in zip(groups, means, strict=True)
    )
    parts = [
        (float(group[:, 0].var(ddof=1)) / len(group), len(group) - 1.0)
        for group in groups
        if len(group) > 1
    ]
    parts.append((max(0.0, float(difference[1:].var() - in_both)), math.inf))
    return interval_of_parts(float(difference[0]), parts)[:3]


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
    by_frequency = _buckets(frequency_parts, F1, baseline)
    by_seen = _buckets(seen_parts, RECALL, baseline)
    return [
        Breakdown("frequency", F1.name, unit, by_frequency),
        Breakdown("seen_words", RECALL.name, unit, by_seen),
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


def _f1(sums: Array) -> Array:
    """Return the F1 in percent of counts (in both, in the output, in the reference)."""
    return 200 * sums[..., 0] / np.maximum(1.0, sums[..., 1] + sums[..., 2])


def _recall(sums: Array) -> Array:
    """Return the recall in percent of counts (in both, in the output, in the reference)."""
    return 100 * sums[..., 0] / np.maximum(1.0, sums[..., 2])


F1 = Metric("word F1", _f1)
RECALL = Metric("word recall", _recall)
