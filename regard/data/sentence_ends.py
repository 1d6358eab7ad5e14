"""Sentence boundaries: find where the sentences of a line end, or its clauses in scripts without
sentence marks.

A sentence ends at `.!?…` and closing quotes or brackets before white space, unless the mark belongs
to an abbreviation, an initial or a number. The marks of a single script, such as `。` and `।`, also
end a sentence without white space. In doubt a sentence goes on, since two sentences in one line are
translated better than half a sentence. `regard/runtime/c/splitter.c` has the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from regard.common.lazy import lazy_pattern
from regard.data import sentence_marks as tables
from regard.data.sentence_marks import LONGEST_ABBREVIATION, character_class

_MARKS = re.escape(tables.MARKS)
_GLUED = re.escape(tables.GLUED)
_CLOSERS = re.escape(tables.CLOSERS)
_OPENERS = re.escape(tables.OPENERS)
_CJK = character_class(tables.CJK)
_UNCASED = character_class(tables.UNCASED)
_GREEK = character_class(tables.GREEK)
_AFTER = rf"[{_CLOSERS}{character_class(tables.NOTES)}]|\[[0-9]{{1,3}}\]|\s[»›](?!\S)"
"""A closing quote (after a space in French), a closing bracket, a note or an emoji, each of which
belongs to the sentence before it.
"""
_TAIL = rf"(?:{_AFTER})*(?!{_AFTER})"
"""All closing quotes, brackets, notes and emoji after a mark, without backtracking."""
_GREEK_MARKS = rf"(?:(?<=[{_GREEK}])|(?<=[{_GREEK}][{_CLOSERS}]))[{_MARKS};\u037e]+"
"""Marks after Greek letters, with the Greek question mark, which looks like a semicolon."""
_ARMENIAN_MARKS = rf"(?<=[{character_class(tables.ARMENIAN)}])[{_MARKS}:]+"
"""Marks after Armenian letters, with the colon, which is often typed for the full stop."""
_INDIC_MARKS = rf"(?<=[{character_class(tables.INDIC)}])[{_MARKS}|]+"
"""Marks after Indic letters, with the vertical bar, which is often typed for the danda."""
_ETHIOPIC_MARKS = (
    rf"(?<=[{character_class(tables.ETHIOPIC)}])(?:\u1361\u1361+|::+)(?![\u1361:])"
)
"""The Ethiopic full stop, which is often typed as two word separators or two colons."""
_GLUED_MARKS = rf"[{_MARKS}]+(?<=[{_GLUED}])(?![{_MARKS}])"
SENTENCE_END = (
    rf"(?=[{_MARKS};\u037e:|\u1361])(?<![{_MARKS}])(?:"
    rf"(?P<glued>{_GLUED_MARKS}|{_ETHIOPIC_MARKS})(?P<quote>{_TAIL})(?=\s*(?P<after>[^\s{_MARKS}{_CLOSERS}]))"
    rf"|(?P<marks>{_GREEK_MARKS}|{_ARMENIAN_MARKS}|{_INDIC_MARKS}|[{_MARKS}]+)(?P<closers>(?:{_AFTER}|“)*)(?!{_AFTER}|“)"
    rf"(?=\s+[{_OPENERS}]*(?P<next>[^\s{_MARKS},;:{_OPENERS}]))"
    rf"|(?<=[{_UNCASED}])[{re.escape(tables.CALLS)}]+{_TAIL}(?![{_MARKS}])(?=[{_CJK}]|(?=[{_UNCASED}])[^\W\d_])"
    rf"|(?<=[{tables.KOREAN_ENDINGS}])\.+{_TAIL}(?=[가-힣])"
    rf"|(?:{'|'.join(f'(?<={ending})' for ending in tables.HINDI_ENDINGS)})"
    rf"\.+{_TAIL}(?=[\u0904-\u0939])"
    rf")"
)
"""Pattern of a possible sentence end. Its alternatives are: glued marks; marks before white space;
marks between letters of scripts without capitals; full stops after a Korean verb ending; full stops
after a Hindi verb ending.
"""
_CANDIDATE = lazy_pattern(SENTENCE_END)
_LETTERS = character_class(tables.CLAUSES)
_CLAUSE_LETTER = lazy_pattern(f"[{_LETTERS}]")
_CLAUSE_END = lazy_pattern(rf"(?<=[{_LETTERS}])\s+(?=[{_LETTERS}])")
_CJK_LETTER = lazy_pattern(f"[{_CJK}]")
_GEORGIAN_LETTER = lazy_pattern(f"[{character_class(tables.GEORGIAN)}]")
_THAI_ABBREVIATION = lazy_pattern(f"[{character_class(tables.THAI_AND_LAO)}]{{1,4}}")
_NUMBER = lazy_pattern(r"\W*(?:\d{1,4}|[^\W\d_]|[ivxlcIVXLC]{1,4})(?:[.)]\d{1,3})*\Z")
_ROMAN_NUMBER = lazy_pattern(r"[IVXLC]+")
_LETTERS_WITH_DOTS = lazy_pattern(r"(?:[^\W\d_]\.)+[^\W\d_]\Z")
_CAPITAL_INSIDE = lazy_pattern(r"[^\W\d_]{1,11}?[A-Z]")
"""A name such as iPhone or macOS, which begins a sentence with a small letter."""
_MONTHS = lazy_pattern(rf"\s+(?:{'|'.join(tables.MONTHS)})\b")
_LAST_WORD = lazy_pattern(r"[^\s۔]*\Z")
_FIRST_LETTERS = lazy_pattern(r"[^\W\d_]*")


def sentence_ends(text: str, start: int = 0, stop: int | None = None) -> Iterator[int]:
    """Yield the offsets at which sentences of a line end, except the last, in linear time for any
    text.
    """
    for match in _CANDIDATE.finditer(text, start, len(text) if stop is None else stop):
        if _is_end(text, start, match):
            start = match.end()
            yield start


def clause_ends(text: str) -> Iterator[int]:
    """Yield the offsets at which clauses of a sentence in Thai, Lao or Khmer end, except the
    last.
    """
    for match in _CLAUSE_END.finditer(text):
        yield match.start()


def count_sentences(line: str) -> int:
    """Count the sentences of a line."""
    return 1 + sum(1 for _ in sentence_ends(line))


def usual_clauses(lines: Iterable[str]) -> int | None:
    """Return the 99th percentile of the number of clauses of lines in Thai, Lao or Khmer; None if
    there are no such lines.
    """
    counts = sorted(
        1 + sum(1 for _ in clause_ends(line))
        for line in lines
        if _CLAUSE_LETTER.search(line)
    )
    return counts[(len(counts) - 1) * 99 // 100] if counts else None


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether a candidate ends the sentence that begins at `start`."""
    if match["glued"]:
        return _is_glued_end(text, start, match)
    first = match["next"]
    if first is None:
        return True
    marks = match["marks"]
    if first.islower() and not _GEORGIAN_LETTER.match(first):
        return _ends_before_small_letter(text, start, match)
    return marks != "." or not _is_abbreviation(text, start, match)


def _is_glued_end(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether marks that need no white space behind them end a sentence."""
    last = match["glued"][-1]
    after = match["after"]
    # A Japanese sentence continues after a quotation: 「…。」と.
    if match["quote"] and "\u3040" <= after <= "\u309f":
        return False

    before = text[max(start, match.start() - LONGEST_ABBREVIATION) : match.start()]
    following = text[match.end() : match.end() + LONGEST_ABBREVIATION]
    is_between_digits = before[-1:].isdecimal() and following[:1].isdecimal()
    if is_between_digits and last in tables.BETWEEN_DIGITS:
        return False
    if last == "۔" and _last_word(before) in tables.URDU_LETTERS:
        return _first_letters(following) not in tables.URDU_LETTERS
    if last in tables.TIBETAN:
        syllable = re.split(r"[་༌\s།]", before.rstrip(" ་༌།"))[-1]
        return not (
            syllable in tables.TIBETAN_CONNECTIVES
            or syllable.endswith(tables.TIBETAN_GENITIVE)
        )
    return not (last == "។" and following.startswith(tables.KHMER_ETC))


def _last_word(before: str) -> str:
    """Return the last word of the text before a mark, without opening quotes and brackets."""
    match = _LAST_WORD.search(before.rstrip())
    return match[0].lstrip(tables.BEFORE_WORDS) if match else ""


def _first_letters(following: str) -> str:
    match = _FIRST_LETTERS.match(following)
    return match[0] if match else ""


def _ends_before_small_letter(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether marks before a small letter end a sentence, or belong to an abbreviation
    within it.
    """
    marks = match["marks"]
    stop = match.start()
    following = match.start("next")
    word = _last_word(text[max(start, stop - LONGEST_ABBREVIATION) : stop])
    if marks == ".":
        if _is_abbreviation(text, start, match) or _is_known_abbreviation(word):
            return False
        if _CAPITAL_INSIDE.match(text, following):
            return True
        is_bracketed = text[following - 1] in "([{"
        return not (match["closers"] or is_bracketed or _goes_on(word))
    is_variable = marks[0] in ";\u037e" and len(word) == 1  # in a list: α; β
    return (
        not match["closers"]
        and not is_variable
        and any(mark not in tables.QUIET for mark in marks)
    )


def _is_known_abbreviation(word: str) -> bool:
    """Return whether a word with a full stop before a small letter is a known abbreviation."""
    folded = word.translate(tables.FOLDED)
    return folded in tables.BEFORE_SMALL or tables.CONSONANTS.issuperset(folded)


def _goes_on(word: str) -> bool:
    """Return whether a sentence continues in small letters after this word and a full stop.

    It does after a number, a word that precedes numbers, and an abbreviation. No list holds all
    abbreviations, so any short word is taken for one.
    """
    return (
        word.translate(tables.FOLDED) in tables.BEFORE_NUMBERS
        or "." in word
        or any(map(str.isdecimal, word))
        or (word[-1:].islower() and len(word) < tables.SHORTEST_LAST)
        or _ROMAN_NUMBER.fullmatch(word) is not None
    )


def _is_abbreviation(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether the full stop belongs to an abbreviation, an initial or a number."""
    stop = match.start()
    first = match["next"]
    word = _last_word(text[max(start, stop - LONGEST_ABBREVIATION) : stop])
    # A single letter is an initial, or part of an abbreviation such as "d. h.".
    if len(word) == 1 and word.isalpha() and not _CJK_LETTER.match(word):
        return True
    folded = word.translate(tables.FOLDED)
    if folded in tables.NEVER_LAST or _THAI_ABBREVIATION.fullmatch(word):
        return True

    is_number = word.isdecimal()
    precedes_numbers = (
        is_number or folded in tables.BEFORE_NUMBERS or folded in tables.BEFORE_SMALL
    )
    if first.isdecimal() and precedes_numbers:
        return True
    if is_number and len(word) < 3 and _MONTHS.match(text, match.end()):
        return True

    if _LETTERS_WITH_DOTS.match(word):
        return True
    is_short = stop - start <= LONGEST_ABBREVIATION
    return is_short and _NUMBER.match(text[start:stop]) is not None
