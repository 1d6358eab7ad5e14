"""Held-out validation pairs share no sentence with the training data."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from regard.common.errors import DataError
from regard.data.corpus import Corpus
from regard.data.holdout import hold_out
from regard.data.pairs import CorpusReport, Pair


def corpus_of(pairs: Iterable[tuple[str, str]]) -> Corpus:
    rows = tuple(
        Pair(source, target, line) for line, (source, target) in enumerate(pairs, 1)
    )
    return Corpus(rows, CorpusReport("train", ("a", "b"), len(rows), len(rows)))


def numbered(count: int, sources: int, targets: int) -> Corpus:
    """Return pairs whose sources and targets come again after so many."""
    return corpus_of((f"s{i % sources}", f"t{i % targets}") for i in range(count))


def split(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus]:
    train, valid = hold_out({"train": corpus}, seed)
    return train["train"], valid


def test_pairs_that_share_no_side_are_held_out_first() -> None:
    repeated = [(f"word {i % 10}", f"Wort {i % 7}") for i in range(200)]
    train, valid = split(
        corpus_of(repeated + [(f"s{i}", f"t{i}") for i in range(300)]), seed=3
    )

    assert len(valid) == 25
    assert all(source.startswith("s") for source in valid.sources)
    assert len(train) == 475

    message = "no validation data was given: 25 pairs were held out for it"
    assert train.report.lines()[-1].endswith(message)


def test_if_all_pairs_share_a_side_few_others_are_left_out() -> None:
    for corpus in (numbered(400, 200, 200), numbered(400, 200, 400)):
        train, valid = split(corpus, seed=3)
        assert (len(valid), len(train)) == (20, 380)

    train, valid = split(numbered(400, 150, 130), seed=3)
    assert len(valid) == 20
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)

    left_out = 380 - len(train)
    assert 0 < left_out < 40

    message = f"20 pairs were held out for it, and {left_out} more that share a side"
    assert message in train.report.lines()[-1]


def test_pairs_are_held_out_to_test_on_too() -> None:
    corpus = numbered(100, 100, 100)
    train, test = hold_out({"train": corpus}, 1, 30, "test")

    assert (len(test), len(train["train"]), test.report.name) == (30, 70, "test")
    assert (
        train["train"].report.lines()[-1].endswith("30 pairs were held out to test on")
    )

    rest, valid = hold_out(train, 1)
    assert {*valid.sources}.isdisjoint([*test.sources, *rest["train"].sources])

    message = (
        r"data\.test_count = 51: at most half of the 100 training pairs .* take 50"
    )
    with pytest.raises(DataError, match=message):
        hold_out({"train": corpus}, 1, 51, "test")


def test_no_corpus_of_several_shares_a_side_with_those_held_out() -> None:
    corpora = {"train": numbered(100, 60, 70), "news": numbered(200, 90, 80)}
    rest, valid = hold_out(corpora, 5)

    assert rest.keys() == corpora.keys()
    assert len(valid) > 0
    for corpus in rest.values():
        assert len(corpus) > 0
        assert {*valid.sources}.isdisjoint(corpus.sources)
        assert {*valid.targets}.isdisjoint(corpus.targets)


def test_the_split_is_fixed_by_the_seed_and_a_thousand_pairs_at_most() -> None:
    corpus = numbered(100, 100, 100)
    assert split(corpus, 1) == split(corpus, 1)
    assert split(corpus, 1)[1].pairs != split(corpus, 2)[1].pairs

    _, valid = split(numbered(30_000, 30_000, 30_000), 1)
    assert len(valid) == 1000
    with pytest.raises(DataError, match="none is left to train on"):
        split(corpus_of([("a", "b"), ("a", "c")]), 1)
