"""Script check for fine-tuning: the parent's vocabulary must have tokens for the data's script."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from regard.common.errors import DataError
from regard.data.vocabulary import Vocabulary

SAMPLE = 20_000
"""Lines that are examined, about."""
MIN_SHARE = 0.02
"""Share of all letters above which a script counts; scripts of names and quotations have less."""
MAX_UNKNOWN = 0.5
"""Largest share of a script's letters that may have no token."""


def check_scripts(texts: Sequence[str], vocabulary: Vocabulary, side: str) -> None:
    """Raise DataError if texts are in a script for which this vocabulary has no tokens.

    A letter without a token becomes two to four byte tokens. The model would have to learn the
    script from bytes that it has never seen, and sentences would become longer than it can handle.
    """
    letters: Counter[str] = Counter()
    for text in texts[:: 1 + len(texts) // SAMPLE]:
        letters.update(character for character in text if character.isalpha())
    total = sum(letters.values())
    by_script: dict[str, Counter[str]] = {}
    for letter, count in letters.items():
        by_script.setdefault(_script(letter), Counter())[letter] += count
    causes = []
    for script, counts in by_script.items():
        size = sum(counts.values())
        unknown = sum(
            count
            for letter, count in counts.items()
            if vocabulary.unknown_share(letter) > 0
        )
        if size > MIN_SHARE * total and unknown > MAX_UNKNOWN * size:
            examples = " ".join(letter for letter, _ in counts.most_common(5))
            causes.append(
                f"{side}: {size / total:.0%} of the letters are {script} ({examples} …), and "
                f"{unknown / size:.0%} of those have no token in the parent's vocabulary, which is "
                "kept: train a new model, without `parent=`"
            )
    DataError.raise_all(causes)


@lru_cache(maxsize=65536)
def _script(letter: str) -> str:
    """Return the script of a letter (Latin, Hangul, …): the first word of its Unicode name."""
    return unicodedata.name(letter, "unknown letters").split(" ")[0].capitalize()
