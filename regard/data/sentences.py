"""Sentence splitting: divide a text into sentences, and join their translations with the text
between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.common.counting import counted
from regard.common.errors import UsageError
from regard.common.lazy import lazy_pattern
from regard.data.sentence_ends import sentence_ends
from regard.data.sentence_marks import UNSPACED, character_class

_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
"""Characters that end a line, as `str.splitlines` has them."""
NEWLINE = lazy_pattern(rf"[{_BREAK}]\s*")
_BLANK_LINE = lazy_pattern(rf"(?:\r\n|[{_BREAK}])[^\S{_BREAK}]*[{_BREAK}]\s*")
_HANGUL = lazy_pattern("[가-힣]")
_TIGHT = frozenset("([<“‘„‚«‹¿¡=+-–—")
"""Edges of code that no space parts from a letter."""
_UNSPACED = lazy_pattern(f"[{character_class(UNSPACED)}]")


@dataclass(frozen=True)
class TextLayout:
    """The lines of a text to translate, and the text between them."""

    lines: tuple[str, ...]
    gaps: tuple[str, ...]
    """The text before the first line, between neighbouring lines, and after the last line."""

    def join(self, translations: Sequence[str]) -> str:
        """Replace the lines by their translations.

        A space is put between sentences that were adjacent without white space, unless the text on
        one side is Chinese or Japanese, or both translations equal their sources. Raises UsageError
        unless there is one translation for each line.
        """
        check_count(translations, self.lines)
        parts = [self.gaps[0]]
        for index, text in enumerate(translations):
            is_adjacent = index > 0 and not self.gaps[index]
            neighbours = slice(index - 1, index + 1)
            if is_adjacent and needs_space(
                translations[neighbours], self.lines[neighbours]
            ):
                parts.append(" ")
            parts += [text, self.gaps[index + 1]]
        return "".join(parts)


def check_count(translations: Sequence[object], lines: Sequence[str]) -> None:
    """Raise UsageError unless there are as many translations as lines."""
    if len(translations) != len(lines):
        raise UsageError(
            f"the text has {counted(len(lines), 'line')} to translate, but "
            f"{counted(len(translations), 'translation')} came back"
        )


def needs_space(translations: Sequence[str], lines: Sequence[str]) -> bool:
    """Return whether a space must be put between two translations whose sources were adjacent."""
    left, right = translations
    if not left or not right or (left, right) == tuple(lines):
        return False
    return has_spaces(left[-1], right[0])


def has_spaces(left: str, right: str) -> bool:
    """Return whether neither of two characters is white space, and both belong to scripts that
    separate words by spaces.
    """
    if left.isspace() or right.isspace():
        return False
    return not (_UNSPACED.match(left) or _UNSPACED.match(right))


def parts_letter(edge: str, letter: str, original: str, is_behind: bool) -> bool:
    """Return whether a space must be put between the edge of code and the letter beside it.

    `original` is the character that stood there in the source. A letter of the same kind may be
    part of a word with the code, and stays beside it: `{count}s`. Hangul never is parted behind
    code, since Korean particles follow without a space; in the source they part nothing.
    """
    if not (edge and letter.isalnum() and has_spaces(edge, letter)):
        return False
    is_hangul = bool(_HANGUL.match(letter))
    if edge in _TIGHT or (is_behind and is_hangul):
        return False
    if not original.isalnum() or _UNSPACED.match(original):
        return True
    return is_hangul != bool(_HANGUL.match(original))


def replaces_letter(edge: str, letter: str, original: str, is_behind: bool) -> bool:
    """Return whether a space must be put between code and a letter in the place of one of another
    script. Beside space and punctuation, code stands where word links put it, and if that is in a
    word, another try may be better.
    """
    return original.isalnum() and parts_letter(edge, letter, original, is_behind)


def split_text(
    text: str, *, sentences: bool = True, newlines: bool = True
) -> TextLayout:
    """Split a text into lines to translate: its sentences, or with `sentences=False` its lines.

    A line break ends a sentence. With `newlines=False`, only a blank line does, and single line
    breaks become spaces. Text without any letter is not translated.
    """
    lines = list[str]()
    gaps = list[str]()
    end = 0
    newline = NEWLINE if newlines else _BLANK_LINE
    for start, stop in _spans(text, newline, sentences):
        if has_letters(text[start:stop]):
            line = text[start:stop].lstrip()
            start = stop - len(line)
            line = line.rstrip()
            gaps.append(text[end:start])
            end = start + len(line)
            lines.append(line if newlines else " ".join(line.split()))
    return TextLayout(tuple(lines), (*gaps, text[end:]))


def has_letters(text: str) -> bool:
    """Return whether a text has letters; numbers, punctuation and symbols are not translated."""
    return any(map(str.isalpha, text))


def _spans(
    text: str, newline: re.Pattern[str], sentences: bool
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line or sentence, with the white space around it."""
    breaks = [match.span() for match in newline.finditer(text)]
    breaks.append((len(text), len(text)))
    start = 0
    for stop, next_start in breaks:
        if sentences:
            for end in sentence_ends(text, start, stop):
                yield start, end
                start = end
        yield start, stop
        start = next_start
