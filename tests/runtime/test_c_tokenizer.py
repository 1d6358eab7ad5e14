"""The C tokenizer gives the ids, texts and words of `Vocabulary`, whatever the line and the
vocabulary.
"""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
import unicodedata
from pathlib import Path

import pytest
from helpers.time_limits import time_limit

from regard.data.text import clean
from regard.data.vocabulary import Vocabulary
from tests.runtime.c_tokenizer import (
    NOT_UTF8,
    SOURCES,
    CTokenizer,
    RefusedError,
    clean_bytes,
)
from tests.runtime.conftest import Sanitised
from tests.runtime.vocabularies import (
    VOCABULARIES,
    code_points,
    generated_lines,
    sample_lines,
    vocabulary_and_blob,
)


def assert_same_text(
    vocabulary: Vocabulary,
    tokenizer: CTokenizer,
    ids: list[int],
) -> None:
    words = vocabulary.word_indices(vocabulary.tokens(ids))
    assert tokenizer.decode(ids) == vocabulary.decode(ids), ids
    assert tokenizer.word_indices(ids) == words, ids


@pytest.mark.parametrize("name", VOCABULARIES)
def test_lines_and_any_ids(tokenizer_library: ctypes.CDLL, name: str) -> None:
    """Ids in any order, too, as a model may write them: parts of characters, special tokens,
    spaces.
    """
    vocabulary, blob = vocabulary_and_blob(name)
    tokenizer = CTokenizer(tokenizer_library, blob)
    _, texts = sample_lines()
    together = " ".join(texts)
    long = [together, together.replace(" ", ""), "ab" * 3000, "가" * 300 + "é漢" * 200]
    lines = [*texts, *long, "", " ", "\u3000", *generated_lines(400, 1, texts)]
    for line, ids in zip(lines, vocabulary.encode_all(lines), strict=True):
        assert tokenizer.encode(line) == ids, ascii(line)
        assert_same_text(vocabulary, tokenizer, ids)

    size = len(vocabulary)
    tokens = [tokenizer.token(index) for index in range(size)]

    assert len(tokenizer) == size
    assert tokens == vocabulary.tokens(range(size))

    rng = random.Random(2)
    for _ in range(300):
        most = rng.choice((4, 270, size))  # special tokens, bytes, or any
        ids = [rng.randrange(min(most, size)) for _ in range(rng.randint(0, 12))]
        assert_same_text(vocabulary, tokenizer, ids)

    for index in (-1, size):
        assert tokenizer.token(index) is None
        assert tokenizer.decode([index]) == vocabulary.decode([1])


# --- text


@pytest.mark.system
def test_every_character_is_cleaned(tokenizer_library: ctypes.CDLL) -> None:
    assigned = code_points()
    for start in range(0, len(assigned), 300):
        characters = [chr(code) for code in assigned[start : start + 300]]
        for line in (
            "".join(characters),
            "".join(f"{character}\u0301\u0327" for character in characters),
            unicodedata.normalize("NFD", "a".join(characters)),
        ):
            assert clean_bytes(tokenizer_library, line.encode()).decode() == clean(line)
    assert tokenizer_library.unicode_version() >= unicodedata.unidata_version.encode()


def test_text_that_is_not_utf8(tokenizer_library: ctypes.CDLL) -> None:
    tokenizer = CTokenizer(tokenizer_library, vocabulary_and_blob("bpe-bytes")[1])
    wrong = (
        "80|61 ff|c0 80|c1 bf|e0 9f bf|ed a0 80|f0 8f bf bf|f4 90 80 80|f8 88 80 80 80|e2 96"
        "|61 c3|e2 28 a1|f0 9f 98"
    )
    for part in map(bytes.fromhex, wrong.split("|")):
        for text in (part, b"a good beginning " + part, part + b" and end"):
            with pytest.raises(RefusedError) as status:
                tokenizer.encode(text)
            assert status.value.args == (NOT_UTF8,)
            with pytest.raises(RefusedError):
                clean_bytes(tokenizer_library, text)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("bpe", "\u0301\u0327"),
        ("unused-bpe", "ab가"),
        ("unigram", "漢"),
        ("char", "\uf900"),
    ],
)
def test_megabytes(tokenizer_library: ctypes.CDLL, name: str, unit: str) -> None:
    """Lines without an end take a time in proportion: quadratic it would be many minutes."""
    tokenizer = CTokenizer(tokenizer_library, vocabulary_and_blob(name)[1])
    line = unit * (2_000_000 // len(unit.encode()))
    with time_limit():
        tokenizer.encode(line)


# --- tables


def test_tables_of_another_version_are_refused(tokenizer_library: ctypes.CDLL) -> None:
    _, blob = vocabulary_and_blob("bpe")
    for damaged, message in (
        (b"", "cut short"),
        (blob[:100], "cut short"),
        (blob[:-8], "outside"),
        (b"\0" + blob[1:], "not a tokenizer"),
        (blob[:4] + b"\2" + blob[5:], "version"),
        (blob[:8] + b"\x09" + blob[9:], "kind"),
    ):
        with pytest.raises(RefusedError, match=message):
            CTokenizer(tokenizer_library, damaged)


@pytest.mark.parametrize(
    ("name", "part"), [("bpe", 6), ("user-bpe", 7), ("marian-bpe", 9)]
)
def test_a_trie_that_leads_in_circles(
    tokenizer_library: ctypes.CDLL,
    name: str,
    part: int,
) -> None:
    """No check of single units refuses it, and a line as long as it likes would be looked through
    from each letter.
    """
    blob = bytearray(vocabulary_and_blob(name)[1])
    offset, size = struct.unpack_from("<QQ", blob, 32 + 16 * part)
    units = memoryview(blob)[offset : offset + size].cast("I")
    unit = ((units[0] >> 10) << ((units[0] & 0x200) >> 6)) ^ ord("a")
    units[unit] = ord("a") << 10 | ord("a")
    tokenizer = CTokenizer(tokenizer_library, bytes(blob))
    tokenizer.encode("a" * 12_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bpe-bytes", "marian-unigram", "user-unused-bpe", "whitespace"]
)
def test_damaged_tables(sanitised: Sanitised, tmp_path: Path, name: str) -> None:
    """Damaged tables are opened under sanitizers, and used if they are not refused."""
    blob = tmp_path / name
    blob.write_bytes(vocabulary_and_blob(name)[1])
    program = sanitised(Path(__file__).with_name("fuzz_tokenizer.c"), SOURCES)
    done = subprocess.run([program, blob, "150", "1"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[-3000:]
    assert "150 mutations" in done.stdout
