"""Tables of sentence splitting for the pages that translate: assets/sentences.js applies them."""

from __future__ import annotations

from typing import Any

from regard.data import sentence_marks as tables
from regard.data.sentence_ends import SENTENCE_END
from regard.data.sentence_marks import character_class

_IN_JAVASCRIPT = {"(?P<": "(?<", r"[^\W\d_]": r"[\p{L}\p{No}\p{Nl}]"}
"""Syntax of Python's regular expressions, and its equivalent in JavaScript with the flag u."""


def sentence_rules() -> dict[str, Any]:
    """Return patterns, sets of characters and lists of words as JSON values."""
    sentence_end = SENTENCE_END
    for python, javascript in _IN_JAVASCRIPT.items():
        sentence_end = sentence_end.replace(python, javascript)
    words = {
        name.lower(): sorted(getattr(tables, name))
        for name in (
            "NEVER_LAST",
            "BEFORE_NUMBERS",
            "BEFORE_SMALL",
            "URDU_LETTERS",
            "TIBETAN_CONNECTIVES",
            "KHMER_ETC",
        )
    }
    sets = {
        name.lower(): "".join(sorted(getattr(tables, name)))
        for name in (
            "QUIET",
            "BETWEEN_DIGITS",
            "TIBETAN",
            "OPENERS",
            "BEFORE_WORDS",
            "CONSONANTS",
        )
    }
    patterns = {
        "sentence_end": sentence_end,
        "cjk": f"^[{character_class(tables.CJK)}]",
        "georgian": f"^[{character_class(tables.GEORGIAN)}]",
        "thai_abbreviation": f"^[{character_class(tables.THAI_AND_LAO)}]{{1,4}}$",
        "months": rf"\s+(?:{'|'.join(tables.MONTHS)})(?![\p{{L}}\p{{N}}_])",
    }
    sets["tibetan_genitive"] = tables.TIBETAN_GENITIVE
    lengths = {"window": tables.LONGEST_ABBREVIATION, "shortest": tables.SHORTEST_LAST}
    return {**lengths, "words": words, "sets": sets, "patterns": patterns}
