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
from regard.data.corpus import read_corpora, read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.pairs import Pair
from regard.data.text import clean, nfc, read_lines, write_lines
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.data.word_alignments import read_word_links

HOSTILE = ["a", "  \t", "\x01\x02", ">>", "가나다라", "\u0345\u0301\u0316\u0334"]
RARE = [
    "abcdefgh",
    "\u0301",
    "A\u0301\u0316",
    "\u0f73\u0316\u0344",
    "나는 집에 ",
    "👩\u200d",
    "漢字龍",
]


@pytest.mark.parametrize(
    "unit", [*HOSTILE, *(pytest.param(unit, marks=pytest.mark.slow) for unit in RARE)]
)
def test_a_line_takes_time_with_its_length(unit: str) -> None:
    """Each call is a second or less; quadratic time would be many minutes."""
    text = ["나는 집에 간다", "I go home"] * 3
    vocabulary = Tokenizer.train(text, text, TokenizerSettings()).target
    line = (unit * 150_000)[:150_000]
    for call in (
        clean,
        vocabulary.encode,
        vocabulary.unknown_share,
        vocabulary.language_code,
    ):
        with time_limit():
            call(line)


def test_normalisation_is_that_of_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_SHORT", 0)
    monkeypatch.setattr(text, "_FEW_MARKS", 3)
    rng = random.Random(1)
    marks = []
    composed = []
    for character in map(chr, range(0x2000)):
        if unicodedata.combining(unicodedata.normalize("NFD", character)[0]):
            marks.append(character)
        if unicodedata.decomposition(character)[:1] not in ("", "<"):
            composed.append(character)

    for _ in range(3000):
        kinds = rng.choices((marks, marks, composed, "ab가각"), k=rng.randint(1, 20))
        line = "".join(map(rng.choice, kinds))

        assert nfc(line) == unicodedata.normalize("NFC", line), ascii(line)


def peak(call: Callable[[], object]) -> int:
    """Return the most bytes that a call allocates at once."""
    tracemalloc.start()
    call()
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return used


@pytest.mark.system
def test_a_line_beyond_the_limit_is_an_error_or_is_dropped(tmp_path: Path) -> None:
    """A small file has a line of twenty million characters."""
    bomb = tmp_path / "lines.gz"
    content = b"I go home\n" + b"a" * 20_000_000 + b"\nI go\n"
    bomb.write_bytes(gzip.compress(content, mtime=0))

    def read() -> None:
        message = r"lines.gz: line 2 has more than 100,000 characters; .*max_line"
        with pytest.raises(DataError, match=message):
            read_lines(bomb)

    assert peak(read) < 4_000_000

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
    path.write_bytes(("가" * 12 + "\r\n" + "나" * 13 + "\n다").encode("utf-8-sig"))
    corpus = read_corpus(PairFiles(path, path, max_line=limit))

    assert [pair.line for pair in corpus.pairs] == kept

    escaped = tmp_path / "pairs.jsonl"
    escaped.write_text(json.dumps({"source": "가" * 11, "target": "나"}) + "\n")
    corpus = read_corpus(PairFiles(pairs=escaped, max_line=limit + 2))

    assert len(corpus) == 1, "not its code"


def test_pairs_to_validate_on_are_not_much_longer_than_those_to_train_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines"
    write_lines(path, ["I go home", "I " * 401, "가" * 4001, "I " * 400])
    names = ("source", "target", "valid_source", "valid_target")
    files = dict.fromkeys(names, str(path))
    corpora = read_corpora(CorpusSettings.parse(files, "test"))

    assert [pair.line for pair in corpora["train"]] == [1]
    assert [pair.line for pair in corpora["valid"]] == [1, 4]
    assert "  dropped, too long: 2 (lines 2, 3)" in corpora["valid"].report.lines()


def test_the_links_of_a_dropped_pair_may_be_too_long(tmp_path: Path) -> None:
    path = tmp_path / "links"
    path.write_text("0-0\n" + "0-0 " * 30 + "\n0-0\n", encoding="utf-8")
    pairs = [Pair("a", "b", 1), Pair("a", "b", 3)]

    assert len(read_word_links(str(path), pairs, 3, "train", 100).rows) == 2
    with pytest.raises(DataError, match="links, line 2: has more than 100 characters"):
        read_word_links(str(path), [*pairs, Pair("a", "b", 2)], 3, "train", 100)
