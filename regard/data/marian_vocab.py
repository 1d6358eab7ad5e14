"""Marian vocabulary files: tables of token ids beside the SentencePiece models, renumbered so that
the special tokens come first.
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
    """Table of the tokens of a Marian model.

    A Marian model has no token for the start of a target; its decoder starts with `<pad>`.
    Therefore its `<pad>` becomes both our `<pad>`, which no model reads, and our `<s>`.
    """

    text: bytes
    """The content of the file."""
    names: tuple[str, ...]
    """The token of each of our ids."""
    rows: tuple[int, ...]
    """The Marian id of each of our ids."""

    @classmethod
    def parse(cls, text: bytes) -> PieceTable:
        """Parse the JSON of {token: number}. Raises ValueError if it is no such table."""
        try:
            table: Any = parse_json(text)
        except ValueError as problem:
            raise ValueError(f"not JSON ({problem})") from None
        is_table = isinstance(table, Mapping)
        if not is_table or not all(type(number) is int for number in table.values()):
            raise ValueError("not a table of tokens and their numbers")
        if sorted(table.values()) != list(range(len(table))):
            raise ValueError(
                f"the numbers of {len(table):,} tokens are not 0 to {len(table) - 1:,}, each once"
            )
        missing = [name for name in _NEEDED if name not in table]
        if missing:
            raise ValueError(f"the tokens {' '.join(missing)} are missing")

        pad, unknown, end = (table[name] for name in _NEEDED)
        ordinary = sorted(
            (number, token) for token, number in table.items() if token not in _NEEDED
        )
        names = [token for _, token in ordinary]
        numbers = [number for number, _ in ordinary]
        return cls(text, (*SPECIAL, *names), (pad, unknown, pad, end, *numbers))
