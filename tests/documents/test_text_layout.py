"""Texts are divided at line breaks, tabs and columns, and all between stays."""

from __future__ import annotations

import random

import pytest

from regard.documents.document import DocumentText
from regard.text.translation import Translation

BRANCHES = "{n, plural,  one {# dog}   other {# dogs}}"
CASES = {
    "&Open\tCtrl+O": ["&Open"],
    "_Delete\tDelete": ["_Delete"],
    "Save\tCtrl+Shift+S": ["Save"],
    "Name\tAge\tA dog": ["Name", "Age", "A dog"],
    "File(s):\tA man": ["File(s):", "A man"],
    "\tA dog\t": ["A dog"],
    "  -h, --help     show a dog\n": ["show a dog"],
    "-o FILE  write\n         to a file": ["write", "to a file"],
    "Use: a\n  FILE  the dog\n": ["Use: a", "the dog"],
    "NAME   AGE": ["NAME", "AGE"],
    "-v is short": ["-v is short"],
    "One.  Two dogs.": ["One.  Two dogs."],
    "A dog\nA cat  b": ["A dog", "A cat  b"],
    "A dog\n12\t3": ["A dog"],
    ", and ": ["and"],
    " - A dog |": ["A dog"],
    "A dog & ": ["A dog"],
    "-A dog": ["-A dog"],
    BRANCHES: [BRANCHES],
    f"A\tB\n{BRANCHES}\nC\tD": ["A", "B", BRANCHES, "C", "D"],
}


@pytest.mark.parametrize("text", CASES)
def test_cells_are_lines(text: str) -> None:
    assert [*DocumentText(text, "", "icu").layout.lines] == CASES[text]


def test_all_between_lines_stays() -> None:
    draw = random.Random(0)
    parts = (
        "A dog",
        "Ctrl+O",
        "-h",
        "7",
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\r\n",
        "é",
        "&",
    )
    for _ in range(2_000):
        text = "".join(draw.choices(parts, k=draw.randint(1, 9)))
        layout = DocumentText(text, "").layout
        for mark in ("", "x"):
            lines = [Translation(f"{mark}{line}", (), 0.0) for line in layout.lines]
            result = layout.put(lines)
            assert len(result) == len(text) + len(mark) * len(lines)
            assert result.count("\t") == text.count("\t")
            if not mark:
                assert result == text


def test_a_limit_is_that_of_all_cells_and_the_blanks_between() -> None:
    text = DocumentText("A dog    a cat", "", max_characters=12)
    limits = [text.limit_of(line) for line in text.layout.lines]
    assert limits == [4, 4]
