"""Lines of any length and of any characters: normalised in linear time, and never read into memory
as a whole.
"""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.time_limits import time_limit

from regard.common.errors import DataError
from regard.data import text
from regard.data.corpus import CorpusSettings, read_corpora, read_corpus
from regard.data.pair_filters import Pair, PairFiles
from regard.data.text import clean, nfc, read_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.word_alignments import read_word_links

HOSTILE = {
    "letters": "abcdefgh",
    "one letter": "a",
    "syllables": "가나다라",
    "one mark": "\u0301",
    "marks in the wrong order": "\u0301\u0316",
    "marks on letters": "A\u0301\u0316",
    "four marks": "\u0345\u0301\u0316\u0334",
    "marks of marks": "\u0f73\u0316\u0344",
    "spaces": "  \t",
    "words": "나는 집에 ",
    "sentence ends": "。」",
    "quotation marks": '."" ',
    "control characters": "\x01\x02",
    "right to left": "\u202e\u05d0",
    "joined emoji": "👩\u200d",
    "unseen script": "漢字龍",
    "language codes": ">>",
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(
        ["나는 집에 간다", "I go home"] * 3,
        ["I go home", "나는 집에 간다"] * 3,
        TokenizerSettings(),
    )


def test_normalisation_is_that_of_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_SHORT", 0)
    monkeypatch.setattr(text, "_FEW_MARKS", 3)
    rng = random.Random(1)
    marks = [
        c
        for c in map(chr, range(0x2000))
        if unicodedata.combining(unicodedata.normalize("NFD", c)[0])
    ]
    composed = [
        c
        for c in map(chr, range(0x2000))
        if unicodedata.decomposition(c)[:1] not in ("", "<")
    ]
    assert "\u0f73" in marks, (
        "a character without an order of its own that is composed of marks"
    )
    for _ in range(3000):
        line = "".join(
            rng.choice(rng.choice((marks, marks, composed, "ab가각")))
            for _ in range(rng.randint(1, 20))
        )
        assert nfc(line) == unicodedata.normalize("NFC", line), ascii(line)


SIMILAR = {
    "marks of marks",
    "marks in the wrong order",
    "joined emoji",
    "unseen script",
    "right to left",
    "words",
}
"""Kinds of lines in which each call does what it does in another kind."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in SIMILAR else ())
        for kind in HOSTILE
    ],
)
def test_a_line_takes_time_with_its_length(kind: str, tokenizer: Tokenizer) -> None:
    """Each call is a second or less; quadratic time would be many minutes."""
    vocabulary = tokenizer.target
    line = (HOSTILE[kind] * 150_000)[:150_000]
    for call in (
        clean,
        vocabulary.encode,
        vocabulary.unknown_share,
        vocabulary.language_code,
    ):
        with time_limit():
            call(line)


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    """Return a small file whose second line has fifty million characters."""
    path = tmp_path / "lines.gz"
    with gzip.open(path, "wb", 6) as file:
        file.write(b"I go home\n")
        for _ in range(50):
            file.write(b"a" * 1_000_000)
        file.write(b"\nI go home\n")
    assert path.stat().st_size < 100_000
    return path


def peak(call: Callable[[], object]) -> int:
    """Return the most bytes that a call allocates at once."""
    tracemalloc.start()
    call()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used


def test_a_line_beyond_the_limit_is_an_error_that_names_it(bomb: Path) -> None:
    def read() -> None:
        with pytest.raises(
            DataError,
            match=r"lines.gz: line 2 has more than 100,000 characters; break it .*max_line",
        ):
            read_lines(bomb)

    assert peak(read) < 4_000_000


@pytest.mark.system
def test_a_line_beyond_the_limit_is_dropped_from_a_corpus(bomb: Path) -> None:
    corpora = []
    files = PairFiles(bomb, bomb)
    assert peak(lambda: corpora.append(read_corpus(files))) < 8_000_000
    (corpus,) = corpora
    assert [pair.line for pair in corpus.pairs] == [1, 3]
    assert "  dropped, too long: 1 (line 2)" in corpus.report.lines()
    assert "    line 2: (not read) ↔ (not read)" in corpus.report.lines()


@pytest.mark.parametrize(("limit", "kept"), [(13, [1, 2, 3]), (12, [1, 3]), (11, [3])])
def test_the_limit_counts_characters_and_can_be_set(
    tmp_path: Path, limit: int, kept: list[int]
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(
        b"\xef\xbb\xbf" + ("가" * 12 + "\r\n" + "나" * 13 + "\n다").encode()
    )
    corpus = read_corpus(PairFiles(path, path, max_line=limit))
    assert [pair.line for pair in corpus.pairs] == kept
    escaped = tmp_path / "pairs.jsonl"
    escaped.write_text(json.dumps({"source": "가" * 11, "target": "나"}) + "\n")
    assert len(read_corpus(PairFiles(pairs=escaped, max_line=limit + 2))) == 1, (
        "not its code"
    )


def test_pairs_to_validate_on_are_not_much_longer_than_those_to_train_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines"
    path.write_text(
        "I go home\n" + "I " * 401 + "\n" + "가" * 4001 + "\n" + "I " * 400 + "\n",
        encoding="utf-8",
    )
    files = {
        name: str(path) for name in ("source", "target", "valid_source", "valid_target")
    }
    train, others = read_corpora(CorpusSettings.parse(files, "test"), read_corpus)
    assert [pair.line for pair in train["train"].pairs] == [1]
    assert [pair.line for pair in others["valid"].pairs] == [1, 4]
    assert "  dropped, too long: 2 (lines 2, 3)" in others["valid"].report.lines()


def test_the_links_of_a_dropped_pair_may_be_too_long(tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text("0-0\n" + "0-0 " * 30 + "\n0-0\n", encoding="utf-8")
    pairs = [Pair("a", "b", 1), Pair("a", "b", 3)]
    assert len(read_word_links(str(path), pairs, 3, "train", 100).rows) == 2
    with pytest.raises(DataError, match="links, line 2: has more than 100 characters"):
        read_word_links(str(path), [*pairs, Pair("a", "b", 2)], 3, "train", 100)
