"""The C tokenizer gives the ids, texts and words of `Vocabulary`, whatever the line and the
vocabulary.
"""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from limits import time_limit

from regard.data.text import clean
from regard.data.vocabulary import Vocabulary
from regard.runtime.engine.token_tables import build_trie, token_tables
from tests.runtime.c_tokenizer import (
    COMPILER,
    NO_COMPILER,
    NOT_UTF8,
    SOURCES,
    CTokenizer,
    RefusedError,
    clean_bytes,
    compile_c,
)
from tests.runtime.vocabularies import (
    code_points,
    generated_lines,
    marian_vocabulary,
    odd_model,
    regard_vocabulary,
    sample_lines,
    with_unused,
)

CORPORA = Path(__file__).parents[3] / "shared" / "data"


def train_lines() -> list[str]:
    return sample_lines()[0]


def user_defined(kind: str, **options: object) -> Vocabulary:
    symbols = ["<br>", "ab", "abc", "나는 ", "e", "é"]
    return odd_model(train_lines(), kind, user_defined_symbols=symbols, **options)


VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    **{
        f"{kind}{'-bytes' * fallback}": lambda kind=kind, fallback=fallback: regard_vocabulary(
            train_lines(), kind, fallback, (600 if fallback else 400) if kind in ("bpe", "unigram") else None
        )
        for kind in ("bpe", "unigram", "char", "whitespace")
        for fallback in (False, True)
        if not (kind == "whitespace" and fallback)
    },
    "marian-unigram": lambda: marian_vocabulary(train_lines(), "unigram"),
    "marian-bpe": lambda: marian_vocabulary(train_lines(), "bpe"),
    "marian-bytes": lambda: marian_vocabulary(train_lines(), "bpe", 700, byte_fallback=True),
    "unused-bpe": lambda: with_unused(odd_model(train_lines(), "bpe")),
    "unused-unigram": lambda: with_unused(odd_model(train_lines(), "unigram")),
    "unused-char": lambda: with_unused(odd_model(train_lines(), "char")),
    "user-bpe": lambda: user_defined("bpe", normalization_rule_name="nmt_nfkc_cf"),
    "user-unigram": lambda: user_defined("unigram", byte_fallback=True),
    "user-unused-bpe": lambda: with_unused(user_defined("bpe"), 3),
    "suffix-bpe": lambda: odd_model(train_lines(), "bpe", treat_whitespace_as_suffix=True),
    "suffix-unigram": lambda: odd_model(train_lines(), "unigram", treat_whitespace_as_suffix=True),
    "spaces-bpe": lambda: odd_model(
        train_lines(), "bpe", split_by_whitespace=False, remove_extra_whitespaces=False, add_dummy_prefix=False
    ),
    "spaces-unigram": lambda: odd_model(
        train_lines(), "unigram", split_by_whitespace=False, remove_extra_whitespaces=False, add_dummy_prefix=False,
        normalization_rule_name="nfkc",
    ),
}  # fmt: skip


@cache
def vocabulary_and_blob(name: str) -> tuple[Vocabulary, bytes]:
    vocabulary = VOCABULARIES[name]()
    return vocabulary, token_tables(vocabulary)


def assert_equal(vocabulary: Vocabulary, tokenizer: CTokenizer, lines: Iterable[str]) -> int:
    """Compare ids, their text and their words, line by line; returns the number of lines."""
    count = 0
    lines = iter(lines)
    while chunk := list(islice(lines, 10_000)):
        count += len(chunk)
        assert_chunk_equal(vocabulary, tokenizer, chunk)
    return count


def assert_chunk_equal(vocabulary: Vocabulary, tokenizer: CTokenizer, lines: Sequence[str]) -> None:
    for line, ids in zip(lines, vocabulary.encode_all(lines), strict=True):
        assert tokenizer.encode(line) == ids, ascii(line)
        assert tokenizer.decode(ids) == vocabulary.decode(ids), ascii(line)
        assert tokenizer.word_indices(ids) == vocabulary.word_indices(vocabulary.tokens(ids)), (
            ascii(line)
        )


@pytest.mark.parametrize("name", VOCABULARIES)
def test_lines(tokenizer_library: ctypes.CDLL, name: str) -> None:
    vocabulary, blob = vocabulary_and_blob(name)
    tokenizer = CTokenizer(tokenizer_library, blob)
    texts = sample_lines()[1]
    long = [
        " ".join(texts),
        "".join(texts).replace(" ", ""),
        "ab" * 3000,
        "가" * 300 + "é漢" * 200,
        "",
        " ",
        "\u3000",
    ]
    assert_equal(vocabulary, tokenizer, [*texts, *long, *generated_lines(400, 1, texts)])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_any_ids(tokenizer_library: ctypes.CDLL, name: str) -> None:
    """Ids in any order, as a model may write them: parts of characters, special tokens, spaces."""
    vocabulary, blob = vocabulary_and_blob(name)
    tokenizer = CTokenizer(tokenizer_library, blob)
    assert len(tokenizer) == len(vocabulary)
    assert [tokenizer.token(index) for index in range(len(vocabulary))] == vocabulary.tokens(
        range(len(vocabulary))
    )
    assert tokenizer.token(-1) is tokenizer.token(len(vocabulary)) is None
    rng = random.Random(2)
    for _ in range(300):
        most = rng.choice((4, 270, len(vocabulary)))  # special tokens, bytes, or any
        ids = [rng.randrange(min(most, len(vocabulary))) for _ in range(rng.randint(0, 12))]
        assert tokenizer.decode(ids) == vocabulary.decode(ids), ids
        assert tokenizer.word_indices(ids) == vocabulary.word_indices(vocabulary.tokens(ids)), ids
    assert tokenizer.decode([-1]) == tokenizer.decode([len(vocabulary)]) == vocabulary.decode([1])


@pytest.mark.parametrize("name", ["bpe", "marian-bpe"])
def test_language_codes(tokenizer_library: ctypes.CDLL, name: str) -> None:
    vocabulary, blob = vocabulary_and_blob(name)
    tokenizer = CTokenizer(tokenizer_library, blob)
    codes = [
        ">>eng<<",
        ">>한국어<< 나는",
        ">><<",
        ">>",
        ">><",
        "> >a<<",
        ">>a>><<b",
        ">>▁<<",
        "<<",
        "",
    ]
    for line in [*codes, *(">>" + "é" * length + "<< x" for length in range(33, 40))]:
        code = tokenizer.language_code(line)
        assert code.replace("▁", "_") == vocabulary.language_code(line), line


def test_noncharacters_that_stand_for_unknown_tokens(tokenizer_library: ctypes.CDLL) -> None:
    """`detokenised` writes unknown tokens as noncharacters; encoding such a text gives the same
    ids.
    """
    for name in ("marian-unigram", "marian-bpe", "whitespace"):
        vocabulary, blob = vocabulary_and_blob(name)
        tokenizer = CTokenizer(tokenizer_library, blob)
        rng = random.Random(3)
        rows = [
            [rng.choice([1, 1, *range(4, 60)]) for _ in range(rng.randint(1, 8))]
            for _ in range(200)
        ]
        assert_equal(vocabulary, tokenizer, vocabulary.detokenised(rows))


# --- text
# ---------------------------------------------------------------------------------------------------------


def test_every_character_is_cleaned(tokenizer_library: ctypes.CDLL) -> None:
    for start in range(0, len(code_points()["assigned"]), 300):
        codes = code_points()["assigned"][start : start + 300]
        for line in (
            "".join(map(chr, codes)),
            "".join(chr(code) + "\u0301\u0327" for code in codes),
            unicodedata.normalize("NFD", "a".join(map(chr, codes))),
        ):
            assert clean_bytes(tokenizer_library, line.encode()).decode() == clean(line)
    assert tokenizer_library.unicode_version() >= unicodedata.unidata_version.encode()


def test_marks_are_put_in_order(tokenizer_library: ctypes.CDLL) -> None:
    rng = random.Random(4)
    marks = [*code_points()["nonstarter"], 0x1161, 0x11A8, 0x0344, 0x0958]
    for _ in range(400):
        line = rng.choice("a가 ") + "".join(
            chr(rng.choice(marks)) for _ in range(rng.choice((2, 5, 31, 33, 300)))
        )
        assert clean_bytes(tokenizer_library, line.encode()).decode() == clean(line)


@pytest.mark.parametrize(
    "text",
    [
        b"\x80", b"a\xff", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x96", b"a\xc3", b"\xe2\x28\xa1", b"\xf0\x9f\x98",
    ],
)  # fmt: skip
def test_text_that_is_not_utf8(tokenizer_library: ctypes.CDLL, text: bytes) -> None:
    tokenizer = CTokenizer(tokenizer_library, vocabulary_and_blob("bpe-bytes")[1])
    for damaged in (text, b"a good beginning " + text, text + b" and end"):
        with pytest.raises(RefusedError) as status:
            tokenizer.encode(damaged)
        assert status.value.args == (NOT_UTF8,)
        with pytest.raises(RefusedError):
            clean_bytes(tokenizer_library, damaged)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("bpe", "a"), ("bpe-bytes", "\u0301\u0327"), ("unused-bpe", "ab가"), ("unigram", "ab가"), ("unigram", "漢"),
        ("char", "\uf900"), ("marian-bpe", ">"), ("marian-unigram", "a\u0301 "), ("whitespace", "\u0344"),
    ],
)  # fmt: skip
def test_megabytes(tokenizer_library: ctypes.CDLL, name: str, unit: str) -> None:
    """Lines without an end take a time in proportion: quadratic it would be many minutes."""
    tokenizer = CTokenizer(tokenizer_library, vocabulary_and_blob(name)[1])
    line = unit.encode() * (4_000_000 // len(unit.encode()))
    with time_limit():
        tokenizer.encode(line)


# --- tables
# ---------------------------------------------------------------------------------------------------------


def walk(units: Sequence[int], key: bytes) -> int | None:
    """Look up a string as darts-clone does."""

    def offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)

    at = 0
    for byte in key:
        at ^= offset(units[at]) ^ byte
        if units[at] & 0x800000FF != byte:
            return None
    return units[at ^ offset(units[at])] & 0x7FFFFFFF if units[at] >> 8 & 1 else None


def test_a_trie_has_its_strings_and_no_others() -> None:
    rng = random.Random(5)
    keys = {
        bytes(rng.choice(b"abc\xe2\x96\x81\xff") for _ in range(rng.randint(1, 7)))
        for _ in range(3000)
    }
    values = {key: number for number, key in enumerate(sorted(keys))}
    data = build_trie(values)
    units = memoryview(data).cast("I")
    assert {key: walk(units, key) for key in keys} == values
    for key in keys:
        for other in (key[:-1], key + b"a", key + b"\0", b"\0" + key):
            assert walk(units, other) == values.get(other)
    assert build_trie({}) == b""
    with pytest.raises(ValueError, match="NUL"):
        build_trie({b"a\0": 1})


def test_tables_of_another_version_are_refused(tokenizer_library: ctypes.CDLL) -> None:
    blob = vocabulary_and_blob("bpe")[1]
    for damaged, message in (
        (b"", "cut short"), (blob[:100], "cut short"), (blob[:-8], "outside"), (b"\0" + blob[1:], "not a tokenizer"),
        (blob[:4] + b"\2" + blob[5:], "version"), (blob[:8] + b"\x09" + blob[9:], "kind"),
        (blob[:4] + bytes(reversed(blob[4:8])) + blob[8:], "version"),
    ):  # fmt: skip
        with pytest.raises(RefusedError, match=message):
            CTokenizer(tokenizer_library, damaged)


@pytest.mark.parametrize(
    ("name", "part"), [("unigram", 6), ("bpe", 6), ("user-bpe", 7), ("marian-bpe", 9)]
)
def test_a_trie_that_leads_in_circles(tokenizer_library: ctypes.CDLL, name: str, part: int) -> None:
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


def run_fuzz(folder: Path, names: Sequence[str], mutations: int) -> None:
    """Open damaged tables under sanitizers, and use them if they are not refused."""
    if COMPILER is None:
        pytest.skip(NO_COMPILER)
    driver = folder / "fuzz"
    try:
        compile_c(driver, [Path(__file__).with_name("fuzz_tokenizer.c"), *SOURCES], "-g", "-O1", "-fsanitize=address,undefined",
                  "-fno-sanitize-recover=all")  # fmt: skip
    except AssertionError as problem:
        if "sanitize" in str(problem) or "asan" in str(problem):
            pytest.skip("the C compiler has no sanitizers")
        raise
    for name in names:
        blob = folder / name
        blob.write_bytes(vocabulary_and_blob(name)[1])
        done = subprocess.run([driver, blob, str(mutations), "1"], capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
        assert f"{mutations} mutations" in done.stdout


def test_damaged_tables(tmp_path: Path) -> None:
    run_fuzz(
        tmp_path,
        ["bpe-bytes", "unigram", "marian-unigram", "user-bpe", "user-unused-bpe", "whitespace"],
        150,
    )


# --- slow: whole corpora
# --------------------------------------------------------------------------------------------


def text_files() -> dict[str, list[str]]:
    """Return the lines of every text file of the corpora, by name."""
    if not CORPORA.is_dir():
        pytest.skip(f"the corpora are not here ({CORPORA}): they may not be shipped")
    suffixes = (".en", ".fr", ".de", ".cs", ".ko", ".tsv", ".domain")
    files = (path for path in sorted(CORPORA.glob("*/*")) if path.suffix in suffixes)
    return {
        f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8").split("\n")
        for path in files
    }


@cache
def corpus_lines() -> list[str]:
    """Return every line of the corpora and its lowercased form, each once."""
    lines = [line for lines in text_files().values() for line in lines]
    return list(dict.fromkeys([*lines, *(line.lower() for line in lines)]))


@cache
def training_text(side: str) -> list[str]:
    names = {
        "source": ("koen/train.ko", "multi30k/train.de"),
        "target": ("koen/train.en", "multi30k/train.en"),
    }
    texts = text_files()
    return [line for name in names[side] for line in texts[name][:30_000:2]]


CORPUS_VOCABULARIES = [
    ("bpe", 8000, True, "joint"), ("unigram", 8000, True, "joint"), ("marian-unigram", 8000, False, "joint"),
    ("bpe", 8000, False, "target"), ("unigram", 8000, False, "target"), ("bpe", 1000, True, "target"),
    ("unigram", 1000, False, "target"), ("char", None, True, "joint"), ("whitespace", None, False, "joint"),
    ("marian-bpe", 8000, False, "joint"), ("char", None, False, "joint"), ("bpe", 8000, False, "joint"),
    ("unigram", 8000, False, "joint"), ("bpe", 8000, True, "source"), ("unigram", 8000, True, "source"),
    ("bpe", 1000, False, "target"), ("unigram", 1000, True, "target"), ("marian-unigram", 8000, True, "source"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size", "fallback", "side"), CORPUS_VOCABULARIES)
def test_corpora_and_generated_lines(
    tokenizer_library: ctypes.CDLL, kind: str, size: int | None, fallback: bool, side: str
) -> None:
    """Every line of the corpora, lowercased too, and 100,000 generated ones."""
    texts = [
        line
        for part in ("source", "target")
        if side in (part, "joint")
        for line in training_text(part)
    ]
    if kind.startswith("marian-"):
        coverage = {"character_coverage": 0.9995, "byte_fallback": fallback}
        vocabulary = marian_vocabulary(texts, kind.removeprefix("marian-"), size or 0, **coverage)
    else:
        vocabulary = regard_vocabulary(texts, kind, fallback, size)
    tokenizer = CTokenizer(tokenizer_library, token_tables(vocabulary))
    count = assert_equal(vocabulary, tokenizer, corpus_lines())
    generated = assert_equal(
        vocabulary, tokenizer, generated_lines(100_000, len(vocabulary), texts)
    )
    print(
        f"{kind} {len(vocabulary)} {fallback} {side}: {count:,} lines of corpora, {generated:,} generated, equal"
    )
