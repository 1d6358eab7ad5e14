"""Validation pairs that come from the training data leave no trace in it."""

from __future__ import annotations

import pytest

from regard.data.corpus import Corpus, CorpusReport, Pair
from regard.data.holdout import hold_out
from regard.errors import DataError


def _corpus(pairs: list[tuple[str, str]]) -> Corpus:
    found = tuple(Pair(source, target, line) for line, (source, target) in enumerate(pairs, 1))
    return Corpus(found, CorpusReport("train", ("a", "b"), len(found), len(found)))


def test_no_sentence_is_on_both_sides_of_the_split() -> None:
    corpus = _corpus([(f"s{i % 150}", f"t{i % 130}") for i in range(400)])
    train, valid = hold_out(corpus, seed=3)
    assert len(valid.pairs) == 20
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)
    assert train.report.kept == len(train.pairs) < 380
    assert any("20 pairs were held out" in line for line in train.report.lines())


def test_the_split_is_fixed_by_the_seed() -> None:
    corpus = _corpus([(f"s{i}", f"t{i}") for i in range(100)])
    assert hold_out(corpus, 1) == hold_out(corpus, 1)
    assert hold_out(corpus, 1)[1].pairs != hold_out(corpus, 2)[1].pairs


def test_large_corpora_lose_a_thousand_pairs_at_most() -> None:
    _, valid = hold_out(_corpus([(f"s{i}", f"t{i}") for i in range(30_000)]), 1)
    assert len(valid.pairs) == 1000


def test_a_single_sentence_cannot_be_split() -> None:
    with pytest.raises(DataError, match="none is left to train on"):
        hold_out(_corpus([("a", "b"), ("a", "c")]), 1)
