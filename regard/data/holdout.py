"""Validation pairs taken from the training data where no other are given."""

from __future__ import annotations

import random
from dataclasses import replace

from regard.data.corpus import Corpus
from regard.errors import DataError

__all__ = ["hold_out"]

MOST, SHARE = 1000, 20  # at most a thousand pairs, at most a twentieth of the data


def hold_out(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    """Split off pairs for validation; training keeps no pair that shares a side with one of them."""
    most = min(MOST, max(1, len(corpus.pairs) // SHARE))
    chosen = set(random.Random(seed).sample(range(len(corpus.pairs)), most))
    valid = tuple(pair for number, pair in enumerate(corpus.pairs) if number in chosen)
    sources, targets = {pair.source for pair in valid}, {pair.target for pair in valid}
    train = tuple(pair for pair in corpus.pairs if pair.source not in sources and pair.target not in targets)
    if not train:
        raise DataError(
            f"{' and '.join(corpus.report.files)}: of {len(corpus.pairs)} pairs none is left to train on when some "
            "are held out for validation; give more pairs, or --valid-source and --valid-target"
        )
    report = corpus.report
    return (
        Corpus(train, replace(report, kept=len(train), notes=(*report.notes, _note(corpus, train, valid)))),
        Corpus(
            valid, replace(report, where="valid", read=len(valid), kept=len(valid), dropped={}, duplicates=0, notes=())
        ),
    )


def _note(corpus: Corpus, train: tuple[object, ...], valid: tuple[object, ...]) -> str:
    beside = len(corpus.pairs) - len(train) - len(valid)
    also = f", and {beside:,} more that share a side with them left out" if beside else ""
    return f"no validation data was given: {len(valid):,} pairs were held out for it{also}"
