"""CIDEr-D: how much a caption says what people said of the picture, what is rarely said counting most.

Vedantam, Zitnick and Parikh 2015, section 4 and its CIDEr-D; with the constants of the coco-caption program, and in
percent of its scale, as papers print it. An n-gram's weight is its count times the logarithm of (pictures / pictures
of which a reference holds it); documents are the references of the set that is evaluated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import DataError

__all__ = ["LONGEST", "SIGMA", "cider_d"]

LONGEST = 4
"""Runs of one to so many words are compared."""
SIGMA = 6.0
"""Of the penalty for a caption of another length than a reference, in pairs of words."""
SCALE = 1000.0  # ten in coco-caption, and percent

Words = Sequence[str]
Gram = tuple[str, ...]


@dataclass(frozen=True)
class _Vector:
    """A caption as weighted n-grams, one table for each n; their lengths; and how many pairs of words it has."""

    grams: tuple[dict[Gram, float], ...]
    norms: tuple[float, ...]
    pairs: int


def cider_d(outputs: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """The score of each caption against those of its picture, all cut into words; their mean is that of the set.

    Of a single picture it is always 0, as nothing is rarer than anything else.
    """
    if len(outputs) != len(references) or not all(references):
        raise DataError(
            f"{len(outputs)} captions and references of {len(references)} pictures: wanted a caption and at least one "
            "reference for each picture"
        )
    counted = [[_counted(words) for words in own] for own in references]
    documents: Counter[Gram] = Counter(gram for own in counted for gram in set().union(*own))
    total = math.log(max(1, len(references)))
    scores = []
    for words, own in zip(outputs, counted, strict=True):
        said = _vector(_counted(words), documents, total)
        likeness = [_likeness(said, _vector(counts, documents, total)) for counts in own]
        scores.append(SCALE * sum(likeness) / len(likeness))
    return scores


def _counted(words: Words) -> Counter[Gram]:
    """How often each run of one to four words comes."""
    return Counter(tuple(words[i : i + n]) for n in range(1, LONGEST + 1) for i in range(len(words) - n + 1))


def _vector(counts: Counter[Gram], documents: Counter[Gram], total: float) -> _Vector:
    tables: tuple[dict[Gram, float], ...] = tuple({} for _ in range(LONGEST))
    for gram, count in counts.items():
        tables[len(gram) - 1][gram] = count * (total - math.log(max(1, documents[gram])))
    norms = tuple(math.sqrt(sum(weight**2 for weight in table.values())) for table in tables)
    return _Vector(tables, norms, sum(count for gram, count in counts.items() if len(gram) == 2))


def _likeness(said: _Vector, wanted: _Vector) -> float:
    """The mean over n of the cosines, what is said too often cut to what is wanted, times the penalty of length."""
    total = 0.0
    for own, other, norm, other_norm in zip(said.grams, wanted.grams, said.norms, wanted.norms, strict=True):
        if norm and other_norm:
            shared = sum(min(weight, other.get(gram, 0.0)) * other.get(gram, 0.0) for gram, weight in own.items())
            total += shared / (norm * other_norm)
    apart = said.pairs - wanted.pairs
    return total / LONGEST * math.exp(-(apart**2) / (2 * SIGMA**2))
