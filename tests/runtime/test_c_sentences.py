"""The C library splits lines into sentences, and knows letters, as `regard.data.sentences` does."""

from __future__ import annotations

import ctypes
import random
import sys
import unicodedata
from pathlib import Path

import pytest

from regard.data.sentence_marks import MARKS
from regard.data.sentences import has_letters, has_spaces
from regard.data.text import clean
from regard.text.line_splitter import LineSplitter
from tests.data.sentence_pieces import PIECES, PIECES_OF_SCRIPTS
from tests.runtime.c_tokenizer import COMPILER, NO_COMPILER, SOURCES, compile_c

if COMPILER is None:
    pytest.skip(NO_COMPILER, allow_module_level=True)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("sentences") / "sentences.so"
    compile_c(path, [*SOURCES, Path(__file__).with_name("sentences_driver.c")], "-shared", "-fPIC")
    library = ctypes.CDLL(str(path))
    library.line_ends.restype = ctypes.c_int64
    library.line_ends.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.line_parts.restype = ctypes.c_int64
    library.line_parts.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int64,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    library.line_parts.argtypes += [
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.has_letters.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.wants_space.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
    return library


def split(library: ctypes.CDLL, line: str) -> list[str]:
    """Return the sentences of a line by the library."""
    text = line.encode()
    ends = (ctypes.c_size_t * (len(text) + 1))()
    count = library.line_ends(text, len(text), ends)
    return [
        text[start:end].decode()
        for start, end in zip([0, *ends[: count - 1]], ends[:count], strict=True)
    ]


@pytest.mark.parametrize("pieces", [PIECES, PIECES_OF_SCRIPTS, [*MARKS, *PIECES_OF_SCRIPTS]])
def test_lines_are_split_alike(library: ctypes.CDLL, pieces: list[str]) -> None:
    rng = random.Random(4)
    split_lines = 0
    splitter = LineSplitter(len, sys.maxsize, True)
    for _ in range(30_000):
        line = clean("".join(rng.choices(pieces, k=rng.randint(1, 24))))
        if not line:
            continue
        expected = splitter.split(line, [])
        assert split(library, line) == expected, ascii(line)
        split_lines += len(expected) > 1
    assert split_lines > 5_000


WORDS = "ฉัน กลับบ้าน เขา ๆ ฯ ๒ 5 ລາວ ໄປ ໆ ខ្ញុំ ទៅ ៗ ។ . A ᥛᥣᥰ"
CLAUSES = [*WORDS.split(), *([" "] * 8)]
"""What spaces between clauses stand beside."""


def split_further(
    library: ctypes.CDLL, line: str, splitter: LineSplitter
) -> tuple[list[str], list[str]]:
    """Return the parts and the notes of a line by the library; a token is a character."""
    text = line.encode()
    ends = (ctypes.c_size_t * (len(text) + 1))()
    notes = ctypes.create_string_buffer(65536)
    settings = splitter.longest, splitter.each_sentence, splitter.line_clauses or 0
    count = library.line_parts(text, len(text), *settings, ends, notes, len(notes))
    parts = [
        text[start:end].decode()
        for start, end in zip([0, *ends[: count - 1]], ends[:count], strict=True)
    ]
    return parts, notes.value.decode().splitlines()


@pytest.mark.parametrize("line_clauses", [None, 1, 2, 4])
@pytest.mark.parametrize("each_sentence", [True, False])
def test_clauses_are_split_and_noted_alike(
    library: ctypes.CDLL, each_sentence: bool, line_clauses: int | None
) -> None:
    rng = random.Random(5)
    several = 0
    for _ in range(2_000):
        line = clean("".join(rng.choices(CLAUSES, k=rng.randint(1, 40))))
        splitter = LineSplitter(
            lambda text: len(text.rstrip()) + 1,
            rng.choice((4, 15, 60)),
            each_sentence,
            line_clauses,
        )
        if not line:
            continue
        notes = list[str]()
        expected = splitter.split(line, notes)
        if not each_sentence and len(expected) == 1 and not notes:
            continue  # the library is asked for such lines too, but by its caller
        assert split_further(library, line, splitter) == (expected, notes), line
        several += len(expected) > 1
    assert several > 500


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("A man is playing guitar. A woman is singing. Two dogs run.", 3),
        ("A man is playing guitar.[1] A woman is singing.", 2),
        ("guitar.¹ A woman", 2),
        ("Dr. Kim came at 3.15 p.m. with No. 5.", 1),
        ("나는 집에 간다.나는 빵을 먹었다.", 2),
        ("我们走！你来吗？", 2),
        ("「行く。」と言った。", 1),
        ("Great!🙂 Thanks.", 2),
        ("no. of dogs", 1),
    ],
)
def test_sentences(library: ctypes.CDLL, line: str, count: int) -> None:
    assert (
        len(split(library, line))
        == len(LineSplitter(len, sys.maxsize, True).split(line, []))
        == count
    )


def test_letters_are_those_of_python(library: ctypes.CDLL) -> None:
    """But for characters that are not in this Python's version of Unicode yet."""
    for code in range(1, 0x32000):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or unicodedata.category(character) == "Cn":
            continue
        text = character.encode()
        assert bool(library.has_letters(text, len(text))) == has_letters(character), hex(code)
        if not character.isspace():
            glued = bool(library.wants_space(text, len(text), b"a", 1)), has_spaces(character, "a")
            assert glued[0] == glued[1], hex(code)
