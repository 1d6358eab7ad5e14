"""Held-out validation pairs, taken from the training data if none are given."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from regard.data.corpus import Corpus
from regard.data.pairs import CorpusReport, Pair
from regard.data.streaming import FilteredCorpus
from regard.errors import DataError

MAX_PAIRS, FRACTION = 1000, 20  # at most a thousand pairs, at most a twentieth of the data

T = TypeVar("T", Corpus, FilteredCorpus)


def hold_out(corpora: Mapping[str, T], seed: int) -> tuple[dict[str, T], Corpus]:
    """Split off pairs for validation; training keeps no pair that shares a side with one of them.

    Several corpora are treated as if they were one file after another.
    """
    total = sum(len(corpus) for corpus in corpora.values())
    count = min(MAX_PAIRS, max(1, total // FRACTION))
    indices = random.Random(seed).sample(range(total), count)
    held_out: list[tuple[Pair, ...]] = []
    start = 0
    for corpus in corpora.values():
        held_out.append(corpus.select({index - start for index in indices if 0 <= index - start < len(corpus)}))
        start += len(corpus)
    valid = tuple(chain.from_iterable(held_out))
    train = {
        name: _without(corpus, valid, len(pairs))
        for (name, corpus), pairs in zip(corpora.items(), held_out, strict=True)
    }
    return train, Corpus(valid, held_out_report([corpus.report.files for corpus in corpora.values()], len(valid)))


def held_out_report(files: Iterable[tuple[str, ...]], count: int) -> CorpusReport:
    """Return the report on so many pairs held out of these files."""
    return CorpusReport("valid", tuple(chain.from_iterable(files)), count, count)


def _without(corpus: T, valid: tuple[Pair, ...], held_out: int) -> T:
    """Return what training keeps of a corpus from which `held_out` pairs were taken."""
    rest = corpus.without({pair.source for pair in valid}, {pair.target for pair in valid})
    if not len(rest):
        raise DataError(
            f"{' and '.join(corpus.report.files)}: of {len(corpus)} pairs none is left to train on when some are held "
            "out for validation; give more pairs, or `valid_source=` and `valid_target=`"
        )
    shared = len(corpus) - len(rest) - held_out
    also = f", and {shared:,} more that share a side with them left out" if shared else ""
    note = f"no validation data was given: {held_out:,} pairs were held out for it{also}"
    return replace(rest, report=replace(rest.report, notes=(*corpus.report.notes, note)))
