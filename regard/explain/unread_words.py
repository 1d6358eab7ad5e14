"""Words of a source that its translation probably leaves out."""

from __future__ import annotations

import warnings

from regard.attention.alignment_choice import AlignmentChoice
from regard.common.errors import LineWarning
from regard.pipeline import FolderTranslator, Translation

LEAST = 0.2
"""Attention of a word of the translation, from which on it reads a word of the source."""
_LETTERS = 2
_CASED_LETTERS = 4


def unread_words(
    translator: FolderTranslator,
    text: str,
    translation: Translation,
    choice: AlignmentChoice,
    beam: int | None = None,
) -> tuple[int, ...]:
    """Return the indices of the content words of a line that its translation leaves out: no word of
    it reads them, and without them it is the same. `assets/unread.js` does the same.
    """
    readings = translation.readings
    words = text.split()
    if readings is None or not 2 <= len(words) == len(readings.source_text):
        return ()
    weights = readings.words(choice.layer, choice.head, choice.shifted).weights
    unattended = [
        index
        for index, word in enumerate(words)
        if _is_content(word) and weights[:, index].max() < LEAST
    ]
    shorter = [" ".join([*words[:index], *words[index + 1 :]]) for index in unattended]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LineWarning)  # nobody reads these translations
        others = translator.translate(shorter, beam=beam)
    return tuple(
        index
        for index, other in zip(unattended, others, strict=True)
        if other.text == translation.text
    )


def _is_content(word: str) -> bool:
    """Return whether a word has enough letters to be more than a particle or an article."""
    letters = [letter for letter in word if letter.isalpha()]
    is_cased = any(letter.lower() != letter.upper() for letter in letters)
    return len(letters) >= (_CASED_LETTERS if is_cased else _LETTERS)
