"""Write regard/runtime/c/unicode_tables.h, after `pip install unicodedata2==18.0.0`.

The tables are of one Unicode version on every machine, whichever Python writes or uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PINNED = "18.0.0"
TARGET = Path(__file__).parents[1] / "regard" / "runtime" / "c" / "unicode_tables.h"
LIMIT = 0x30000
"""From here on no character has a property but ideographs, which are letters, those of plane 3."""
BLOCK = 64
NOT_QUICK = 1 << 8
DECOMPOSES = 1 << 9
IS_SPACE = 1 << 10
IS_LETTER, IS_DECIMAL, IS_OTHER_NUMBER, IS_LOWER, IS_CASED = (
    1 << bit for bit in range(11, 16)
)
HANGUL = range(0xAC00, 0xD7A4)
VOWELS = range(0x1161, 0x1176)
FINALS = range(0x11A8, 0x11C3)


def decompositions(data: Any) -> dict[int, tuple[int, ...]]:
    """Return the canonical decomposition of each character, one step deep; Hangul is computed, not
    listed.
    """
    rows = {}
    for code in range(sys.maxunicode + 1):
        text = data.decomposition(chr(code))
        if text and not text.startswith("<") and code not in HANGUL:
            rows[code] = tuple(int(part, 16) for part in text.split())
    return rows


def properties(
    data: Any, rows: dict[int, tuple[int, ...]], composed: Iterable[int]
) -> list[int]:
    """Return for each character its combining class, and whether a text with it may not be NFC."""
    seconds = {rows[code][1] for code in composed} | {*VOWELS, *FINALS}
    table = []
    for code in range(LIMIT):
        character = chr(code)
        surrogate = 0xD800 <= code < 0xE000
        quick = surrogate or (
            data.normalize("NFC", character) == character and code not in seconds
        )
        table.append(
            data.combining(character)
            | (0 if quick else NOT_QUICK)
            | (DECOMPOSES if code in rows else 0)
            | (IS_SPACE if character.isspace() else 0)
            | _kind(character, data.category(character))
        )
    return table


def _kind(character: str, category: str) -> int:
    """Return what the rules of sentences ask of a character; its case is that of this Python's
    version of Unicode.
    """
    kind = IS_LETTER if category[0] == "L" else IS_DECIMAL if category == "Nd" else 0
    kind |= IS_OTHER_NUMBER if category in ("Nl", "No") else 0
    return (
        kind
        | (IS_LOWER * character.islower())
        | (IS_CASED * (character.lower() != character.upper()))
    )


def c_table(kind: str, name: str, numbers: Sequence[int], width: int) -> str:
    """Format numbers as a C array, `width` of them on a line."""
    lines = [
        "  " + " ".join(f"{number:#x}," for number in numbers[start : start + width])
        for start in range(0, len(numbers), width)
    ]
    return (
        f"static const {kind} {name}[{len(numbers)}] = {{\n"
        + "\n".join(lines)
        + "\n};\n"
    )


def main(data: Any) -> str:
    """Return the text of the header."""
    rows = decompositions(data)
    composed = [
        code
        for code, parts in rows.items()
        if len(parts) == 2 and data.normalize("NFC", chr(code)) == chr(code)
    ]
    table = properties(data, rows, composed)
    assert not any(
        data.combining(chr(code)) for code in range(LIMIT, sys.maxunicode + 1)
    ), "raise LIMIT"
    assert max(rows) < LIMIT, "raise LIMIT"
    assert not any(len(parts) == 2 and parts[1] in rows for parts in rows.values()), (
        "second parts are not decomposed"
    )
    kinds = sorted(set(table))
    blocks: dict[tuple[int, ...], int] = {}
    index = [
        blocks.setdefault(
            tuple(map(kinds.index, table[start : start + BLOCK])), len(blocks)
        )
        for start in range(0, LIMIT, BLOCK)
    ]
    codes = sorted(rows)
    packed = [
        code
        | rows[code][0] << 21
        | (rows[code][1] << 42 if len(rows[code]) == 2 else 0)
        for code in codes
    ]
    by_parts = [
        codes.index(code) for code in sorted(composed, key=lambda code: rows[code])
    ]
    return "\n".join(
        (
            f"/* Unicode {data.unidata_version}, from the Python package unicodedata2 {PINNED}.",
            "   Written by tools/make_unicode_tables.py. */",
            "",
            f'#define UNICODE_VERSION "{data.unidata_version}"',
            f"#define UNICODE_LIMIT {LIMIT:#x} /* from here on no character has a property */",
            f"#define UNICODE_BLOCK {BLOCK}",
            f"#define UNICODE_ROWS {len(rows)}",
            f"#define UNICODE_COMPOSED {len(composed)}",
            "",
            "/* The distinct properties: combining class | a text with it may not be NFC | "
            "decomposes | whitespace |",
            "   letter | decimal | other number | lower case | has two cases. */",
            c_table("uint16_t", "UNICODE_KINDS", kinds, 16),
            "/* The block of each run of characters, and the property of each character of a "
            "block. */",
            c_table("uint16_t", "UNICODE_INDEX", index, 24),
            c_table(
                "uint8_t",
                "UNICODE_BLOCKS",
                [kind for block in blocks for kind in block],
                24,
            ),
            "/* Canonical decompositions, one step deep: character | first part << 21 | second "
            "part or 0 << 42. */",
            c_table("uint64_t", "UNICODE_DECOMPOSITIONS", packed, 6),
            "/* Rows of the table above that are composed again, ordered by their parts. */",
            c_table("uint16_t", "UNICODE_COMPOSITIONS", by_parts, 20),
        )
    )


if __name__ == "__main__":
    import unicodedata2  # type: ignore[import-not-found, unused-ignore]

    assert unicodedata2.unidata_version == PINNED, f"install unicodedata2=={PINNED}"
    TARGET.write_text(main(unicodedata2), encoding="utf-8")
