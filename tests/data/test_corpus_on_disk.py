"""A corpus that stays in its files equals one in memory: the same pairs, reports and causes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from material import noisy_sentences, write_corpus

from regard.common.errors import DataError
from regard.data import pairs as pairs_module
from regard.data.corpus import read_corpus
from regard.data.file_formats import PairFiles
from regard.data.pair_filters import Filters
from regard.data.text import write_lines


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small chunks, so that a small corpus has many."""
    monkeypatch.setattr(pairs_module, "CHUNK", 16)


@pytest.mark.parametrize(
    "filters", [Filters(), Filters(200, 9), Filters(5, 9, drop_duplicates=True)]
)
def test_a_stream_equals_the_corpus_in_memory(tmp_path: Path, filters: Filters) -> None:
    """Files of one pair a line are compared in the tests of tables."""
    path = tmp_path / "a.jsonl.gz"
    rows = zip(*noisy_sentences(200), strict=True)
    pairs = ({"source": source, "target": target} for source, target in rows)
    write_lines(path, map(json.dumps, pairs))

    for files in (PairFiles(pairs=path), PairFiles(**write_corpus(tmp_path, 200))):
        in_memory = read_corpus(files, filters)
        streamed = read_corpus(files, filters, on_disk=True)

        assert tuple(streamed) == in_memory.pairs
        assert streamed.report == in_memory.report
        assert len(streamed) == len(in_memory)
        assert streamed.report.kept < streamed.report.read == 200


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (b"a\n", b"a\n" * 40),
        (b"a\n\xff\n" + b"x\n" * 50, b"a\0\n" + b"y\n" * 30 + b"\xfe\n"),
        (b"", b"a\n"),
        (b"\n\n", b"a\nb\n"),
    ],
    ids=["many more", "broken both", "empty", "nothing left"],
)
def test_a_stream_reports_the_same_problems(
    tmp_path: Path, source: bytes, target: bytes
) -> None:
    (tmp_path / "a").write_bytes(source)
    (tmp_path / "b").write_bytes(target)
    causes = []

    for on_disk in (False, True):
        with pytest.raises(DataError) as caught:
            read_corpus(PairFiles(tmp_path / "a", tmp_path / "b"), on_disk=on_disk)
        causes.append(caught.value.causes)

    assert causes[0] == causes[1]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    paths = write_corpus(tmp_path, 40)
    streamed = read_corpus(PairFiles(**paths), on_disk=True)
    for path in paths.values():
        write_lines(path, ["more"] * 60)

    with pytest.raises(DataError, match=r"had 40 lines a moment ago and 60 now"):
        list(streamed)
