"""Scores by sentence length, word frequency, and seen or unseen words, with intervals by bootstrap
resampling.

A system's runs are scored together. Each resample draws sentences with replacement and, if a system
has several runs, runs with replacement, so that an interval holds for other sentences and other
seeds (Koehn 2004; the nested bootstrap). All systems are scored on the same resamples of sentences:
the difference from the baseline has an interval of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
"""For each system a table for each run, with a row of statistics for each sentence; scores are
computed from sums.
"""
Scorer = Callable[[Array], float]
Part = tuple[str, int, int | None, int, Mapping[str, Array]]
"""Label, ends and items of a bucket, and for each system its statistics, (runs, sentences, …)."""
Group = tuple[str, int, int | None, npt.NDArray[np.int64]]
"""Label and ends of a bucket, and its sentences, as indices into the test set."""


def breakdowns(
    test: TestSet,
    outputs: Mapping[str, Sequence[Sequence[str]]],
    scores: Mapping[str, Sequence[Sequence[float]]],
    training: TrainingWords,
    baseline: str = "",
) -> tuple[Breakdown, ...]:
    """Break the outputs of each system down; `outputs` has those of each run. Others are compared
    with the baseline.

    `scores` are sentence scores that are averaged, one number a sentence (CIDEr-D of captions);
    without them chrF is computed of each bucket. Without training words only the length is looked
    at.
    """
    statistics, score = _of_means(scores) if scores else _of_chrf(test, outputs)

    def of_sentences(key: str, unit: str, groups: Iterable[Group]) -> Breakdown:
        parts = list[Part]()
        for label, first, last, rows in groups:
            tables = {
                name: np.stack([table[rows] for table in runs])
                for name, runs in statistics.items()
            }
            parts.append((label, first, last, len(rows), tables))
        return Breakdown(
            key, "CIDEr-D" if scores else "chrF", unit, _buckets(parts, score, baseline)
        )

    unit = "reference words" if scores else "source words"
    results = [of_sentences("length", unit, _by_length(test, bool(scores)))]
    if training.source is not None:
        results.append(
            of_sentences(
                "seen_sources",
                "source sentences",
                _by_seen_words(test, training.source),
            )
        )
    if training.target is not None:
        counts = {
            name: [_word_counts(test, run, training.target) for run in runs]
            for name, runs in outputs.items()
        }
        results += _by_words(counts, baseline)
    return tuple(item for item in results if any(item.systems.values()))


def _of_means(
    scores: Mapping[str, Sequence[Sequence[float]]],
) -> tuple[Statistics, Scorer]:
    """Return the mean of sentence scores."""
    tables = {
        name: [np.stack([np.asarray(run), np.ones(len(run))], 1) for run in runs]
        for name, runs in scores.items()
    }
    return tables, lambda sums: float(sums[0] / max(1.0, sums[1]))


def _of_chrf(
    test: TestSet, outputs: Mapping[str, Sequence[Sequence[str]]]
) -> tuple[Statistics, Scorer]:
    """Return corpus chrF by sacreBLEU."""
    metric = CHRF()
    references = [list(lines) for lines in zip(*test.references, strict=True)]
    tables = {
        name: [
            np.array(
                metric._extract_corpus_statistics(list(run), references), np.float64
            )
            for run in runs
        ]
        for name, runs in outputs.items()
    }
    return tables, lambda sums: float(
        metric._compute_score_from_stats(sums.tolist()).score
    )


def _buckets(
    parts: Iterable[Part], score: Scorer, baseline: str
) -> dict[str, tuple[Bucket, ...]]:
    """Score each system on each part that has items, with intervals of the score and of its lead
    over the baseline.
    """
    buckets = dict[str, tuple[Bucket, ...]]()
    for label, first, last, items, tables in parts:
        scores = (
            {name: _resampled(table, score) for name, table in tables.items()}
            if items
            else {}
        )
        for name, own in scores.items():
            lead = (
                _bounds(own - scores[baseline])
                if baseline in scores and name != baseline
                else None
            )
            buckets[name] = (
                *buckets.get(name, ()),
                Bucket(label, first, last, items, *_bounds(own), lead),
            )
    return buckets


def interval(tables: npt.NDArray[Any], score: Scorer) -> tuple[float, float, float]:
    """Return the score of all (runs, sentences, …) together, and the 2.5th and 97.5th percentile of
    resamples.
    """
    return _bounds(_resampled(tables, score))


def _resampled(tables: npt.NDArray[Any], score: Scorer) -> Array:
    """Return the score of all together, then those of resamples, which draw the same sentences for
    every system.
    """
    runs, sentences = tables.shape[:2]
    of_sentences = np.random.default_rng(SEED)
    of_runs = np.random.default_rng((SEED, 1))
    scores = np.full(DRAWS + 1, score(tables.sum((0, 1))))
    for number in range(1, DRAWS + 1):
        weights = np.bincount(
            of_sentences.integers(0, sentences, sentences), minlength=sentences
        ).astype(np.float64)
        by_run = (
            np.bincount(of_runs.integers(0, runs, runs), minlength=runs)
            if runs > 1
            else np.ones(1)
        )
        scores[number] = score(np.tensordot(np.outer(by_run, weights), tables, 2))
    return scores


def _bounds(scores: Array) -> tuple[float, float, float]:
    value, (low, high) = float(scores[0]), np.quantile(scores[1:], [0.025, 0.975])
    return value, min(value, float(low)), max(value, float(high))


def _by_length(test: TestSet, of_references: bool) -> Iterator[Group]:
    """Group by the words of the source sentence; of images, by the mean length of the
    references.
    """
    if of_references:
        lengths = [
            round(sum(len(text.split()) for text in texts) / len(texts))
            for texts in test.references
        ]
    else:
        lengths = [len(source.split()) for source in test.sources]
    for first, last in length_ranges(max(lengths, default=0)):
        rows = np.array(
            [i for i, length in enumerate(lengths) if first <= length <= last], np.int64
        )
        if len(rows) > 1:
            yield f"{first}–{last}" if first < last else f"{first}", first, last, rows


def _by_seen_words(test: TestSet, known: Mapping[str, int]) -> tuple[Group, Group]:
    """Group by whether the training data have every word of the source sentence."""
    seen = np.array(
        [all(word in known for word in words(source)) for source in test.sources]
    )
    return (
        ("every word seen in training", 0, 0, np.flatnonzero(seen)),
        ("some word never seen", 1, None, np.flatnonzero(~seen)),
    )


# --- words of the references and outputs


def _word_counts(
    test: TestSet, outputs: Sequence[str], known: Mapping[str, int]
) -> Array:
    """Count words by frequency in training, (sentences, buckets, 3): in both texts, in the output,
    in the reference.

    A word counts as in both as often as it is in the text that has it less often. The reference is
    the first one.
    """
    counts = np.zeros((len(outputs), len(FREQUENCIES), 3))
    for row, (output, references) in enumerate(
        zip(outputs, test.references, strict=True)
    ):
        made = Counter(words(output))
        right = Counter(words(references[0]))
        for kind, counter in enumerate((made & right, made, right)):
            for word, count in counter.items():
                counts[row, frequency_bucket(known.get(word, 0)), kind] += count
    return counts


def frequency_bucket(occurrences: int) -> int:
    """Return the number of the bucket that a word with so many occurrences in training belongs
    to.
    """
    return int(np.searchsorted(FREQUENCIES, occurrences, side="right")) - 1


def _by_words(counts: Mapping[str, Sequence[Array]], baseline: str) -> list[Breakdown]:
    """F1 of words by their frequency in training; recall of those seen there and of the others."""
    tables = {name: np.stack(list(runs)) for name, runs in counts.items()}
    ends = [*(first - 1 for first in FREQUENCIES[1:]), None]
    frequencies = [
        (_frequency_label(*span), *span) for span in zip(FREQUENCIES, ends, strict=True)
    ]
    by_frequency = [
        {name: table[:, :, n] for name, table in tables.items()}
        for n in range(len(FREQUENCIES))
    ]
    by_seen = [
        {n: t[:, :, 1:].sum(2) for n, t in tables.items()},
        {n: t[:, :, 0] for n, t in tables.items()},
    ]
    frequency = _buckets(_word_parts(frequencies, by_frequency), _f1, baseline)
    seen = _buckets(_word_parts(SEEN, by_seen), _recall, baseline)
    return [
        Breakdown(
            "frequency", "word F1", "occurrences in the training data", frequency
        ),
        Breakdown(
            "seen_words", "word recall", "occurrences in the training data", seen
        ),
    ]


def _word_parts(
    ranges: Sequence[tuple[str, int, int | None]], tables: Sequence[Mapping[str, Array]]
) -> Iterator[Part]:
    """Yield the words of each range; `tables` has the counts of each, (runs, sentences, 3) for each
    system.
    """
    for (label, first, last), by_system in zip(ranges, tables, strict=True):
        yield (
            label,
            first,
            last,
            int(next(iter(by_system.values()))[0, :, 2].sum()),
            by_system,
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
