"""Script check for fine-tuning: refuse data in a script that the parent's vocabulary has no tokens
for.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from regard.common.errors import DataError
from regard.data.vocabulary import Vocabulary

SAMPLE = 20_000  # lines
MIN_SHARE = 0.02  # of the letters; a script with less is names and quotations
MAX_UNKNOWN = 0.5  # of a script's letters


def check_scripts(texts: Sequence[str], vocabulary: Vocabulary, side: str) -> None:
    """Raise DataError if texts are in a script that this vocabulary has no tokens for.

    Letters without a token become three or four bytes each: a model that never saw such bytes would
    have to learn the script from them, and sentences become longer than it can read.
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
    """The script of a letter, the first word of its Unicode name: Latin, Hangul, Cyrillic."""
    return unicodedata.name(letter, "unknown letters").split(" ")[0].capitalize()
