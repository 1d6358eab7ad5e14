"""Write the tables of sentence splitting, after `pip install regex==2026.11.15`, whose Unicode is
18.0.0.

`regard/data/sentence_terminal.py` holds the marks that Unicode calls `Sentence_Terminal`, and
`regard/runtime/c/sentence_tables.h` the tables of `regard/data/sentence_marks.py` for the C
library. Without `regex` only the header is written, from the marks that are there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = "2026.11.15"
UNICODE = "18.0.0"
TERMINAL = ROOT / "regard" / "data" / "sentence_terminal.py"
HEADER = ROOT / "regard" / "runtime" / "c" / "sentence_tables.h"
WIDTH = 12
"""Numbers on a line of C."""


def terminal_module() -> str:
    """Return the text of the module that holds the marks of `Sentence_Terminal`, eight on a
    line.
    """
    import regex

    assert regex.__version__ == PINNED, f"install regex=={PINNED}"
    codes = [
        code
        for code in range(sys.maxunicode + 1)
        if regex.match(r"\p{Sentence_Terminal}", chr(code))
    ]
    escapes = [
        f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in codes
    ]
    rows = ["".join(escapes[start : start + 8]) for start in range(0, len(escapes), 8)]
    return "\n".join(
        (
            f'"""Marks that end a sentence in Unicode {UNICODE} (`Sentence_Terminal`).',
            "",
            f"From the Python package regex {PINNED}; written by tools/make_sentence_tables.py.",
            '"""',
            "",
            "SENTENCE_TERMINAL = (",
            *(f'    "{row}"' for row in rows),
            ")",
            "",
        )
    )


def c_numbers(name: str, numbers: Iterable[int]) -> str:
    """Format numbers as a C array that ends with a zero."""
    texts = [f"{number:#x}," for number in (*numbers, 0)]
    rows = [
        "  " + " ".join(texts[start : start + WIDTH])
        for start in range(0, len(texts), WIDTH)
    ]
    return f"static const uint32_t {name}[] = {{\n" + "\n".join(rows) + "\n};\n"


def c_texts(name: str, texts: Iterable[str]) -> str:
    """Format texts as a C array that ends with a null."""
    rows = "".join(f'  "{text}",\n' for text in texts)
    return f"static const char *const {name}[] = {{\n{rows}  NULL,\n}};\n"


def c_words(name: str, words: Iterable[str]) -> str:
    """Format words as one C text, each between two spaces."""
    rows = "".join(f'  " {word}"\n' for word in sorted(words))
    return f'static const char {name}[] =\n{rows}  " ";\n'


def header() -> str:
    """Return the text of the C header."""
    from regard.data import sentence_marks as marks

    sets = (
        "MARKS GLUED CALLS QUIET BETWEEN_DIGITS TIBETAN CLOSERS OPENERS BEFORE_WORDS "
        "KOREAN_ENDINGS CONSONANTS"
    )
    ranges = (
        "NOTES CJK UNSPACED UNCASED GEORGIAN GREEK ARMENIAN INDIC ETHIOPIC THAI_AND_LAO "
        "CLAUSES"
    )
    words = "NEVER_LAST BEFORE_NUMBERS BEFORE_SMALL URDU_LETTERS TIBETAN_CONNECTIVES"
    folded = [number for pair in sorted(marks.FOLDED.items()) for number in pair]
    return "\n".join(
        (
            "/* Tables of sentence splitting, from regard/data/sentence_marks.py; marks of "
            f"Unicode {UNICODE}.",
            "   Written by tools/make_sentence_tables.py. */",
            "",
            f"#define SHORTEST_LAST {marks.SHORTEST_LAST} /* letters of a word that is no "
            "unlisted abbreviation */",
            f"#define LONGEST_ABBREVIATION {marks.LONGEST_ABBREVIATION} /* characters before a "
            "mark that count */",
            f'#define TIBETAN_GENITIVE "{marks.TIBETAN_GENITIVE}"',
            "",
            "/* Characters, in the order of their numbers. */",
            *(
                c_numbers(name, sorted(map(ord, getattr(marks, name))))
                for name in sets.split()
            ),
            "/* Ranges: first and last character. */",
            *(
                c_numbers(
                    name, (code for pair in getattr(marks, name) for code in pair)
                )
                for name in ranges.split()
            ),
            "/* Capital and small letter. */",
            c_numbers("FOLDED", folded),
            "/* Words, in small letters. */",
            *(c_words(name, getattr(marks, name)) for name in words.split()),
            *(
                c_texts(name, getattr(marks, name))
                for name in ("MONTHS", "HINDI_ENDINGS", "KHMER_ETC")
            ),
        )
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    try:
        TERMINAL.write_text(terminal_module(), encoding="utf-8")
    except ModuleNotFoundError:
        print(f"{TERMINAL.name} stays as it is: regex is not installed")
    HEADER.write_text(header(), encoding="utf-8")
