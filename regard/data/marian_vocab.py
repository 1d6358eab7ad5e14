"""Pieces numbered by a list beside the vocabularies, as Marian models have it, and renumbered to ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SPECIAL", "PieceTable"]

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""The pieces that no text holds, in the order of their ids."""
_NEEDED = ("<pad>", "<unk>", "</s>")


@dataclass(frozen=True)
class PieceTable:
    """A list of pieces with their numbers, as it was found, and the same in our order: special ones first.

    A Marian model has no piece that begins a target: it begins with `<pad>`, which is then the one before the first.
    So its `<pad>` becomes both our `<pad>`, which no model reads, and our `<s>`.
    """

    text: bytes
    names: tuple[str, ...]
    rows: tuple[int, ...]
    """The number there of each of ours."""

    @classmethod
    def parse(cls, text: bytes) -> PieceTable:
        """From JSON: {piece: number}. Raises ValueError saying what is wrong with it."""
        try:
            listed: Any = json.loads(text.decode("utf-8"))
        except ValueError as problem:
            raise ValueError(f"not JSON ({problem})") from None
        if not isinstance(listed, Mapping) or not all(type(number) is int for number in listed.values()):
            raise ValueError("not a table of pieces and their numbers")
        if sorted(listed.values()) != list(range(len(listed))):
            raise ValueError(f"the numbers of {len(listed):,} pieces are not 0 to {len(listed) - 1:,}, each once")
        if missing := [name for name in _NEEDED if name not in listed]:
            raise ValueError(f"the pieces {' '.join(missing)} are missing")
        pad, unknown, end = (listed[name] for name in _NEEDED)
        rest = sorted((number, piece) for piece, number in listed.items() if piece not in _NEEDED)
        names = (*SPECIAL, *(piece for _, piece in rest))
        return cls(text, names, (pad, unknown, pad, end, *(number for number, _ in rest)))
