"""Sentence splitting: the sentences of a text, and their translations put together with everything that was between.

A sentence ends at `.!?…` with closing quotes and brackets, before white space, unless an abbreviation, an initial or a
number says otherwise, or the next word begins with a small letter; at `。！？` without white space too. Doubtful ends
are none: two sentences in one line are translated better than a sentence in two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.common.errors import UsageError

_WIDE = "。！？｡"
"""Marks that end a sentence without white space."""
_MARKS = rf".!?…{_WIDE}؟۔।॥։።"
_CLOSERS = "\"'”’»›)\\]}」』）】》〉"
_OPENERS = "\"'“‘«‹(\\[{¿¡„‚「『（【《〈"
_CJK = "\u2e80-\u2fdf\u3000-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_NOTE = "\u00b9\u00b2\u00b3\u2070\u2074-\u2079*†‡\u200d\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
"""Superscript figures, signs of footnotes, and emoji."""
_AFTER = rf"[{_CLOSERS}{_NOTE}]|\[[0-9]{{1,3}}\]"
"""A closing quote or bracket, a note, or an emoji: it belongs to the sentence whose mark is before it."""
_TAIL = rf"(?:{_AFTER})*(?!{_AFTER})"
"""All closing marks, notes and emoji that follow a mark: the match takes none back."""
_SENTENCE_END = re.compile(
    rf"(?<![{_MARKS}])(?:"
    rf"[{_MARKS}]+(?<=[{_WIDE}])(?![{_MARKS}])(?P<quote>{_TAIL})(?=\s*(?P<after>[^\s{_MARKS}{_CLOSERS}]))"
    rf"|(?P<marks>[{_MARKS}]+)(?P<closers>(?:{_AFTER}|“)*)(?=\s+[{_OPENERS}]*(?P<next>[^\s{_MARKS},;:{_OPENERS}]))"
    rf"|(?<=[{_CJK}])[!?]+{_TAIL}(?![{_MARKS}])(?=[{_CJK}])"
    rf"|(?<=[다요죠까])\.+{_TAIL}(?=[가-힣]))"
)
"""Candidates: after a wide mark; before white space; between characters of CJK; after the ending of a Korean verb."""
_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
NEWLINE = re.compile(rf"[{_BREAK}]\s*")
_BLANK_LINE = re.compile(rf"(?:\r\n|[{_BREAK}])[^\S{_BREAK}]*[{_BREAK}]\s*")
_NUMBER = re.compile(r"\W*(?:\d{1,4}|[^\W\d_]|[ivxlcIVXLC]{1,4})(?:[.)]\d{1,3})*\Z")
_LETTERS_WITH_DOTS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\Z")
_UNSPACED = re.compile("[\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60]")
"""Characters of Chinese and Japanese, and their punctuation; Korean has spaces between words."""
_ABBREVIATIONS = """
    mr mrs ms mx dr prof st ste vs rev hon gen col maj capt cmdr lt sgt gov sen rep pres supt messrs mme mlle mgr
    fr hr frl hrn dipl ing bzw vgl bspw sog usw ggf evtl inkl exkl zzgl ca approx viz cf al ibid resp
    sr sra srta dra ud uds jr
"""
_NEVER_LAST = frozenset(_ABBREVIATIONS.split())
_ABBREVIATIONS_OF_NUMBERED = "no nos nr nrn art fig figs vol vols ch chap sec eq p pp abb tab abs bd num núm n°"
_BEFORE_NUMBERS = frozenset(_ABBREVIATIONS_OF_NUMBERED.split())
_MONTHS = re.compile(
    r"\s+(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhundert)\b"
)
_LONGEST_ABBREVIATION = 12


@dataclass(frozen=True)
class TextLayout:
    """The lines of a text that are to be translated, and what is between them.

    `gaps`: the text before the first line, between two lines, and after the last, to the character.
    """

    lines: tuple[str, ...]
    gaps: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """Put translations in the place of the lines. Raises UsageError unless there is one for each line.

        Sentences that stood side by side without white space get a space, unless the text on one of its sides is
        Chinese or Japanese, or both came back unchanged.
        """
        check_count(translations, self.lines)
        parts = [self.gaps[0]]
        for index, text in enumerate(translations):
            is_glued = index > 0 and not self.gaps[index]
            if is_glued and needs_space(translations[index - 1 : index + 1], self.lines[index - 1 : index + 1]):
                parts.append(" ")
            parts += [text, self.gaps[index + 1]]
        return "".join(parts)


def check_count(translations: Sequence[object], lines: Sequence[str]) -> None:
    """Raise UsageError unless there are as many translations as lines."""
    if len(translations) != len(lines):
        raise UsageError(
            f"the text has {len(lines)} lines to translate, but {len(translations)} translations came back"
        )


def needs_space(translations: Sequence[str], lines: Sequence[str]) -> bool:
    """Return whether two translated sentences, whose sources stood side by side, have to be parted by a space."""
    left, right = translations
    return bool(left and right) and (left, right) != tuple(lines) and has_spaces(left[-1], right[0])


def has_spaces(left: str, right: str) -> bool:
    """Return whether two characters are of scripts with spaces, and neither is one."""
    return not (left.isspace() or right.isspace() or _UNSPACED.match(left) or _UNSPACED.match(right))


def split_text(text: str, *, sentences: bool = True, newlines: bool = True) -> TextLayout:
    """Split a text into lines to translate: sentences, none across a line break.

    `sentences=False` keeps text lines whole. `newlines=False`: a line break ends no sentence, and becomes a space in
    it; blank lines still do. Text without any letter is not translated.
    """
    lines, gaps, end = list[str](), list[str](), 0
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
    """Return whether there is anything to translate: numbers, punctuation and symbols stay as they are."""
    return any(map(str.isalpha, text))


def count_sentences(line: str) -> int:
    """Count the sentences of a line."""
    return 1 + sum(1 for _ in sentence_ends(line))


def _spans(text: str, newline: re.Pattern[str], sentences: bool) -> Iterator[tuple[int, int]]:
    """Yield where lines begin and end, white space included."""
    start = 0
    for stop, following in [*(match.span() for match in newline.finditer(text)), (len(text), len(text))]:
        for end in sentence_ends(text, start, stop) if sentences else ():
            yield start, end
            start = end
        yield start, stop
        start = following


def sentence_ends(text: str, start: int = 0, stop: int | None = None) -> Iterator[int]:
    """Yield the offsets at which sentences of a text line end, but for the last. Takes linear time for any text."""
    for match in _SENTENCE_END.finditer(text, start, len(text) if stop is None else stop):
        if _is_end(text, start, match):
            start = match.end()
            yield start


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    """Judge a candidate in a sentence that begins at `start`."""
    quote, after, marks, closers, first = match.groups()
    if first is None:  # Japanese goes on after a quotation: 「…。」と
        return not (quote and "\u3040" <= after <= "\u309f")
    if first.islower() and not "\u10a0" <= first <= "\u10ff":  # Georgian has small letters only
        return not closers and ("?" in marks or "!" in marks)
    return marks != "." or not _is_abbreviation(text, start, match)


def _is_abbreviation(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether the full stop belongs to an abbreviation, an initial or a number."""
    stop, first = match.start(), match["next"]
    before = text[max(start, stop - _LONGEST_ABBREVIATION) : stop]
    word = before[before.rfind(" ") + 1 :].lstrip("(\"'“‘[„«")
    if len(word) == 1 and word.lower() != word.upper():  # an initial, or "d. h."
        return True
    folded = word.lower()
    if folded in _NEVER_LAST or (first.isdecimal() and (folded in _BEFORE_NUMBERS or word.isdecimal())):
        return True
    if word.isdecimal() and len(word) < 3 and _MONTHS.match(text, match.end()):
        return True
    is_short = stop - start <= _LONGEST_ABBREVIATION
    return _LETTERS_WITH_DOTS.match(word) is not None or (is_short and _NUMBER.match(text[start:stop]) is not None)
