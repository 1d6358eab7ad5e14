"""Validation pairs taken from the training data where no other are given."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from regard.data.corpus import Corpus, CorpusReport, Pair
from regard.data.streaming import FilteredCorpus
from regard.errors import DataError

__all__ = ["held_out_report", "hold_out", "hold_out_of"]

MOST, SHARE = 1000, 20  # at most a thousand pairs, at most a twentieth of the data

T = TypeVar("T", Corpus, FilteredCorpus)


def hold_out(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    """Split off pairs for validation; training keeps no pair that shares a side with one of them."""
    train, valid = hold_out_of({"train": corpus}, seed)
    return train["train"], valid


def hold_out_of(corpora: Mapping[str, T], seed: int) -> tuple[dict[str, T], Corpus]:
    """The same for several corpora, as if they stood in one file one after another."""
    total = sum(len(corpus) for corpus in corpora.values())
    most = min(MOST, max(1, total // SHARE))
    chosen = random.Random(seed).sample(range(total), most)
    picked: list[tuple[Pair, ...]] = []
    start = 0
    for corpus in corpora.values():
        picked.append(corpus.select({place - start for place in chosen if 0 <= place - start < len(corpus)}))
        start += len(corpus)
    valid = tuple(pair for pairs in picked for pair in pairs)
    train = {name: _rest(some, valid, len(own)) for (name, some), own in zip(corpora.items(), picked, strict=True)}
    return train, Corpus(valid, held_out_report([some.report.files for some in corpora.values()], len(valid)))


def held_out_report(files: Iterable[tuple[str, ...]], count: int) -> CorpusReport:
    """What is said of so many pairs taken from these files."""
    return CorpusReport("valid", tuple(chain.from_iterable(files)), count, count)


def _rest(corpus: T, valid: tuple[Pair, ...], own: int) -> T:
    """What training keeps of a corpus of which `own` pairs were held out."""
    rest = corpus.without({pair.source for pair in valid}, {pair.target for pair in valid})
    if not len(rest):
        raise DataError(_nothing_left(corpus.report, len(corpus)))
    note = _note(own, len(corpus) - len(rest) - own)
    return replace(rest, report=replace(rest.report, notes=(*corpus.report.notes, note)))


def _nothing_left(report: CorpusReport, pairs: int) -> str:
    return (
        f"{' and '.join(report.files)}: of {pairs} pairs none is left to train on when some "
        "are held out for validation; give more pairs, or --valid-source and --valid-target"
    )


def _note(held: int, beside: int) -> str:
    also = f", and {beside:,} more that share a side with them left out" if beside else ""
    return f"no validation data was given: {held:,} pairs were held out for it{also}"
