"""Scores by sentence length, word frequency, and seen or unseen words, with intervals by bootstrap resampling.

A system's runs are scored together. Each resample draws sentences with replacement and, if a system has several runs,
runs with replacement, so that an interval holds for other sentences and other seeds (Koehn 2004; the nested bootstrap).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from regard.comparison.result import Breakdown, Bucket, TestSet
from regard.comparison.test_data import TrainingWords
from regard.evaluation.caption_metrics import words
from regard.evaluation.length_buckets import DRAWS, SEED, length_ranges

FREQUENCIES = (0, 1, 2, 3, 4, 5, 10, 100, 1000)
"""Buckets of word frequency begin at these numbers of occurrences, as those of compare-mt do."""
SEEN = (("seen in training", 1, None), ("never seen", 0, 0))
Array = npt.NDArray[np.float64]
Statistics = Mapping[str, Sequence[Array]]
"""For each system a table for each run, with a row of statistics for each sentence; scores are computed from sums."""


@dataclass(frozen=True)
class _Group:
    """The sentences of one bucket, as indices into the test set."""

    label: str
    first: int
    last: int | None
    rows: npt.NDArray[np.int64]


def breakdowns(
    test: TestSet,
    outputs: Mapping[str, Sequence[Sequence[str]]],
    scores: Mapping[str, Sequence[Sequence[float]]],
    training: TrainingWords,
) -> tuple[Breakdown, ...]:
    """Break the outputs of each system down; `outputs` has those of each run.

    `scores` are sentence scores that are averaged, one number a sentence (CIDEr-D of captions); without them chrF is
    computed of each bucket. Without training words only the length is looked at.
    """
    measure = _Measure.of_means(scores) if scores else _Measure.of_chrf(test, outputs)
    results = [_by_length(test, measure, bool(scores))]
    if training.source is not None:
        results.append(_by_seen_sources(test, measure, training.source))
    if training.target is not None:
        counts = {name: [_word_counts(test, run, training.target) for run in runs] for name, runs in outputs.items()}
        results += _by_words(counts)
    return tuple(item for item in results if any(item.systems.values()))


@dataclass(frozen=True)
class _Measure:
    """Statistics of each sentence and run, and the score of their sum."""

    name: str
    statistics: Statistics
    score: Callable[[Array], float]

    @classmethod
    def of_means(cls, scores: Mapping[str, Sequence[Sequence[float]]]) -> _Measure:
        """The mean of sentence scores."""
        tables = {
            name: [np.stack([np.asarray(run), np.ones(len(run))], 1) for run in runs] for name, runs in scores.items()
        }
        return cls("CIDEr-D", tables, lambda sums: float(sums[0] / max(1.0, sums[1])))

    @classmethod
    def of_chrf(cls, test: TestSet, outputs: Mapping[str, Sequence[Sequence[str]]]) -> _Measure:
        """Corpus chrF by sacreBLEU."""
        metric, references = CHRF(), [list(lines) for lines in zip(*test.references, strict=True)]
        tables = {
            name: [np.array(metric._extract_corpus_statistics(list(run), references), np.float64) for run in runs]
            for name, runs in outputs.items()
        }
        return cls("chrF", tables, lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score))

    def buckets(self, groups: Sequence[_Group]) -> dict[str, tuple[Bucket, ...]]:
        """Score each group of sentences, with intervals."""
        return {
            name: tuple(
                Bucket(group.label, group.first, group.last, len(group.rows), *self._interval(tables, group.rows))
                for group in groups
                if len(group.rows)
            )
            for name, tables in self.statistics.items()
        }

    def _interval(self, tables: Sequence[Array], rows: npt.NDArray[np.int64]) -> tuple[float, float, float]:
        chosen = np.stack([table[rows] for table in tables])  # (runs, sentences, statistics)
        return interval(chosen, self.score)


def interval(tables: npt.NDArray[Any], score: Callable[[Array], float]) -> tuple[float, float, float]:
    """Return the score of all (runs, sentences, …) together, and the 2.5th and 97.5th percentile of resamples."""
    runs, sentences = tables.shape[:2]
    rng = np.random.default_rng(SEED)
    draws = np.empty(DRAWS)
    for number in range(DRAWS):
        weights = np.bincount(rng.integers(0, sentences, sentences), minlength=sentences).astype(np.float64)
        by_run = np.bincount(rng.integers(0, runs, runs), minlength=runs) if runs > 1 else np.ones(1)
        draws[number] = score(np.tensordot(np.outer(by_run, weights), tables, 2))
    value = score(tables.sum((0, 1)))
    low, high = np.quantile(draws, [0.025, 0.975])
    return value, min(value, float(low)), max(value, float(high))


def _by_length(test: TestSet, measure: _Measure, of_references: bool) -> Breakdown:
    """By the words of the source sentence; of images, by the mean length of the references."""
    if of_references:
        lengths = [round(sum(len(text.split()) for text in texts) / len(texts)) for texts in test.references]
    else:
        lengths = [len(source.split()) for source in test.sources]
    unit = "reference words" if of_references else "source words"
    groups = []
    for first, last in length_ranges(max(lengths, default=0)):
        rows = np.array([i for i, length in enumerate(lengths) if first <= length <= last], np.int64)
        groups.append(_Group(f"{first}–{last}" if first < last else f"{first}", first, last, rows))
    return Breakdown("length", measure.name, unit, measure.buckets([g for g in groups if len(g.rows) > 1]))


def _by_seen_sources(test: TestSet, measure: _Measure, known: Mapping[str, int]) -> Breakdown:
    """By whether the training data have every word of the source sentence."""
    seen = np.array([all(word in known for word in words(source)) for source in test.sources])
    groups = [
        _Group("every word seen in training", 0, 0, np.flatnonzero(seen)),
        _Group("some word never seen", 1, None, np.flatnonzero(~seen)),
    ]
    return Breakdown("seen_sources", measure.name, "source sentences", measure.buckets(groups))


# --- words of the references and outputs


def _word_counts(test: TestSet, outputs: Sequence[str], known: Mapping[str, int]) -> Array:
    """Count words by frequency in training, (sentences, buckets, 3): in both texts, in the output, in the reference.

    A word counts as in both as often as it is in the text that has it less often. The reference is the first one.
    """
    counts = np.zeros((len(outputs), len(FREQUENCIES), 3))
    for row, (output, references) in enumerate(zip(outputs, test.references, strict=True)):
        made, right = Counter(words(output)), Counter(words(references[0]))
        for kind, counter in enumerate((made & right, made, right)):
            for word, count in counter.items():
                counts[row, frequency_bucket(known.get(word, 0)), kind] += count
    return counts


def frequency_bucket(occurrences: int) -> int:
    """Return the number of the bucket that a word with so many occurrences in training belongs to."""
    return int(np.searchsorted(FREQUENCIES, occurrences, side="right")) - 1


def _by_words(counts: Mapping[str, Sequence[Array]]) -> list[Breakdown]:
    """F1 of words by their frequency in training; recall of those seen there and of the others."""
    tables = {name: np.stack(list(runs)) for name, runs in counts.items()}
    ends = [*(first - 1 for first in FREQUENCIES[1:]), None]
    frequencies = [(_frequency_label(*span), *span) for span in zip(FREQUENCIES, ends, strict=True)]
    frequency = {
        name: _word_buckets([table[:, :, number] for number in range(len(FREQUENCIES))], frequencies, _f1)
        for name, table in tables.items()
    }
    seen = {
        name: _word_buckets([table[:, :, 1:].sum(2), table[:, :, 0]], SEEN, _recall) for name, table in tables.items()
    }
    return [
        Breakdown("frequency", "word F1", "occurrences in the training data", frequency),
        Breakdown("seen_words", "word recall", "occurrences in the training data", seen),
    ]


def _word_buckets(
    tables: Sequence[Array], ranges: Sequence[tuple[str, int, int | None]], score: Callable[[Array], float]
) -> tuple[Bucket, ...]:
    """Score words by bucket; `tables` has the counts of each, (runs, sentences, 3), and `ranges` its label and ends."""
    return tuple(
        Bucket(label, first, last, int(table[0, :, 2].sum()), *interval(table, score))
        for table, (label, first, last) in zip(tables, ranges, strict=True)
        if table[0, :, 2].sum()
    )


def _frequency_label(first: int, last: int | None) -> str:
    if last is None:
        return f"{first:,} and more"
    return "never" if not last else f"{first}" if first == last else f"{first}–{last}"


def _f1(sums: Array) -> float:
    both, made, right = sums
    return float(200 * both / (made + right)) if made + right else 0.0


def _recall(sums: Array) -> float:
    return float(100 * sums[0] / sums[2]) if sums[2] else 0.0
