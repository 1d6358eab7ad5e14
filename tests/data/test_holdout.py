"""Held-out validation pairs share no sentence with the training data."""

from __future__ import annotations

import pytest

from regard.common.errors import DataError
from regard.data.corpus import Corpus, CorpusReport, Pair
from regard.data.holdout import hold_out


def _corpus(pairs: list[tuple[str, str]]) -> Corpus:
    rows = tuple(Pair(source, target, line) for line, (source, target) in enumerate(pairs, 1))
    return Corpus(rows, CorpusReport("train", ("a", "b"), len(rows), len(rows)))


def _hold_out(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    train, valid = hold_out({"train": corpus}, seed)
    return train["train"], valid


def test_pairs_that_share_no_side_are_held_out_first() -> None:
    words = [(f"word {i % 10}", f"Wort {i % 7}") for i in range(200)]
    train, valid = _hold_out(_corpus(words + [(f"s{i}", f"t{i}") for i in range(300)]), seed=3)
    assert len(valid.pairs) == 25
    assert all(pair.source.startswith("s") for pair in valid.pairs)
    assert len(train.pairs) == 475
    assert train.report.lines()[-1].endswith(
        "no validation data was given: 25 pairs were held out for it"
    )


def test_if_all_pairs_share_a_side_few_others_are_left_out() -> None:
    repeated = [(f"s{i % 200}", f"t{i % 200}") for i in range(400)]
    for pairs in (repeated, [(source, f"t{i}") for i, (source, _) in enumerate(repeated)]):
        train, valid = _hold_out(_corpus(pairs), seed=3)
        assert (len(valid.pairs), len(train.pairs)) == (20, 380)
    train, valid = _hold_out(_corpus([(f"s{i % 150}", f"t{i % 130}") for i in range(400)]), seed=3)
    assert len(valid.pairs) == 20
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)
    left_out = 380 - len(train.pairs)
    assert 0 < left_out < 40
    assert (
        f"20 pairs were held out for it, and {left_out} more that share a side"
        in train.report.lines()[-1]
    )


def test_pairs_are_held_out_to_test_on_too() -> None:
    corpus = _corpus([(f"s{i}", f"t{i}") for i in range(100)])
    train, test = hold_out({"train": corpus}, 1, 30, "test")
    assert (len(test), len(train["train"]), test.report.name) == (30, 70, "test")
    assert train["train"].report.lines()[-1].endswith("30 pairs were held out to test on")
    rest, valid = hold_out(train, 1)
    assert not {*valid.sources} & ({*test.sources} | {*rest["train"].sources})
    with pytest.raises(
        DataError, match=r"data\.test_count = 51: at most half of the 100 training pairs .* take 50"
    ):
        hold_out({"train": corpus}, 1, 51, "test")


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
