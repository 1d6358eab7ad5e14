"""Held-out validation pairs, taken from the training data if none are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from regard.common.errors import DataError
from regard.data.corpus import Corpus
from regard.data.pairs import CorpusReport, Pair
from regard.data.streaming import FilteredCorpus

MAX_PAIRS, FRACTION = 1000, 20  # at most a thousand pairs, at most a twentieth of the data

TrainingCorpus = Corpus | FilteredCorpus
"""A training corpus, whose text is in memory or stays in its files."""
T = TypeVar("T", Corpus, FilteredCorpus, TrainingCorpus)
Array = npt.NDArray[Any]


def hold_out(corpora: Mapping[str, T], seed: int) -> tuple[dict[str, T], Corpus]:
    """Split off pairs for validation; training keeps no pair that shares a side with one of them.

    Pairs that share no side with any other are drawn first, then those that share it with the fewest. Several corpora
    are treated as if they were one file after another.
    """
    lengths = [len(corpus) for corpus in corpora.values()]
    texts = (text for corpus in corpora.values() for pair in corpus for text in (pair.source, pair.target))
    sides = np.fromiter(map(hash, texts), np.int64, 2 * sum(lengths)).reshape(-1, 2).T
    indices = _draw(sides, seed)[: min(MAX_PAIRS, max(1, sum(lengths) // FRACTION))]
    is_drawn = np.zeros(sum(lengths), np.bool_)
    is_drawn[indices] = True
    keep = ~np.any([np.isin(texts, texts[indices]) for texts in sides], axis=0)
    valid, train, ends = list[Pair](), dict[str, T](), np.cumsum(lengths)[:-1]
    for name, drawn, kept in zip(corpora, np.split(is_drawn, ends), np.split(keep, ends), strict=True):
        valid += compress(corpora[name], drawn)
        train[name] = _keep(corpora[name], kept, int(drawn.sum()))
    report = held_out_report([corpus.report.files for corpus in corpora.values()], len(valid))
    return train, Corpus(tuple(valid), report)


def held_out_report(files: Iterable[tuple[str, ...]], count: int) -> CorpusReport:
    """Return the report on so many pairs held out of these files."""
    return CorpusReport("valid", tuple(chain.from_iterable(files)), count, count)


def _draw(sides: Array, seed: int) -> Array:
    """Return the indices of pairs in random order, sorted by the number of other pairs that share a side with each.

    Of equally many, those of the same side follow each other, so that what is held out takes few others along.
    """
    shared, first = [], []
    for texts in sides:
        _, index, inverse, counts = np.unique(texts, return_index=True, return_inverse=True, return_counts=True)
        shared.append(counts[inverse] - 1)
        first.append(index[inverse])
    leader = np.where(shared[0] >= shared[1], *first)
    return np.lexsort((np.random.default_rng(seed).permutation(len(leader))[leader], shared[0] + shared[1]))


def _keep(corpus: T, mask: Array, held_out: int) -> T:
    """Return what training keeps of a corpus from which `held_out` pairs were taken."""
    if not mask.any():
        raise DataError(
            f"{' and '.join(corpus.report.files)}: of {len(corpus)} pairs none is left to train on when some are held "
            "out for validation; give more pairs, or `valid_source=` and `valid_target=`"
        )
    shared = len(corpus) - int(mask.sum()) - held_out
    also = f", and {shared:,} more that share a side with them left out" if shared else ""
    note = f"no validation data was given: {held_out:,} pairs were held out for it{also}"
    rest = corpus.keep(mask)
    return replace(rest, report=replace(rest.report, notes=(*corpus.report.notes, note)))
