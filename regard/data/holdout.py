"""Held-out pairs: take pairs from the training data to validate on if no files are given, and to
test on if asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.corpus import Corpus
from regard.data.pairs import CorpusReport, Pair

MAX_HELD_OUT = 1000
"""Pairs that are held out for validation, at most."""
PAIRS_PER_HELD_OUT = 20
"""At most one pair in so many is held out for validation."""

Array = npt.NDArray[Any]


def hold_out(
    corpora: Mapping[str, Corpus],
    seed: int,
    count: int | None = None,
    name: str = "valid",
) -> tuple[dict[str, Corpus], Corpus]:
    """Split off `count` pairs as corpus `name`; training keeps no pair that shares a side with one
    of them.

    Without a `count`, a twentieth of the pairs and at most a thousand are split off, for
    validation. Pairs that share no side with other pairs are drawn first, then the pairs that share
    a side with the fewest. Several corpora are treated as if they were one file after another.

    Raises DataError for a count of more than half of the pairs, and if no pair is left to train on.
    """
    lengths = [len(corpus) for corpus in corpora.values()]
    total = sum(lengths)
    if count is None:
        count = min(MAX_HELD_OUT, max(1, total // PAIRS_PER_HELD_OUT))
    elif count > total // 2:
        raise DataError(
            f"data.test_count = {count:,}: at most half of the {total:,} training pairs can "
            f"be held out to test on; take {total // 2:,} or fewer"
        )

    hashes = _side_hashes(corpora.values(), total)
    indices = _draw(hashes, seed)
    if any(corpus.suspects for corpus in corpora.values()):
        is_sound = [
            pair.line not in corpus.suspects
            for corpus in corpora.values()
            for pair in corpus
        ]
        indices = indices[np.array(is_sound)[indices]]
    indices = indices[:count]
    is_drawn = np.zeros(total, np.bool_)
    is_drawn[indices] = True
    shares_source = np.isin(hashes[0], hashes[0][indices])
    shares_target = np.isin(hashes[1], hashes[1][indices])
    keep = ~(shares_source | shares_target)

    held_out = list[Pair]()
    train = dict[str, Corpus]()
    start = 0
    for part, corpus in corpora.items():
        end = start + len(corpus)
        drawn = is_drawn[start:end]
        held_out += corpus.keep(drawn)
        train[part] = _keep(corpus, keep[start:end], int(drawn.sum()), name)
        start = end
    files = [corpus.report.files for corpus in corpora.values()]
    report = held_out_report(files, len(held_out), name)
    return train, Corpus(tuple(held_out), report)


def held_out_report(
    files: Iterable[tuple[str, ...]], count: int, name: str = "valid"
) -> CorpusReport:
    """Return the report on `count` pairs that were held out of these files."""
    return CorpusReport(name, tuple(chain.from_iterable(files)), count, count)


def _side_hashes(corpora: Iterable[Corpus], count: int) -> Array:
    """Return the hashes of the sources and of the targets of `count` pairs (2, count)."""
    texts = (
        text
        for corpus in corpora
        for pair in corpus
        for text in (pair.source, pair.target)
    )
    return np.fromiter(map(hash, texts), np.int64, 2 * count).reshape(-1, 2).T


def _draw(sides: Array, seed: int) -> Array:
    """Return the indices of pairs in random order, sorted by the number of other pairs that share a
    side with each.

    Pairs with the same side follow each other if their numbers are equal, so that few further pairs
    share a side with held-out ones.
    """
    shared = []
    first = []
    for hashes in sides:
        _, index, inverse, counts = np.unique(
            hashes, return_index=True, return_inverse=True, return_counts=True
        )
        shared.append(counts[inverse] - 1)
        first.append(index[inverse])
    # Pairs are grouped by the first pair with their more frequent side.
    leader = np.where(shared[0] >= shared[1], first[0], first[1])
    ranks = np.random.default_rng(seed).permutation(len(leader))
    return np.lexsort((ranks[leader], shared[0] + shared[1]))


def _keep(corpus: Corpus, mask: Array, held_out: int, name: str) -> Corpus:
    """Return the part of a corpus that is left for training after `held_out` pairs were taken."""
    if not mask.any():
        raise DataError(
            f"{' and '.join(corpus.report.files)}: of {counted(len(corpus), 'pair')} "
            f"none is left to train on when some are held "
            f"out ({name}); give more pairs, or files to validate and test on"
        )
    note = f"{counted(held_out, 'pair was', 'pairs were')} held out"
    if name == "valid":
        note = f"no validation data was given: {note} for it"
    else:
        note = f"{note} to test on"
    shared = len(corpus) - int(mask.sum()) - held_out
    if shared:
        note += f", and {shared:,} more that share a side with them left out"
    kept = corpus.keep(mask)
    report = replace(kept.report, notes=(*kept.report.notes, note))
    return Corpus(kept.pairs, report)
