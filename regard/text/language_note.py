"""Tell whether lines are in another language than a model reads, or in the script of its target."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.data.language_id import LanguageId

SAMPLE = 200
"""Lines of a text that are looked at, the first ones."""
LETTERS = 20
"""Letters from which on a language that the model knows is recognised."""
PIPE_LETTERS = 200
"""The same in a pipe, where the recognition of a language takes longer than a line."""
_OTHER_LETTERS = 500
"""Letters from which on a language that the model does not know is recognised."""

# Measured on documents of one to twenty lines in five languages (docs/log/quality.md).
_SURE = 0.9
_UNLIKELY = 0.01

_SCRIPTS = {
    "Latn": "LATIN",
    "Cyrl": "CYRILLIC",
    "Grek": "GREEK",
    "Arab": "ARABIC",
    "Hebr": "HEBREW",
    "Deva": "DEVANAGARI",
    "Thai": "THAI",
    "Kore": "HANGUL CJK",
    "Jpan": "HIRAGANA KATAKANA CJK",
    "Hans": "CJK",
    "Hant": "CJK",
}
"""First words of the Unicode names of the letters of scripts."""
_NEARLY_ALL = 0.9
"""Share of the letters of a line by which it is of a script."""


def is_in_target_script(line: str, source: str, target: str) -> bool:
    """Return whether nearly all letters of a line are of the script of the target language, and
    none of that of the source.
    """
    from regard.data.language_codes import script_of

    own = _SCRIPTS.get(script_of(target), "")
    read = _SCRIPTS.get(script_of(source), own).split()
    letters = [
        unicodedata.name(letter, "").partition(" ")[0]
        for letter in line
        if letter.isalpha()
    ]
    share = sum(letter in own.split() for letter in letters)
    return share > _NEARLY_ALL * len(letters) and not {*letters}.intersection(read)


def language_note(
    lines: Sequence[str],
    source: str,
    identify: Callable[[], LanguageId | None],
    letters: int = LETTERS,
) -> tuple[str, ...]:
    """Return a warning if lines clearly are in another language than `source`, that of the model.

    `identify` loads the language identification, and is called only for lines with some `letters`.
    """
    text = "\n".join(lines[:SAMPLE])
    count = sum(map(str.isalpha, text))
    language_id = identify() if source and count >= letters else None
    if language_id is None or source not in language_id.profiles:
        return ()
    # Imported late, since it takes longer than to translate a line.
    from regard.data.languages import english_name

    probabilities = dict(language_id.detect(text))
    likeliest = max(probabilities, key=probabilities.__getitem__)
    reads = english_name(source)
    if likeliest != source and probabilities[likeliest] >= _SURE:
        looks = f"looks like {english_name(likeliest)}, and the model reads {reads}"
    elif count >= _OTHER_LETTERS and probabilities[source] < _UNLIKELY:
        looks = f"does not look like {reads}, which the model reads"
    else:
        return ()
    return (f"the text {looks}; check that this is the model for it",)
