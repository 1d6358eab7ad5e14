"""Held-out pairs, taken from the training data: to validate on if none are given, and to test on if
wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, compress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.corpus import Corpus
from regard.data.pair_filters import CorpusReport, Pair
from regard.data.streamed_corpus import FilteredCorpus

# At most a thousand pairs, at most a twentieth of the data.
MAX_PAIRS, FRACTION = 1000, 20

TrainingCorpus = Corpus | FilteredCorpus
"""A training corpus, whose text is in memory or stays in its files."""
T = TypeVar("T", Corpus, FilteredCorpus, TrainingCorpus)
Array = npt.NDArray[Any]


def hold_out(
    corpora: Mapping[str, T], seed: int, count: int | None = None, name: str = "valid"
) -> tuple[dict[str, T], Corpus]:
    """Split off `count` pairs as corpus `name`; training keeps no pair that shares a side with one
    of them.

    Without a count, those for validation: a twentieth of the pairs, at most a thousand. Raises
    DataError for a count of more than half of the pairs, and if no pair is left to train on.

    Pairs that share no side with any other are drawn first, then those that share it with the
    fewest. Several corpora are treated as if they were one file after another.
    """
    lengths = [len(corpus) for corpus in corpora.values()]
    if count is not None and count > sum(lengths) // 2:
        raise DataError(
            f"data.test_count = {count:,}: at most half of the {sum(lengths):,} training pairs can "
            f"be held out to test on; take {sum(lengths) // 2:,} or fewer"
        )
    count = min(MAX_PAIRS, max(1, sum(lengths) // FRACTION)) if count is None else count
    texts = (
        text
        for corpus in corpora.values()
        for pair in corpus
        for text in (pair.source, pair.target)
    )
    sides = np.fromiter(map(hash, texts), np.int64, 2 * sum(lengths)).reshape(-1, 2).T
    indices = _draw(sides, seed)[:count]
    is_drawn = np.zeros(sum(lengths), np.bool_)
    is_drawn[indices] = True
    keep = ~np.any([np.isin(texts, texts[indices]) for texts in sides], axis=0)
    valid = list[Pair]()
    train = dict[str, T]()
    ends = np.cumsum(lengths)[:-1]
    for part, drawn, kept in zip(
        corpora, np.split(is_drawn, ends), np.split(keep, ends), strict=True
    ):
        valid += compress(corpora[part], drawn)
        train[part] = _keep(corpora[part], kept, int(drawn.sum()), name)
    report = held_out_report(
        [corpus.report.files for corpus in corpora.values()], len(valid), name
    )
    return train, Corpus(tuple(valid), report)


def held_out_report(
    files: Iterable[tuple[str, ...]], count: int, name: str = "valid"
) -> CorpusReport:
    """Return the report on so many pairs held out of these files."""
    return CorpusReport(name, tuple(chain.from_iterable(files)), count, count)


def _draw(sides: Array, seed: int) -> Array:
    """Return the indices of pairs in random order, sorted by the number of other pairs that share a
    side with each.

    Of equally many, those of the same side follow each other, so that what is held out takes few
    others along.
    """
    shared = []
    first = []
    for texts in sides:
        _, index, inverse, counts = np.unique(
            texts, return_index=True, return_inverse=True, return_counts=True
        )
        shared.append(counts[inverse] - 1)
        first.append(index[inverse])
    leader = np.where(shared[0] >= shared[1], *first)
    return np.lexsort(
        (
            np.random.default_rng(seed).permutation(len(leader))[leader],
            shared[0] + shared[1],
        )
    )


def _keep(corpus: T, mask: Array, held_out: int, name: str) -> T:
    """Return what training keeps of a corpus from which `held_out` pairs were taken."""
    if not mask.any():
        raise DataError(
            f"{' and '.join(corpus.report.files)}: of {counted(len(corpus), 'pair')} "
            f"none is left to train on when some are held "
            f"out ({name}); give more pairs, or files to validate and test on"
        )
    shared = len(corpus) - int(mask.sum()) - held_out
    also = (
        f", and {shared:,} more that share a side with them left out" if shared else ""
    )
    held = f"{counted(held_out, 'pair was', 'pairs were')} held out"
    note = (
        f"no validation data was given: {held} for it{also}"
        if name == "valid"
        else f"{held} to test on{also}"
    )
    rest = corpus.keep(mask)
    return replace(
        rest, report=replace(rest.report, notes=(*corpus.report.notes, note))
    )
