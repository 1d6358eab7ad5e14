"""CIDEr-D: similarity of a caption to its references by TF-IDF weighted n-grams.

Vedantam, Zitnick and Parikh 2015, section 4, with the constants of coco-caption, in percent of its
scale, as papers print it. The weight of an n-gram is its count times log(images / images with a
reference that contains it); the documents are the references of the evaluated set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.common.counting import counted
from regard.common.errors import DataError

MAX_N = 4
"""Largest length of the n-grams that are compared."""
SIGMA = 6.0
"""Standard deviation of the Gaussian length penalty, in bigrams."""
SCALE = 1000.0  # ten in coco-caption, in percent

Words = Sequence[str]
NGram = tuple[str, ...]


@dataclass(frozen=True)
class _Vector:
    """TF-IDF vectors of a caption, one for each n, with their norms, and its number of bigrams."""

    weights: tuple[dict[NGram, float], ...]
    norms: tuple[float, ...]
    bigrams: int


def cider_d(
    outputs: Sequence[Words], references: Sequence[Sequence[Words]]
) -> list[float]:
    """Return the CIDEr-D of each caption, given as words; their mean is the score of a system.

    With a single image it is always 0, since no n-gram is rarer than another.
    """
    if len(outputs) != len(references) or not all(references):
        raise DataError(
            f"{counted(len(outputs), 'caption')} and references of "
            f"{counted(len(references), 'image')}: wanted a caption and at least one reference for "
            "each image"
        )
    reference_counts = [
        [_count_ngrams(words) for words in captions] for captions in references
    ]
    document_counts: Counter[NGram] = Counter(
        ngram for counts in reference_counts for ngram in set().union(*counts)
    )
    log_documents = math.log(max(1, len(references)))
    scores = []
    for words, captions in zip(outputs, reference_counts, strict=True):
        output = _vector(_count_ngrams(words), document_counts, log_documents)
        similarities = [
            _similarity(output, _vector(counts, document_counts, log_documents))
            for counts in captions
        ]
        scores.append(SCALE * sum(similarities) / len(similarities))
    return scores


def _count_ngrams(words: Words) -> Counter[NGram]:
    return Counter(
        tuple(words[i : i + n])
        for n in range(1, MAX_N + 1)
        for i in range(len(words) - n + 1)
    )


def _vector(
    counts: Counter[NGram], document_counts: Counter[NGram], log_documents: float
) -> _Vector:
    tables: tuple[dict[NGram, float], ...] = tuple({} for _ in range(MAX_N))
    for ngram, count in counts.items():
        tables[len(ngram) - 1][ngram] = count * (
            log_documents - math.log(max(1, document_counts[ngram]))
        )
    norms = tuple(
        math.sqrt(sum(weight**2 for weight in table.values())) for table in tables
    )
    return _Vector(
        tables, norms, sum(count for ngram, count in counts.items() if len(ngram) == 2)
    )


def _similarity(output: _Vector, reference: _Vector) -> float:
    """Return the mean over n of clipped TF-IDF cosines, times the length penalty."""
    total = 0.0
    for n in range(MAX_N):
        weights = output.weights[n]
        wanted = reference.weights[n]
        if output.norms[n] and reference.norms[n]:
            dot = sum(
                min(weight, wanted.get(ngram, 0.0)) * wanted.get(ngram, 0.0)
                for ngram, weight in weights.items()
            )
            total += dot / (output.norms[n] * reference.norms[n])
    difference = output.bigrams - reference.bigrams
    return total / MAX_N * math.exp(-(difference**2) / (2 * SIGMA**2))
