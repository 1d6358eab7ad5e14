"""Pairs that a program gives: written as JSON lines, or refused with their number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from regard.common.errors import DataError
from regard.data import given_pairs
from regard.data.corpus import read_corpus
from regard.data.file_formats import PairFiles
from regard.data.given_pairs import write_pairs

PAIRS = [("나는 집에 간다", "I go home"), ('a "b"\tc', "d\\e"), ("x", "😀 y")]


@pytest.mark.parametrize("pairs", [PAIRS, iter(PAIRS), map(list, PAIRS)], ids=type)
def test_pairs_come_back_from_their_file(pairs: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    write_pairs(pairs, path, "`pairs=`")

    lines = path.read_text(encoding="utf-8").splitlines()
    values = [json.loads(line) for line in lines]
    assert [(value["source"], value["target"]) for value in values] == PAIRS
    corpus = read_corpus(PairFiles(pairs=path))
    assert corpus.targets == [target for _, target in PAIRS]


class Short:
    """Ends before its length."""

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(PAIRS)


def failing() -> Iterator[tuple[str, str]]:
    yield PAIRS[0]
    raise ConnectionError("gone")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (Short(), "ended after 3 pairs of 5"),
        (iter(()), "has no pairs"),
        ([], "has no pairs"),
        (failing(), "failed after 1 pair with ConnectionError: gone"),
        (repeat(PAIRS[0]), "does not end after 7 pairs"),
        ([PAIRS[0], "ab"], "pair 2: wanted a source and a target, two texts, got 'ab'"),
        ([("a", 1)], r"pair 1: wanted .* got \('a', 1\)"),
        ([("a", "b", "c")], "pair 1: wanted"),
    ],
)
def test_what_is_no_corpus_is_refused_and_nothing_is_written(
    pairs: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_pairs, "MOST", 7)
    with pytest.raises(DataError, match=message):
        write_pairs(pairs, tmp_path / "pairs.jsonl", "`pairs=`")
    assert [*tmp_path.iterdir()] == []
