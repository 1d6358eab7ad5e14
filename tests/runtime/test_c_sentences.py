"""The C library splits lines into sentences, and knows letters, as `regard.data.sentences` does."""

from __future__ import annotations

import ctypes
import random
import sys
import unicodedata
from pathlib import Path

import pytest
from helpers.cached_folders import FolderCache

from regard.data.sentence_marks import MARKS
from regard.data.sentences import has_letters, has_spaces
from regard.data.text import clean
from regard.runtime import native
from regard.text.line_splitter import LineSplitter
from tests.data.sentence_pieces import PIECES, PIECES_OF_SCRIPTS
from tests.runtime.c_tokenizer import COMPILER, NO_COMPILER, SOURCES, compile_c

if COMPILER is None:
    pytest.skip(NO_COMPILER, allow_module_level=True)


@pytest.fixture(scope="module")
def library(cached: FolderCache) -> ctypes.CDLL:
    driver = Path(__file__).with_name("sentences_driver.c")

    def compile_driver(folder: Path) -> None:
        compile_c(folder / "sentences.so", [*SOURCES, driver], "-shared", "-fPIC")

    folder = cached("sentences", compile_driver, native.FOLDER_OF_SOURCES, driver)
    library = ctypes.CDLL(str(folder / "sentences.so"))
    text = [ctypes.c_char_p, ctypes.c_size_t]
    ends = ctypes.POINTER(ctypes.c_size_t)
    limits = [ctypes.c_int64, ctypes.c_int, ctypes.c_int64]
    library.line_ends.restype = library.line_parts.restype = ctypes.c_int64
    library.line_ends.argtypes = [*text, ends]
    library.line_parts.argtypes = [*text, *limits, ends, *text]
    library.has_letters.argtypes = text
    library.wants_space.argtypes = [*text, *text]
    return library


def parts_of(text: bytes, ends: list[int]) -> list[str]:
    starts = [0, *ends[:-1]]
    return [text[start:end].decode() for start, end in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(
    "pieces", [PIECES, PIECES_OF_SCRIPTS, [*MARKS, *PIECES_OF_SCRIPTS]]
)
def test_lines_are_split_alike(library: ctypes.CDLL, pieces: list[str]) -> None:
    rng = random.Random(4)
    several = 0
    splitter = LineSplitter(len, sys.maxsize, True)
    for _ in range(6_000):
        line = clean("".join(rng.choices(pieces, k=rng.randint(1, 24))))
        if not line:
            continue
        text = line.encode()
        ends = (ctypes.c_size_t * (len(text) + 1))()
        count = library.line_ends(text, len(text), ends)
        expected = splitter.split(line, [])

        assert parts_of(text, ends[:count]) == expected, ascii(line)

        several += len(expected) > 1

    assert several > 1_000


CLAUSES = "ฉัน กลับบ้าน เขา ๆ ฯ ๒ 5 ລາວ ໄປ ໆ ខ្ញុំ ទៅ ៗ ។ . A ᥛᥣᥰ"
"""Words and marks, between which spaces may divide clauses."""


def split_further(
    library: ctypes.CDLL,
    line: str,
    splitter: LineSplitter,
) -> tuple[list[str], list[str]]:
    """Return the parts and the notes of a line by the library; a token is a character."""
    text = line.encode()
    ends = (ctypes.c_size_t * (len(text) + 1))()
    notes = ctypes.create_string_buffer(65536)
    settings = splitter.longest, splitter.each_sentence, splitter.line_clauses or 0
    count = library.line_parts(text, len(text), *settings, ends, notes, len(notes))
    return parts_of(text, ends[:count]), notes.value.decode().splitlines()


@pytest.mark.parametrize("line_clauses", [None, 1, 4])
@pytest.mark.parametrize("each_sentence", [True, False])
def test_clauses_are_split_and_noted_alike(
    library: ctypes.CDLL,
    each_sentence: bool,
    line_clauses: int | None,
) -> None:
    rng = random.Random(5)
    clauses = [*CLAUSES.split(), *([" "] * 8)]
    several = 0

    def count_tokens(text: str) -> int:
        return len(text.rstrip()) + 1

    for _ in range(1_000):
        line = clean("".join(rng.choices(clauses, k=rng.randint(1, 40))))
        longest = rng.choice((4, 15, 60))
        splitter = LineSplitter(count_tokens, longest, each_sentence, line_clauses)
        notes = list[str]()
        expected = splitter.split(line, notes) if line else []
        if not each_sentence and len(expected) == 1 and not notes:
            continue  # the library is asked for such lines too, but by its caller
        if line:
            assert split_further(library, line, splitter) == (expected, notes), line
        several += len(expected) > 1

    assert several > 250


def test_letters_are_those_of_python(library: ctypes.CDLL) -> None:
    """But for characters that are not in this Python's version of Unicode yet."""
    for code in range(1, 0x32000):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or unicodedata.category(character) == "Cn":
            continue
        text = character.encode()
        is_letter = bool(library.has_letters(text, len(text)))

        assert is_letter == has_letters(character), hex(code)

        if not character.isspace():
            wants_space = bool(library.wants_space(text, len(text), b"a", 1))
            assert wants_space == has_spaces(character, "a"), hex(code)
