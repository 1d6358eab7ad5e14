"""Beginning from a trained model: its weights and vocabulary are kept, and training goes on with other data."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from regard.data.vocabulary import Vocabulary
from regard.errors import DataError

__all__ = ["check_scripts"]

SAMPLE = 20_000  # lines
FEW = 0.02  # a script with a smaller share of the letters is names and quotations
MOST = 0.5  # of a script's letters may have no piece


def check_scripts(texts: Sequence[str], vocabulary: Vocabulary, side: str) -> None:
    """Raise DataError where text is in a script that this vocabulary has no pieces for.

    Letters without a piece are spelt as three or four bytes each: a model that never saw such bytes has to learn the
    script from them, and sentences become longer than it can read.
    """
    letters: Counter[str] = Counter()
    for text in texts[:: 1 + len(texts) // SAMPLE]:
        letters.update(character for character in text if character.isalpha())
    total = sum(letters.values())
    by_script: dict[str, Counter[str]] = {}
    for letter, count in letters.items():
        by_script.setdefault(_script(letter), Counter())[letter] += count
    causes = []
    for script, found in by_script.items():
        here = sum(found.values())
        lost = sum(count for letter, count in found.items() if vocabulary.unknown_share(letter) > 0)
        if here > FEW * total and lost > MOST * here:
            examples = " ".join(letter for letter, _ in found.most_common(5))
            causes.append(
                f"{side}: {here / total:.0%} of the letters are {script} ({examples} …), and {lost / here:.0%} of "
                "those have no piece in the vocabulary to begin from, which is kept: train a new model, without --from"
            )
    if causes:
        raise DataError(*causes)


@lru_cache(maxsize=65536)
def _script(letter: str) -> str:
    """The script of a letter, as its Unicode name begins: Latin, Hangul, Cyrillic."""
    return unicodedata.name(letter, "unknown letters").split(" ")[0].capitalize()
