"""Sentence splitting: the sentences of a text, and their translations put together with everything
that was between.
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
NEWLINE = lazy_pattern(rf"[{_BREAK}]\s*")
_BLANK_LINE = lazy_pattern(rf"(?:\r\n|[{_BREAK}])[^\S{_BREAK}]*[{_BREAK}]\s*")
_UNSPACED = lazy_pattern(f"[{character_class(UNSPACED)}]")


@dataclass(frozen=True)
class TextLayout:
    """The lines of a text that are to be translated, and what is between them.

    `gaps`: the text before the first line, between two lines, and after the last, to the character.
    """

    lines: tuple[str, ...]
    gaps: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """Put translations in the place of the lines. Raises UsageError unless there is one for
        each line.

        Sentences that stood side by side without white space get a space, unless the text on one of
        its sides is Chinese or Japanese, or both came back unchanged.
        """
        check_count(translations, self.lines)
        parts = [self.gaps[0]]
        for index, text in enumerate(translations):
            is_glued = index > 0 and not self.gaps[index]
            if is_glued and needs_space(
                translations[index - 1 : index + 1], self.lines[index - 1 : index + 1]
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
    """Return whether two translated sentences, whose sources stood side by side, have to be parted
    by a space.
    """
    left, right = translations
    return (
        bool(left and right)
        and (left, right) != tuple(lines)
        and has_spaces(left[-1], right[0])
    )


def has_spaces(left: str, right: str) -> bool:
    """Return whether two characters are of scripts with spaces, and neither is one."""
    return not (
        left.isspace()
        or right.isspace()
        or _UNSPACED.match(left)
        or _UNSPACED.match(right)
    )


def split_text(
    text: str, *, sentences: bool = True, newlines: bool = True
) -> TextLayout:
    """Split a text into lines to translate: sentences, none across a line break.

    `sentences=False` keeps text lines whole. `newlines=False`: a line break ends no sentence, and
    becomes a space in it; blank lines still do. Text without any letter is not translated.
    """
    lines = list[str]()
    gaps = list[str]()
    end = 0
    for start, stop in _spans(text, NEWLINE if newlines else _BLANK_LINE, sentences):
        if has_letters(text[start:stop]):
            line = text[start:stop].lstrip()
            start = stop - len(line)
            line = line.rstrip()
            gaps.append(text[end:start])
            end = start + len(line)
            lines.append(line if newlines else " ".join(line.split()))
    return TextLayout(tuple(lines), (*gaps, text[end:]))


def has_letters(text: str) -> bool:
    """Return whether there is anything to translate: numbers, punctuation and symbols stay as they
    are.
    """
    return any(map(str.isalpha, text))


def _spans(
    text: str, newline: re.Pattern[str], sentences: bool
) -> Iterator[tuple[int, int]]:
    """Yield where lines begin and end, white space included."""
    start = 0
    for stop, following in [
        *(match.span() for match in newline.finditer(text)),
        (len(text), len(text)),
    ]:
        for end in sentence_ends(text, start, stop) if sentences else ():
            yield start, end
            start = end
        yield start, stop
        start = following
