"""Held-out validation pairs share no sentence with the training data."""

from __future__ import annotations

import pytest

from regard.data.corpus import Corpus, CorpusReport, Pair
from regard.data.holdout import hold_out
from regard.errors import DataError


def _corpus(pairs: list[tuple[str, str]]) -> Corpus:
    rows = tuple(Pair(source, target, line) for line, (source, target) in enumerate(pairs, 1))
    return Corpus(rows, CorpusReport("train", ("a", "b"), len(rows), len(rows)))


def _hold_out(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    train, valid = hold_out({"train": corpus}, seed)
    return train["train"], valid


def test_no_sentence_is_on_both_sides_of_the_split() -> None:
    corpus = _corpus([(f"s{i % 150}", f"t{i % 130}") for i in range(400)])
    train, valid = _hold_out(corpus, seed=3)
    assert len(valid.pairs) == 20
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)
    assert train.report.kept == len(train.pairs) < 380
    assert any("20 pairs were held out" in line for line in train.report.lines())


def test_the_split_is_fixed_by_the_seed() -> None:
    corpus = _corpus([(f"s{i}", f"t{i}") for i in range(100)])
    assert _hold_out(corpus, 1) == _hold_out(corpus, 1)
    assert _hold_out(corpus, 1)[1].pairs != _hold_out(corpus, 2)[1].pairs


def test_large_corpora_lose_a_thousand_pairs_at_most() -> None:
    _, valid = _hold_out(_corpus([(f"s{i}", f"t{i}") for i in range(30_000)]), 1)
    assert len(valid.pairs) == 1000


def test_a_single_sentence_cannot_be_split() -> None:
    with pytest.raises(DataError, match="none is left to train on"):
        _hold_out(_corpus([("a", "b"), ("a", "c")]), 1)
