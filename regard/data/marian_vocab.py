"""Marian vocabulary files: tokens numbered by a table beside the SentencePiece models, renumbered
to our order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.common.reading import parse_json

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""The special tokens in the order of their ids."""
_NEEDED = ("<pad>", "<unk>", "</s>")


@dataclass(frozen=True)
class PieceTable:
    """Table of tokens and their numbers as in the file, and the same in our order: special tokens
    first.

    A Marian model has no token for the beginning of a target: its decoder starts with `<pad>`. So
    its `<pad>` becomes both our `<pad>`, which no model reads, and our `<s>`.
    """

    text: bytes
    names: tuple[str, ...]
    rows: tuple[int, ...]
    """The file's number of each of our ids."""

    @classmethod
    def parse(cls, text: bytes) -> PieceTable:
        """Parse JSON: {token: number}. Raises ValueError with what is wrong with it."""
        try:
            table: Any = parse_json(text)
        except ValueError as problem:
            raise ValueError(f"not JSON ({problem})") from None
        if not isinstance(table, Mapping) or not all(
            type(number) is int for number in table.values()
        ):
            raise ValueError("not a table of tokens and their numbers")
        if sorted(table.values()) != list(range(len(table))):
            raise ValueError(
                f"the numbers of {len(table):,} tokens are not 0 to {len(table) - 1:,}, each once"
            )
        if missing := [name for name in _NEEDED if name not in table]:
            raise ValueError(f"the tokens {' '.join(missing)} are missing")
        pad, unknown, end = (table[name] for name in _NEEDED)
        rest = sorted(
            (number, token) for token, number in table.items() if token not in _NEEDED
        )
        names = (*SPECIAL, *(token for _, token in rest))
        return cls(
            text, names, (pad, unknown, pad, end, *(number for number, _ in rest))
        )
